"""How often the search for culprits is right when every fifth of a hundred timed answers is wrong.

Plants culprits among options, asks the search of ``perfcli.search`` for them, and counts: exactly
the planted sets, each proven both ways; tests (single measurements, those of both ends among
them); crashes. Beside it ddmin alone, what it holds to be bad checked in every round: with a plain
yes or no, each set tested once, and with each test repeated until it is sure. Only simulated: no
device, the same numbers everywhere.

    python bench/search_simulation.py --repetitions 1000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeVar

from search_simulation_ddmin import plain_ddmin

from perfcli.search.culprits import find_culprits
from perfcli.search.drive import Code, Ledger, drive
from perfcli.search.question import Answer, OptionChange, Subset
from perfcli.search.sequential import ODDS, Sequential
from perfcli.search.weighing import LogRatio, Reading, YesNo

SIZE = 0.03  # the bad end's log ratio; only its ratio to the noise matters
Z_95 = 1.6449  # one-sided: the sign of what is measured is wrong in 5 % of measurements
CELLS = (
    # name, sizes of the sets: each set's options are bad together only, the sets each alone
    ("one culprit", (1,)),
    ("two, together", (2,)),
    ("two, each alone", (1, 1)),
    ("three, together", (3,)),
    ("one alone, two together", (1, 2)),
    ("three, each alone", (1, 1, 1)),
)
O = TypeVar("O")  # noqa: E741 - an observation


@dataclass(frozen=True, slots=True)
class Told:
    exact: bool
    tests: int
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Planted:
    """Bad is what has all options of any of these sets."""

    options: int
    sets: frozenset[Subset]
    error: float
    dice: random.Random

    def is_bad(self, subset: Subset) -> bool:
        return any(planted <= subset for planted in self.sets)

    def yes_no(self, subset: Subset) -> bool:
        return self.is_bad(subset) != (self.dice.random() < self.error)

    def reading(self, subset: Subset) -> Reading:
        error = SIZE / 2 / Z_95
        return Reading(self.dice.gauss(SIZE * self.is_bad(subset), error), error)


class Simulated:
    """Every set of changes is a class of its own, and is measured one by one."""

    def __init__(self, judging: Sequential[Subset, O]) -> None:
        self._judge: Callable[[Subset, str, bool], Answer] = judging.judge

    def compile(self, wanted: Sequence[Subset]) -> Mapping[Subset, Code]:
        return {subset: Code(" ".join(sorted(subset))) for subset in wanted}

    def judge(self, key: Subset, code: str, fresh: bool) -> Answer:
        return self._judge(key, code, fresh)


def changes(options: int) -> list[OptionChange]:
    return [OptionChange(f"o{number:02}", False, True) for number in range(options)]


def plant(options: int, sizes: Sequence[int], error: float, dice: random.Random) -> Planted:
    keys = dice.sample([change.key for change in changes(options)], sum(sizes))
    at = [sum(sizes[:number]) for number in range(len(sizes))]
    sets = frozenset(frozenset(keys[a : a + n]) for a, n in zip(at, sizes, strict=True))
    return Planted(options, sets, error, dice)


def searched(planted: Planted, judging: Sequential[Subset, O]) -> Told:
    try:
        found = drive(find_culprits(changes(planted.options)), Simulated(judging), Ledger())
    except Exception as error:  # a crash is what is counted
        print(f"crashed: {error!r}", file=sys.stderr)
        return Told(False, judging.measurements, crashed=True)
    sets = frozenset(frozenset(o.key for o in culprit.options) for culprit in found.sets)
    proven = all(c.with_it.is_bad and c.minimal for c in found.sets)
    exact = found.status == "explained" and proven and sets == planted.sets
    return Told(exact, judging.measurements)


def by_yes_no(planted: Planted) -> Told:
    return searched(planted, Sequential(planted.yes_no, YesNo(planted.error or 0.001)))


def by_log_ratio(planted: Planted) -> Told:
    return searched(planted, Sequential(planted.reading, LogRatio(SIZE)))


def minimised(planted: Planted, odds: float) -> Told:
    """By ddmin alone, each set tested until its answer has these odds."""
    judging = Sequential(planted.yes_no, YesNo(planted.error or 0.001), odds=odds)

    def test(subset: Subset) -> bool:
        return judging.judge(subset, str(judging.measurements), False).is_bad

    try:
        found = plain_ddmin([change.key for change in changes(planted.options)], test)
    except AssertionError:
        return Told(False, judging.measurements, crashed=True)
    return Told(frozenset({frozenset(found)}) == planted.sets, judging.measurements)


def by_plain_ddmin(planted: Planted) -> Told:
    return minimised(planted, odds=1.001)  # the first answer is believed


def by_sequential_ddmin(planted: Planted) -> Told:
    return minimised(planted, ODDS)


METHODS: Mapping[str, Callable[[Planted], Told]] = {
    "perfcli, yes or no": by_yes_no,
    "perfcli, log ratio": by_log_ratio,
    "ddmin, plain yes or no": by_plain_ddmin,
    "ddmin, yes or no until sure": by_sequential_ddmin,
}


def rows(repetitions: int, options: int, error: float, seed: int) -> Iterator[str]:
    yield f"| {options} options, {error:.0%} wrong | method | exact | tests, mean | crashes |"
    yield "| --- | --- | --- | --- | --- |"
    for name, sizes in CELLS:
        for method, search in METHODS.items():
            if len(sizes) > 1 and search in (by_plain_ddmin, by_sequential_ddmin):
                continue  # they look for one set
            told = []
            for number in range(repetitions):
                dice = random.Random(f"{seed} {name} {number}")
                told.append(search(plant(options, sizes, error, dice)))
            exact = mean(one.exact for one in told)
            tests = mean(one.tests for one in told)
            crashes = sum(one.crashed for one in told)
            yield f"| {name} | {method} | {exact:.1%} | {tests:.1f} | {crashes} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--options", type=int, default=24)
    parser.add_argument("--error", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for row in rows(given.repetitions, given.options, given.error, given.seed):
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
