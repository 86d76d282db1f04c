"""Holds one limit against a comparison: against its total, or against each kernel that it means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfcli import units
from perfcli.diff.metrics import launched_kernels
from perfcli.diff.verdict.words import advise, describe_change, pick_kernel, write_estimate
from perfcli.gate import limits
from perfcli.gate.allowances import _covers, _named
from perfcli.gate.excepting import _excepted
from perfcli.gate.limits import _higher_is_better
from perfcli.model import (
    Allowance,
    Change,
    Comparison,
    EstimatedChange,
    KernelGroup,
    Limit,
    LimitResult,
    LimitState,
)

_ONE_EACH = ("kernels", "launches")
"""Each kernel counts about alike: none of them has most."""


def _to_blame(comparison: Comparison, result: LimitResult) -> str:
    """Return ``triton_red_fused_add_3 fuses 2 kernels``: the group that adds most to a total; where
    none adds anything but the total itself is limited, ``most of it in triton_red_fused_add_3
    (2)``."""
    if result.limit.metric == "graph_breaks":
        return _new_breaks(comparison)
    if result.limit.metric == limits.STEP_TIME:
        because = comparison.because
        return f"{because.kernel} {because.how}" if because and because.kernel else ""
    return _added_most(comparison, result.limit.metric) or _has_most(comparison, result.limit)


def _new_breaks(comparison: Comparison) -> str:
    """Return the reasons of Dynamo's that were not there, or not so often."""
    base, head = comparison.base.graph_breaks, comparison.head.graph_breaks
    return "; ".join(reason for reason, number in head.items() if number > base.get(reason, 0))


def _added_most(comparison: Comparison, metric: str) -> str:
    best = _find_most(comparison, metric)
    if best is None:
        return ""
    base, head = comparison.base, comparison.head
    return f"{pick_kernel(best, base, head)} {describe_change(best, base, head)}"


def _find_most(comparison: Comparison, metric: str) -> KernelGroup | None:
    """Return the group that adds most to a total; None where none adds anything."""
    sign = -1 if limits._higher_is_better(metric) else 1
    best, most = None, 0.0
    for group in comparison.groups:
        change = next((c for c in group.changes if c.metric == metric), None)
        delta = sign * (change.delta or 0.0) if change else 0.0
        if delta > most:
            best, most = group, delta
    return best


def _has_most(comparison: Comparison, limit: Limit) -> str:
    metric = limits.OF_KERNELS.get(limit.metric)
    if limit.most is None or metric is None or metric.better == "higher":
        return ""
    if metric.name in _ONE_EACH:
        return ""
    values = [(metric.of(k) or 0.0, k.name) for k in launched_kernels(comparison.head.kernels)]
    most, name = max(values, key=lambda each: each[0], default=(0.0, ""))
    return f"most of it in {name} ({units.writer(metric.name)(most)})" if most else ""


def _of_change(limit: Limit, change: Change) -> str:
    """Return ``spilled words 2 → 94, at most +0``."""
    write = units.writer(limit.metric)
    title = units.title(limit.metric)
    title = title.removesuffix(", most") if limit.kernel else title
    if change.base == change.head:
        return f"{title} {write(change.head)}, {_bounds(limit)}"
    text = f"{title} {write(change.base)} → {write(change.head)}"
    if limit.metric not in ("spilled_words", "occupancy"):
        share = units.relative(change.base, change.head)
        text += f" ({share})" if share else ""
    return f"{text}, {_bounds(limit)}"


def _moved(change: Change) -> str:
    """Return ``bytes moved 409 MB → 193 MB``."""
    write = units.writer(change.metric)
    return f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"


def of_time(comparison: Comparison, limit: Limit) -> str:
    """Return ``step 12.31 → 12.70 ms, +3.1 % [+2.6, +3.7], at most +3 %``."""
    timing = comparison.timing
    assert timing is not None
    time = timing.deciding
    times = f"{timing.clock} {units.from_to(time.base, time.head)}"
    return f"{times}, {units.interval(time.ratio, time.low, time.high)}, {_bounds(limit)}"


