"""Defines what is counted in a run and in a group of kernels, and what decides the verdict.

Sums run over kernels as generated (static); ``bytes_moved``, ``bytes_swept``,
``lower_bound_seconds`` and ``launches`` over launches, so for one step. ``registers``,
``shared_bytes``, ``stack_bytes`` are those of the worst kernel. What a kernel can't tell (None) is
left out of its sum; a sum that leaves out other kernels on one side than on the other can't be
judged. Kernels that are never launched, other forms of one that is (``triton.multi_kernel``),
count nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from perfcli.model import Change, KernelFacts, Outcome, Run

Value: TypeAlias = float | None
OfKernel: TypeAlias = Callable[[KernelFacts], Value]


@dataclass(frozen=True, slots=True)
class Metric:
    """Takes one number per kernel and says how several become one."""

    name: str
    of: OfKernel
    fold: Literal["sum", "max", "min"] = "sum"
    better: Literal["lower", "higher"] = "lower"
    per_launch: bool = False


def _source(field: str) -> OfKernel:
    return lambda k: None if k.source_facts is None else getattr(k.source_facts, field)


def _best(field: str) -> OfKernel:
    return lambda k: None if k.best is None else getattr(k.best, field)


def _step_swept(kernel: KernelFacts) -> Value:
    one = kernel.bytes_swept
    return None if one is None else (one + kernel.finishing_bytes) * kernel.launches


KERNEL_METRICS = (
    Metric("kernels", lambda k: 1),
    Metric("launches", lambda k: k.launches),
    Metric("loads", _source("loads")),
    Metric("loads_in_loops", _source("loads_in_loops")),
    Metric("stores", _source("stores")),
    Metric("vector_loads", _source("vector_loads"), better="higher"),
    Metric("vector_stores", _source("vector_stores"), better="higher"),
    Metric("spilled_words", lambda k: k.spilled_words),
    Metric("stack_bytes", _best("stack_bytes"), "max"),
    Metric("registers", _best("registers"), "max"),
    Metric("shared_bytes", _best("shared_bytes"), "max"),
    Metric("occupancy", _best("occupancy"), "min", "higher"),
    Metric("bytes_moved", lambda k: k.step_bytes, per_launch=True),
    Metric("bytes_swept", _step_swept, per_launch=True),
    Metric("lower_bound_seconds", lambda k: k.step_bound_seconds, per_launch=True),
)


def _scalar(kind: Literal["loads", "stores"]) -> OfKernel:
    """Return the accesses that are not vectorised, of kernels that tell (C++)."""

    def value(kernel: KernelFacts) -> Value:
        vector: Value = _source(f"vector_{kind}")(kernel)
        every: Value = _source(kind)(kernel)
        return None if every is None or vector is None else every - vector

    return value


_SCALAR = {
    "vector_loads": Metric("scalar_loads", _scalar("loads")),
    "vector_stores": Metric("scalar_stores", _scalar("stores")),
}

# What makes a run worse or better, in order of weight, and by how much of the base it has to
# change: spills are exact; bytes are Inductor's estimate, which moves a little with the schedule.
DECIDING: dict[str, float] = {
    "spilled_words": 0.0,
    "bytes_moved": 0.005,
    "bytes_swept": 0.005,
    "lower_bound_seconds": 0.005,
    "vector_loads": 0.0,
    "peak_memory_bytes": 0.01,
}

FEW_WORDS = 16
"""Spilled words that cost little (PC101)."""
# A gain of no more than this part of the base is a trifle.
_TRIFLES: dict[str, float] = {
    "bytes_moved": 0.01,
    "bytes_swept": 0.01,
    "lower_bound_seconds": 0.01,
    "peak_memory_bytes": 0.02,
}


@dataclass(frozen=True, slots=True)
class _Folded:
    """Holds one metric over some kernels, and which of them did not know it: source to how often it
    is missing from the sum."""

    value: Value
    unknown: Mapping[str, int]


def launched_kernels(kernels: Iterable[KernelFacts]) -> list[KernelFacts]:
    """Return the kernels that a step launches: what another form of a kernel would cost, nobody
    pays."""
    return [kernel for kernel in kernels if kernel.launches]


def fold(metric: Metric, kernels: Iterable[KernelFacts]) -> _Folded:
    """Return one metric over the kernels that are launched."""
    known: list[float] = []
    unknown: Counter[str] = Counter()
    for kernel in launched_kernels(kernels):
        value = metric.of(kernel)
        if value is None:
            unknown[kernel.source_hash] += kernel.launches if metric.per_launch else 1
        else:
            known.append(value)
    if metric.fold == "sum":
        return _Folded(sum(known) if known else None, unknown)
    return _Folded((max if metric.fold == "max" else min)(known, default=None), unknown)


def changes(base: Sequence[KernelFacts], head: Sequence[KernelFacts]) -> tuple[Change, ...]:
    """Return every metric that either side knows."""
    base, head = launched_kernels(base), launched_kernels(head)
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
        both = _change(metric.name, ours, theirs, metric.better == "higher", sure)
        found.append(_weigh(both, base, head))
    return tuple(found)


def _weigh(vectors: Change, base: Sequence[KernelFacts], head: Sequence[KernelFacts]) -> Change:
    """Weigh vectors against scalars: vectorisation is lost where vectors became scalars, and won
    the other way round. A kernel that has less to load, or a tail more, has not lost any."""
    if vectors.metric not in _SCALAR or vectors.outcome not in ("better", "worse"):
        return vectors
    ours, theirs = (fold(_SCALAR[vectors.metric], side).value or 0 for side in (base, head))
    scalars = _outcome("scalar", ours, theirs, higher_is_better=False, sure=True)
    return vectors if scalars == vectors.outcome else replace(vectors, outcome="same")


def is_weighed(change: Change) -> bool:
    """Return whether vectors changed, and scalars the same way: neither lost nor won, but not what
    it was."""
    return change.metric in _SCALAR and change.outcome == "same" and change.base != change.head


UNRECORDED = "obstacles_to_cuda_graphs"


def totals(base: Run, head: Run) -> tuple[Change, ...]:
    """Return the metrics of all kernels, then those that only a whole run has."""
    ours, theirs = (run.count_externs().total() for run in (base, head))
    whole = (
        _compare_peaks(base, head),
        _change("extern_calls", ours, theirs),
        _change("graphs", len(base.graphs), len(head.graphs)),
        _change("graph_breaks", _graph_breaks(base), _graph_breaks(head)),
        _change("recompilations", _count_recompilations(base), _count_recompilations(head)),
        _compare_unrecorded(base, head),
    )
    known = [c for c in whole if not (c.base is None and c.head is None)]
    of_kernels = [c for c in changes(base.kernels, head.kernels) if c.metric != "occupancy"]
    return (*of_kernels, *known)


def _graph_breaks(run: Run) -> int:
    return sum(run.graph_breaks.values())


def _count_recompilations(run: Run) -> Value:
    """Return how often Dynamo compiled for other sizes; None where it was not asked to."""
    found = run.recompilations
    if found is None or not found.varied:
        return None
    refused = any(each.refused for call in found.varied for each in call.compilations)
    return sum(len(call.compilations) for call in found.varied) + refused


def _compare_unrecorded(base: Run, head: Run) -> Change:
    """Return how many things keep graphs from being recorded whole as CUDA graphs, where both sides
    ask for these."""
    before, after = _count_obstacles(base), _count_obstacles(head)
    if before is None or after is None:
        return Change(UNRECORDED, None, None, "same")
    return _change(UNRECORDED, before, after)


def _count_obstacles(run: Run) -> int | None:
    if run.settings.get("triton.cudagraphs") is not True or run.graph_obstacles is None:
        return None
    return sum(each.effect != "recorded again" for each in run.graph_obstacles)


def _compare_peaks(base: Run, head: Run) -> Change:
    """Return the change of the peak memory that was recorded on both sides, else of Inductor's
    estimate, which is that of the largest graph: of a model in several pieces it leaves out what
    the others hold.

    A base in more pieces than the head therefore needs at least what its estimate says. If the
    head is one whole graph and needs no more than that, memory certainly did not grow.
    """
    name, ours, theirs = "peak_memory_bytes", _observed_peak(base), _observed_peak(head)
    if ours is not None and theirs is not None:
        return _change(name, ours, theirs)
    ours, theirs = base.peak_memory_bytes, head.peak_memory_bytes
    alike = base.environment.torch == head.environment.torch  # releases count differently
    sure = alike and len(base.graphs) == len(head.graphs)
    if alike and len(base.graphs) > len(head.graphs) and _is_whole(head):
        sure = _outcome(name, ours, theirs, higher_is_better=False, sure=True) != "worse"
    return _change(name, ours, theirs, sure=sure)


def _observed_peak(run: Run) -> Value:
    return None if run.observed is None else run.observed.peak_memory_bytes


def _is_whole(run: Run) -> bool:
    """Return whether nothing of a step runs outside of one graph per direction, and the peak of
    each is known."""
    directions = sorted(graph.direction for graph in run.graphs)
    step = (["backward", "forward"],) if run.mode == "training" else (["forward"], ["inference"])
    known = all(graph.peak_memory_bytes is not None for graph in run.graphs)
    return directions in step and known and not run.graph_breaks and not run.eager_notes


def _change(
    name: str, base: Value, head: Value, higher_is_better: bool = False, sure: bool = True
) -> Change:
    return Change(name, base, head, _outcome(name, base, head, higher_is_better, sure))


def _outcome(name: str, base: Value, head: Value, higher_is_better: bool, sure: bool) -> Outcome:
    if base is None or head is None or not sure:
        return "unknown"
    if abs(head - base) <= abs(base) * DECIDING.get(name, 0.0):
        return "same"
    return "better" if (head > base) == higher_is_better else "worse"


def is_trifling(change: Change) -> bool:
    """Return whether a metric that decides changed by too little to make up for anything."""
    size = abs(change.delta or 0.0)
    if change.metric == "spilled_words":
        return size <= FEW_WORDS
    return size <= abs(change.base or 0.0) * _TRIFLES.get(change.metric, 0.0)
