"""Decides what a comparison comes to: outcomes and the numbers behind them, not yet in words.

The strongest evidence is asked first: wrong results, then times, measured or estimated, then the
metrics that are counted, with what findings object to them. What stronger evidence says, weaker
evidence can't overrule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perfcli.diff.compile_time import decides_alone
from perfcli.diff.metrics import DECIDING, UNRECORDED, is_trifling, is_weighed
from perfcli.model import (
    OUTCOME_OF,
    Change,
    Comparison,
    EstimatedChange,
    Finding,
    GroupEstimate,
    GroupTiming,
    KernelFacts,
    KernelGroup,
    Outcome,
    Run,
    Timing,
    WrongResults,
)


@dataclass(frozen=True, slots=True)
class _Statement:
    """Holds something that speaks for an outcome."""

    evidence: Timing | EstimatedChange | Change
    outcome: Outcome
    group: int | None = None
    """Index into ``Comparison.groups``: what adds most to it."""


@dataclass(frozen=True, slots=True)
class OperatorEstimate:
    """Holds the estimated seconds per step of all calls of a library operator, both sides."""

    name: str
    base: float
    head: float


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Says what times and memory come to."""

    outcome: Outcome
    decided: _Statement
    others: tuple[_Statement, ...] = ()
    """What says the same, and what speaks against it."""
    cause: GroupTiming | None = None
    """What adds most to a measured change."""
    cause_by_estimate: GroupEstimate | OperatorEstimate | None = None
    """What adds most to an estimated change."""


_Ground = Literal[
    "a metric",
    "a trifle",
    "no kernels",
    "not known on one side",
    "not known on both sides",
    "nothing known",
    "code not known",
    "vectors and scalars",
    "identical",
    "unaffected",
]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Says what totals and groups of kernels come to."""

    outcome: Outcome
    ground: _Ground
    change: Change | None = None
    """The metric that decides, or the one that is missing."""
    group: int | None = None
    """Index into ``Comparison.groups``: what adds most to it."""
    also: tuple[Change, ...] = ()
    """What would have decided alike."""
    though: tuple[Change, ...] = ()
    """What speaks against it."""


@dataclass(frozen=True, slots=True)
class _Ruling:
    """Says what all evidence comes to."""

    outcome: Outcome
    evidence: WrongResults | _Weighed | _Counted
    finding: Finding | None = None
    """What objects to the evidence; of wrong results, the finding about them."""


def _decide(comparison: Comparison) -> _Ruling:
    """Return what the strongest evidence of a comparison says."""
    return _add_beside_kernels(_decide_step(comparison), comparison)


def _add_beside_kernels(ruling: _Ruling, comparison: Comparison) -> _Ruling:
    """Return the ruling with what lies beside the kernels, where that changed gravely: what keeps
    CUDA graphs from being recorded, how often other sizes compile again, what compiling takes.
    Worse if nothing else changed, else beside what decided. CUDA graphs that are no longer recorded
    are worse also where the device's time can't be told: the host's is added to it."""
    compiled = _find_beside_kernels(comparison) or comparison.compiled
    if compiled is None or not (compiled.metric in _BESIDE or decides_alone(compiled)):
        return ruling
    if compiled.metric == UNRECORDED and (ruling.outcome, compiled.outcome) == ("unknown", "worse"):
        ruling = replace(ruling, outcome="same", finding=None)
    if ruling.outcome == "unknown" and ruling.finding and ruling.finding.metric == "compilations":
        ruling = replace(ruling, outcome="same", finding=None)
    statement = _Statement(compiled, compiled.outcome)
    if isinstance(ruling.evidence, _Weighed):
        weighed = ruling.evidence
        if ruling.outcome != "same" or compiled.outcome != "worse":
            return replace(ruling, evidence=replace(weighed, others=(*weighed.others, statement)))
        return _Ruling("worse", _Weighed("worse", statement, (weighed.decided, *weighed.others)))
    if ruling.outcome == "same" and compiled.outcome == "worse":
        return _Ruling("worse", _Weighed("worse", statement))
    return ruling


_BESIDE = (UNRECORDED, "recompilations")


def _find_beside_kernels(comparison: Comparison) -> Change | None:
    """Return the first of these metrics that changed, if one did."""
    changed = {c.metric: c for c in comparison.totals if c.outcome in ("worse", "better")}
    return next((changed[metric] for metric in _BESIDE if metric in changed), None)


