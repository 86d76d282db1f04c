"""Finds what many changes do at once on top of a set: those that do no harm, those that are
needed."""

from __future__ import annotations

from perfcli.search.best import Best, Keys
from perfcli.search.ddmin import narrow
from perfcli.search.question import Answer, Search, Subset

SHARE = 0.5
"""The least part of what changes gain alone that several of them must gain on top of a set for all
of them to stay; which of them contribute is found later."""


def widen(best: Best, wide: Subset, keys: Keys, step: str, most: int) -> Search[Subset, Subset]:
    """Find ``wide``, which has a value, with as many of ``keys`` as do it no harm, in ``most``
    tests.

    All at once, and halves of what does harm, or does not compile: one test where there is no such
    change, up to 2 · log2(n) more for each.
    """
    groups = [keys] if keys else []
    end = len(best.seen) + most
    while groups and len(best.seen) < end:
        group = groups.pop(0)
        middle = (len(group) + 1) // 2
        halves = (group[:middle], group[middle:])
        later = (halves[0], *groups[:1]) if len(group) > 1 else tuple(groups[:2])
        subset = best.with_all(wide, group)
        yield from best.ask(subset, tuple(best.with_all(wide, each) for each in later), step)
        if _do_no_harm(best, wide, subset, group):
            wide = subset
        elif len(group) > 1:
            groups += halves
    return wide


def _do_no_harm(best: Best, before: Subset, after: Subset, group: Keys) -> bool:
    alone = best.expected(frozenset(group)) if len(group) > 1 else 0.0
    return best.is_at_least(after, (best.gain(before) or 0.0) + SHARE * alone)


def reduce(best: Best, core: Subset) -> Search[Subset, None]:
    """Take the best set down to ``core`` and as few of its other changes as its value needs: 1 test
    where it needs none, log2(n) + 1 more for each that it does."""
    core &= best.subset
    needed: Subset | None = None
    while needed is None or best.subset != core | needed:
        # A part that was tried on the way may be better still: then that one is taken down.
        needed = yield from _find_needed(best, core)


def _find_needed(best: Best, core: Subset) -> Search[Subset, Subset]:
    target = best.gain(best.subset) or 0.0
    search = narrow(best.ordered(best.subset - core))
    answer: Answer | None = None
    while True:
        try:
            question = next(search) if answer is None else search.send(answer)
        except StopIteration as end:
            return frozenset(end.value)
        subset = core | question.wanted
        later = tuple(core | each for each in question.maybe)
        yield from best.ask(subset, later, "what contributes")
        if best.gain(subset) is None:
            answer = Answer("unresolved")
        else:
            answer = Answer("bad" if best.is_at_least(subset, target) else "good")


def minimise(best: Best) -> Search[Subset, None]:
    """Drop what does not contribute, what gains least alone first, until no single change can be
    dropped: each is asked for."""
    start: Subset | None = None
    while start != best.subset:
        start = best.subset
        keys = sorted(best.ordered(start), key=best.alone)
        for at, key in enumerate(keys):
            later = tuple(best.subset - {other} for other in keys[at + 1 :])
            yield from best.ask(best.subset - {key}, later, "one change less")
