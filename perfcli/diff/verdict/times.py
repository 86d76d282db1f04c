"""Lets times decide, measured or estimated, in place of the numbers that stand for them: spills and
bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.diff.metrics import DECIDING, describe
from perfcli.diff.verdict.counts import describe_change, judge_counts, pick_kernel
from perfcli.model import (
    Because,
    Change,
    Comparison,
    EstimatedChange,
    GroupEstimate,
    GroupTiming,
    KernelGroup,
    Outcome,
    StepEstimate,
    TimeVerdict,
    Timing,
    Verdict,
)
from perfcli.predict.step import LEAST_CHANGE

_BUDGETS = (30, 60, 120, 300, 600, 1200)
"""Seconds that are proposed; what needs more is no question of time."""
_ROUNDS = 8
"""The fewest rounds: of fewer, no rank test can be 99 % sure."""
BUSY = 0.1
"""Share of the device or the cores that others keep busy, from which on it is said."""


def _advise(timing: Timing) -> str:
    """Return what may turn UNSURE into an answer: a longer or a quieter measurement, or a lower
    floor."""
    if timing.stopped == "interrupted":
        return "let it run to the end"
    if between := _advise_between(timing):
        return between
    busiest = max((s.others_utilisation or 0.0 for s in timing.states.values()), default=0.0)
    quiet = f" (others kept {units.percent(busiest)} of it busy)" if busiest >= BUSY else ""
    needed = _estimate_seconds(timing)
    budget = next((b for b in _BUDGETS if needed is not None and b >= needed), None)
    if needed is not None and needed <= timing.seconds:
        what = "floor" if timing.floor.inside == timing.floor.relative else "margin"
        return f"the change is about as large as the {what}: a quieter machine may tell"
    if budget is None:
        return f"a quieter machine{quiet}"
    return f"--budget {budget} may tell" + (f", or a quieter machine{quiet}" if quiet else "")


def _advise_between(timing: Timing) -> str:
    """Say where the change is surely larger than the margin and not beyond the floor, so that no
    more time helps; else empty."""
    step, floor = timing.step, timing.floor
    if step.ratio is None or step.low is None or step.high is None:
        return ""
    beyond_margin = step.low > 1 + floor.inside or step.high < 1 / (1 + floor.inside)
    if not beyond_margin or max(step.ratio, 1 / step.ratio) > 1 + floor.relative:
        return ""
    margin, noise = units.percent(floor.inside), units.percent(floor.relative)
    return (
        f"the change is larger than the margin of {margin} and below the floor of {noise}: "
        "a quieter machine lowers the floor"
    )


def _estimate_seconds(timing: Timing) -> float | None:
    """Return the seconds that would make it sure. The interval's width shrinks with the square root
    of the time spent; it has to be as narrow as what stops a measurement early: a quarter of the
    floor (of the margin, where that is lower), or a tenth of the change."""
    step = timing.step
    if step.ratio is None or not timing.seconds:
        return None
    if step.low is None or step.high is None:
        # As long as enough rounds for a 99 % interval take.
        return timing.seconds * _ROUNDS / step.rounds if 0 < step.rounds < _ROUNDS else None
    half = (step.high - step.low) / 2
    wanted = max(timing.floor.inside / 4, abs(step.ratio - 1) / 10)
    return timing.seconds * (half / wanted) ** 2 if wanted else None


LEAST_MEMORY = 1024 * 1024
"""Bytes: the caching allocator hands out memory in pieces of up to 1 MiB, so less is chance."""
LEAST_SHARE = 0.2
"""A kernel that explains less of the step's change than this is not blamed for it."""
_OF_TIME: dict[TimeVerdict, Outcome] = {
    "slower": "worse", "faster": "better", "same": "same", "unsure": "unknown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Statement:
    """Holds something that speaks for an outcome."""

    text: str
    outcome: Outcome
    group: int | None = None


def _weigh_times(comparison: Comparison, timing: Timing) -> Verdict:
    """Return the verdict of measured times, with the kernel to blame and its counts.

    Time and memory alone decide: SLOWER is worse, UNSURE is unknown; else memory that grew is
    worse; else FASTER, or memory that shrank, is better. Spills, bytes, and findings about them
    are what a step's time is made of: they explain it and overrule it no longer.
    """
    time = _Statement(_write_time(timing), _OF_TIME[timing.step.verdict])
    memory = _state_memory(_compare_memory(comparison, timing))
    others = [*memory, *_ask_counts(comparison)]
    if memory and _memory_decides(time.outcome, memory[0].outcome):
        outcome, because = memory[0].outcome, _make_because(memory[0], [time, *others[1:]])
    else:
        worst = _find_most_to_blame(timing)
        outcome, because = (
            time.outcome,
            _make_because(time, _leave_out_said(others, time, worst.group if worst else None)),
        )
        because = _explain(because, comparison, timing, worst)
    return Verdict(outcome, _write_reason(because), because)


def _leave_out_said(
    others: Sequence[_Statement], time: _Statement, worst: int | None
) -> list[_Statement]:
    """Return the statements without what says the same of the group to blame: its numbers stand
    beside it anyway."""
    if worst is None:
        return list(others)
    return [s for s in others if s.group != worst or s.outcome != time.outcome]


def _memory_decides(time: Outcome, memory: Outcome) -> bool:
    return time == "same" or (time == "better" and memory == "worse")


# --- memory ----------------------------------------------------------------------------------


def _compare_memory(comparison: Comparison, timing: Timing) -> Change | None:
    """Return the change of measured peak memory where the allocator counted it on both sides, else
    of Inductor's estimate, or None where neither is known. The resident set of a process is shown,
    but it is no judge: it holds the interpreter and what the allocator kept."""
    sides = [p.memory for p in (timing.of("base"), timing.of("head")) if p is not None and p.memory]
    if len(sides) == 2 and not any("resident" in side.method for side in sides):
        base, head = (side.peak_allocated_bytes for side in sides)
        if base is not None and head is not None:
            return Change("peak_memory_bytes", base, head, _judge_memory(base, head))
    return next((c for c in comparison.totals if c.metric == "peak_memory_bytes"), None)


def _judge_memory(base: float, head: float) -> Outcome:
    least = max(base * DECIDING["peak_memory_bytes"], LEAST_MEMORY)
    if abs(head - base) <= least:
        return "same"
    return "worse" if head > base else "better"


# --- the reason ------------------------------------------------------------------------------


def _make_because(decided: _Statement, others: Sequence[_Statement]) -> Because:
    """Return the statement that decided, those that say the same, and those that speak against
    it."""
    also = [each.text for each in others if each.outcome == decided.outcome]
    though = [each.text for each in others if each.outcome != decided.outcome]
    return Because(decided.text, also=", ".join(also), though=", ".join(though))


def _ask_counts(comparison: Comparison) -> list[_Statement]:
    """Return what would have decided without a measurement."""
    totals = tuple(c for c in comparison.totals if c.metric != "peak_memory_bytes")
    verdict = judge_counts(replace(comparison, totals=totals))
    because = verdict.because
    return [_Statement(because.change, verdict.outcome, because.group)] if because else []


def _write_time(timing: Timing) -> str:
    """Write ``step 12.31 → 12.70 ms, +3.1 % [+2.6, +3.7], floor 1.5 %``."""
    step = timing.step
    text = f"step {units.from_to(step.base, step.head)}"
    if step.ratio is not None:
        text += (
            f", {units.interval(step.ratio, step.low, step.high, least=_choose_decimals(timing))}"
        )
    return f"{text}, floor {units.percent(timing.floor.relative)}"


def _choose_decimals(timing: Timing) -> int:
    """Return one more than usual where a change of 1.53 % and a floor of 1.5 % would read alike."""
    ratio = timing.step.ratio or 1.0
    beyond = max(ratio, 1 / ratio) - 1 - timing.floor.relative
    return 2 if abs(beyond) < 0.001 else 0


def _state_memory(memory: Change | None) -> list[_Statement]:
    """Write ``peak memory 1 GB → 1.27 GB (+27 %)``, where it changed."""
    if memory is None or memory.outcome not in ("worse", "better"):
        return []
    change = f"{units.size(memory.base)} → {units.size(memory.head)}"
    share = units.relative(memory.base, memory.head)
    return [_Statement(f"peak memory {change} ({share})", memory.outcome)]


def _explain(
    because: Because, comparison: Comparison, timing: Timing, worst: GroupTiming | None
) -> Because:
    """Return the reason with the kernel to blame, or why it can't be told."""
    if timing.step.verdict == "unsure":
        return replace(because, why=timing.step.why, help=_advise(timing))
    if timing.step.verdict == "same":
        return because
    if worst is None:
        timed = any(group.delta is not None for group in timing.groups)
        return replace(because, share="no kernel's time explains it" if timed else "")
    share = _write_share(worst, timing.step.delta or 1.0)
    if worst.group is None:
        return replace(because, kernel=worst.name, how="runs extern code", share=share)
    group = comparison.groups[worst.group]
    base, head = comparison.base, comparison.head
    kernel, how = pick_kernel(group, base, head), describe_change(group, base, head)
    because = replace(because, group=worst.group, kernel=kernel, how=how, share=share)
    if worst.control:
        return replace(because, how="is the same code on both sides")
    return replace(because, sums=describe(group, base, head) + _write_gain(group))


def _find_most_to_blame(timing: Timing) -> GroupTiming | None:
    """Return what adds most to a change that is told apart from none, if it explains a part of it:
    of the kernels whose own change is sure, else of all."""
    total = timing.step.delta
    if not total or timing.step.verdict not in ("slower", "faster"):
        return None
    for groups in ([g for g in timing.groups if _is_sure(g)], timing.groups):
        worst = max(groups, key=lambda g: (g.delta or 0.0) / total, default=None)
        if worst is not None and (worst.delta or 0.0) / total > LEAST_SHARE:
            return worst
    return None


def _is_sure(group: GroupTiming) -> bool:
    """Return whether a group's change is sure. What only one side launches is sure as well: the
    other side's time is none."""
    change = group.change
    return change.verdict != "unsure" or (change.base is None) != (change.head is None)


def _write_share(worst: GroupTiming, total: float) -> str:
    share = units.percent(round((worst.delta or 0.0) / total, 2))
    times = units.from_to(worst.change.base, worst.change.head)
    return f"{times}{'' if _is_sure(worst) else ' (unsure)'}, {share} of the change"


def _write_gain(group: KernelGroup) -> str:
    """Return what weighs most of what the group's code gained or lost: ``, +92 spilled words``."""
    changes = {c.metric: c for c in group.changes if c.delta}
    for metric in DECIDING:
        if metric in changes:
            write = units.writer(metric)
            return f", {units.signed(write, changes[metric].delta)} {units.title(metric)}"
    return ""


def _write_reason(because: Because) -> str:
    text = because.change
    inside = "; ".join(part for part in (because.share, because.sums) if part)
    if because.kernel:
        text += f": {because.kernel} {because.how} ({inside})"
    elif because.share:
        text += f": {because.share}"
    for part in (because.why, because.help):
        text += f"; {part}" if part else ""
    return f"{text}, though {because.though}" if because.though else text


_MEASURE = "measure it with --device cuda on such a GPU"


def is_estimated(comparison: Comparison) -> bool:
    """Return whether the estimate decides: nothing was measured, and something differs. What is
    identical on both sides needs none, and a side without kernels does its work elsewhere."""
    estimate = comparison.estimate
    if estimate is None or comparison.timing is not None or comparison.wrong is not None:
        return False
    if not comparison.base.kernels or not comparison.head.kernels:
        return False
    alike = all(group.match.relation == "same" for group in comparison.groups)
    return bool(estimate.groups or estimate.missing or not alike) or estimate.verdict != "same"


def _weigh_estimate(comparison: Comparison, estimate: EstimatedChange) -> Verdict:
    """Return the verdict of estimated times, with the kernel to blame and its counts.

    Time and memory alone decide, as where they were measured; but memory that grew is worse, too,
    where the time can't be told: estimates often can't tell what a measurement would. Where an
    error came with the head, the estimate may lack what the error sees: it is not said to be as
    fast then.
    """
    time = _Statement(write_estimate(estimate), _OF_TIME[estimate.verdict])
    memory = _state_memory(
        next((c for c in comparison.totals if c.metric == "peak_memory_bytes"), None)
    )
    others = [*memory, *_ask_counts(comparison)]
    if memory and _overrules(memory[0].outcome, time.outcome):
        outcome, because = memory[0].outcome, _make_because(memory[0], [time, *others[1:]])
        return Verdict(outcome, _write_reason(because), because)
    worst = _blame_by_estimate(estimate)
    said = _leave_out_said(others, time, worst.group if worst else None)
    because = _make_because(time, said)
    if estimate.verdict == "unsure":
        because = replace(because, why=_say_why_unsure(estimate), help=advise(estimate))
    elif worst is not None:
        because = _blame(because, comparison, estimate, worst)
    return _object_to_estimate(Verdict(time.outcome, _write_reason(because), because), comparison)


def _overrules(memory: Outcome, time: Outcome) -> bool:
    return _memory_decides(time, memory) or (time, memory) == ("unknown", "worse")


def _object_to_estimate(verdict: Verdict, comparison: Comparison) -> Verdict:
    """Return what is left of an estimate that sees nothing slower, where the head has a new
    error."""
    if verdict.outcome not in ("better", "same") or verdict.because is None:
        return verdict
    came = [f for f in comparison.findings if f.came_with_head and not f.doubt]
    error = next((finding for finding in came if finding.severity == "error"), None)
    if error is None:
        return verdict
    because = Because(
        f"{verdict.because.change}, but {error.code}: {error.headline}",
        also=verdict.because.also,
        though=verdict.because.though,
        code=error.code,
        why="the estimate may not know what this finding costs",
        help=_MEASURE,
    )
    return Verdict("unknown", _write_reason(because), because)


def write_estimate(estimate: EstimatedChange) -> str:
    """Write ``estimated step 120 → 150 µs, +25 % [+12, +40]``."""
    if estimate.ratio is None:
        return "the step's time can't be estimated"
    times = units.from_to(estimate.base.seconds, estimate.head.seconds)
    change = units.interval(estimate.ratio, estimate.low, estimate.high)
    return f"estimated {_name_whole(estimate.base, estimate.head)} {times}, {change}"


def _name_whole(*steps: StepEstimate) -> str:
    """Return what the seconds are of: the step, or only those generated kernels that have an
    estimate where others, or library operators, have none."""
    partly = any(None in step.externs or step.missing for step in steps)
    return "kernels" if partly else "step"


def _say_why_unsure(estimate: EstimatedChange) -> str:
    if estimate.missing:
        more = len(estimate.missing) - 1
        return estimate.missing[0] + (f" (and {more} more)" if more else "")
    least = units.percent(LEAST_CHANGE)
    return f"the interval includes both no change (less than {least}) and more"


def advise(estimate: EstimatedChange) -> str:
    """Return what would make it sure: a measurement, or a change beyond the estimate's error."""
    if estimate.ratio is None or estimate.high is None:
        return _MEASURE
    error = estimate.high / estimate.ratio * (1 + LEAST_CHANGE) - 1
    beyond = units.percent(math.ceil(error * 100) / 100)
    return f"{_MEASURE}; only changes beyond about {beyond} can be told by estimate"


def _blame_by_estimate(estimate: EstimatedChange) -> GroupEstimate | None:
    """Return the group that adds most to a change that is sure, if it explains a part of it."""
    total = estimate.head.seconds - estimate.base.seconds
    if not total or estimate.verdict not in ("slower", "faster"):
        return None
    worst = max(estimate.groups, key=lambda g: (g.head - g.base) / total, default=None)
    return worst if worst and (worst.head - worst.base) / total > LEAST_SHARE else None


def _blame(
    because: Because, comparison: Comparison, estimate: EstimatedChange, worst: GroupEstimate
) -> Because:
    """Return the reason with the kernel that makes most of the change."""
    group, base, head = comparison.groups[worst.group], comparison.base, comparison.head
    part = (worst.head - worst.base) / (estimate.head.seconds - estimate.base.seconds)
    times = units.from_to(worst.base or None, worst.head or None)
    return replace(
        because,
        group=worst.group,
        kernel=pick_kernel(group, base, head),
        how=describe_change(group, base, head),
        share=f"{times}, {units.percent(round(part, 2))} of the change",
        sums=describe(group, base, head) + _write_gain(group),
    )