def _decide_step(comparison: Comparison) -> _Ruling:
    """Return what the strongest evidence says of the step."""
    if comparison.wrong is not None:
        return _judge_wrong_results(comparison, comparison.wrong)
    if comparison.timing is not None:
        weighed = _weigh_times(comparison, comparison.timing)
        return _Ruling(weighed.outcome, weighed)
    if comparison.estimate is not None and is_estimated(comparison):
        error = _find_new(comparison, "error")
        if error is not None and error.metric == _REFUSED:
            return _Ruling("worse", judge_counts(comparison), error)
        return _object_to_estimate(_weigh_estimate(comparison, comparison.estimate), comparison)
    return _object_to_counts(judge_counts(comparison), comparison)


_REFUSED = "blocks_at_once"
"""What an error counts of a launch that fails: it has no time, whatever is counted of the kernel
(PC108)."""


def decide_by_code(comparison: Comparison) -> Outcome:
    """Return what the code alone comes to: its estimated times, else its counts. That is what rules
    know of a comparison before their findings are in it."""
    return _decide(replace(comparison, wrong=None, timing=None, findings=())).outcome


def _judge_wrong_results(comparison: Comparison, wrong: WrongResults) -> _Ruling:
    """Return worse where the head's results are wrong, however fast or lean it is. Where the
    base's are wrong, there is nothing to hold the head against: unknown. Counts and times are
    silent, since the two sides do not compute the same."""
    told = (f for f in comparison.findings if f.severity == "error" and f.headline == wrong.what)
    return _Ruling("worse" if wrong.side == "head" else "unknown", wrong, next(told, None))


def _find_new(comparison: Comparison, severity: str) -> Finding | None:
    """Return the gravest finding of a severity that came with the head."""
    return next(iter(_list_new(comparison, severity)), None)


def _list_new(comparison: Comparison, severity: str) -> list[Finding]:
    came = (f for f in comparison.findings if f.came_with_head and not f.doubt)
    return [finding for finding in came if finding.severity == severity]


# --- times -----------------------------------------------------------------------------------

LEAST_MEMORY = 1024 * 1024
"""Bytes: the caching allocator hands out memory in pieces of up to 1 MiB, so less is chance."""
LEAST_SHARE = 0.2
"""A kernel that explains less of the step's change than this is not blamed for it."""


def _weigh_times(comparison: Comparison, timing: Timing) -> _Weighed:
    """Return what measured times say, with the main cause of a change.

    Time and memory alone decide: SLOWER is worse, UNSURE is unknown; else memory that grew is
    worse; else FASTER, or memory that shrank, is better. Whose time that is, the device's or the
    step's: ``choose_clock`` in ``perfcli/model/timing.py``. Spills, bytes, and findings about them
    are what a step's time is made of: they explain it and overrule it no longer.
    """
    time = _Statement(timing, OUTCOME_OF[timing.deciding.verdict])
    memory = _state_memory(_compare_memory(comparison, timing))
    if memory and _memory_decides(time.outcome, memory[0].outcome):
        return _weigh(memory[0], [time], comparison)
    cause = _find_main_cause(timing)
    weighed = _weigh(time, memory, comparison, cause.group if cause else None)
    return replace(weighed, cause=cause)


def _weigh_estimate(comparison: Comparison, estimate: EstimatedChange) -> _Weighed:
    """Return what estimated times say, with the main cause of a change.

    Time and memory alone decide, as where they were measured; but memory that grew is worse, too,
    where the time can't be told: estimates often can't tell what a measurement would.
    """
    time = _Statement(estimate, OUTCOME_OF[estimate.verdict])
    memory = _state_memory(_find_peaks(comparison))
    if memory and _overrules(memory[0].outcome, time.outcome):
        return _weigh(memory[0], [time], comparison)
    cause = _find_main_cause_by_estimate(estimate, comparison)
    group = cause.group if isinstance(cause, GroupEstimate) else None
    weighed = _weigh(time, memory, comparison, group)
    return replace(weighed, cause_by_estimate=cause)


