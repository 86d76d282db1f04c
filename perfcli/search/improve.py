"""What should I turn on? The best set of changes out of a catalogue, for a metric that is exact.

With n changes (options times values), m of which generate code that neither the defaults nor an
earlier change does, the tests are:

1. each change alone: n + 1, of which m + 1 are judged;
2. the best set grows by the one that helps most, neutral ones are tried as well: at most m each
   time, until none helps;
3. what changes no code alone may on top of another: all such at once, on the best set and on each
   of the m: m + 1 for each value that an option has, 2 · log2(n) more for each that does;
4. pairs of the m, those with the best sum of gains first: at most ``most_pairs``; and the set that
   should be best by what single changes and pairs do: 1;
5. after 3 and 4 the set grows again if something better was seen, and changes that do not
   contribute are dropped.

Not tried: three changes that help only together; two that alone change no code and do so together;
changes that generate the same code alone and not in company (the first one stands for all).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from perfcli.search.best import Best
from perfcli.search.group import that_change_code
from perfcli.search.improvement import Direction, Improvement
from perfcli.search.options import OptionChange, Subset, ordered
from perfcli.search.pairwise import predicted_best
from perfcli.search.question import Search, Stopped

MOST_PAIRS = 50

MayMatter = Callable[[Subset, str], bool]


def find_best(
    catalogue: Iterable[OptionChange],
    direction: Direction = "improve",
    *,
    lower_is_better: bool = True,
    most_pairs: int = MOST_PAIRS,
    may_matter: MayMatter = lambda base, name: True,
) -> Search[Subset, Improvement]:
    """``catalogue``: an option may be there with several values; a set has one at most.
    ``may_matter``: whether an option that changes no code alone is worth trying on top of a single
    change; on the best set all are tried. Answers
    need a ``value``; their outcome counts where it is "unresolved". Where the code without any
    change has no value the search ends there."""
    wants_lower = lower_is_better == (direction == "improve")
    best = Best({change.key: change for change in ordered(catalogue)}, wants_lower)
    try:
        yield from _search(best, most_pairs, may_matter)
    except Stopped as stop:
        return best.result(stop.reason)
    return best.result()


def _search(best: Best, most_pairs: int, may_matter: MayMatter) -> Search[Subset, None]:
    singles = tuple(frozenset({key}) for key in best.changes)
    yield from best.ask(frozenset(), singles, "without any change")
    if best.gain(frozenset()) is None:
        return
    for at, single in enumerate(singles):
        yield from best.ask(single, singles[at + 1 :], "each change alone")
    yield from _grow(best)
    yield from _dependents(best, best.subset)
    for key in best.leaders():
        yield from _dependents(best, frozenset({key}), may_matter)
    yield from _grow(best)
    yield from _pairs(best, most_pairs)
    yield from best.ask(predicted_best(best), (), "what pairs promise")
    yield from _grow(best)


def _grow(best: Best) -> Search[Subset, None]:
    """Adds what helps most as long as something does, then drops what does not contribute."""
    start: Subset | None = None
    while start != best.subset:
        start = best.subset
        added = [best.replaced(start, key) for key in best.candidates(start)]
        for at, subset in enumerate(added):
            yield from best.ask(subset, tuple(added[at + 1 :]), "one more change")
    dropped: Subset | None = None
    while dropped != best.subset:
        dropped = best.subset
        fewer = [dropped - {key} for key in sorted(dropped)]
        for at, subset in enumerate(fewer):
            yield from best.ask(subset, tuple(fewer[at + 1 :]), "one change less")


def _dependents(
    best: Best, base: Subset, may_matter: MayMatter = lambda base, name: True
) -> Search[Subset, None]:
    """Of each option the first value that is still to be tried, then the second, and so on."""
    silent = [
        key
        for key in best.silent()
        if best.fits(base, key) and may_matter(base, best.changes[key].name)
    ]
    while base and silent:
        group: dict[str, str] = {}
        for key in silent:
            group.setdefault(best.changes[key].name, key)
        keys = tuple(group.values())
        for key in (yield from that_change_code(base, keys, "options that need another")):
            best.depends(key, base)
            yield from best.ask(base | {key}, (), "options that need another")
        silent = [key for key in silent if key not in keys]


def _pairs(best: Best, most: int) -> Search[Subset, None]:
    pairs = [
        frozenset(pair)
        for pair in combinations(best.leaders(), 2)
        if best.fits(frozenset(pair[:1]), pair[1])
    ]
    # sorted() keeps the order of equals: that of the catalogue.
    untried = [pair for pair in pairs if pair not in best.seen]
    untried = sorted(untried, key=best.expected, reverse=True)
    best.pairs_left = max(len(untried) - most, 0)
    for at, pair in enumerate(untried[:most]):
        yield from best.ask(pair, tuple(untried[at + 1 : most]), "pairs")