def _hold_estimate(result: LimitResult, estimate: EstimatedChange) -> LimitResult:
    """Return the limit as broken where the whole interval lies beyond it, as kept where all of it
    lies within, else as unknown with what would tell."""
    text, within = write_estimate(estimate), 1 + (result.limit.growth_share or 0.0)
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        why = f": {estimate.missing[0]}" if estimate.missing else ""
        return replace(result, state="unknown", text=f"{text}{why}; {advise(estimate)}")
    text = f"{text}, {_bounds(result.limit)}"
    if low > within:
        return replace(result, state="broken", text=text)
    if high <= within:
        state: LimitState = "better" if estimate.verdict == "faster" else "kept"
        return replace(result, state=state, text=text)
    return replace(result, state="unknown", text=f"{text}; {advise(estimate)}")


def _bounds(limit: Limit) -> str:
    """Return ``at most 40 and +1 %``; of what is better higher ``at least 50 %, at most 25 %
    less``."""
    write = units.writer(limit.metric)
    changes = [] if limit.growth is None else [write(limit.growth)]
    changes += [] if limit.growth_share is None else [units.percent(limit.growth_share)]
    value = [] if limit.most is None else [write(limit.most)]
    if not _higher_is_better(limit.metric):
        return f"at most {' and '.join([*value, *(f'+{each}' for each in changes)])}"
    less = f"at most {' and '.join(changes)} less" if changes else ""
    return ", ".join([*(f"at least {each}" for each in value), *filter(None, [less])])


LEAST_SHARE = 0.01
"""One of the usual limits on every kernel is for those that move at least this part of a step's
bytes."""
_VECTORS = ("vector_loads", "vector_stores")


def _held(
    comparison: Comparison, limit: Limit, allowances: Sequence[Allowance], least_share: float = 0.0
) -> Iterator[LimitResult]:
    """Return one result for a total; for each group of kernels that a pattern means, one for its
    growth and one for ``most``; none where neither side knows the metric. ``least_share``: of the
    bytes, which a kernel has to move to be asked."""
    if limit.kernel:
        for number, group in enumerate(comparison.groups):
            if _means(comparison, group, limit.kernel, least_share):
                for each in _alone(limit):
                    yield from _of_group(comparison, each, number, allowances)
        return
    change = limits._total(comparison, limit.metric)
    estimated = limit.metric == limits.STEP_TIME  # what lacks one is unsure, and not left out
    if change is None or (change.base is None and change.head is None and not estimated):
        return
    result = _result(limit, change)
    if limit.metric == limits.TIME:
        result = replace(result, text=of_time(comparison, limit))
    if estimated and comparison.estimate is not None:
        result = _hold_estimate(result, comparison.estimate)
    if result.state == "unknown" and limit.metric == "peak_memory_bytes":
        result = replace(result, text=f"{result.text}{_in_other_pieces(comparison)}")
    if result.state == "broken":
        result = _excepted(comparison, result, allowances)
    blame = _to_blame(comparison, result) if result.state == "broken" else ""
    yield replace(result, text=f"{result.text}: {blame}" if blame else result.text)


def _in_other_pieces(comparison: Comparison) -> str:
    """Return ``, since 2 graphs became 8 and each has a peak of its own``; empty where they did
    not."""
    base, head = len(comparison.base.graphs), len(comparison.head.graphs)
    if base == head:
        return ""
    return f", since {units.plural(base, 'graph')} became {head} and each has a peak of its own"


# --- one number ------------------------------------------------------------------------------


def _result(limit: Limit, change: Change) -> LimitResult:
    allowed = _allowed(limit, change.base)
    state = _state(limit, change, allowed)
    text = _of_change(limit, change) + (": not comparable" if state == "unknown" else "")
    return LimitResult(limit, state, change.base, change.head, allowed, text=text)


