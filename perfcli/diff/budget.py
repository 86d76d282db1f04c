"""How much longer a measurement that could not tell would have to go on, if that helps."""

from __future__ import annotations

from perfcli import units
from perfcli.model import Timing

_BUDGETS = (30, 60, 120, 300, 600, 1200)
"""Seconds that are proposed; what needs more is no question of time."""
_ROUNDS = 8
"""Of fewer, no rank test can be 99 % sure."""
BUSY = 0.1
"""Share of the device or the cores that others keep busy, from which on it is said."""


def what_helps(timing: Timing) -> str:
    """What may turn UNSURE into an answer: a longer or a quieter measurement, or a lower floor."""
    if timing.stopped == "interrupted":
        return "let it run to the end"
    if between := _between(timing):
        return between
    busiest = max((s.others_utilisation or 0.0 for s in timing.states.values()), default=0.0)
    quiet = f" (others kept {units.percent(busiest)} of it busy)" if busiest >= BUSY else ""
    needed = _seconds_needed(timing)
    budget = next((b for b in _BUDGETS if needed is not None and b >= needed), None)
    if needed is not None and needed <= timing.seconds:
        what = "floor" if timing.floor.inside == timing.floor.relative else "margin"
        return f"the change is about as large as the {what}: a quieter machine may tell"
    if budget is None:
        return f"a quieter machine{quiet}"
    return f"--budget {budget} may tell" + (f", or a quieter machine{quiet}" if quiet else "")


def _between(timing: Timing) -> str:
    """Where the change is sure to be larger than the margin and is not beyond the floor, no time
    helps; else empty."""
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


def _seconds_needed(timing: Timing) -> float | None:
    """The interval's width shrinks with the square root of the time spent; it has to be as narrow
    as what stops a measurement early: a quarter of the floor (of the margin, where that is lower),
    or a tenth of the change."""
    step = timing.step
    if step.ratio is None or not timing.seconds:
        return None
    if step.low is None or step.high is None:
        # As long as enough rounds for a 99 % interval take.
        return timing.seconds * _ROUNDS / step.rounds if 0 < step.rounds < _ROUNDS else None
    half = (step.high - step.low) / 2
    wanted = max(timing.floor.inside / 4, abs(step.ratio - 1) / 10)
    return timing.seconds * (half / wanted) ** 2 if wanted else None
