"""Significant and larger than noise are two questions; what cannot be computed is UNSURE."""

from __future__ import annotations

import math
import random

import pytest

from perfcli.model import Floor, TimeChange, TimeVerdict
from perfcli.stats import timing, verdict
from perfcli.stats.paired import Estimate
from perfcli.stats.series import RoundSeconds

FLOOR = 0.015


def decide(ratio: float, narrow: float, wide: float) -> tuple[str, str]:
    """The verdict on an estimate with these half-widths at 95 and 99 %."""
    shown = Estimate(ratio, ratio / (1 + narrow), ratio * (1 + narrow), 50)
    return verdict._decide(
        shown, Estimate(ratio, ratio / (1 + wide), ratio * (1 + wide), 50), FLOOR
    )


@pytest.mark.parametrize(
    ("ratio", "narrow", "wide", "expected"),
    [
        (1.03, 0.010, 0.014, "slower"),
        (1 / 1.03, 0.010, 0.014, "faster"),
        (1.03, 0.020, 0.031, "unsure"),  # beyond the floor, not told apart from none
        (1.01, 0.001, 0.002, "same"),  # told apart from none, within the floor
        (1.00, 0.010, 0.014, "same"),
        (1.00, 0.020, 0.030, "unsure"),  # the interval reaches beyond
        (1.014, 0.003, 0.004, "unsure"),
        (1.0151, 0.0001, 0.0002, "slower"),
        (1.5, 0.40, 0.60, "unsure"),
    ],
)
def test_verdicts(ratio: float, narrow: float, wide: float, expected: str) -> None:
    word, why = decide(ratio, narrow, wide)
    assert word == expected
    assert bool(why) == (expected == "unsure")


def test_the_reason_names_the_interval_and_the_floor() -> None:
    assert decide(1.0, 0.02, 0.03)[1] == "−2.0 % to +2.0 % reaches beyond the noise floor of 1.5 %"
    assert decide(1.03, 0.02, 0.06)[1] == "+3.0 % may be noise: at 99 % it is −2.8 % to +9.2 %"


def test_six_rounds_show_an_interval_and_decide_nothing() -> None:
    made = verdict.judge_change(
        RoundSeconds((1.0,) * 6, (2.0, 2.1, 2.2, 2.3, 2.4, 2.5), (0,) * 6), FLOOR
    )
    assert made.low is not None
    assert made.verdict == "unsure"
    assert made.why == "6 rounds are too few for 99 %"


def test_nothing_measured_is_unsure() -> None:
    made = verdict.judge_change(RoundSeconds((), (), ()), FLOOR)
    assert made == TimeChange(None, None, why="no round was measured")


@pytest.mark.parametrize("change", [0.0, 0.03, -0.03])
def test_planted_changes(change: float) -> None:
    dice = random.Random(5)
    base = tuple(0.01 * dice.lognormvariate(0, 0.05) for _ in range(900))
    head = tuple(0.01 * (1 + change) * dice.lognormvariate(0, 0.05) for _ in range(900))
    made = verdict.judge_change(RoundSeconds(base, head, (0,) * 900), FLOOR)
    assert made.verdict == {0.0: "same", 0.03: "slower", -0.03: "faster"}[change]
    assert made.base == pytest.approx(0.01, rel=0.02)
    assert made.p is not None
    assert (made.p < 1e-3) == (change != 0)


def test_adjusted_p_values_by_hand() -> None:
    # Benjamini and Hochberg: p · m / rank, from the largest down never rising; None counts not
    assert timing._adjust([0.01, None, 0.04, 0.03]) == pytest.approx(
        [0.03, None, 0.04, 0.04], nan_ok=True
    )
    assert timing._adjust([None, None]) == [None, None]


