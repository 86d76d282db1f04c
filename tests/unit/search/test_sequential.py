from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from statistics import mean

import pytest
from unit.search.oracles import Exact, changes, names, own_class, planted, subset

from perfcli.errors import PerfcliError
from perfcli.search.culprits import find_culprits
from perfcli.search.drive import Code, Ledger, drive
from perfcli.search.question import Answer, Subset
from perfcli.search.sequential import Sequential
from perfcli.search.weighing import LogRatio, Reading, YesNo

SIZE = 0.03
NOISE = 0.01


def same(reading: Reading) -> Callable[[str], Reading]:
    return lambda key: reading


def lies(
    truth: Callable[[Subset], Answer], dice: random.Random, error: float
) -> Callable[[Subset], bool]:
    return lambda keys: truth(keys).is_bad != (dice.random() < error)


def script(answers: Iterable[bool]) -> Callable[[str], bool]:
    given = iter(answers)
    return lambda key: next(given)


def test_three_agreeing_answers_of_which_one_in_twenty_is_wrong() -> None:
    """Two have odds of 361, three of 6859: 999 lies between."""
    judging = Sequential(script([True] * 3), YesNo(0.05))
    answer = judging.judge("a", "a", False)
    assert (answer.outcome, judging.measurements) == ("bad", 3)
    assert answer.evidence is not None
    assert answer.evidence.log_odds == pytest.approx(math.log(19**3))


def test_a_contradiction_asks_on() -> None:
    judging = Sequential(script([True, False, True, True, False, True, True]), YesNo(0.05))
    assert judging.judge("a", "a", False).outcome == "bad"
    assert judging.measurements == 7


def test_what_is_between_ends_unresolved() -> None:
    judging = Sequential(script([True, False] * 10), YesNo(0.05), most=20)
    answer = judging.judge("a", "a", False)
    assert (answer.outcome, answer.reason) == (
        "unresolved",
        "neither good nor bad after 20 measurements",
    )


def test_measured_again_an_answer_that_holds_is_surer() -> None:
    judging = Sequential(script([True] * 6), YesNo(0.05))
    judging.judge("a", "a", False)
    answer = judging.judge("a", "a", True)
    assert answer.evidence is not None
    assert answer.evidence.log_odds == pytest.approx(math.log(19**6))


def test_measured_again_a_wrong_answer_is_put_right() -> None:
    judging = Sequential(script([True] * 3 + [False] * 6), YesNo(0.05))
    assert judging.judge("a", "a", False).outcome == "bad"
    assert judging.judge("a", "a", True).outcome == "good"
    assert judging.measurements == 9


def test_what_was_measured_before_an_interruption_counts() -> None:
    def interrupted(key: str) -> bool:
        if len(judging.observations["a"]) == 2:
            raise KeyboardInterrupt
        return True

    judging = Sequential(interrupted, YesNo(0.05))
    with pytest.raises(KeyboardInterrupt):
        judging.judge("a", "a", False)
    resumed = Sequential(script([True]), YesNo(0.05), earlier=judging.observations)
    assert resumed.judge("a", "a", False).outcome == "bad"
    assert resumed.measurements == 1


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
def test_yes_no_is_wrong_at_most_as_often_as_promised(truth: bool, error: float) -> None:
    """Wald's bound: at most 1 / (1 + odds). And his mean number of answers: steps of the random
    walk to the boundary, boundary / (1 - 2 error)."""
    dice = random.Random(1)

    def measure(key: str) -> bool:
        return truth != (dice.random() < error)

    judging = Sequential(measure, YesNo(error), odds=99, most=500)
    runs = 4000
    wrong = sum(
        (judging.judge("a", str(number), False).outcome == "bad") != truth for number in range(runs)
    )
    assert wrong <= runs / 100 + 3 * math.sqrt(runs / 100)
    boundary = math.ceil(math.log(99) / math.log((1 - error) / error))
    reached = 1 - 2 / (1 + ((1 - error) / error) ** boundary)
    expected = boundary * reached / (1 - 2 * error)
    assert judging.measurements / runs == pytest.approx(expected, rel=0.05)


