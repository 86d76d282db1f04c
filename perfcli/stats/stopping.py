"""Decides when enough rounds were measured: the sequential rule.

It stops on precision, never on significance: a rule that stops as soon as the ratio looks unlike 1
takes the moments at which noise looks like a change, and its intervals miss the truth. Looks are
few (their numbers grow geometrically). ``bench/coverage.py`` has this rule in its loop.

A step that waits for its host may scatter by more than any budget can narrow down. Where its
interval, as far as the rest of the budget can shrink it, would still be too wide to say SAME, its
clock is settled too, beside a device's own clock that can tell. That is judged by the width alone.
``bench/two_clocks.py`` simulates both clocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcli.model import DEVICE_PRECISE, PRECISE, Round, RoundKind
from perfcli.stats import paired, series
from perfcli.stats.paired import Estimate
from perfcli.stats.series import Series

LEAST_SECONDS = 1.0
"""What the machine does for a while is in all rounds of less than that, and on a CPU they have few
layouts of memory: such rounds are no reason to stop, and decide nothing."""
FIRST_LOOK = 30
GROWTH = 1.3
FLOOR_SHARE = 1 / 4
"""At a third, with the interval over rounds alone, the error of a measurement was 0.7 % at the 95th
percentile (simulated, floor 1.5 %, processes that differ by 0.25 %, 2026-11-21)."""
EFFECT_SHARE = 1 / 10
LEAST_HOPELESS_SECONDS = 3.0
"""A width that is to say how wide the interval stays is looked at after so long."""


def is_look(rounds: int) -> bool:
    """Return whether the rule looks after this many rounds of kind ``step``: 30, 39, 51, 67 …"""
    look = FIRST_LOOK
    while look < rounds:
        look = math.ceil(look * GROWTH)
    return look == rounds


def reason_to_stop(
    rounds: Sequence[Round], floor: float, kind: RoundKind = "step", budget: float = math.inf
) -> str | None:
    """Return why the clock of these rounds needs no more of them, or None: to go on. Rounds of all
    kinds may be passed; those of ``kind`` count. ``floor`` is relative (0.01: one percent):
    ``Floor.inside``, since SAME needs an interval within the margin however high the floor.
    ``budget``: the seconds that measuring may take, where another clock can tell, too."""
    if not is_look(sum(r.kind == kind for r in rounds)):
        return None
    seconds = series.seconds_spent(rounds)
    if seconds < LEAST_SECONDS:
        return None
    times = series.clock_series(rounds, kind)
    if is_precise(times, floor):
        return PRECISE
    hopeless = kind == "step" and seconds >= LEAST_HOPELESS_SECONDS
    spent = sum(r.took for r in rounds if r.kind == kind)
    if hopeless and _is_hopeless(times, floor, spent, budget - seconds):
        return DEVICE_PRECISE
    return None


def _is_hopeless(times: Series, floor: float, spent: float, left: float) -> bool:
    """Return whether the interval over rounds stays wider than the floor though all that is left
    were spent on it: it narrows with the square root of the time."""
    width = paired.estimate_logs(times.logs).half_width
    if width is None or spent <= 0 or not math.isfinite(left):
        return False
    return width * math.sqrt(spent / (spent + max(left, 0.0))) > floor


def is_precise(steps: Series, floor: float) -> bool:
    """Return whether the 95 % interval's half-width is at most a quarter of the floor or a tenth of
    the change, whichever is more.

    For one pair of processes that is asked of the interval over its rounds, and of the wider one
    over stretches twice as much: a width that is judged by eight values is small now and then by
    chance, and to stop there would bias the interval.
    """
    estimate = series.estimate(steps)
    if len(set(steps.processes)) > 1:
        return _is_narrow(estimate, floor)
    return _is_narrow(paired.estimate_logs(steps.logs), floor) and _is_narrow(
        estimate, floor, slack=2
    )


def _is_narrow(estimate: Estimate, floor: float, slack: float = 1) -> bool:
    width, ratio = estimate.half_width, estimate.ratio
    if width is None or ratio is None:
        return False
    return width <= slack * max(floor * FLOOR_SHARE, abs(math.log(ratio)) * EFFECT_SHARE)
