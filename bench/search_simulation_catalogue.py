"""How often the search of a catalogue finds the best set, and in how many tests, simulated.

Catalogues by chance: most changes change no code, the others help, do nothing or harm, and pairs of
them do more or less than the sum: together only, one undone by the other, overlapping gains, a pair
that does not compile, a change that changes code only on top of another. The truth is the best of
all combinations, taken apart into groups of options that have nothing to do with each other. Only
simulated: no device, the same numbers everywhere.

    python bench/search_simulation_catalogue.py --repetitions 60 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from statistics import mean, quantiles

from perfcli.search.drive import Code, Ledger, drive
from perfcli.search.improve import find_best
from perfcli.search.question import Answer, OptionChange, Subset
from perfcli.search.result import Improvement

MOST_COMBINATIONS = 20_000
"""Of options that are linked: larger catalogues are thrown away and made anew."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How many of each; gains are whole numbers."""

    together: int = 0
    """Pairs of changes, whatever they do alone, that gain more together."""
    undone: int = 0
    """Pairs of which one undoes what the other does, or more."""
    overlaps: float = 0.0
    """Share of pairs of helpful changes that gain part of it twice."""
    failing: int = 0
    """Pairs that do not compile."""
    dependents: int = 0
    helpful: float = 0.12
    """Share of the changes with code of their own; two in five do nothing, the rest harm."""


KINDS: Mapping[str, Kind] = {
    "sums": Kind(),
    "one pair": Kind(together=1),
    "three pairs": Kind(together=3),
    "undone": Kind(undone=3),
    "overlaps": Kind(overlaps=0.5),
    "dependents": Kind(dependents=2),
    "do not compile": Kind(failing=3),
    "all of it": Kind(2, 2, 0.3, 2, 1),
    "all of it, half help": Kind(2, 2, 0.1, 2, 1, helpful=0.5),
}


@dataclass(slots=True)
class Planted:
    changes: list[OptionChange]
    own: dict[str, int]
    """Gains of the changes that have code of their own."""
    pairs: dict[Subset, int] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)
    """A change without code of its own, and what it has code on top of."""
    failing: set[Subset] = field(default_factory=set)

    def awake(self, keys: Subset) -> Subset:
        return frozenset(
            k for k in keys if (self.needs[k] in keys if k in self.needs else k in self.own)
        )

    def code(self, keys: Subset) -> str | None:
        awake = self.awake(keys)
        if any(pair <= awake for pair in self.failing):
            return None
        return "+".join(sorted(awake))

    def gain(self, keys: Subset) -> int:
        awake = self.awake(keys)
        joint = sum(more for pair, more in self.pairs.items() if pair <= awake)
        return sum(self.own[key] for key in awake) + joint

    # --- the truth --------------------------------------------------------------------------

    def groups(self) -> list[set[str]]:
        """Options that are linked, by name."""
        links = [*self.pairs, *self.failing, *(frozenset(pair) for pair in self.needs.items())]
        names = {key.partition("=")[0] for key in self.own}
        groups = [{name} for name in sorted(names)]
        for link in links:
            linked = {key.partition("=")[0] for key in link}
            joined = set().union(*(group for group in groups if group & linked))
            groups = [group for group in groups if not group & linked] + [joined]
        return groups

    def values(self, names: set[str]) -> list[list[str | None]]:
        keys: dict[str, list[str | None]] = {name: [None] for name in sorted(names)}
        for key in self.own:
            if (name := key.partition("=")[0]) in keys:
                keys[name].append(key)
        return list(keys.values())

    @property
    def combinations(self) -> int:
        return max(prod(map(len, self.values(group))) for group in self.groups())

    def best_gain(self) -> int:
        total = 0
        for group in self.groups():
            sets = (frozenset(filter(None, keys)) for keys in product(*self.values(group)))
            total += max(self.gain(keys) for keys in sets if self.code(keys) is not None)
        return total


class Simulated:
    """Answers at once; every class is exact."""

    def __init__(self, planted: Planted) -> None:
        self._planted = planted

    def compile(self, wanted: Sequence[Subset]) -> Mapping[Subset, Code]:
        return {keys: Code(self._planted.code(keys)) for keys in wanted}

    def judge(self, key: Subset, code: str, fresh: bool) -> Answer:
        return Answer("good", 1000.0 - self._planted.gain(key))


def plant(kind: Kind, dice: random.Random, least: int = 60, most: int = 180) -> Planted:
    """Of so many changes a seventh to a third have code of their own."""
    while True:
        planted = _planted(kind, dice, dice.randint(least, most))
        if planted.combinations <= MOST_COMBINATIONS:
            return planted


