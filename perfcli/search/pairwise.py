"""Which set should be best, as far as what is known of single changes and of pairs goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfcli.search.best import Best
from perfcli.search.options import Subset


def predicted_best(best: Best) -> Subset:
    """The set with the highest sum of own gains and of what pairs gain or lose beyond those, by
    steepest ascent from no change, from what is best so far and from each pair that gains; free
    of tests."""
    model = _model(best)
    pairs = [pair for pair, more in model.joint.items() if more > 0]
    starts = [frozenset[str](), best.subset, *pairs]
    tops = [_climb(best, model, start) for start in starts if start <= model.own.keys()]
    # max() takes the first of equals: the fewest guesses.
    return max(tops, key=model.gain)


@dataclass(frozen=True, slots=True)
class _Model:
    own: Mapping[str, float]
    joint: Mapping[Subset, float]
    """Of pairs: gain beyond the sum of what both gain alone."""

    def gain(self, subset: Subset) -> float:
        joint = sum(more for pair, more in self.joint.items() if pair <= subset)
        return sum(self.own[key] for key in sorted(subset)) + joint


def _model(best: Best) -> _Model:
    keys = (*best.leaders(), *best.dependencies)
    own = {key: gain for key in keys if (gain := best.gain(frozenset({key}))) is not None}
    joint = {
        subset: gain - best.expected(subset)
        for subset in best.seen
        if len(subset) == 2 and subset <= own.keys() and (gain := best.gain(subset)) is not None
    }
    return _Model(own, joint)


def _climb(best: Best, model: _Model, start: Subset) -> Subset:
    while True:
        step = max(_neighbours(best, model, start), key=model.gain, default=start)
        if model.gain(step) <= model.gain(start):
            return start
        start = step


def _neighbours(best: Best, model: _Model, subset: Subset) -> Iterator[Subset]:
    """One change less, one more, or another value of an option."""
    for key in sorted(subset):
        yield subset - {key}
    for key in model.own:
        if key not in subset:
            yield best.replaced(subset, key)
