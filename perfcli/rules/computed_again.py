"""The same values are computed again and again: at every point of a larger kernel, or by several.

What it sees: operators of the model that take many instructions (`exp`, `sin`, `erf`, `pow`, a
division …), inlined by Inductor

* into a pointwise kernel that has twice as many points as they have results, or more: each result
  is computed that many times (a part that `select_scatter` or `cat` puts into a whole is computed
  for every place of the whole). A single number is none of them: each thread computes it once, for
  all of its points;
* into several kernels that are launched one after the other: each computes all of them.

What it costs is the estimated time of these kernels less that with the results computed once,
written, and read, which is one kernel more (2.5 µs) where a larger kernel computes them. Most of
such work hides behind memory and costs nothing. It is reported from 1 µs and 2 % of the step on.

Why it costs: Inductor inlines pointwise producers rather than pass them on through memory, below
`realize_reads_threshold` buffers and `realize_opcount_threshold` operations. That is right while
memory is what a kernel waits for. Computed many times, arithmetic decides: a producer in a
`select_scatter` (pytorch #191469).

What to try: for several kernels, `realize_opcount_threshold` or `realize_reads_threshold` lower, so
that what several use is stored. For a part of a whole: assign it in place to a tensor that exists
already, or join the parts once, so that each is computed once and copied.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from perfcli import units
from perfcli.diff.arithmetic import elements_of, is_heavy, weigh_node, word_of
from perfcli.model import Cost, Cure, Finding, KernelFacts, Origin, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import computes, fewer_reads, fewer_writes
from perfcli.rules._evidence.splits import KERNEL_SECONDS
from perfcli.rules._evidence.whole_reads import points_of
from perfcli.rules._evidence.worth import LEAST_SECONDS, is_worth

_LEAST_SHARE = 0.02
_TIMES = 2
"""How often each result is computed, from which on it counts."""
_LEAST_OF_WORK = 0.1
"""The part of a kernel's arithmetic below which nothing is estimated."""
_ARITHMETIC = {"issue", "MUFU", "conversions", "code", "latency"}
_KINDS = ("pointwise", "reduction", "persistent-reduction")


def _check(run: Run) -> Iterator[Finding]:
    counted = [(n, k) for n, k in enumerate(run.kernels) if k.launches and k.estimate]
    for number, kernel in counted:
        if kernel.kind == "pointwise":
            yield from _find_spread(run, number, kernel)
    yield from _find_shared(run, counted)


def _may_gain(kernel: KernelFacts, share: float) -> bool:
    """Return whether it may save so much of a kernel's arithmetic, before that is estimated: where
    the arithmetic holds it up, and no more than its part."""
    bounds = kernel.estimate.bounds if kernel.estimate else {}
    held_up = not _ARITHMETIC.isdisjoint(bounds)
    return held_up and share * (kernel.step_seconds or 0.0) >= LEAST_SECONDS


# --- at every point of a larger kernel -----------------------------------------------------------


def _find_spread(run: Run, number: int, kernel: KernelFacts) -> Iterator[Finding]:
    points = points_of(kernel) or 0
    small: list[tuple[Origin, int]] = []
    total = again = 0
    for origin in kernel.origins:
        elements, weight = elements_of(origin), weigh_node(origin)
        if elements == 1:  # A number: each thread computes it once, for all of its points.
            continue
        total += weight * points
        if elements and weight and elements * _TIMES <= points:
            small.append((origin, elements))
            again += weight * (points - elements)
    heavy = [each for each in small if is_heavy(each[0])]
    if not heavy or again < _LEAST_OF_WORK * total or not _may_gain(kernel, again / total):
        return
    largest = max(elements for _, elements in heavy)
    passed_on = 2 * largest * _itemsize(kernel)
    once = passed_on / run.target.bandwidth if run.target else 0.0
    added = (KERNEL_SECONDS + once) * kernel.launches
    cost = estimate_saving(run, {number: (computes(1 - again / total),)}, added)
    if is_worth(cost, _LEAST_SHARE):
        yield _say_spread(kernel, number, [origin for origin, _ in heavy], points, largest, cost)