def test_one_find_among_many_kernels_is_unsure() -> None:
    found = TimeChange(1.0, 1.1, 1.1, 1.01, 1.2, 0.009, "slower", 40)
    others = [TimeChange(1.0, 1.0, 1.0, 0.9, 1.1, p, "same", 40) for p in (0.2, 0.5, 0.7, 0.8, 0.9)]
    assert timing._adjust_verdicts([found]) == [found]
    judged = timing._adjust_verdicts([found, *others])
    assert judged[0].verdict == "unsure"
    assert judged[0].why == "may be chance among 6 kernels"
    assert judged[0].ratio == found.ratio
    assert judged[1:] == others


def test_a_high_floor_does_not_make_unlike_sides_the_same() -> None:
    """+2 % ± 0.2 %: below a floor of 4 %, yet no SAME."""
    shown = Estimate(1.02, 1.018, 1.022, 50)
    assert verdict._decide(shown, shown, 0.04)[0] == "same"
    word, why = verdict._decide(shown, shown, 0.04, margin=0.015)
    assert word == "unsure"
    assert why == "+1.8 % to +2.2 % reaches beyond the margin of 1.5 %"
    close = Estimate(1.005, 1.003, 1.007, 50)
    assert verdict._decide(close, close, 0.04, margin=0.015)[0] == "same"


def test_seconds_of_both_sides_agree_with_the_ratio() -> None:
    """Half of the rounds met a busy machine, and in those base came off worse: by medians alone
    base were the slower side, though head is in nearly all rounds."""
    base = (1.0,) * 24 + (2.6,) * 25
    head = tuple(1.1 * b for b in base[:40]) + (2.0,) * 9
    made = verdict.judge_change(RoundSeconds(base, head, (0,) * 49), FLOOR)
    assert made.base is not None
    assert made.head is not None
    assert made.delta is not None
    assert made.head / made.base == pytest.approx(made.ratio)
    assert made.delta == pytest.approx(made.head - made.base)
    middle = sorted(base)[24] * sorted(head)[24]
    assert made.base * made.head == pytest.approx(middle)


def test_less_than_a_second_decides_nothing() -> None:
    found = TimeChange(1.0, 1.05, 1.05, 1.04, 1.06, 0.001, "slower", 30)
    assert verdict._require_a_second(1.0, found) is found
    short = verdict._require_a_second(0.31, found)
    assert (short.verdict, short.ratio) == ("unsure", 1.05)
    assert short.why == "measured for 0.3 s, too short for what a machine does for a while"


# --- at the bounds ---------------------------------------------------------------------------


def interval(low: float | None, high: float | None, ratio: float | None = 1.0) -> Estimate:
    return Estimate(ratio, low, high, 50, "nothing was measured")


def word(shown: Estimate, deciding: Estimate | None = None, floor: float = 0.25) -> str:
    """With a floor that is exact in binary."""
    return verdict._decide(shown, deciding or shown, floor)[0]


def test_an_interval_that_ends_at_the_floor_is_the_same() -> None:
    assert word(interval(0.8, 1.25)) == "same"
    assert word(interval(0.7999, 1.25)) == "unsure"
    assert word(interval(0.8, 1.2501)) == "unsure"


def test_a_change_as_large_as_the_floor_is_not_beyond_it() -> None:
    assert word(interval(1.2, 1.3, 1.25)) == "unsure"
    assert word(interval(1.2, 1.3, 1.2501)) == "slower"
    assert word(interval(0.7, 0.81, 0.8)) == "unsure"
    assert word(interval(0.7, 0.81, 0.7999)) == "faster"


def test_an_interval_that_ends_at_1_holds_it() -> None:
    shown = interval(1.2, 1.6, 1.4)
    assert word(shown, interval(1.0, 1.8, 1.4)) == "unsure"
    assert word(shown, interval(1.0001, 1.8, 1.4)) == "slower"
    shown = interval(0.6, 0.79, 0.7)
    assert word(shown, interval(0.5, 1.0, 0.7)) == "unsure"
    assert word(shown, interval(0.5, 0.9999, 0.7)) == "faster"


