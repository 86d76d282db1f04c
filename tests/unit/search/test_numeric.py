from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from unit.search.oracles import BAD, GOOD, UNRESOLVED, Exact, max_runs, run

from perfcli.errors import PerfcliError
from perfcli.search.drive import Ledger
from perfcli.search.numeric import Value, _back, _search, search_float, search_integer
from perfcli.search.question import Answer, Evidence


def from_on(threshold: float) -> Callable[[Value], Answer]:
    return lambda value: BAD if float(value) >= threshold else GOOD


def up_to(threshold: float) -> Callable[[Value], Answer]:
    return lambda value: BAD if float(value) <= threshold else GOOD


@pytest.mark.parametrize("threshold", [11, 12, 37, 64, 505, 999, 1000])
def test_an_integer_is_exact(threshold: int) -> None:
    oracle = Exact(from_on(threshold))
    found = run(search_integer(10, 1000), oracle)
    assert (found.status, found.last_good, found.first_bad) == ("found", threshold - 1, threshold)
    assert len(oracle.asked()) <= math.ceil(math.log2(990)) + 2
    assert found.back == ()


@pytest.mark.parametrize("threshold", [-8, -1, 0, 6])
def test_bad_may_be_the_smaller_value(threshold: int) -> None:
    found = run(search_integer(7, -8), Exact(up_to(threshold)))
    assert (found.last_good, found.first_bad) == (threshold + 1, threshold)
    values = [int(value) for value, _ in found.tested]
    assert values == sorted(values, reverse=True)


def test_neighbours_need_the_ends_only() -> None:
    oracle = Exact(from_on(4))
    found = run(search_integer(3, 4), oracle)
    assert (found.status, oracle.asked()) == ("found", [3, 4])


def test_known_ends_cost_nothing() -> None:
    ledger: Ledger[Value] = Ledger()
    run(search_integer(0, 1024), Exact(from_on(700)), ledger)
    before = ledger.compiled
    assert before == 2 + 10
    run(search_integer(0, 1024), Exact(from_on(700)), ledger)
    assert ledger.compiled == before


@pytest.mark.parametrize("threshold", [2e-6, 3.7e-4, 0.5])
def test_a_float_is_found_to_its_precision(threshold: float) -> None:
    oracle = Exact(from_on(threshold))
    found = run(search_float(1e-6, 1.0, 0.01), oracle)
    good, bad = float(found.last_good), float(found.first_bad)
    assert good < threshold <= bad
    assert (bad - good) / bad <= 0.01 * (1 + 1e-9)
    assert len(oracle.asked()) <= 11 + 2
    assert {1e-6, 1.0} <= set(oracle.asked())


@pytest.mark.parametrize(("good", "bad"), [(-1.0, 1.0), (0.0, 2.0), (5.0, 0.0)])
def test_floats_around_zero(good: float, bad: float) -> None:
    flips = good + 0.3 * (bad - good)
    oracle = Exact(from_on(flips) if bad > good else up_to(flips))
    found = run(search_float(good, bad, 0.01), oracle)
    low, high = sorted((float(found.last_good), float(found.first_bad)))
    assert low <= flips <= high
    assert high - low <= 0.01 * max(abs(good), abs(bad)) * (1 + 1e-9)


def test_floats_of_any_size() -> None:
    found = run(search_float(-1e300, -1e-300, 0.1), Exact(from_on(-1.0)))
    assert float(found.last_good) < -1.0 <= float(found.first_bad)


def test_what_no_test_shows_is_not_said() -> None:
    """256 flips as well, and is not asked for."""
    spilled = {0: 0.0, 256: 900.0, 512: 100.0, 600: 120.0, 1024: 1000.0}
    oracle: Exact[Value] = Exact(
        lambda value: Answer("bad" if spilled[int(value)] > 500 else "good", spilled[int(value)])
    )
    places = list(spilled)
    found = run(_search(len(places) - 1, lambda place: places[place]), oracle)
    assert (found.status, found.last_good, found.first_bad) == ("found", 600, 1024)
    assert [value for value, _ in found.tested] == [0, 512, 600, 1024]
    assert found.back == ()


def test_a_value_beyond_an_end_is_noticed() -> None:
    truth: Callable[[Value], Answer] = lambda v: Answer(  # noqa: E731
        "bad" if int(v) >= 4 else "good", {0: 5.0, 4: 90.0, 2: 1.0, 3: 7.0, 8: 80.0}[int(v)]
    )
    found = run(search_integer(0, 8), Exact(truth))
    assert (found.last_good, found.first_bad) == (3, 4)
    assert found.back == (2, 8)