def _weigh(
    decided: _Statement,
    others: Sequence[_Statement],
    comparison: Comparison,
    group: int | None = None,
) -> _Weighed:
    """Return what decided, with the statements beside it and that of the counts. What says the same
    of ``group``, the main cause, is left out: its numbers stand beside it anyway."""
    beside = [*others, *_ask_counts(comparison)]
    if group is not None:
        beside = [s for s in beside if s.group != group or s.outcome != decided.outcome]
    return _Weighed(decided.outcome, decided, tuple(beside))


def _memory_decides(time: Outcome, memory: Outcome) -> bool:
    return time == "same" or (time == "better" and memory == "worse")


def _overrules(memory: Outcome, time: Outcome) -> bool:
    return _memory_decides(time, memory) or (time, memory) == ("unknown", "worse")


def is_estimated(comparison: Comparison) -> bool:
    """Return whether the estimate decides: nothing was measured, and something differs. What is
    identical on both sides needs none, and a side without kernels does its work elsewhere."""
    estimate = comparison.estimate
    if estimate is None or comparison.timing is not None or comparison.wrong is not None:
        return False
    if not comparison.base.kernels or not comparison.head.kernels:
        return False
    if estimate.groups or estimate.missing or comparison.changed_groups:
        return True
    if count_eager(comparison):
        return True
    return estimate.verdict != "same"


def _object_to_estimate(weighed: _Weighed, comparison: Comparison) -> _Ruling:
    """Return unknown for an estimate that sees nothing slower, where the head has a new error: it
    may lack what the error sees, unless even that would not turn it. So is one that may only leave
    out what one side runs outside of graphs."""
    estimate = weighed.decided.evidence
    if isinstance(estimate, EstimatedChange) and weighed.outcome in ("better", "same"):
        for error in _list_new(comparison, "error"):
            if _may_turn(estimate, error, comparison):
                return _Ruling("unknown", weighed, error)
    if isinstance(estimate, EstimatedChange):
        # What no estimate sees takes the side that has more of it longer.
        more = count_eager(comparison)
        sure = "worse" if more > 0 else "better"
        told = (f for f in comparison.findings if f.subject == EAGER)
        if more and weighed.outcome != sure and (unseen := next(told, None)):
            return _Ruling("unknown", weighed, unseen)
    return _Ruling(weighed.outcome, weighed)


EAGER = "operators outside of graphs"
"""The subject of the finding about operators that only one side runs eagerly."""


def count_eager(comparison: Comparison) -> int:
    """Return how many more operators the head runs outside of graphs. A side that does not say, as
    a baseline, has as many as the other where both break alike, else none."""
    base, head = comparison.base, comparison.head
    ours, theirs = base.eager_operators, head.eager_operators
    if base.graph_breaks == head.graph_breaks and None in (ours, theirs):
        return 0
    return (theirs or 0) - (ours or 0)


MOST_UNSEEN = 8.0
"""How many times as long as estimated a kernel may take that has a new error."""


def _may_turn(estimate: EstimatedChange, error: Finding, comparison: Comparison) -> bool:
    """Return whether the head might not be faster if the error's kernels took so much longer; also
    where that is not known."""
    kernels = set(error.kernels)
    seconds = sum(
        each.head
        for each in estimate.groups
        if not kernels.isdisjoint(comparison.groups[each.group].match.head)
    )
    if estimate.high is None or not seconds or not estimate.head.seconds:
        return True
    unseen = (MOST_UNSEEN - 1) * seconds / estimate.head.seconds
    return estimate.high * (1 + unseen) >= 1


def _compare_memory(comparison: Comparison, timing: Timing) -> Change | None:
    """Return the change of measured peak memory where the allocator counted it on both sides, else
    of Inductor's estimate, or None where neither is known. The resident set of a process is shown,
    but it is no judge: it holds the interpreter and what the allocator kept."""
    sides = [p.memory for p in (timing.of("base"), timing.of("head")) if p is not None and p.memory]
    if len(sides) == 2 and not any("resident" in side.method for side in sides):
        base, head = (side.peak_allocated_bytes for side in sides)
        if base is not None and head is not None:
            return Change("peak_memory_bytes", base, head, _judge_memory(base, head))
    return _find_peaks(comparison)


def _find_peaks(comparison: Comparison) -> Change | None:
    """Return the change of Inductor's estimate of peak memory, or None where it has none."""
    return next((c for c in comparison.totals if c.metric == "peak_memory_bytes"), None)


