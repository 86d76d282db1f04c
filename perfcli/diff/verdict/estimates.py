"""Lets the estimated time of a step decide where nothing was measured."""

from __future__ import annotations

import math
from dataclasses import replace

from perfcli import units
from perfcli.diff.metrics import describe
from perfcli.diff.verdict.counts import describe_change, pick_kernel
from perfcli.diff.verdict.times import (
    _OF_TIME,
    LEAST_SHARE,
    _ask_counts,
    _leave_out_said,
    _make_because,
    _memory_decides,
    _state_memory,
    _Statement,
    _write_gain,
    _write_reason,
)
from perfcli.model import (
    Because,
    Comparison,
    EstimatedChange,
    GroupEstimate,
    Outcome,
    StepEstimate,
    Verdict,
)
from perfcli.predict.step import LEAST_CHANGE

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
    worst = _find_most_to_blame(estimate)
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
    return f"both no change (less than {least}) and more lie within the interval"


def advise(estimate: EstimatedChange) -> str:
    """Return what would make it sure: a measurement, or a change beyond the estimate's error."""
    if estimate.ratio is None or estimate.high is None:
        return _MEASURE
    error = estimate.high / estimate.ratio * (1 + LEAST_CHANGE) - 1
    beyond = units.percent(math.ceil(error * 100) / 100)
    return f"{_MEASURE}; the estimate is sure of changes beyond about {beyond}"


def _find_most_to_blame(estimate: EstimatedChange) -> GroupEstimate | None:
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