def _state(limit: Limit, change: Change, allowed: float | None) -> LimitState:
    if change.head is None or allowed is None:
        return "unknown"
    if limit.metric == limits.TIME:
        return _of_time(limit, change, allowed)
    if limit.metric in _VECTORS and limit.most is None and change.outcome == "same":
        return "kept"  # nothing became scalar: there is less to load
    if limit.most is None and not _sure(change):
        return "unknown"
    if limits._is_worse(limit.metric, change.head, allowed):
        return "broken"
    return "better" if change.outcome == "better" else "kept"


def _sure(change: Change) -> bool:
    """Return whether the change is sure: equal memory is equal, whoever estimated it; equal sums
    that leave something out are not."""
    equal = change.metric in limits.WHOLE and change.base == change.head
    return change.outcome != "unknown" or equal


def _of_time(limit: Limit, change: Change, allowed: float) -> LimitState:
    """Return the state of a limit on time: slower is said only beyond noise, the limit says by how
    much it may be."""
    if change.outcome == "worse":
        return "broken" if (change.head or 0.0) > allowed else "kept"
    states: dict[str, LimitState] = {"better": "better", "same": "kept"}
    return states.get(change.outcome, "unknown")


def _allowed(limit: Limit, base: float | None) -> float | None:
    """Return the value beyond which the limit breaks: the strictest of its bounds."""
    sign = -1.0 if limits._higher_is_better(limit.metric) else 1.0
    bounds = [] if limit.most is None else [limit.most]
    if base is not None:
        bounds += [base + sign * limit.growth] if limit.growth is not None else []
        bounds += [base * (1 + sign * limit.growth_share)] if limit.growth_share is not None else []
    return (max if sign < 0 else min)(bounds, default=None)


# --- kernels ---------------------------------------------------------------------------------


def _alone(limit: Limit) -> Iterator[Limit]:
    """Yield ``most``, which each kernel is held against, and growth, which a group is."""
    if limit.most is not None:
        yield replace(limit, growth=None, growth_share=None)
    if limit.growth is not None or limit.growth_share is not None:
        yield replace(limit, most=None)


def _means(comparison: Comparison, group: KernelGroup, pattern: str, least_share: float) -> bool:
    if least_share and _share(comparison, group) < least_share:
        return False
    base, head = group.match.select(comparison.base, comparison.head)
    return any(_named(pattern, kernel.name) for kernel in (*base, *head))


def _share(comparison: Comparison, group: KernelGroup) -> float:
    """Return the part of the head's bytes that a group moves; 1 where bytes are not known."""
    total = limits._total(comparison, "bytes_moved")
    mine = next((c for c in group.changes if c.metric == "bytes_moved"), None)
    if total is None or not total.head or mine is None or mine.head is None:
        return 1.0
    return mine.head / total.head


def _of_group(
    comparison: Comparison, limit: Limit, number: int, allowances: Sequence[Allowance]
) -> Iterator[LimitResult]:
    """Yield a limit of one sort: growth of a group as a whole, or ``most`` of each of its
    kernels."""
    group = comparison.groups[number]
    change = limits.of_group(comparison, group, limit.metric)
    if change is None or not group.match.head:
        return
    if limit.most is not None:
        change = replace(change, head=_worst(comparison, limit, group), outcome="same")
    if change.head is None or (change.base is None and limit.most is None):
        return  # new, or without machine code: nothing to hold it against
    kernel = pick_kernel(group, comparison.base, comparison.head)
    result = replace(_result(limit, change), group=number, kernel=kernel)
    result = replace(result, text=f"{kernel}: {result.text}")
    _, head = group.match.select(comparison.base, comparison.head)
    names = [k.name for k in head]
    cover = [a for a in allowances if _covers(a, limit.metric, names, result.head)]
    if result.state == "broken" and cover:
        result = replace(result, state="allowed", allowance=cover[0])
    yield result


def _worst(comparison: Comparison, limit: Limit, group: KernelGroup) -> float | None:
    of = limits.OF_KERNELS[limit.metric].of
    _, head = group.match.select(comparison.base, comparison.head)
    kernels = [kernel for kernel in head if _named(limit.kernel, kernel.name)]
    values = [value for kernel in kernels if (value := of(kernel)) is not None]
    return (min if limits._higher_is_better(limit.metric) else max)(values, default=None)
