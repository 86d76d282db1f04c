"""Numbers that a limit can be put on: those of a comparison, and a few that only a gate asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcli.diff.metrics import KERNEL_METRICS, Metric, fold
from perfcli.errors import PerfcliError
from perfcli.model import Change, Comparison, KernelFacts, KernelGroup
from perfcli.names import suggestion

TIME = "time"
"""Of a measured step; as growth alone."""


def _widest(field: str) -> Metric:
    def bits(kernel: KernelFacts) -> float | None:
        counts = [getattr(candidate, field) for candidate in kernel.candidates]
        known = [_bits(each) for each in counts if each]
        return max(known, default=None)

    return Metric(f"{field.removeprefix('global_').removesuffix('s')}_bits", bits, "min", "higher")


def _bits(counts: Mapping[str, int]) -> float:
    return sum(int(bits) * n for bits, n in counts.items()) / sum(counts.values())


OWN = (_widest("global_loads"), _widest("global_stores"))
"""Bits that one instruction of a thread loads (stores) from global memory on average, in the
launch configuration with the widest."""

OF_KERNELS = {metric.name: metric for metric in (*KERNEL_METRICS, *OWN)}
WHOLE = ("peak_memory_bytes", "extern_calls", "graphs", "graph_breaks")
TOTALS = (*(m.name for m in KERNEL_METRICS if m.name != "occupancy"), *WHOLE, TIME)
PER_KERNEL = tuple(name for name in OF_KERNELS if name not in ("kernels",))


def check_metric(name: str, known: Sequence[str], where: str) -> None:
    """Raises PerfcliError for a metric that is none, with the nearest."""
    if name in known:
        return
    if name in PER_KERNEL:
        raise PerfcliError(f'{where}: {name} is one kernel\'s: put it under kernels."PATTERN"')
    if name in TOTALS:
        raise PerfcliError(f"{where}: {name} is the whole run's: put it under limits")
    raise PerfcliError(f"{where}: there is no metric {name!r}: {suggestion(name, known)}")


def higher_is_better(metric: str) -> bool:
    return metric in OF_KERNELS and OF_KERNELS[metric].better == "higher"


def is_worse(metric: str, value: float, than: float) -> bool:
    return value < than if higher_is_better(metric) else value > than


def total(comparison: Comparison, metric: str) -> Change | None:
    """The whole run's number on both sides; None where neither knows it."""
    if metric == TIME:
        return _time(comparison)
    return next((c for c in comparison.totals if c.metric == metric), None)


def _time(comparison: Comparison) -> Change | None:
    timing = comparison.timing
    if timing is None:
        return None
    words = {"slower": "worse", "faster": "better", "same": "same", "unsure": "unknown"}
    step = timing.step
    return Change(TIME, step.base, step.head, words[step.verdict])  # type: ignore[arg-type]


def of_group(comparison: Comparison, group: KernelGroup, metric: str) -> Change | None:
    """A group's number on both sides; None where neither knows it."""
    found = next((c for c in group.changes if c.metric == metric), None)
    if found is not None or metric not in {own.name for own in OWN}:
        return found
    base, head = (fold(OF_KERNELS[metric], kernels).value for kernels in members(comparison, group))
    if base is None and head is None:
        return None
    return Change(metric, base, head, "unknown" if base is None or head is None else "same")


def members(
    comparison: Comparison, group: KernelGroup
) -> tuple[list[KernelFacts], list[KernelFacts]]:
    """A group's kernels of both sides."""
    return (
        [comparison.base.kernels[index] for index in group.match.base],
        [comparison.head.kernels[index] for index in group.match.head],
    )
