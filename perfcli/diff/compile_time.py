"""Judges what compiling took on two sides, beyond its own noise.

Processor time is compared, not time on the wall: of eight compilations of one model on two cores,
with up to six other programs on them, it was between 1.84 and 2.08 s, where the wall had 5.7 to
10.6 s. A fixed loop that was timed right before and after says how fast the processor was; what
that explains is not held against a side.
"""

from __future__ import annotations

from perfcli.model import Change, Outcome, Run

LEAST_RATIO = 1.3
"""Below this, the same model compiled twice may differ as much."""
_LEAST_SECONDS = 1.0
METRIC = "compile_cpu_seconds"


def compare_compile_times(base: Run, head: Run) -> Change | None:
    """Return how the processor time of compiling changed, and what that comes to; None where a side
    does not know it."""
    ours, theirs = base.compile_work, head.compile_work
    if ours is None or theirs is None or not ours.yardstick_seconds:
        return None
    before, after = ours.cpu_seconds, theirs.cpu_seconds
    slowed = max(theirs.yardstick_seconds, 1e-9) / ours.yardstick_seconds
    outcome: Outcome = "same"
    if abs(after - before) > _LEAST_SECONDS:
        if after > before * LEAST_RATIO * max(slowed, 1.0):
            outcome = "worse"
        elif before > after * LEAST_RATIO * max(1 / slowed, 1.0):
            outcome = "better"
    return Change(METRIC, before, after, outcome)


def decides_alone(change: Change) -> bool:
    """Return whether the change is so grave that a comparison in which nothing else changed is not
    the same."""
    before, after = change.base or 0.0, change.head or 0.0
    least, most = sorted((before, after))
    return change.outcome in ("worse", "better") and most > 1.5 * least and most - least > 3.0
