"""The best set of changes seen so far, and what each change was seen to do."""

from __future__ import annotations

import math

from perfcli.search.answer import Answer
from perfcli.search.effects import changes_code
from perfcli.search.improvement import Effect, Improvement, Interaction
from perfcli.search.options import OptionChange, Subset
from perfcli.search.question import Question, Search
from perfcli.search.result import Dependency

# Gains that differ by a smaller share of the metric's value are equal but for rounded sums.
ROUNDING = 1e-9


class Best:
    """Grows with each answer."""

    def __init__(self, changes: dict[str, OptionChange], wants_lower: bool) -> None:
        self.changes = changes
        self.sign = -1 if wants_lower else 1
        self.seen: dict[Subset, Answer] = {}
        self.subset: Subset = frozenset()
        self.dependencies: dict[str, Subset] = {}
        self.pairs_left = 0

    @property
    def baseline(self) -> Answer | None:
        """Without any change."""
        return self.seen.get(frozenset())

    def ask(self, subset: Subset, maybe: tuple[Subset, ...], step: str) -> Search[Subset, Answer]:
        """Asks, and takes it for the best where it is better, or as good with fewer changes."""
        answer = yield Question(subset, maybe, step=step, suspects=len(maybe) + 1)
        self.seen[subset] = answer
        if self._is_better(subset):
            self.subset = subset
        return answer

    def _is_better(self, subset: Subset) -> bool:
        """Than the best so far; as good with fewer changes is better."""
        gain, most = self.gain(subset), self.gain(self.subset)
        if gain is None or most is None:
            return False
        if self._equal(gain, most):
            return len(subset) < len(self.subset)
        return gain > most

    def gain(self, subset: Subset) -> float | None:
        """Against no change, in the metric's unit; ``None`` where one of the two is not known."""
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
        """The sum of what its changes do alone; what is not known counts nothing."""
        return sum(self.gain(frozenset({key})) or 0.0 for key in sorted(subset))

    def fits(self, subset: Subset, key: str) -> bool:
        """Whether no change of ``subset`` is of the same option."""
        return self.changes[key].name not in {self.changes[other].name for other in subset}

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

    def leaders(self) -> tuple[str, ...]:
        """The changes with code of their own, or that of the earliest change with it."""
        return tuple(
            effect.change.key
            for effect in self.effects()
            if effect.changes_code is not False
            and effect.same_as is None
            and effect.gain is not None
        )

    def candidates(self, subset: Subset) -> list[str]:
        """What may be added to the set, or take the place of another value: the changes with code
        of their own, and those that depend on what it has."""
        awake = [key for key, needs in self.dependencies.items() if needs <= subset]
        return [key for key in (*self.leaders(), *awake) if key not in subset]

    def replaced(self, subset: Subset, key: str) -> Subset:
        """With this change, and without another value of its option."""
        name = self.changes[key].name
        return frozenset(k for k in subset if self.changes[k].name != name) | {key}

    def silent(self) -> tuple[str, ...]:
        """The changes that leave the code as it is."""
        return tuple(e.change.key for e in self.effects() if e.changes_code is False)

    def depends(self, key: str, base: Subset) -> None:
        known = self.dependencies.get(key)
        if known is None or len(base) < len(known):
            self.dependencies[key] = base

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
            self.pairs_left,
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
