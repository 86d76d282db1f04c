"""The rules for verdicts: a planted case for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfcli.model import Problem
from perfcli.reproduce.claim import (
    Claim,
    ClaimedEffect,
    Launches,
    Setup,
    Source,
    TwoVariants,
    Way,
)
from perfcli.reproduce.observation import CureResult, Observation, TimeRatio
from perfcli.reproduce.verdict import judge, judge_cure

WAY = Way(Setup(("cure=true",)), Setup())
IMITATED = Way(Setup(), Setup(("old=true",)), imitates=True)
CLAIM = Claim(
    name="planted",
    says="it sweeps once more",
    source=Source("PR #1", "https://example.org/1", 0),
    holds="torch 2.8 to 2.12",
    shown_by=TwoVariants("softmax", (WAY,)),
    symptom="side.online == 0",
    expects=("bad.kernels > good.kernels",),
    shows=("bad.registers",),
    effect=ClaimedEffect(1.0, 1.4, "ms", "H100"),
    fixed_in=(2, 13),
)
CODE = replace(CLAIM, effect=None)
GOOD: dict[str, float | None] = {"online": 1.0, "kernels": 3.0, "registers": 30.0}
BAD: dict[str, float | None] = {"online": 0.0, "kernels": 5.0, "registers": 40.0}


def found(**changes: Any) -> Observation:
    sides = {"good": GOOD, "bad": BAD, "pair": {}, **changes.pop("sides", {})}
    return Observation(torch="2.11.0+cu130", way=WAY, sides=sides, **changes)


def ratio(middle: float, low: float, high: float, verdict: Any = "slower") -> TimeRatio:
    return TimeRatio(1e-3, middle * 1e-3, middle, low, high, verdict)


def test_code_as_claimed_is_reproduced() -> None:
    ruling = judge(CODE, found())
    assert (ruling.verdict, ruling.basis) == ("reproduced", "code")
    assert ruling.reason == "online 0; kernels 3 → 5; registers 40"


def test_a_failure_cannot_be_shown() -> None:
    ruling = judge(CODE, Observation(failure="torch 2.9.1 has no option 'x'"))
    assert (ruling.verdict, ruling.reason) == (
        "cannot be shown here",
        "torch 2.9.1 has no option 'x'",
    )


def test_a_fact_that_is_not_known_cannot_be_shown() -> None:
    ruling = judge(CODE, found(sides={"bad": {**BAD, "online": None}}))
    assert ruling.verdict == "cannot be shown here"
    assert "side.online is not known" in ruling.reason


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        ("2.11.0+cu130", "not reproduced"),
        ("2.13.0+cpu", "fixed in this version"),
        ("2.15.0", "fixed in this version"),
    ],
)
def test_without_the_symptom_the_release_decides(torch: str, expected: str) -> None:
    seen = replace(found(sides={"bad": GOOD}), torch=torch)
    assert judge(CLAIM, seen).verdict == expected


def test_the_good_side_must_not_have_the_symptom() -> None:
    ruling = judge(CODE, found(sides={"good": BAD}))
    assert ruling.verdict == "not reproduced"
    assert "the good side has it as well" in ruling.reason


def test_an_imitated_claim_is_about_the_good_side() -> None:
    seen = replace(found(), way=IMITATED, torch="2.13.0")
    assert judge(CLAIM, seen).verdict == "fixed in this version"
    neither = replace(found(sides={"bad": GOOD}), way=IMITATED, torch="2.13.0")
    assert judge(CLAIM, neither).verdict == "not reproduced"
    old = replace(found(sides={"good": BAD}), way=IMITATED, torch="2.13.0")
    assert judge(replace(CODE, expects=()), old).verdict == "reproduced"


def test_what_it_expects_has_to_hold() -> None:
    ruling = judge(CODE, found(sides={"good": {**GOOD, "kernels": 5.0}}))
    assert (ruling.verdict, ruling.reason) == (
        "not reproduced",
        "kernels 5 → 5; expected bad.kernels > good.kernels",
    )


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (ratio(1.35, 1.3, 1.4), "reproduced"),
        (ratio(1.2, 1.19, 1.21), "reproduced"),  # just half of the claimed change
        (ratio(1.19, 1.18, 1.2), "not reproduced"),
        (ratio(1.0, 0.99, 1.01, "same"), "not reproduced"),
        (ratio(0.8, 0.79, 0.81, "faster"), "not reproduced"),
        (ratio(1.3, 0.9, 1.7, "unsure"), "cannot be shown here"),
    ],
)
def test_a_measurement_decides(measured: TimeRatio, expected: str) -> None:
    ruling = judge(CLAIM, found(measured=measured, estimated=ratio(1.4, 1.3, 1.5)))
    assert (ruling.verdict, ruling.basis) == (expected, "measured")
    assert f"measured {measured.ratio:.3g}×" in ruling.reason
    assert "claimed 1.4×" in ruling.reason


@pytest.mark.parametrize(
    ("estimated", "expected", "basis"),
    [
        (ratio(1.4, 1.25, 1.6), "reproduced", "estimated"),
        (ratio(1.1, 1.0, 1.15), "not reproduced", "estimated"),
        (ratio(1.3, 1.1, 1.5), "needs a GPU", ""),
        (None, "needs a GPU", ""),
    ],
)
def test_without_one_the_whole_interval_decides(
    estimated: TimeRatio | None, expected: str, basis: str
) -> None:
    ruling = judge(CLAIM, found(estimated=estimated))
    assert (ruling.verdict, ruling.basis) == (expected, basis)


def test_a_claim_of_no_gain_is_shown_by_none() -> None:
    """The author's own row says that the bad side is the faster one."""
    claim = replace(CLAIM, effect=ClaimedEffect(1.0, 0.9, "", "GB200"))
    assert judge(claim, found(measured=ratio(0.92, 0.91, 0.93, "faster"))).verdict == "reproduced"
    slower = judge(claim, found(measured=ratio(1.02, 1.01, 1.03)))
    assert slower.verdict == "not reproduced"


