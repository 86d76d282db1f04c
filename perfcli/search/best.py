"""Keeps the best set of changes seen so far, and what each change was seen to do."""

from __future__ import annotations

import math
from itertools import combinations

from perfcli.search.culprits import changes_code
from perfcli.search.question import Answer, OptionChange, Query, Search, Subset
from perfcli.search.result import Dependency, Effect, Improvement, Interaction

Keys = tuple[str, ...]

# Gains that differ by a smaller share of the metric's value are equal but for rounded sums.
ROUNDING = 1e-9


class Best:
    """Grows with each answer: knows the best set and the gains of all."""

    def __init__(self, changes: dict[str, OptionChange], wants_lower: bool) -> None:
        self.changes = changes
        self.sign = -1 if wants_lower else 1
        self.seen: dict[Subset, Answer] = {}
        self.subset: Subset = frozenset()
        self.dependencies: dict[str, Subset] = {}

    @property
    def baseline(self) -> Answer | None:
        """Return the answer without any change."""
        return self.seen.get(frozenset())

    def ask(self, subset: Subset, maybe: tuple[Subset, ...], step: str) -> Search[Subset, Answer]:
        """Ask what is not known, and take it for the best where it is better, or as good with fewer
        changes."""
        if subset in self.seen:
            return self.seen[subset]
        maybe = tuple(each for each in maybe if each not in self.seen)
        answer = yield Query(subset, maybe, step=step, suspects=len(maybe) + 1)
        self.seen[subset] = answer
        if self._is_better(subset):
            self.subset = subset
        return answer

    def split_unless_same(self, subset: Subset, answer: Answer) -> list[Subset]:
        """Return halves of several changes where they change the code, or do not compile. Where
        they leave it as it is, each of them does: take that for its answer."""
        if self.baseline is not None and changes_code(self.baseline, answer) is False:
            self.seen |= {frozenset({key}): answer for key in subset}
            return []
        keys = self.ordered(subset)
        middle = (len(keys) + 1) // 2
        return [frozenset(keys[:middle]), frozenset(keys[middle:])]

    def _is_better(self, subset: Subset) -> bool:
        """Return whether it is better than the best so far; as good with fewer changes is
        better."""
        most = self.gain(self.subset)
        if most is None or not self.is_at_least(subset, most):
            return False
        return not self._equal(self.gain(subset) or 0.0, most) or len(subset) < len(self.subset)

    def is_at_least(self, subset: Subset, least: float) -> bool:
        """Return whether its gain is known, and not less."""
        gain = self.gain(subset)
        return gain is not None and (gain > least or self._equal(gain, least))

    def gain(self, subset: Subset) -> float | None:
        """Return the gain against no change, in the metric's unit, or ``None`` where one of the two
        is not known."""
        answer, without = self.seen.get(subset), self.baseline
        if not answer or not without or "unresolved" in (answer.outcome, without.outcome):
            return None
        if answer.value is None or without.value is None:
            return None
        return self.sign * (answer.value - without.value)

    def _equal(self, one: float, other: float) -> bool:
        value = self.baseline.value if self.baseline else None
        return math.isclose(one, other, rel_tol=0.0, abs_tol=ROUNDING * abs(value or 0.0))

    def expected(self, subset: Subset) -> float:
        """Return the sum of what its changes do alone; what is not known counts nothing."""
        return sum(self.alone(key) for key in sorted(subset))

    def alone(self, key: str) -> float:
        """Return what it gains alone; what is not known counts nothing."""
        return self.gain(frozenset({key})) or 0.0

    def ordered(self, subset: Subset) -> Keys:
        """Return the changes in the order of the catalogue."""
        return tuple(key for key in self.changes if key in subset)

    def by_gain(self) -> Keys:
        """Return the leaders, what gains most alone first. sorted() keeps the order of equals."""
        return tuple(sorted(self.leaders(), key=self.alone, reverse=True))

    def fits(self, subset: Subset, key: str) -> bool:
        """Return whether no change of ``subset`` is of the same option."""
        return self.changes[key].name not in {self.changes[other].name for other in subset}

    def first_values(self, keys: Keys) -> Keys:
        """Return the first of each option."""
        first: dict[str, str] = {}
        for key in keys:
            first.setdefault(self.changes[key].name, key)
        return tuple(first.values())

    def effects(self) -> tuple[Effect, ...]:
        first: dict[str, OptionChange] = {}
        effects = []
        for key, change in self.changes.items():
            single = frozenset({key})
            answer = self.seen.get(single)
            if answer is None:
                continue
            same = first.setdefault(answer.code, change) if answer.code else change
            changes = changes_code(self.baseline, answer) if self.baseline else None
            same_as = None if same is change else same
            effects.append(Effect(change, answer, self.gain(single), same_as, changes))
        return tuple(effects)

    def leaders(self) -> Keys:
        """Return the changes with code of their own, or that of the earliest change with it."""
        return tuple(
            effect.change.key
            for effect in self.effects()
            if effect.changes_code is not False
            and effect.same_as is None
            and effect.gain is not None
        )

    def replaced(self, subset: Subset, key: str) -> Subset:
        """Return the set with this change, and without another value of its option."""
        name = self.changes[key].name
        return frozenset(k for k in subset if self.changes[k].name != name) | {key}

    def with_all(self, subset: Subset, keys: Keys) -> Subset:
        for key in keys:
            subset = self.replaced(subset, key)
        return subset

    def as_good(self, subset: Subset) -> Subset:
        """Return the set where it has the best value, else the best set."""
        return subset if self.is_at_least(subset, self.gain(self.subset) or 0.0) else self.subset

    def untried(self) -> Keys:
        """Return the leaders that no set with a value has beside the best set."""
        valued = [subset for subset in self.seen if self.gain(subset) is not None]
        return tuple(
            key
            for key in self.by_gain()
            if key not in self.subset
            and not any(self.replaced(self.subset, key) <= subset for subset in valued)
        )

    def untried_pairs(self) -> list[Subset]:
        """Return the pairs of leaders that no set with a value has."""
        leaders = self.leaders()
        tried = {
            pair
            for subset in self.seen
            if self.gain(subset) is not None
            for pair in combinations([key for key in leaders if key in subset], 2)
        }
        return [
            frozenset(pair)
            for pair in combinations(leaders, 2)
            if pair not in tried and self.fits(frozenset(pair[:1]), pair[1])
        ]

    def silent(self) -> Keys:
        """Return the changes that leave the code as it is."""
        return tuple(e.change.key for e in self.effects() if e.changes_code is False)

    def result(self, stopped: str = "") -> Improvement:
        return Improvement(
            self.baseline,
            self.effects(),
            self._options(self.subset),
            self.seen.get(self.subset),
            self.gain(self.subset) or 0.0,
            self._interactions(),
            tuple(
                Dependency(self.changes[key], self._options(base))
                for key, base in self.dependencies.items()
            ),
            len(self.untried_pairs()),
            self._options(frozenset(self.untried())),
            stopped,
        )

    def _options(self, subset: Subset) -> tuple[OptionChange, ...]:
        return tuple(change for key, change in self.changes.items() if key in subset)

    def _interactions(self) -> tuple[Interaction, ...]:
        found = []
        for subset in self.seen:
            together, alone = self.gain(subset), [self.gain(frozenset({key})) for key in subset]
            if len(subset) != 2 or together is None or None in alone:
                continue
            apart = self.expected(subset)
            if not self._equal(together, apart):
                first, second = self._options(subset)
                found.append(Interaction((first, second), together, apart))
        return tuple(found)