def test_noise_does_not_go_back() -> None:
    def truth(value: Value) -> Answer:
        jitter = 0.002 * (-1) ** int(value)
        bad = int(value) >= 5
        evidence = Evidence(9.0, 3, standard_error=0.002)
        return Answer("bad" if bad else "good", 1.03 * bad + (not bad) + jitter, evidence=evidence)

    assert run(search_integer(0, 8), Exact(truth)).back == ()


def test_values_without_an_answer() -> None:
    def truth(value: Value) -> Answer:
        return UNRESOLVED if 40 <= int(value) < 44 else from_on(44)(value)

    found = run(search_integer(0, 100), Exact(truth))
    assert found.status == "between unresolved values"
    assert (found.last_good, found.first_bad) == (39, 44)


@pytest.mark.parametrize(("threshold", "status"), [(0, "good value is bad"), (101, "not worse")])
def test_the_ends_alone(threshold: int, status: str) -> None:
    oracle = Exact(from_on(threshold))
    assert run(search_integer(0, 100), oracle).status == status
    assert len(oracle.asked()) == 2


def test_stopped_it_tells_how_close_it_came() -> None:
    found = run(search_integer(0, 1024), Exact(from_on(700)), stops=[max_runs(4)])
    assert (found.status, found.last_good, found.first_bad) == (None, 512, 768)
    assert found.stopped


def test_no_range() -> None:
    with pytest.raises(PerfcliError, match="the same"):
        search_integer(3, 3)
    with pytest.raises(PerfcliError, match="finite"):
        search_float(0.0, math.inf)


@pytest.mark.parametrize("precision", [0.0, -0.5, 1.0, 1.5])
def test_a_precision_is_a_share(precision: float) -> None:
    with pytest.raises(PerfcliError, match="the precision is between 0 and 1"):
        search_float(1.0, 2.0, precision)
    for good, bad in ((math.inf, 1.0), (1.0, math.nan)):
        with pytest.raises(PerfcliError, match="the ends are finite"):
            search_float(good, bad)


def test_as_many_places_without_an_answer_as_are_passed_over() -> None:
    """Seven are passed over and the eighth ends it; those outside of what is left do not count."""

    def gap(first: int, last: int) -> Callable[[Value], Answer]:
        return lambda value: UNRESOLVED if first <= int(value) <= last else from_on(last + 1)(value)

    for width, given_up in ((7, False), (8, True)):
        first = 50 - width // 2
        oracle = Exact(gap(first, first + width - 1))
        found = run(search_integer(0, 100), oracle)
        assert sum(oracle.truth(value) == UNRESOLVED for value in oracle.asked()) == width
        assert (found.last_good, found.first_bad) == (
            (0, 100) if given_up else (first - 1, first + width)
        )


@pytest.mark.parametrize(
    ("values", "back"),
    [
        ([10, 8, 9, 1], (2,)),  # falls from end to end, and rises at the third
        ([1, 9, 8, 10], (2,)),
        ([5, 7, 5], (2,)),  # as high at the end as at the beginning: what falls goes back
        ([5, 3, 5], (1,)),
        ([1, 1, 2, 2], ()),
        ([2, 2, 1, 1], ()),
        ([2, 1], ()),
        ([2], ()),
    ],
)
def test_what_goes_back_is_told_by_the_two_ends(values: list[int], back: tuple[int, ...]) -> None:
    tested = {place: Answer("good", float(value)) for place, value in enumerate(values)}
    assert tuple(_back(tested)) == back


@pytest.mark.parametrize(("after", "back"), [(0.941, ()), (0.939, (2,))])
def test_what_goes_back_by_more_than_three_standard_errors_is_noticed(
    after: float, back: tuple[int, ...]
) -> None:
    """Two values near 1 with errors of 1.4 % each: together 2 %, of which three are 6 %."""
    error = 0.02 / math.sqrt(1 + 0.94**2)
    values = {0: 1.0, 1: 1.0, 2: after, 3: 1.1, 4: 1.2}

    def truth(value: Value) -> Answer:
        evidence = Evidence(9.0, 3, standard_error=error if int(value) in (1, 2) else 0.0)
        outcome = "bad" if int(value) >= 3 else "good"
        return Answer(outcome, values[int(value)], evidence=evidence)  # type: ignore[arg-type]

    tested = {place: truth(place) for place in values}
    assert tuple(_back(tested)) == back


def test_stopped_before_anything_is_known_it_has_the_ends() -> None:
    found = run(search_integer(5, 1024), Exact(from_on(700)), stops=[max_runs(0)])
    assert (found.status, found.last_good, found.first_bad) == (None, 5, 1024)
    assert found.tested == ()