def _judge_memory(base: float, head: float) -> Outcome:
    least = max(base * DECIDING["peak_memory_bytes"], LEAST_MEMORY)
    if abs(head - base) <= least:
        return "same"
    return "worse" if head > base else "better"


def _state_memory(memory: Change | None) -> list[_Statement]:
    """Return the statement of memory that changed."""
    if memory is None or memory.outcome not in ("worse", "better"):
        return []
    return [_Statement(memory, memory.outcome)]


def _ask_counts(comparison: Comparison) -> list[_Statement]:
    """Return what would have decided without times."""
    totals = tuple(c for c in comparison.totals if c.metric != "peak_memory_bytes")
    counted = judge_counts(replace(comparison, totals=totals))
    if counted.change is None or counted.ground not in _BY_METRIC:
        return []
    return [_Statement(counted.change, counted.outcome, counted.group)]


def _find_main_cause(timing: Timing) -> GroupTiming | None:
    """Return what adds most to a change that is told apart from none, if it explains a part of it:
    of what has a sure change of its own, else of kernels whose code changed. What both sides call
    alike, an extern operator or the same code, is not named for what may be noise."""
    total = timing.deciding.delta
    if not total or timing.deciding.verdict not in ("slower", "faster"):
        return None
    sure = [g for g in timing.groups if _is_sure(g)]
    changed = [g for g in timing.groups if g.group is not None and not g.control]
    for groups in (sure, changed):
        cause = max(groups, key=lambda g: (g.delta or 0.0) / total, default=None)
        if cause is not None and (cause.delta or 0.0) / total > LEAST_SHARE:
            return cause
    return None


def _is_sure(group: GroupTiming) -> bool:
    """Return whether a group's change is sure. What only one side launches is sure as well: the
    other side's time is none."""
    change = group.change
    return change.verdict != "unsure" or (change.base is None) != (change.head is None)


def _find_main_cause_by_estimate(
    estimate: EstimatedChange, comparison: Comparison
) -> GroupEstimate | OperatorEstimate | None:
    """Return the group or the library operator that adds most to a change that is sure, if it
    explains a part of it."""
    total = estimate.head.seconds - estimate.base.seconds
    if not total or estimate.verdict not in ("slower", "faster"):
        return None
    causes: list[GroupEstimate | OperatorEstimate] = [*estimate.groups]
    causes += _list_operators(comparison)
    cause = max(causes, key=lambda each: (each.head - each.base) / total, default=None)
    return cause if cause and (cause.head - cause.base) / total > LEAST_SHARE else None


def _list_operators(comparison: Comparison) -> list[OperatorEstimate]:
    """Return the library operators by name; none where one of them has no estimate."""
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, run in enumerate((comparison.base, comparison.head)):
        for extern in run.externs:
            if extern.estimate is None:
                return []
            seconds[extern.op][side] += extern.count * extern.estimate.seconds
    return [OperatorEstimate(name, base, head) for name, (base, head) in seconds.items()]


# --- counts ----------------------------------------------------------------------------------

_BY_METRIC = ("a metric", "a trifle")
# Not bytes swept: they need a source that can be read as well, and say more than bytes moved only
# where a kernel goes over a buffer several times.
_MUST_BE_KNOWN = ("spilled_words", "bytes_moved")
# Each of these says in another unit what bytes moved say, where these decide.
_SAID_BY_BYTES = ("bytes_swept", "lower_bound_seconds")
# What a step does not get for nothing, though it does not decide by itself; what is told first
# stands first. A reduction whose row no longer stays in registers has its loads in a loop.
_COSTS = ("loads_in_loops", "launches", "kernels", "loads")