def _itemsize(kernel: KernelFacts) -> int:
    sizes = [b.bytes // max(math.prod(b.shape), 1) for b in kernel.buffers if b.is_written]
    return max([*sizes, 1])


def _say_spread(
    kernel: KernelFacts,
    number: int,
    heavy: list[Origin],
    points: int,
    largest: int,
    cost: Cost | None,
) -> Finding:
    times = points / largest
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} computes {units.count(largest)} results {times:.3g} times each: "
        f"{_list_words(heavy)} at all of its {units.count(points)} points",
        kernels=(number,),
        evidence=(
            f"{_list_nodes(heavy)} were inlined into it, and are computed again for each place "
            "of the result",
        ),
        advice="compute the part once: assign it in place to a tensor that exists already, or join "
        "the parts at the end, where each is copied",
        cost=cost,
        metric="computed_again_seconds",
        amount=cost.seconds if cost else None,
        origin=_line_of(heavy),
    )


# --- by several kernels ---------------------------------------------------------------------------


def _find_shared(run: Run, counted: list[tuple[int, KernelFacts]]) -> Iterator[Finding]:
    users: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, kernel in counted:
        if kernel.kind in _KINDS:
            for origin in kernel.origins:
                users[kernel.graph, origin.node].append(number)
    done: set[int] = set()
    for number, kernel in counted:
        if kernel.kind not in _KINDS or number in done:
            continue
        others = {n for o in kernel.origins for n in users[kernel.graph, o.node] if n > number}
        for other in sorted(others - done):
            shared = _list_shared(kernel, run.kernels[other])
            if not any(map(is_heavy, shared)) or not _may_gain(run.kernels[other], 1.0):
                continue
            cost = _cost_of_shared(run, number, other, shared)
            if is_worth(cost, _LEAST_SHARE):
                done.add(other)
                yield _say_shared(run, number, other, shared, cost)


def _list_shared(one: KernelFacts, two: KernelFacts) -> list[Origin]:
    """Return the nodes that both compute at each of the second's points. What a reduction is made
    of is in both its stages, and computed once."""
    nodes = {origin.node for origin in one.origins}
    shared = [o for o in two.origins if o.node in nodes and weigh_node(o)]
    points = min(points_of(one) or 0, points_of(two) or 0)
    if one.launches != two.launches:
        return []
    return [o for o in shared if 2 * (elements_of(o) or 0) > points]


def _cost_of_shared(run: Run, first: int, second: int, shared: list[Origin]) -> Cost | None:
    """Return what it saves if the second kernel reads what the first has computed."""
    one, two = run.kernels[first], run.kernels[second]
    total = sum(weigh_node(origin) for origin in two.origins)
    again = sum(weigh_node(origin) for origin in shared)
    if not two.bytes_read or not one.bytes_written or again < _LEAST_OF_WORK * total:
        return None
    size = max(elements_of(origin) or 0 for origin in shared) * _itemsize(one)
    names = {b.name for b in one.buffers if b.is_read}
    common = sum(b.bytes for b in two.buffers if b.is_read and b.name in names)
    # What the second reads for something else as well it still has to read: one of them, at least.
    kept = max(0.0, 1 - max(0, common - size) / two.bytes_read) + size / two.bytes_read
    edits = {
        first: (fewer_writes(1 + size / one.bytes_written),),
        second: (computes(1 - again / total), fewer_reads(kept)),
    }
    return estimate_saving(run, edits)


def _say_shared(
    run: Run, first: int, second: int, shared: list[Origin], cost: Cost | None
) -> Finding:
    one, two = run.kernels[first], run.kernels[second]
    heavy = [origin for origin in shared if is_heavy(origin)]
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{one.name} and {two.name} both compute {_list_words(heavy)}: the second could "
        "read what the first has",
        kernels=(first, second),
        evidence=(f"in both: {_list_nodes(shared)}",),
        cures=_lower_threshold(run, shared),
        cost=cost,
        metric="computed_again_seconds",
        amount=cost.seconds if cost else None,
        origin=_line_of(heavy),
    )


def _lower_threshold(run: Run, shared: list[Origin]) -> tuple[Cure, ...]:
    name = "realize_opcount_threshold"
    now, needed = run.settings.get(name), max(1, len(shared) - 1)
    if isinstance(now, int) and now > needed:
        return (Cure({name: needed}, "stores what several kernels use"),)
    return ()


# --- words ---------------------------------------------------------------------------------------


def _list_words(origins: list[Origin]) -> str:
    words = list(dict.fromkeys(map(word_of, origins)))
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return ", ".join(words[:3]) + more


def _list_nodes(origins: list[Origin]) -> str:
    more = f" and {len(origins) - 6} more" if len(origins) > 6 else ""
    return ", ".join(origin.node for origin in origins[:6]) + more


def _line_of(origins: list[Origin]) -> Origin | None:
    return next((o for o in origins if o.location), origins[0] if origins else None)


RULE = Rule("PC502", "computed again", __doc__, of_run=_check)
