"""Decides between SLOWER, FASTER, SAME and UNSURE, with the reason where it is unsure.

Being told apart from none and being larger than noise are two questions. SLOWER and FASTER need
both: the 99 % interval excludes 1, and the estimate lies beyond the floor. SAME needs the 95 %
interval to lie inside the margin, however high the floor: where noise hides a change of 3 %, two
sides that differ by less are not the same. All else, and what cannot be computed, is UNSURE.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from perfcli.model import Floor, TimeChange, TimeVerdict
from perfcli.stats import stopping
from perfcli.stats.paired import Estimate
from perfcli.stats.series import RoundSeconds, _p_value, estimate

SHOWN, DECIDING = 0.95, 0.99


def judge_change(series: RoundSeconds, floor: float, margin: float | None = None) -> TimeChange:
    """Return both sides' seconds, the ratio with its 95 % interval, p and verdict. ``floor`` and
    ``margin`` (None: the floor) are relative (0.01: one percent)."""
    shown, deciding = (estimate(series, c) for c in (SHOWN, DECIDING))
    verdict, why = _decide(shown, deciding, floor, margin)
    base, head = _align_medians(series, shown.ratio)
    return TimeChange(
        base=base,
        head=head,
        ratio=shown.ratio,
        low=shown.low,
        high=shown.high,
        p=_p_value(series) if shown.low is not None else None,
        verdict=verdict,
        rounds=shown.rounds,
        why=why,
    )


def _align_medians(series: RoundSeconds, ratio: float | None) -> tuple[float | None, float | None]:
    """Return both sides' medians over rounds, moved by the same factor in opposite directions so
    that their ratio is the paired one. Rounds see different moments of the machine: medians of
    sides alone may be off by more than the change, and even say the opposite."""
    if not series.base or not series.head:
        return None, None
    base, head = statistics.median(series.base), statistics.median(series.head)
    if ratio is None:
        return base, head
    factor = math.sqrt(ratio * base / head)
    return base / factor, head * factor


def judge_step(series: RoundSeconds, seconds: float, floor: Floor) -> TimeChange:
    """Judge the change of a step that was measured for so many seconds."""
    return _require_a_second(seconds, judge_change(series, floor.relative, floor.margin))


def _require_a_second(seconds: float, found: TimeChange) -> TimeChange:
    """Return the change as it is, or unsure where it was measured for less than a second."""
    if seconds >= stopping.LEAST_SECONDS or found.verdict == "unsure":
        return found
    why = f"measured for {seconds:.1f} s, too short for what a machine does for a while"
    return replace(found, verdict="unsure", why=why)


def _decide(
    shown: Estimate, deciding: Estimate, floor: float, margin: float | None = None
) -> tuple[TimeVerdict, str]:
    """Return the verdict, and why it is unsure (else an empty text)."""
    inside = floor if margin is None else margin
    if shown.ratio is None or shown.low is None or shown.high is None:
        return "unsure", shown.why
    beyond = max(shown.ratio, 1 / shown.ratio) > 1 + floor
    if not beyond:
        if 1 / (1 + inside) <= shown.low and shown.high <= 1 + inside:
            return "same", ""
        what = "noise floor" if inside == floor else "margin"
        return "unsure", f"{_span(shown)} reaches beyond the {what} of {_share(inside)}"
    if deciding.low is None or deciding.high is None:
        return "unsure", deciding.why
    if deciding.low > 1:
        return "slower", ""
    if deciding.high < 1:
        return "faster", ""
    return "unsure", f"{_signed(shown.ratio)} may be noise: at 99 % it is {_span(deciding)}"


def _share(value: float) -> str:
    return f"{value * 100:.3g} %"


def _signed(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")


def _span(estimate: Estimate) -> str:
    assert estimate.low is not None
    assert estimate.high is not None
    return f"{_signed(estimate.low)} to {_signed(estimate.high)}"
