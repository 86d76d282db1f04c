from __future__ import annotations

from collections.abc import Callable

from perfcli.handwritten.benching import LEAST_ROUNDS, time_rounds


class Clock:
    """Each contender takes what its launch returns; an hour passes with each on the host's clock
    if ``slow``."""

    def __init__(self, *, slow: bool = False) -> None:
        self.order: list[str] = []
        self._slow = slow

    def seconds(self, name: str, launch: Callable[[], object]) -> float:
        self.order.append(name)
        value = launch()
        assert isinstance(value, float)
        return value

    def now(self) -> float:
        return 3600.0 * len(self.order) if self._slow else 0.0


THREE = {"copy": lambda: 1.0, "ours": lambda: 2.0, "eager": lambda: 4.0}


def test_every_contender_runs_once_in_each_round() -> None:
    clock = Clock()
    seconds, errors = time_rounds(THREE, clock, 20, 1.0, seed=3)
    assert seconds == {"copy": (1.0,) * 20, "ours": (2.0,) * 20, "eager": (4.0,) * 20}
    assert errors == {}
    rounds = [clock.order[at : at + 3] for at in range(0, 60, 3)]
    assert all(sorted(each) == ["copy", "eager", "ours"] for each in rounds)


def test_the_order_is_drawn_anew_and_by_the_seed() -> None:
    orders = []
    for seed in (3, 3, 4):
        clock = Clock()
        time_rounds(THREE, clock, 30, 1.0, seed)
        orders.append(clock.order)
    assert orders[0] == orders[1] != orders[2]
    rounds = {tuple(orders[0][at : at + 3]) for at in range(0, 90, 3)}
    assert len(rounds) == 6  # all orders of three within 30 rounds


def test_a_budget_ends_it_after_the_least_rounds() -> None:
    clock = Clock(slow=True)
    seconds, _ = time_rounds(THREE, clock, 100, 1.0, seed=0)
    assert {len(values) for values in seconds.values()} == {LEAST_ROUNDS}


def test_fewer_rounds_than_the_least_are_run_where_they_are_asked_for() -> None:
    seconds, _ = time_rounds(THREE, Clock(slow=True), 3, 1.0, seed=0)
    assert {len(values) for values in seconds.values()} == {3}


def test_a_contender_that_raises_is_out_and_the_others_go_on() -> None:
    calls = 0

    def third_time_unlucky() -> float:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("out of resource: shared memory\nand more")
        return 2.0

    clock = Clock()
    seconds, errors = time_rounds({**THREE, "ours": third_time_unlucky}, clock, 10, 1.0, seed=0)
    assert set(seconds) == {"copy", "eager"}
    assert len(seconds["eager"]) == 10
    assert errors == {"ours": "RuntimeError: out of resource: shared memory"}
    assert calls == 3
