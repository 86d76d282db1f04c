"""Finds out what to turn on: the best set of changes out of a catalogue, for a metric that is
exact.

Of n changes (options times values) m generate code that neither the defaults nor an earlier change
does: h of their options help alone, others do nothing or do harm. The tests are:

1. each change alone: n + 1, of which m + 1 are judged;
2. all that help at once, the best value of each option: 1 where they gain half of their sum or
   more; halves of what does not, at most ``MOST_HELPFUL``;
3. on top of them what does nothing alone, all at once, and halves of what does harm there: 1,
   at most ``MOST_NEUTRAL``; then in the same way what changes no code alone: 1 for each value that
   an option has, at most ``MOST_SILENT`` and 1;
4. on top of all that did no harm in 3, or of the best set alone where part of that was better than
   all of it, each of the other m, the least harm first; one test more for each value where
   ``may_matter`` names options that change no code alone; what is left of the m is tried on
   top of the best set; then pairs that no tested set has, those with the best sum of gains first:
   in all ``most_pairs``;
5. where a set is better than the best before: which of its changes that takes, 1 where the one that
   was added is enough, log2(set) + 1 more for each other one; at the end the best set without each
   of its changes: as many as it has.

Where gains add up, h is 5, 18 do nothing and 21 do harm: 1 + 2 + 21 + 5 = 29 tests after 1, and
what is left of ``most_pairs`` for pairs of those that do harm.

The best set is proven 1-minimal: without any one of its changes it is not as good. It was tested
with each other change that has code of its own, alone or with others (step 3 and 4), but for those
that the result names as ``untried``. Not tried: three changes that help only together, but for
those of 2 and 3 with one other; what another one undoes in all sets that it was tested in; changes
that generate the same code alone and not in company (the first one stands for all); changes that
have no value alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfcli.search.best import Best, Keys
from perfcli.search.dependents import MayMatter, find_supports, try_on_top, try_silent
from perfcli.search.group import minimise, reduce, widen
from perfcli.search.question import OptionChange, Search, Stopped, Subset, sort_changes
from perfcli.search.result import Direction, Improvement

MOST_PAIRS = 50
MOST_HELPFUL = 30
MOST_NEUTRAL = 12
FIRST_AT_ONCE = 10
"""Changes that are tried first: their values are known before the next ones are compiled."""


def find_best(
    catalogue: Iterable[OptionChange],
    direction: Direction = "improve",
    *,
    lower_is_better: bool = True,
    most_pairs: int = MOST_PAIRS,
    sums_only: bool = False,
    first: Subset = frozenset(),
    together: Sequence[Subset] = (),
    may_matter: MayMatter = lambda base, name: True,
) -> Search[Subset, Improvement]:
    """Find the best set of changes. ``catalogue``: an option may be there with several values; a
    set has one at most. ``sums_only``: changes that do nothing alone are left out, and pairs; of
    those that do harm alone, ``most_pairs`` are tried on top of what helps. Then ``first`` are
    tried, alone and with each other, before the rest, and the changes of each of the sets
    ``together`` alone only where all of them at once change the code. ``may_matter``: whether an
    option that changes no code alone is worth trying on top of a single change; on top of what
    helps or does nothing alone all are tried. Answers need a ``value``; their outcome counts where
    it is "unresolved". Where the code without any change has no value the search ends there."""
    wants_lower = lower_is_better == (direction == "improve")
    best = Best({change.key: change for change in sort_changes(catalogue)}, wants_lower)
    try:
        if sums_only:
            yield from _search_sums(best, most_pairs, first, together)
        else:
            yield from _search(best, most_pairs, may_matter)
    except Stopped as stop:
        return best.result(stop.reason)
    return best.result()


def _search_sums(
    best: Best, most_more: int, first: Subset, together: Sequence[Subset]
) -> Search[Subset, None]:
    early = [frozenset({key}) for key in best.ordered(first)]
    for start in range(0, max(len(early), 1), FIRST_AT_ONCE):
        yield from _try_alone(best, early[start : start + FIRST_AT_ONCE])
        if best.gain(frozenset()) is None:
            return
    yield from _try_helpful(best)
    known = first.union(*together)
    rest = [frozenset({key}) for key in best.changes if key not in known]
    yield from _try_alone(best, [*together, *rest])
    yield from _try_helpful(best)
    others = tuple(key for key in best.by_gain() if key not in best.subset and best.alone(key))
    yield from _try_one_more(best, best.subset, others, len(best.seen) + most_more)
    yield from minimise(best)


def _search(best: Best, most_pairs: int, may_matter: MayMatter) -> Search[Subset, None]:
    yield from _try_alone(best, [frozenset({key}) for key in best.changes])
    if best.gain(frozenset()) is None:
        return
    yield from _try_helpful(best)
    wide = yield from _try_neutral(best)
    wide = yield from try_silent(best, wide)
    end = len(best.seen) + most_pairs
    others = tuple(key for key in best.by_gain() if key not in wide)
    wide = yield from _try_one_more(best, wide, others, end)
    yield from try_on_top(best, wide, may_matter, end)
    more = end - len(best.seen)
    yield from minimise(best)
    yield from _try_left(best, len(best.seen) + more)
    yield from find_supports(best)
    yield from minimise(best)


def _try_alone(best: Best, subsets: Sequence[Subset]) -> Search[Subset, None]:
    """Try no change, and where that has a value each of the sets: single changes, or several at
    once, of which halves are tried where they change the code. They are compiled in any order:
    after a stop those that were are taken in."""
    yield from best.ask(frozenset(), tuple(subsets), "without any change")
    if best.gain(frozenset()) is None:
        return
    stopped: Stopped | None = None
    left = list(subsets)
    while left:
        subset = left.pop(0)
        try:
            answer = yield from best.ask(subset, tuple(left), "each change alone")
        except Stopped as stop:
            stopped = stop
            continue
        if len(subset) > 1:
            left += best.split_unless_same(subset, answer)
    if stopped is not None:
        raise stopped


def _try_helpful(best: Best) -> Search[Subset, None]:
    keys = best.first_values(tuple(key for key in best.by_gain() if best.alone(key) > 0))
    yield from widen(best, frozenset(), keys, "what helps alone", MOST_HELPFUL)
    if not best.is_at_least(best.subset, best.expected(best.subset)):
        yield from minimise(best)


def _try_neutral(best: Best) -> Search[Subset, Subset]:
    """Find the best set, with all that does no harm."""
    core = best.subset
    alone = tuple(key for key in best.by_gain() if best.alone(key) == 0 and best.fits(core, key))
    keys = best.first_values(alone)
    wide = yield from widen(best, core, keys, "what does nothing alone", MOST_NEUTRAL)
    yield from reduce(best, core)
    return best.as_good(wide)


def _try_one_more(best: Best, wide: Subset, others: Keys, end: int) -> Search[Subset, Subset]:
    """Try each of the changes that ``wide`` does not have on top of it, in their order."""
    for at, key in enumerate(others):
        if len(best.seen) >= end:
            break
        before, subset = best.subset, best.replaced(wide, key)
        later = tuple(best.replaced(wide, other) for other in others[at + 1 :])
        yield from best.ask(subset, later, "one more change")
        if best.subset != before:
            yield from reduce(best, best.replaced(before, key))
            wide = best.as_good(subset)
    return wide


def _try_left(best: Best, end: int) -> Search[Subset, None]:
    """Try, on top of the best set, what was not tried there, then pairs that were not tried at
    all."""
    before: Subset | None = None
    while before != best.subset:
        before = best.subset
        pairs = sorted(best.untried_pairs(), key=best.expected, reverse=True)
        one = [best.replaced(before, key) for key in best.untried()]
        two = [best.with_all(before, best.ordered(pair)) for pair in pairs]
        yield from _until_better(best, one, "one more change", end)
        if best.subset == before:
            yield from _until_better(best, two, "pairs", end)
        if best.subset != before:
            yield from minimise(best)


def _until_better(
    best: Best, subsets: Sequence[Subset], step: str, end: int
) -> Search[Subset, None]:
    before = best.subset
    for at, subset in enumerate(subsets):
        if len(best.seen) >= end or best.subset != before:
            return
        yield from best.ask(subset, tuple(subsets[at + 1 : end]), step)