def test_a_log_ratio_is_weighed_as_two_normal_distributions_say() -> None:
    readings = [Reading(0.028, 0.008), Reading(0.022, 0.012)]

    def log_density(value: float, center: float, error: float) -> float:
        return -(((value - center) / error) ** 2) / 2

    bad, good = (
        sum(log_density(r.log_ratio, center, r.standard_error) for r in readings)
        for center in (SIZE, 0.0)
    )
    expected = bad - good
    assert LogRatio(SIZE).weigh(readings).log_odds == pytest.approx(expected)


def test_less_may_be_bad() -> None:
    assert LogRatio(-SIZE).weigh([Reading(-SIZE, 0.005)]).log_odds > 0
    assert LogRatio(-SIZE).weigh([Reading(0.0, 0.005)]).log_odds < 0


def test_half_of_the_effect_is_neither() -> None:
    assert LogRatio(SIZE).weigh([Reading(SIZE / 2, 0.001)]).log_odds == pytest.approx(0)


def test_readings_that_contradict_each_other_widen_their_errors() -> None:
    """Weighted mean 0.03, chi squared 18 with one degree of freedom: the error grows by the root of
    18, from 0.01 / sqrt(2) to 0.03."""
    made = LogRatio(SIZE).weigh([Reading(0.0, 0.01), Reading(0.06, 0.01)])
    assert made.mean == pytest.approx(0.03)
    assert made.standard_error == pytest.approx(0.03)


def test_a_floor_is_not_averaged_away() -> None:
    measure = same(Reading(SIZE, 0.001))
    judging = Sequential(measure, LogRatio(SIZE, floor=0.03), most=25)
    assert judging.judge("a", "a", False).outcome == "unresolved"
    assert judging.measurements == 25


def test_a_first_measurement_may_be_too_good_to_be_true() -> None:
    judging = Sequential(same(Reading(SIZE, 0.003)), LogRatio(SIZE), least=2)
    assert judging.judge("a", "a", False).outcome == "bad"
    assert judging.measurements == 2
    judging.judge("a", "a", True)
    assert judging.measurements == 4


def test_one_measurement_is_enough_where_its_error_may_be_three_times_as_large() -> None:
    """Log odds of size² / (2 · error²): 62 and more are ln(999) at three times the error."""
    at_three_times = SIZE / math.sqrt(2 * math.log(999)) / 3
    sure, not_sure = (Reading(SIZE, error * at_three_times) for error in (0.99, 1.01))
    for reading, expected in ((sure, 1), (not_sure, 2)):
        judging = Sequential(same(reading), LogRatio(SIZE), least=2)
        assert judging.judge("a", "a", False).outcome == "bad"
        assert judging.measurements == expected


def test_how_sure_the_size_is_counts() -> None:
    exact, vague = LogRatio(SIZE), LogRatio(SIZE, size_error=0.02)
    reading = [Reading(SIZE, 0.01)]
    assert vague.weigh(reading).log_odds == pytest.approx(exact.weigh(reading).log_odds / 2)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.8, 1.0])
def test_measured_ratios_are_rarely_wrong(share: float) -> None:
    """A part of the effect is bad from half of it on. Wrong at most as often as the odds say."""
    dice = random.Random(2)

    def measure(key: str) -> Reading:
        return Reading(dice.gauss(share * SIZE, NOISE), NOISE)

    judging = Sequential(measure, LogRatio(SIZE), odds=99, most=200)
    answers = [judging.judge("a", str(number), False) for number in range(2000)]
    wrong = mean((answer.outcome == "bad") != (share > 0.5) for answer in answers)
    # A partial effect is neither hypothesis: for it the promise holds only nearly.
    assert wrong <= (0.01 if share in (0.0, 1.0) else 0.04)


def test_a_measured_ratio_takes_less_than_a_yes_or_no() -> None:
    """The same measurements, once as they are and once as which side of half the effect."""
    dice = random.Random(3)
    bit_error = 0.5 * math.erfc(SIZE / 2 / NOISE / math.sqrt(2))

    def reading(key: str) -> Reading:
        return Reading(dice.gauss(SIZE, NOISE), NOISE)

    def yes_no(key: str) -> bool:
        return reading(key).log_ratio > SIZE / 2

    whole, bit = Sequential(reading, LogRatio(SIZE)), Sequential(yes_no, YesNo(bit_error))
    for number in range(2000):
        whole.judge("a", str(number), False)
        bit.judge("a", str(number), False)
    assert whole.measurements < 0.75 * bit.measurements