def _planted(kind: Kind, dice: random.Random, number: int) -> Planted:
    changes = _changes(number, dice)
    keys = [change.key for change in changes]
    leaders = _leaders(keys, dice)
    planted = Planted(changes, {key: _own(kind, dice) for key in leaders})
    for _ in range(kind.together):
        first, second = _pair(leaders, dice)
        harm = sum(min(planted.own[key], 0) for key in (first, second))
        planted.pairs[frozenset({first, second})] = dice.randint(1, 15) - harm
    for _ in range(kind.undone):
        first, second = _pair(leaders, dice)
        planted.pairs[frozenset({first, second})] = -abs(planted.own[first]) - dice.randint(0, 9)
    helpful = [key for key in leaders if planted.own[key] > 0]
    for pair in _pairs_of(helpful):
        if dice.random() < kind.overlaps:
            least = min(planted.own[key] for key in pair)
            planted.pairs.setdefault(pair, -dice.randint(0, least))
    planted.failing |= {frozenset(_pair(leaders, dice)) for _ in range(kind.failing)}
    silent = [key for key in keys if key not in planted.own]
    for key in dice.sample(silent, kind.dependents):
        leader = dice.choice([each for each in leaders if not _same_option(each, key)])
        planted.needs[key] = leader
        planted.own[key] = dice.randint(1, 15) - min(planted.own[leader], 0)
    return planted


def _leaders(keys: Sequence[str], dice: random.Random) -> list[str]:
    """Of two options at least: two values of one can't be set together."""
    while True:
        leaders = dice.sample(keys, round(len(keys) * dice.uniform(0.15, 0.33)))
        if not all(_same_option(leaders[0], leader) for leader in leaders):
            return leaders


def _changes(number: int, dice: random.Random) -> list[OptionChange]:
    changes: list[OptionChange] = []
    while len(changes) < number:
        name = f"o{len(changes):03}"
        values = dice.choices((1, 2, 3), (6, 3, 1))[0]
        changes += [OptionChange(name, 0, value) for value in range(1, values + 1)]
    return changes[:number]


def _own(kind: Kind, dice: random.Random) -> int:
    sort = dice.random()
    if sort < kind.helpful:
        return dice.randint(1, 20)
    return 0 if sort < kind.helpful + 0.4 * (1 - kind.helpful) else -dice.randint(1, 40)


def _same_option(first: str, second: str) -> bool:
    return first.partition("=")[0] == second.partition("=")[0]


def _pair(keys: Sequence[str], dice: random.Random) -> tuple[str, str]:
    while True:
        first, second = dice.sample(keys, 2)
        if not _same_option(first, second):
            return first, second


def _pairs_of(keys: Sequence[str]) -> Iterator[Subset]:
    for at, first in enumerate(keys):
        for second in keys[at + 1 :]:
            if not _same_option(first, second):
                yield frozenset({first, second})


@dataclass(frozen=True, slots=True)
class Told:
    exact: bool
    share: float
    """Of the most that can be gained."""
    tests: int
    """Compiled after the changes alone, one core."""
    minimal: bool


def searched(planted: Planted, most_pairs: int) -> Told:
    def may_matter(base: Subset, name: str) -> bool:
        needs = planted.needs.items()
        return any(key.partition("=")[0] == name and leader in base for key, leader in needs)

    ledger: Ledger[Subset] = Ledger()
    search = find_best(planted.changes, most_pairs=most_pairs, may_matter=may_matter)
    found = drive(search, Simulated(planted), ledger)
    most = planted.best_gain()
    tests = ledger.compiled - 1 - len(planted.changes)
    share = found.gain / most if most else 1.0
    return Told(found.gain == most, share, tests, _is_minimal(planted, found))


def _is_minimal(planted: Planted, found: Improvement) -> bool:
    best = frozenset(change.key for change in found.best)
    fewer = [best - {key} for key in best]
    return all(planted.code(k) is None or planted.gain(k) < found.gain for k in fewer)


def rows(repetitions: int, most_pairs: int, seed: int) -> Iterator[str]:
    yield "| catalogue | best set found | gained | tests, mean | 95 % | most |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, kind in KINDS.items():
        told = [
            searched(plant(kind, random.Random(f"{seed} {name} {number}")), most_pairs)
            for number in range(repetitions)
        ]
        assert all(one.minimal for one in told)
        tests = [one.tests for one in told]
        yield (
            f"| {name} | {mean(one.exact for one in told):.0%} | "
            f"{mean(one.share for one in told):.1%} | {mean(tests):.0f} | "
            f"{quantiles(tests, n=20)[-1]:.0f} | {max(tests)} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--most-pairs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for row in rows(given.repetitions, given.most_pairs, given.seed):
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
