"""Adds the estimates of launches up to the estimate of a step, and compares two steps."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from perfcli.model import (
    Candidate,
    EstimatedChange,
    GroupEstimate,
    KernelFacts,
    KernelGroup,
    OperatorWork,
    Run,
    StepEstimate,
    Target,
    TimeEstimate,
    TimeVerdict,
)
from perfcli.predict.calibration import Calibration, calibration_for, name_operators
from perfcli.predict.host import compare_hosts, estimate_host_of
from perfcli.predict.launchable import find_too_many_blocks, list_timed
from perfcli.predict.moved_bytes import WIDER, _estimate_from_bytes, _estimate_on_cpu
from perfcli.predict.operators import estimate_call
from perfcli.predict.overlap import hide_collectives
from perfcli.predict.reuse import find_cold_shares


def _add_externs(run: Run, step: StepEstimate) -> StepEstimate:
    """Return the estimate with library operators and the host. Its seconds are those of the whole
    step where every operator has an estimate, else of the generated kernels alone."""
    externs = tuple(_average(run, number) for number in range(len(run.externs)))
    step = replace(step, host=estimate_host_of(run))
    known = _known(run, step := replace(step, externs=externs))
    collectives = hide_collectives(run, step)
    hidden = (collectives.hidden, collectives.least_hidden) if collectives else (0.0, 0.0)
    return replace(
        step,
        seconds=step.seconds + sum(n * e.seconds for n, e in known) - hidden[0],
        low=step.low + sum(n * e.low for n, e in known) - hidden[1],
        high=step.high + sum(n * e.high for n, e in known),
        collectives=collectives,
    )


def _without_externs(run: Run, step: StepEstimate) -> StepEstimate:
    """Return the estimate of the generated kernels alone."""
    seconds, low, high = _sum_kernels(run, step.kernels)
    none = (None,) * len(step.externs)
    return replace(step, seconds=seconds, low=low, high=high, externs=none, collectives=None)


def _with_own_seconds(run: Run, step: StepEstimate) -> StepEstimate:
    """Return the estimate with what it is where nothing is compared."""
    own = _without_externs(run, step) if None in step.externs else step
    return replace(step, alone_seconds=own.seconds)


def _sum_kernels(run: Run, estimates: Sequence[TimeEstimate | None]) -> tuple[float, float, float]:
    """Return the seconds per step of the generated kernels that have an estimate, with what
    finishes their results, and the ends of their interval."""
    pairs = zip(run.kernels, estimates, strict=True)
    known = [(kernel.launches, e) for kernel, e in pairs if e is not None]
    return (
        sum(n * e.of_step for n, e in known),
        sum(n * (e.low + e.finishing) for n, e in known),
        sum(n * (e.high + e.finishing) for n, e in known),
    )


def _sum_externs(run: Run, step: StepEstimate) -> float:
    """Return the seconds per step of all library operators, 0 where one has no estimate."""
    return sum(count * estimate.seconds for count, estimate in _known(run, step))


def _known(run: Run, step: StepEstimate) -> Sequence[tuple[int, TimeEstimate]]:
    if None in step.externs:
        return ()
    pairs = zip(run.externs, step.externs, strict=True)
    return [(extern.count, estimate) for extern, estimate in pairs if estimate is not None]


def _average(run: Run, number: int) -> TimeEstimate | None:
    """Return the estimate of an operator's average call."""
    extern = run.externs[number]
    total = TimeEstimate(0.0, 0.0, 0.0)
    for call in extern.calls:
        found = estimate_call(call.work, run.target) if call.work and run.target else None
        if found is None:
            return None
        total = TimeEstimate(
            total.seconds + call.count * found.seconds,
            total.low + call.count * found.low,
            total.high + call.count * found.high,
            doubts=tuple(dict.fromkeys((*total.doubts, *found.doubts))),
        )
    n = sum(call.count for call in extern.calls)
    if n == 0 or n != extern.count:
        return None  # some of its calls were not captured
    return replace(total, seconds=total.seconds / n, low=total.low / n, high=total.high / n)