class Noisy(Exact[Subset]):
    def __init__(self, judging: Sequential[Subset, bool]) -> None:
        super().__init__(planted())
        self.judge = judging.judge  # type: ignore[method-assign]


@pytest.mark.parametrize("told", [0.05, 0.3])
@pytest.mark.parametrize("error", [0.3, 0.5])
def test_nothing_but_noise_never_crashes(told: float, error: float) -> None:
    """More answers are wrong than was told, up to a coin's."""
    truth = planted("dk", "f")
    for seed in range(100):
        judging = Sequential(lies(truth, random.Random(seed), error), YesNo(told))
        found = drive(find_culprits(changes("abcdefghijkl")), Noisy(judging), Ledger())
        assert found.status is not None
        assert not found.stopped


def test_a_first_answer_that_was_wrong_does_not_decide() -> None:
    """The first measurement of each half is wrong, three times over; the proof finds out."""
    truth = planted("d")
    left = {own_class(subset("abcdef")): 3}

    def measure(keys: Subset) -> bool:
        code = own_class(keys)
        left[code] = left.get(code, 0) - 1
        return truth(keys).is_bad != (left[code] >= 0)

    found = drive(
        find_culprits(changes("abcdefghijkl")), Noisy(Sequential(measure, YesNo(0.05))), Ledger()
    )
    assert [names(culprit.options) for culprit in found.sets] == ["d"]


def test_code_that_is_the_code_of_an_end_is_not_measured() -> None:
    """Only ``d`` changes code: every set is one of the ends, and these are known."""
    ends = {frozenset[str](): Code(""), subset("abcdefgh"): Code("d")}
    known = {"": Answer("good", 1.0), "d": Answer("bad", 1.03)}
    judging: Sequential[Subset, bool] = Sequential(lambda keys: True, YesNo(0.05))
    oracle = Noisy(judging)
    oracle.code = lambda keys: "d" if subset("d") <= keys else ""
    found = drive(find_culprits(changes("abcdefgh")), oracle, Ledger(ends, known))
    assert [names(culprit.options) for culprit in found.sets] == ["d"]
    assert found.sets[0].proven
    assert judging.measurements == 0


def test_an_end_that_says_stop_is_measured_again() -> None:
    """The good side's first three measurements are wrong."""
    truth = planted("d")
    left = [3]

    def measure(keys: Subset) -> bool:
        left[0] -= not keys
        return truth(keys).is_bad != (not keys and left[0] >= 0)

    judging = Sequential(measure, YesNo(0.05))
    found = drive(find_culprits(changes("abcd")), Noisy(judging), Ledger())
    assert [names(culprit.options) for culprit in found.sets] == ["d"]


@pytest.mark.parametrize(
    ("odds", "least", "most"), [(1.0, 1, 1), (0.5, 1, 1), (99.0, 0, 5), (99.0, 3, 2)]
)
def test_limits_that_nothing_can_be_judged_by(odds: float, least: int, most: int) -> None:
    with pytest.raises(PerfcliError, match=r"odds are above 1, and 1 <= least <= most"):
        Sequential(script([True]), YesNo(0.05), odds=odds, least=least, most=most)


def test_the_lowest_limits_are_one_measurement_of_any_odds() -> None:
    judging = Sequential(script([True]), YesNo(0.05), odds=1.5, least=1, most=1)
    assert judging.judge("a", "a", False).outcome == "bad"


@pytest.mark.parametrize("error", [0.0, 0.5, -0.1, 0.7])
def test_a_share_of_wrong_answers_is_one(error: float) -> None:
    with pytest.raises(PerfcliError, match="share of wrong answers"):
        YesNo(error)


@pytest.mark.parametrize("reading", [(0.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (1.0, -1.0)])
def test_what_is_no_measurement(reading: tuple[float, float]) -> None:
    with pytest.raises(PerfcliError, match="not a measurement"):
        Reading(*reading)


def test_no_difference_between_the_ends() -> None:
    with pytest.raises(PerfcliError, match="no difference"):
        LogRatio(0.0)
