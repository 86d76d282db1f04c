"""What tune tells of a variant from its code alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.bisect.space import Settings
from perfcli.model import EstimatedChange, ExternCall, Launch, Run, StepEstimate, TimeEstimate
from perfcli.tune.judging import LIKELY_TIME, Estimating, _fit_half_width, _share_in_doubt


class Known:
    metric = LIKELY_TIME


DULL, OTHER = {"a": 1}, {"b": 1}


def skimmed(default: Run, found: Run, settings: Settings = OTHER) -> dict[str, float]:
    judge = Estimating(Known(), default, 2e-3, _dull=[DULL])  # type: ignore[arg-type]
    return judge._skim(settings, found)


def moving(read: int, launches: int = 1, calls: int = 1) -> Run:
    made = run([kernel("a", "mul", read=read, written=0, launches=launches)])
    return replace(made, launches=(Launch("forward 0", "aten.mm", extern=True),) * calls)


def test_what_moves_much_more_takes_longer() -> None:
    # 2 × 600 of 1,000 bytes: a fifth more.
    assert skimmed(moving(1000), moving(600, launches=2)) == {
        "likely-time": pytest.approx(2.4e-3),
        "likely-time moved": pytest.approx(1.2),
    }


@pytest.mark.parametrize(
    "found",
    [
        moving(1040),  # by less than 5 %
        moving(1200, calls=0),  # it calls the library less often
    ],
)
def test_what_may_be_faster_is_estimated(found: Run) -> None:
    assert skimmed(moving(1000), found) == {}


def test_what_helped_no_model_has_to_do_less() -> None:
    default = moving(1000, launches=2)
    said = {"likely-time": pytest.approx(2.1e-3), "likely-time moved": pytest.approx(1.0)}
    assert skimmed(default, default, DULL) == said
    assert skimmed(default, moving(950, launches=2), DULL) == {}
    assert skimmed(default, default, {**DULL, "b": 1}) == {}
    one_launch_less = replace(default, launches=default.launches[:-1])
    assert skimmed(replace(default, launches=default.launches * 2), default, DULL) == {}
    assert skimmed(one_launch_less, default, DULL) == said


def test_nothing_is_told_where_bytes_are_not_known() -> None:
    assert skimmed(moving(1000), run([kernel("a", "mul", read=None, written=0)])) == {}


def test_intervals_of_options_are_their_own() -> None:
    # √((0.58 · 0.23)² + 0.032²); what is the same on both sides is as long, whatever that is.
    assert _fit_half_width(0.23) == pytest.approx(0.1372, abs=1e-4)
    # A third of the step is generated: √((0.58 · 0.03)² + (0.032 ÷ 3)²)
    assert _fit_half_width(0.03, 1 / 3) == pytest.approx(0.0204, abs=1e-4)
    assert _fit_half_width(0.0) == 0.0


def test_library_operators_that_stay_the_same_are_not_in_doubt() -> None:
    """1 ms in all, of which 10 calls take 0.06 ms each."""
    called = replace(run([]), externs=(ExternCall("aten.mm", "forward 0", 10),))

    def step(call: float) -> StepEstimate:
        return StepEstimate(1e-3, 1e-3, 1e-3, (), (TimeEstimate(call, call, call),))

    same = EstimatedChange(step(6e-5), step(6e-5), "same")
    assert _share_in_doubt(called, called, same) == pytest.approx(0.4)
    other = EstimatedChange(step(6e-5), step(5e-5), "same")
    assert _share_in_doubt(called, called, other) == 1
