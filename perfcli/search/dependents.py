"""Tries what changes no code alone, and may on top of something else."""

from __future__ import annotations

from collections.abc import Callable

from perfcli.search.best import Best, Keys
from perfcli.search.culprits import changes_code
from perfcli.search.group import reduce, widen
from perfcli.search.question import Search, Subset

MOST_SILENT = 8
STEP = "options that need another"

MayMatter = Callable[[Subset, str], bool]


def try_silent(best: Best, wide: Subset) -> Search[Subset, Subset]:
    """Try what changes no code alone and return ``wide`` with what helps there. Of each option the
    first value that is still to be tried comes first, then the second, and so on; last come those
    in whose place ``wide`` has another value."""
    most = MOST_SILENT
    left = tuple(key for key in best.silent() if best.fits(best.subset, key))
    while wide and left and most > 0:
        keys, left = _next_values(best, wide, left)
        core, before = best.subset, len(best.seen)
        yield from widen(best, wide, keys, STEP, most)
        most -= len(best.seen) - before
        if best.subset != core:
            yield from reduce(best, core)
            wide = best.with_all(wide, best.ordered(best.subset))
            yield from best.ask(wide, (), "what contributes")
            wide = best.as_good(wide)
    return wide


def try_on_top(best: Best, wide: Subset, may_matter: MayMatter, end: int) -> Search[Subset, None]:
    """Try each other change on top of ``wide``, with what changes no code alone and may beside
    it."""
    for key in best.by_gain():
        core, base = best.replaced(best.subset, key), best.replaced(wide, key)
        left = tuple(
            other
            for other in best.silent()
            if best.fits(core, other) and may_matter(frozenset({key}), best.changes[other].name)
        )
        while key not in wide and left and len(best.seen) < end:
            before = best.subset
            keys, left = _next_values(best, base, left)
            subset = best.with_all(base, keys)
            yield from best.ask(subset, (), STEP)
            if best.subset != before:
                yield from reduce(best, core)
                wide = best.as_good(subset)


def _next_values(best: Best, base: Subset, left: Keys) -> tuple[Keys, Keys]:
    fitting = tuple(key for key in left if best.fits(base, key))
    keys = best.first_values(fitting or left)
    return keys, tuple(key for key in left if key not in keys)


def find_supports(best: Best) -> Search[Subset, None]:
    """Find, for changes of the best set that change no code alone, one that they change it on top
    of; what does harm alone comes first, as it is there for a reason."""
    for key in sorted(best.subset.intersection(best.silent())):
        others = sorted(best.ordered(best.subset - {key}), key=best.alone)
        pairs = [frozenset({key, other}) for other in others]
        # Where none is enough all of them together are, else the set would not be minimal.
        best.dependencies[key] = frozenset(others)
        for at, pair in enumerate(pairs):
            alone = yield from best.ask(pair - {key}, (), "dependencies")
            both = yield from best.ask(pair, tuple(pairs[at + 1 :]), "dependencies")
            if changes_code(alone, both):
                best.dependencies[key] = pair - {key}
                break
