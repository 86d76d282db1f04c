"""What is counted in a run and in a group of kernels, and what decides the verdict.

Sums run over kernels as generated (static); ``bytes_moved``, ``bytes_swept``,
``lower_bound_seconds`` and ``launches`` over launches, so for one step. ``registers``,
``shared_bytes``, ``stack_bytes`` are those of the worst kernel. What a kernel can't tell (None) is
left out of its sum; a metric whose number of unknowns differs between the sides can't be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from perfcli.model import Change, KernelFacts, Outcome, Run

Value: TypeAlias = float | None
OfKernel: TypeAlias = Callable[[KernelFacts], Value]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number per kernel and how several become one."""

    name: str
    of: OfKernel
    fold: Literal["sum", "max", "min"] = "sum"
    better: Literal["lower", "higher"] = "lower"


def _source(field: str) -> OfKernel:
    return lambda k: None if k.source_facts is None else getattr(k.source_facts, field)


def _best(field: str) -> OfKernel:
    return lambda k: None if k.best is None else getattr(k.best, field)


def _times_launches(field: str) -> OfKernel:
    def value(kernel: KernelFacts) -> Value:
        one: Value = getattr(kernel, field)
        return None if one is None else one * kernel.launches

    return value


KERNEL_METRICS = (
    Metric("kernels", lambda k: 1),
    Metric("launches", lambda k: k.launches),
    Metric("loads", _source("loads")),
    Metric("loads_in_loops", _source("loads_in_loops")),
    Metric("stores", _source("stores")),
    Metric("spilled_words", lambda k: k.spilled_words),
    Metric("stack_bytes", _best("stack_bytes"), "max"),
    Metric("registers", _best("registers"), "max"),
    Metric("shared_bytes", _best("shared_bytes"), "max"),
    Metric("occupancy", _best("occupancy"), "min", "higher"),
    Metric("bytes_moved", _times_launches("bytes_moved")),
    Metric("bytes_swept", _times_launches("bytes_swept")),
    Metric("lower_bound_seconds", _times_launches("lower_bound_seconds")),
)

# What makes a run worse or better, in order of weight, and by how much of the base it has to
# change: spills are exact; bytes are Inductor's estimate, which moves a little with the schedule.
DECIDING: dict[str, float] = {
    "spilled_words": 0.0,
    "bytes_moved": 0.005,
    "bytes_swept": 0.005,
    "lower_bound_seconds": 0.005,
    "peak_memory_bytes": 0.01,
}


@dataclass(frozen=True, slots=True)
class Folded:
    """One metric over some kernels, and how many of them did not know it."""

    value: Value
    unknown: int


def fold(metric: Metric, kernels: Iterable[KernelFacts]) -> Folded:
    values = [metric.of(kernel) for kernel in kernels]
    known = [value for value in values if value is not None]
    unknown = len(values) - len(known)
    if metric.fold == "sum":
        return Folded(sum(known) if known else None, unknown)
    return Folded((max if metric.fold == "max" else min)(known, default=None), unknown)


def changes(base: Sequence[KernelFacts], head: Sequence[KernelFacts]) -> tuple[Change, ...]:
    """Every metric that either side knows."""
    found = []
    for metric in KERNEL_METRICS:
        left, right = fold(metric, base), fold(metric, head)
        if left.value is None and right.value is None:
            continue
        ours, theirs = left.value, right.value
        if metric.fold == "sum":  # no kernels move no bytes: that is known
            ours = ours if base else 0
            theirs = theirs if head else 0
        sure = left.unknown == right.unknown or metric.fold != "sum"
        found.append(change(metric.name, ours, theirs, metric.better == "higher", sure))
    return tuple(found)


def totals(base: Run, head: Run) -> tuple[Change, ...]:
    """The metrics of all kernels, then those that only a whole run has."""
    # Inductor's estimate counts differently from release to release (2.11 leaves out inputs).
    same_torch = base.environment.torch == head.environment.torch
    whole = (
        change("peak_memory_bytes", _peak_memory(base), _peak_memory(head), sure=same_torch),
        change("extern_calls", _extern_calls(base), _extern_calls(head)),
        change("graphs", len(base.graphs), len(head.graphs)),
        change("graph_breaks", len(base.graph_breaks), len(head.graph_breaks)),
    )
    known = [c for c in whole if not (c.base is None and c.head is None)]
    of_kernels = [c for c in changes(base.kernels, head.kernels) if c.metric != "occupancy"]
    return (*of_kernels, *known)


def _extern_calls(run: Run) -> int:
    return sum(extern.count for extern in run.externs)


def _peak_memory(run: Run) -> Value:
    peaks = [g.peak_memory_bytes for g in run.graphs if g.peak_memory_bytes is not None]
    return max(peaks, default=None)


def change(
    name: str, base: Value, head: Value, higher_is_better: bool = False, sure: bool = True
) -> Change:
    return Change(name, base, head, _outcome(name, base, head, higher_is_better, sure))


def _outcome(name: str, base: Value, head: Value, higher_is_better: bool, sure: bool) -> Outcome:
    if base is None or head is None or not sure:
        return "unknown"
    if abs(head - base) <= abs(base) * DECIDING.get(name, 0.0):
        return "same"
    return "better" if (head > base) == higher_is_better else "worse"