def _list_changed_externs(base: Run, head: Run) -> Iterator[tuple[float, float]]:
    """Yield the seconds per step on both sides of each call of a library operator that takes longer
    on one: it is made more often there, or on another GPU."""
    sides = [_count_calls(run) for run in (base, head)]
    works = {text: work for _, side in sides for text, work in side.items()}
    for text, work in works.items():
        before = _sum_calls(work, sides[0][0][text], base.target)
        after = _sum_calls(work, sides[1][0][text], head.target)
        if before != after:
            yield before, after


def _sum_calls(work: OperatorWork, count: int, target: Target | None) -> float:
    """Return the seconds of so many calls, 0 where they have no estimate."""
    found = estimate_call(work, target) if count and target else None
    return count * found.seconds if found else 0.0


def _count_calls(run: Run) -> tuple[Counter[str], dict[str, OperatorWork]]:
    counts: Counter[str] = Counter()
    works: dict[str, OperatorWork] = {}
    for extern in run.externs:
        for call in extern.calls:
            if call.work is not None:
                text = repr(call.work)
                counts[text] += call.count
                works[text] = call.work
    return counts, works


def estimate_step(run: Run) -> StepEstimate | None:
    """Return the estimate of a step, or None where no GPU's constants fit the run's target or the
    work of its kernels was not counted."""
    calibration = calibration_for(run.target) if run.target else None
    if calibration is None or run.target is None:
        return None
    constants = _name_constants(calibration)
    if not run.weighed and run.estimated_with != constants:
        return None
    kernels: list[TimeEstimate | None] = []
    cold = find_cold_shares(run, calibration.constants["cache_bytes"])
    finishing = _count_finishing(run)
    chosen = dict(_list_chosen(run))
    for kernel, share in zip(run.kernels, cold, strict=True):
        found = kernel.estimate
        if run.weighed and find_too_many_blocks(kernel, run.target):
            found = None
        elif run.weighed:
            found = chosen.get((kernel.graph, kernel.name))
            found = found or _estimate_kernel(kernel, calibration, run.target.sm_count, share)
            found = found or _estimate_from_bytes(kernel, run.target, _why_not(kernel, run.target))
        if run.weighed and found is not None:
            calls = finishing[kernel.graph, kernel.name]
            found = replace(found, finishing=_estimate_finishing(kernel, calls, calibration))
        kernels.append(found)
    step = StepEstimate(
        *_sum_kernels(run, kernels),
        tuple(kernels),
        (None,) * len(run.externs),
        missing=tuple(_list_missing(run, kernels, range(len(kernels)))),
        rough=tuple(_list_rough(run, kernels, range(len(kernels)))),
        calibration=calibration.source,
        derived=calibration.derived,
        constants=constants,
    )
    return _add_externs(run, step)


def _list_chosen(run: Run) -> Iterator[tuple[tuple[str, str], TimeEstimate]]:
    """Yield the kernels, by graph and name, that were chosen from several implementations, with the
    estimates by which they were."""
    for selection in run.selections:
        for use in selection.uses:
            found = use.estimate or selection.implementations[use.chosen].estimate
            if use.kernel and found is not None:
                yield (use.graph, use.kernel), replace(found, candidate=0)


