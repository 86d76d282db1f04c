"""Decides when enough rounds were measured: the sequential rule.

It stops on precision, never on significance: a rule that stops as soon as the ratio looks unlike 1
takes the moments at which noise looks like a change, and its intervals miss the truth. Looks are
few (their numbers grow geometrically). ``bench/coverage.py`` has this rule in its loop.

A step that waits for its host scatters by more than a budget can narrow down, and what one process
has and the other has not lasts for seconds. Beside a device's own clock that can tell, such a step
is measured for a while and no longer, but where it looks like a change: then it goes on, and has to
look like one still when more is known.
``bench/two_clocks.py`` simulates both clocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcli.model import PRECISE, STEP_WAITS, WAITS, Round, RoundKind
from perfcli.stats import paired, series
from perfcli.stats.paired import Estimate
from perfcli.stats.series import STRETCHES_FROM, RoundSeconds

LEAST_SECONDS = 1.0
"""What the machine does for a while is in all rounds of less than that, and on a CPU they have few
layouts of memory: such rounds are no reason to stop, and decide nothing."""
FIRST_LOOK = 30
GROWTH = 1.3
FLOOR_SHARE = 1 / 4
"""At a third, with the interval over rounds alone, the error of a measurement was 0.7 % at the 95th
percentile (simulated, floor 1.5 %, processes that differ by 0.25 %, 2026-11-21)."""
EFFECT_SHARE = 1 / 10
WAITING_SECONDS, CONFIRMING_SECONDS = 5.0, 15.0
"""How long a step that waits for its host is measured at most, beside the device's own time, and at
least where it looks like a change."""


def is_look(rounds: int) -> bool:
    """Return whether the rule looks after this many rounds of kind ``step``: 30, 39, 51, 67 …"""
    look = FIRST_LOOK
    while look < rounds:
        look = math.ceil(look * GROWTH)
    return look == rounds


def reason_to_stop(rounds: Sequence[Round], floor: float, kind: RoundKind = "step") -> str | None:
    """Return why the clock of these rounds needs no more of them, or None: to go on. Rounds of all
    kinds may be passed; those of ``kind`` count. ``floor`` is relative (0.01: one percent):
    ``Floor.inside``, since SAME needs an interval within the margin however high the floor."""
    if not is_look(sum(r.kind == kind for r in rounds)):
        return None
    seconds = series.seconds_spent(rounds)
    if seconds < LEAST_SECONDS:
        return None
    times = series.clock_series(rounds, kind)
    waits = kind == "step" and _waits(times, rounds)
    if waits and _looks_changed(times) and seconds < CONFIRMING_SECONDS:
        return None
    if is_precise(times, floor):
        return PRECISE
    told = waits and seconds >= WAITING_SECONDS and len(times.base) >= STRETCHES_FROM
    return STEP_WAITS if told and not _looks_changed(times) else None


def _looks_changed(times: RoundSeconds) -> bool:
    """Return whether the 99 % interval excludes no change, as far as it is known by now."""
    found = series.estimate(times, 0.99)
    return found.low is not None and found.high is not None and not found.low <= 1 <= found.high


def _waits(steps: RoundSeconds, rounds: Sequence[Round]) -> bool:
    """Return whether the device waits for the host in a good part of each step, by rounds that
    replay a CUDA graph of it."""
    shares = series.waiting_shares(steps, series.clock_series(rounds, "device"))
    return bool(shares) and min(shares) >= WAITS


def is_precise(steps: RoundSeconds, floor: float) -> bool:
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