def judge_counts(comparison: Comparison) -> _Counted:
    """Return what totals and groups of kernels say: the metrics that decide, in order of weight.

    Unknown where one side has no kernels at all: its work is done elsewhere, uncounted. Worse if
    any deciding metric got worse, else unknown if spills or bytes can't be told; else better if
    any got better, unless that is a trifle and other counts got worse; else the same, unless the
    code of kernels is not known, or all that is known are vectors that came or went with scalars.
    """
    base, head = comparison.base, comparison.head
    totals, groups = comparison.totals, comparison.groups
    empty = [not run.kernels for run in (base, head)]
    traced = base.observed is not None and head.observed is not None
    if any(empty) and not (all(empty) and traced):
        return _Counted("unknown", "no kernels")
    deciding = _list_deciding(totals)
    worse = [c for c in deciding if c.outcome == "worse"]
    better = [c for c in deciding if c.outcome == "better"]
    if worse:
        blamed = _find_most_to_blame(worse[0], groups)
        also = tuple(_without_repetition(worse)[1:])
        return _Counted("worse", "a metric", worse[0], blamed, also, tuple(better[:1]))
    if doubt := _find_doubt(deciding, groups, head):
        return doubt
    if better and (lost := _find_lost(better, totals)):
        blamed, gained = _find_most_to_blame(lost[0], groups), _without_repetition(better)
        return _Counted("unknown", "a trifle", lost[0], blamed, tuple(lost[1:]), tuple(gained))
    if better:
        blamed = _find_most_to_blame(better[0], groups)
        return _Counted("better", "a metric", better[0], blamed)
    alike = all(g.match.relation == "same" for g in groups)
    known = [c for c in deciding if c.outcome != "unknown"]
    if not known and not alike:
        return _Counted("unknown", "nothing known")
    one_trace = base.observed is not None and base.observed == head.observed
    if any(map(_lacks_code, (*base.kernels, *head.kernels))) and not one_trace:
        return _Counted("unknown", "code not known")
    if alike:
        return _Counted("same", "identical")
    if all(is_weighed(c) for c in known if c.metric != "peak_memory_bytes") and any(
        map(is_weighed, known)
    ):
        return _Counted("unknown", "vectors and scalars")
    return _Counted("same", "unaffected")


def _lacks_code(kernel: KernelFacts) -> bool:
    """Return whether nothing is known of a kernel's code: what only a trace names may look the same
    on both sides, by its name, grid and registers, and be other code."""
    return not kernel.source_hash and kernel.binary_hash is None


def _list_deciding(totals: Sequence[Change]) -> list[Change]:
    """Return the totals that decide, in order of weight."""
    return [c for name in DECIDING for c in totals if c.metric == name]


def _find_doubt(
    deciding: Sequence[Change], groups: Sequence[KernelGroup], head: Run
) -> _Counted | None:
    """Return unknown where better or the same can't be said, because a metric is missing."""
    unsure = [c for c in deciding if c.outcome == "unknown" and c.metric in _MUST_BE_KNOWN]
    if unsure:
        return _Counted("unknown", "not known on one side", unsure[0])
    identical = all(g.match.relation == "same" for g in groups)
    if not identical and head.device == "cuda" and _is_absent("spilled_words", deciding):
        spills = Change("spilled_words", None, None, "unknown")
        return _Counted("unknown", "not known on both sides", spills)
    return None


def _is_absent(metric: str, deciding: Sequence[Change]) -> bool:
    return all(c.metric != metric for c in deciding)


def _without_repetition(changes: Sequence[Change]) -> list[Change]:
    """Return the changes without those that say once more what bytes moved say."""
    moved = any(change.metric == "bytes_moved" for change in changes)
    return [c for c in changes if not (moved and c.metric in _SAID_BY_BYTES)]


def _find_most_to_blame(change: Change, groups: Sequence[KernelGroup]) -> int | None:
    sign = 1 if (change.delta or 0) > 0 else -1
    moved = [(sign * group.delta(change.metric), -n) for n, group in enumerate(groups)]
    most, place = max(moved, default=(0.0, 0))
    return -place if most > 0 else None


def _find_lost(better: Sequence[Change], totals: Sequence[Change]) -> list[Change]:
    """Return what got worse of the counts that do not decide, where all that got better is a
    trifle."""
    if not all(map(is_trifling, better)):
        return []
    return [c for name in _COSTS for c in totals if c.metric == name and c.outcome == "worse"]


def _object_to_counts(counted: _Counted, comparison: Comparison) -> _Ruling:
    """Return what is left of counts. They are worse where the head has a new error: a reduction
    that leaves most of the device idle moves fewer bytes than the split one that takes a tenth of
    its time. Better or the same can't be said where it has a new warning."""
    if counted.outcome == "worse":
        return _Ruling("worse", counted)
    if error := _find_new(comparison, "error"):
        return _Ruling("worse", counted, error)
    warning = _find_new(comparison, "warning")
    if warning is not None and counted.outcome != "unknown":
        return _Ruling("unknown", counted, warning)
    return _Ruling(counted.outcome, counted)