def _count_finishing(run: Run) -> Counter[tuple[str, str]]:
    """Count the operators that finish the results of one launch of each kernel, by graph and
    name."""
    calls: Counter[tuple[str, str]] = Counter()
    launches: Counter[tuple[str, str]] = Counter()
    current = ("", "")
    for launch in run.launches:
        if not launch.extern:
            current = (launch.graph, launch.name)
            launches[current] += 1
        calls[current] += launch.finishing
    return Counter({key: calls[key] // number for key, number in launches.items()})


def _estimate_finishing(kernel: KernelFacts, calls: int, calibration: Calibration) -> float:
    """Return the seconds of the sums over a kernel's workspace. torch sums columns with few blocks,
    each of which goes through its rows one after the other: a time for each sum, and one for the
    bytes (three shapes on an H200, torch 2.11: 10.8, 10.9 and 18.3 microseconds)."""
    c = calibration.constants
    return 1e-6 * (calls * c["finishing"] + kernel.finishing_bytes / c["finishing_bytes"])


_FORMULAS = 7
"""Grows when the same constants give other estimates."""


def _name_constants(calibration: Calibration) -> str:
    """Return a name that other constants, or other formulas, do not have."""
    known = calibration
    fitted = [known.clock_mhz, known.constants, known.residuals, known.pair]
    numbers = [_FORMULAS, *fitted, name_operators(known.target)]
    return hashlib.sha256(msgspec.json.encode(numbers, order="sorted")).hexdigest()[:12]


def name_estimator(run: Run) -> str:
    """Return the name of the constants and formulas that a run is estimated with now; empty where
    there are none for its target."""
    calibration = calibration_for(run.target) if run.target else None
    return _name_constants(calibration) if calibration else ""


def estimate_run(run: Run) -> Run:
    """Return the run with the estimates of its kernels beside their facts, where it has any. Those
    of a CPU's kernels are rough, and are no estimate of a step: nothing is compared by them."""
    if run.device == "cpu":
        kernels = tuple(replace(k, estimate=_estimate_on_cpu(k)) for k in run.kernels)
        return replace(run, kernels=kernels)
    return with_estimates(run, estimate_step(run))


def with_estimates(run: Run, step: StepEstimate | None) -> Run:
    """Return the run with these estimates beside its kernels' facts; as it is without any."""
    if step is None:
        return run
    pairs = zip(run.kernels, step.kernels, strict=True)
    kernels = tuple(replace(kernel, estimate=estimate) for kernel, estimate in pairs)
    calls = zip(run.externs, step.externs, strict=True)
    externs = tuple(replace(extern, estimate=estimate) for extern, estimate in calls)
    return replace(
        run,
        kernels=kernels,
        externs=externs,
        estimated_with=step.constants,
        host=step.host,
        collectives=step.collectives,
    )


def _why_not(kernel: KernelFacts, target: Target | None) -> str:
    if target and (refused := find_too_many_blocks(kernel, target)):
        return f"it can't be launched: {refused}"
    if not kernel.candidates:
        return "it was not compiled for a GPU"
    if kernel.unknown_sizes:
        return "its size depends on values that only a run knows"
    if kernel.kind == "user":
        return "it is a kernel of your own, and its launches could not be followed"
    if any(c.work is not None and c.work.retries for c in kernel.candidates):
        return "how often its 16-bit atomic updates are tried again depends on data"
    return "its work could not be counted"


def _estimate_kernel(
    kernel: KernelFacts, calibration: Calibration, sms: int, cold: float
) -> TimeEstimate | None:
    if kernel.unknown_sizes:
        return None
    found = {
        number: _estimate_launch(candidate, kernel, calibration, sms, cold)
        for number, candidate in enumerate(kernel.candidates)
        if candidate.work is not None
        and candidate.blocks_per_sm != 0
        and not candidate.work.retries
    }
    timed = [number for number in list_timed(kernel) if number in found]
    if not timed:
        return None
    best = min(timed, key=lambda number: found[number][0])
    seconds, shares = found[best]
    kind = class_of(shares, seconds)
    doubts = tuple(_list_doubts(kernel.candidates[best]))
    spread = calibration.residuals_of(kind).q90 * (_DOUBTFUL if doubts else 1)
    return TimeEstimate(
        seconds,
        seconds * math.exp(-spread),
        seconds * math.exp(spread),
        shares,
        best,
        kind=kind,
        doubts=doubts,
        candidates={number: each for number, (each, _) in found.items()},
    )


_DOUBTFUL = 2.0
"""How many times wider intervals are where a kernel is unlike those that were measured."""


def _list_doubts(candidate: Candidate) -> Iterator[str]:
    """Yield what a launch does that the calibration's kernels did not, or that nobody can tell."""
    work = candidate.work
    if work is None:
        return
    if work.indirect:
        yield "where it reads or writes depends on data"
    if work.unknown_loops:
        yield "how often a loop runs depends on data"
    if work.warp.issued.get("async-copy"):
        yield "no pipelined kernel was in the calibration"
    if work.warp.issued.get("tensor"):
        yield "no kernel that multiplies matrices was in the calibration"


_SHORT = 5e-6
"""Seconds: of a shorter launch, starting and ending blocks is a good part."""


def class_of(shares: Mapping[str, float], seconds: float) -> str:
    """Return the class of launches that one belongs to, each with residuals of its own: what holds
    it up most (the first of ``shares``), and whether it is short."""
    first = next(iter(shares), "")
    memory = ("DRAM", "L2", "L2 to SM")
    bound = "memory" if first in memory else "latency" if first == "latency" else "throughput"
    return f"{bound}, {'short' if seconds < _SHORT else 'long'}"


def _estimate_launch(
    candidate: Candidate, kernel: KernelFacts, calibration: Calibration, sms: int, cold: float
) -> tuple[float, dict[str, float]]:
    """Return seconds, and the share of each bound in them, the largest first."""
    # numpy takes a tenth of a second, and nothing here needs it where nothing is estimated.
    from perfcli.predict.launch import bounds, combine, demand_of

    assert candidate.work is not None
    c = calibration.constants
    demand = demand_of(candidate.work, candidate, kernel.buffers, sms, cold)
    found = bounds(demand, c, sms, calibration.clock_mhz)
    micros = float(combine(found, c))
    weights = {n: float(t) ** c["norm"] for n, t in found.items()}
    total = sum(weights.values())
    shares = {n: w / total for n, w in weights.items() if w / total >= 0.01}
    ordered = dict(sorted(shares.items(), key=lambda item: -item[1]))
    return micros * 1e-6, ordered


# --- two steps -------------------------------------------------------------------------------

LEAST_CHANGE = 0.02
"""A relative change of the step's device time below this is the same."""


def compare_steps(base: Run, head: Run, groups: Sequence[KernelGroup]) -> EstimatedChange | None:
    """Return what the estimates of two runs say together; None where either has none."""
    ours, theirs = estimate_step(base), estimate_step(head)
    if ours is None or theirs is None or base.target is None or head.target is None:
        return None
    one_device = base.target == head.target and ours.constants == theirs.constants
    lacking = tuple(_list_moved_externs(base, ours, head, theirs))
    ours, theirs = _with_own_seconds(base, ours), _with_own_seconds(head, theirs)
    if None in ours.externs or None in theirs.externs:  # the same of both sides, or nothing
        ours, theirs = _without_externs(base, ours), _without_externs(head, theirs)
    changed: list[GroupEstimate] = []
    missing: list[str] = []
    total = [_sum_externs(base, ours), _sum_externs(head, theirs)]
    for number, group in enumerate(groups):
        sides = (_sum(base, ours, group.match.base), _sum(head, theirs, group.match.head))
        doubts = _doubt(ours, group.match.base), _doubt(theirs, group.match.head)
        if one_device and _is_alike(base, head, group):
            known = sides[1] if sides[0] is None or doubts[0] > doubts[1] else sides[0]
            sides = (known or 0.0, known or 0.0)  # as much on both sides, whatever it is
            doubts = (1.0, 1.0)
        for side, seconds in enumerate(sides):
            total[side] += seconds or 0.0
        if None in sides:
            missing += _list_missing(base, ours.kernels, group.match.base)
            missing += _list_missing(head, theirs.kernels, group.match.head)
        elif (
            sides[0] != sides[1]
            or WIDER in doubts  # as many bytes are not as much time
            or _lacks_a_winner(base, head, group)
        ):
            changed.append(GroupEstimate(number, sides[0] or 0.0, sides[1] or 0.0))
    missing += lacking
    changed.sort(key=lambda g: -abs(g.head - g.base))
    if missing or not total[0] or not total[1]:
        return EstimatedChange(
            ours, theirs, "unsure", groups=tuple(changed), missing=tuple(dict.fromkeys(missing))
        )
    # What is alike counts as much on both sides, whatever runs before it leaves in the cache.
    bare = total[1] / total[0]
    total = [all_of - _hidden(step) for all_of, step in zip(total, (ours, theirs), strict=True)]
    ours, theirs = replace(ours, seconds=total[0]), replace(theirs, seconds=total[1])
    ratio = total[1] / total[0]
    moved = [
        (
            group.base * _doubt(ours, groups[group.group].match.base),
            group.head * _doubt(theirs, groups[group.group].match.head),
        )
        for group in changed
    ]
    externs = [*_list_changed_externs(base, head)] if None not in ours.externs else []
    used = (calibration_for(target) for target in (base.target, head.target))
    widest = max((each for each in used if each), key=lambda each: each.pair["k80"], default=None)
    half = _half_width(moved + externs, total, widest)
    # Nobody knows how much of the collectives is hidden: all that can be, nothing, as on one side.
    low, high = min(ratio, bare) * math.exp(-half), max(ratio, bare) * math.exp(half)
    low, high = _narrow(
        *(low, high, (min(ratio, bare), max(ratio, bare)), changed),
        [_compare_choices(base, head, groups[group.group]) for group in changed],
        lambda kept: _half_width([*(moved[n] for n in kept), *externs], total, widest),
        total[0],
    )
    if ours.waits_for_host or theirs.waits_for_host:
        least, most = compare_hosts(base, head)
        low, high = min(low, least), max(high, most)
    rough = [
        text
        for group in changed
        for run, step, numbers in (
            (base, ours, groups[group.group].match.base),
            (head, theirs, groups[group.group].match.head),
        )
        for text in _list_rough(run, step.kernels, numbers)
    ]
    return EstimatedChange(
        ours, theirs, _judge(low, high), ratio, low, high, tuple(changed),
        rough=tuple(dict.fromkeys(rough)),
    )  # fmt: skip


def _hidden(step: StepEstimate) -> float:
    return step.collectives.hidden if step.collectives else 0.0


def _narrow(
    low: float,
    high: float,
    ratios: tuple[float, float],
    changed: Sequence[GroupEstimate],
    choices: Sequence[int],
    half_width: Callable[[list[int]], float],
    total: float,
) -> tuple[float, float]:
    """Return the interval where some kernels of one side choose among more launch configurations
    (``choices``). The device times them: these kernels are no slower than on the other side, and
    only what else changed (``half_width`` of it, by its places in ``changed``) may be."""
    for sign in (1, -1):
        if sign in choices:
            places = list(enumerate(zip(changed, choices, strict=True)))
            same = sum(group.base - group.head for _, (group, each) in places if each == sign)
            rest = half_width([place for place, (_, each) in places if each != sign])
            if sign > 0:
                high = min(high, (ratios[1] + same / total) * math.exp(rest))
            else:
                low = max(low, (ratios[0] + same / total) * math.exp(-rest))
    return low, high


def _is_alike(base: Run, head: Run, group: KernelGroup) -> bool:
    """Return whether a group is the same code over as much data, launched as often, with a choice
    of launch configurations that is as good."""
    if _lacks_a_winner(base, head, group):
        return False
    sides = group.match.select(base, head)
    used = [[(k.launches, sorted(k.sizes.items())) for k in side] for side in sides]
    return group.match.relation == "same" and used[0] == used[1]


def _compare_choices(base: Run, head: Run, group: KernelGroup) -> int:
    """Return 1 where the head has all launch configurations of the base's kernel, by their machine
    code, and others besides; -1 where the base has those of the head's; else 0."""
    if len(group.match.base) != 1 or len(group.match.head) != 1:
        return 0
    before, after = base.kernels[group.match.base[0]], head.kernels[group.match.head[0]]
    if (before.launches, before.sizes) != (after.launches, after.sizes):
        return 0
    had, has = (
        {(repr(_key(c)), c.binary_hash) for c in _list_compiled(kernel)}
        for kernel in (before, after)
    )
    return (bool(had) and had < has) - (bool(has) and has < had)


def _list_compiled(kernel: KernelFacts) -> list[Candidate]:
    return [kernel.candidates[number] for number in list_timed(kernel)]


def _lacks_a_winner(base: Run, head: Run, group: KernelGroup) -> bool:
    """Return whether the head can't choose a launch configuration any more that may be the fastest
    of a kernel: as fast by estimate as an estimate can tell."""
    if len(group.match.base) != 1 or len(group.match.head) != 1:
        return False
    before, after = base.kernels[group.match.base[0]], head.kernels[group.match.head[0]]
    return before.source_hash == after.source_hash and bool(find_lost(before, after))


def find_lost(before: KernelFacts, after: KernelFacts) -> list[Candidate]:
    """Return the launch configurations that the head lacks of those that may win on the base, the
    fastest first."""
    estimate = before.estimate
    if estimate is None or not estimate.candidates or not after.candidates:
        return []
    kept = {_key(candidate) for candidate in after.candidates}
    timed = [number for number in list_timed(before) if number in estimate.candidates]
    fast = [n for n in timed if estimate.candidates[n] <= estimate.seconds * _AS_FAST]
    fast.sort(key=lambda number: estimate.candidates[number])
    found = (before.candidates[number] for number in fast)
    return [candidate for candidate in found if _key(candidate) not in kept]


_AS_FAST = 1.1
"""Times the fastest: the configuration that is expected to win is at most so much slower than the
one that does in 95 % of kernels (docs/time.md)."""


def _key(candidate: Candidate) -> tuple[object, ...]:
    config = tuple(sorted(candidate.config.items()))
    return (config, candidate.num_warps, candidate.num_stages)


def _list_missing(
    run: Run, estimates: Sequence[TimeEstimate | None], numbers: Sequence[int]
) -> list[str]:
    """Return ``triton_poi_fused_add_0: its work could not be counted`` for each without one."""
    without = [run.kernels[number] for number in numbers if estimates[number] is None]
    return [f"{kernel.name}: {_why_not(kernel, run.target)}" for kernel in without]


def _list_moved_externs(
    base: Run, ours: StepEstimate, head: Run, theirs: StepEstimate
) -> Iterator[str]:
    """Yield library operators that the sides do not call equally often, all of them where each
    side has a GPU of its own, if any operator lacks an estimate: then none is counted."""
    pairs = [
        *zip(base.externs, ours.externs, strict=True),
        *zip(head.externs, theirs.externs, strict=True),
    ]
    lacking = dict.fromkeys(extern.op for extern, estimate in pairs if estimate is None)
    if not lacking:
        return
    calls: list[Counter[str]] = [Counter(), Counter()]
    for counts, run in zip(calls, (base, head), strict=True):
        for extern in run.externs:
            counts[extern.op] += extern.count
    for name in dict.fromkeys((*calls[0], *calls[1])):
        before, after = (each[name] for each in calls)
        why = "and it has no estimate"
        if name not in lacking:
            why = f"which is not counted: no estimate of {', '.join(lacking)}"
        if before != after:
            yield f"{name}: called {before} → {after} times, {why}"
        elif base.target != head.target:
            yield f"{name}: the sides' GPUs differ, {why}"


def _list_rough(
    run: Run, estimates: Sequence[TimeEstimate | None], numbers: Sequence[int]
) -> Iterator[str]:
    """Yield ``triton_poi_fused_add_0: estimated from its bytes alone: …`` for each of those."""
    for number in numbers:
        estimate = estimates[number]
        if estimate is not None and estimate.is_rough:
            yield f"{run.kernels[number].name}: estimated {estimate.doubts[0]}"


def _doubt(step: StepEstimate, numbers: Sequence[int]) -> float:
    """Return how many times wider the interval of some kernels together is."""
    found = [each for number in numbers if (each := step.kernels[number]) is not None]
    if any(each.is_rough for each in found):
        return WIDER
    return _DOUBTFUL if any(each.doubts for each in found) else 1.0


def _sum(run: Run, step: StepEstimate, numbers: Sequence[int]) -> float | None:
    seconds = 0.0
    for number in numbers:
        estimate = step.kernels[number]
        if estimate is None:
            return None
        seconds += estimate.of_step * run.kernels[number].launches
    return seconds


def _half_width(
    moved: Sequence[tuple[float, float]], total: Sequence[float], calibration: Calibration | None
) -> float:
    """Return half the width of the log ratio's interval. What changed counts with its share of the
    step, on the side where that is greater: as wide whichever side is the base."""
    if not moved or calibration is None:
        return 0.0
    pair = calibration.pair
    squares = sum(max(sides[0] / total[0], sides[1] / total[1]) ** 2 for sides in moved)
    return pair["k80"] * math.sqrt(pair["floor"] ** 2 + squares)


def _judge(low: float, high: float) -> TimeVerdict:
    if low > 1 + LEAST_CHANGE:
        return "slower"
    if high < 1 / (1 + LEAST_CHANGE):
        return "faster"
    if low >= 1 / (1 + LEAST_CHANGE) and high <= 1 + LEAST_CHANGE:
        return "same"
    return "unsure"