@pytest.mark.parametrize(
    "missing", [interval(None, 1.5, 1.4), interval(1.3, None, 1.4), interval(1.3, 1.5, None)]
)
def test_what_is_missing_is_unsure_with_its_reason(missing: Estimate) -> None:
    assert verdict._decide(missing, interval(1.3, 1.5, 1.4), 0.25) == (
        "unsure",
        "nothing was measured",
    )
    if missing.ratio is not None:
        shown = Estimate(1.4, 1.3, 1.5, 50)
        assert verdict._decide(shown, missing, 0.25) == ("unsure", "nothing was measured")


@pytest.mark.parametrize(
    ("margin", "what"),
    [
        (None, "noise floor of 25 %"),
        (0.25, "noise floor of 25 %"),
        (0.5, "margin of 50 %"),
        (0.125, "margin of 12.5 %"),
    ],
)
def test_the_margin_is_named_where_it_is_not_the_floor(margin: float | None, what: str) -> None:
    shown = interval(0.5, 2.0)
    assert verdict._decide(shown, shown, 0.25, margin)[1].endswith(f"reaches beyond the {what}")


def test_one_side_alone_has_no_seconds_and_no_ratio_moves_none() -> None:
    assert verdict._align_medians(RoundSeconds((1.0,), (), ()), 1.0) == (None, None)
    assert verdict._align_medians(RoundSeconds((), (1.0,), ()), 1.0) == (None, None)
    both = RoundSeconds((1.0, 2.0, 9.0), (3.0, 4.0, 5.0), (0,) * 3)
    assert verdict._align_medians(both, None) == (2.0, 4.0)
    assert verdict._align_medians(both, 8.0) == pytest.approx((math.sqrt(1.0), math.sqrt(64.0)))


def test_p_stands_beside_an_interval_only() -> None:
    ratios = (1.1, 1.2, 1.3, 1.4, 1.5, 1.6)
    made = verdict.judge_change(RoundSeconds((1.0,) * 6, ratios, (0,) * 6), FLOOR)
    assert made.p == pytest.approx(2 / 64)
    few = verdict.judge_change(RoundSeconds((1.0,) * 5, ratios[:5], (0,) * 5), FLOOR)
    assert few.low is None
    assert few.p is None
    assert few.ratio is not None


def test_a_step_is_judged_by_floor_margin_and_seconds() -> None:
    heads = tuple(1.02 + n * 1e-5 for n in range(40))
    steps = RoundSeconds((1.0,) * 40, heads, (0,) * 40)
    assert verdict.judge_step(steps, 1.0, Floor(0.04, "")).verdict == "same"
    assert verdict.judge_step(steps, 1.0, Floor(0.04, "", margin=0.015)).verdict == "unsure"
    assert verdict.judge_step(steps, 1.0, Floor(0.01, "")).verdict == "slower"
    assert verdict.judge_step(steps, 0.99, Floor(0.01, "")).verdict == "unsure"
    unsure = TimeChange(1.0, 1.0, why="its own reason")
    assert verdict._require_a_second(0.1, unsure) is unsure


@pytest.mark.parametrize(("p", "verdict_of"), [(0.05, "slower"), (0.0501, "unsure")])
def test_a_find_of_one_in_twenty_counts(p: float, verdict_of: str) -> None:
    verdicts: tuple[TimeVerdict, ...] = ("slower", "faster")
    for told in verdicts:
        found = TimeChange(1.0, 1.1, 1.1, p=p, verdict=told)
        (judged,) = timing._adjust_verdicts([found])
        assert judged.verdict == (told if verdict_of == "slower" else "unsure")
    without = TimeChange(1.0, 1.1, 1.1, verdict="slower")
    assert timing._adjust_verdicts([without])[0].verdict == "unsure"
    same = TimeChange(1.0, 1.1, 1.1, verdict="same")
    assert timing._adjust_verdicts([same]) == [same]