def test_smoke_judges_by_code_alone() -> None:
    ruling = judge(CLAIM, found(smoke=True, measured=ratio(0.5, 0.4, 0.6, "faster")))
    assert (ruling.verdict, ruling.basis) == ("reproduced", "code")


def test_a_control_that_nothing_decides_needs_a_gpu() -> None:
    control = replace(CODE, symptom="", expects=("pair.worse == 0",), shows=(), is_control=True)
    assert judge(control, found(sides={"pair": {"worse": None}})).verdict == "needs a GPU"
    noisy = found(sides={"pair": {"worse": None}}, measured=ratio(1.0, 0.9, 1.1, "unsure"))
    assert judge(control, noisy).verdict == "cannot be shown here"
    assert judge(control, found(sides={"pair": {"worse": 0.0}})).verdict == "reproduced"
    assert judge(control, found(sides={"pair": {"worse": 1.0}})).verdict == "not reproduced"


def test_a_control_of_time_rests_on_what_told_it() -> None:
    control = replace(CODE, symptom="", expects=("pair.slower == 0",), shows=(), is_control=True)
    sides = {"pair": {"slower": 1.0}}
    guessed = judge(control, found(sides=sides, estimated=ratio(1.4, 1.2, 1.6)))
    assert (guessed.verdict, guessed.basis) == ("not reproduced", "estimated")
    timed = judge(control, found(sides={"pair": {"slower": 0.0}}, measured=ratio(1, 1, 1, "same")))
    assert (timed.verdict, timed.basis) == ("reproduced", "measured")
    assert judge(control, found(sides={"pair": {"slower": None}})).verdict == "needs a GPU"


def test_smoke_says_nothing_of_a_claim_about_time_alone() -> None:
    claim = replace(CLAIM, symptom="", expects=())
    assert judge(claim, found(smoke=True)).verdict == "needs a GPU"
    assert judge(replace(claim, effect=None), found(smoke=True)).verdict == "reproduced"


def test_nvfuser_is_not_run() -> None:
    problem = Problem("column-sum", 4096, 1024)
    launches = Launches("column-sum", "tma", (problem,), lambda _problem, _target: {})
    claim = replace(CODE, shown_by=launches)
    assert judge(claim, found()).basis == "formulas"


def test_numbers_name_the_side_that_they_are_of() -> None:
    problem = Problem("column-sum", 4096, 1024)
    claim = replace(
        CODE, shown_by=Launches("column-sum", "tma", (problem,)), symptom="", shows=(),
        expects=("bad.needed_bytes > bad.limit_bytes", "good.needed_bytes <= 9"),
    )  # fmt: skip
    sides = {"bad": {"needed_bytes": 2e5, "limit_bytes": 1e5}, "good": {"needed_bytes": 7.0}}
    assert judge(claim, found(sides=sides)).reason == (
        "needed bytes 7 B (ours), 200,000 B (theirs); limit bytes 100,000 B (theirs)"
    )


@pytest.mark.parametrize(
    ("cure", "expected"),
    [
        (CureResult(("x=1",), False, ratio(0.8, 0.7, 0.9, "faster")), "helps"),
        (CureResult(("x=1",), False, ratio(1.2, 1.1, 1.3)), "helps, but slower"),
        (
            CureResult(("x=1",), False, ratio(1.2, 1.1, 1.3), ratio(0.9, 0.8, 0.95, "faster")),
            "helps",
        ),
        (CureResult(("x=1",), True), "does not help"),
        (CureResult(("x=1",), None), "not known"),
        (CureResult(("x=1",), None, ratio(0.8, 0.7, 0.9, "faster")), "helps"),
        (CureResult(("x=1",), None, ratio(1.0, 0.99, 1.01, "same")), "does not help"),
        (CureResult(("x=1",), None, failure="no such option"), "failed: no such option"),
    ],
)
def test_a_cure_takes_the_symptom_away(cure: CureResult, expected: str) -> None:
    assert judge_cure(cure) == expected
