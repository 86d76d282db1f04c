"""Minimises a bad set by the delta debugging algorithm, with three outcomes."""

from __future__ import annotations

from itertools import pairwise

from perfcli.search.numeric import AskAt, find_flip
from perfcli.search.question import Answer, Query, Search, Subset

Keys = tuple[str, ...]


def ddmin(keys: Keys, parts: int = 2, label: str = "minimising") -> Search[Subset, Keys]:
    """Find a 1-minimal bad set of ``keys``, which are known to be bad: without any one of its
    changes it is not bad (good, or unresolved). The keys stay in their order.

    Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28 (2002):
    each of ``parts`` parts, then what is left without each, then smaller parts. The
    complements that are parts (of two) are not asked again.
    """
    parts = min(parts, len(keys))
    while len(keys) > 1:
        split = _split(keys, parts)
        smaller = yield from _first_bad(split, len(keys), label)
        if smaller is not None:
            keys, parts = smaller, 2
            continue
        rests = [tuple(k for k in keys if k not in part) for part in split]
        smaller = yield from _first_bad(rests if parts > 2 else [], len(keys), label)
        if smaller is not None:
            keys, parts = smaller, max(parts - 1, 2)
        elif parts < len(keys):
            parts = min(2 * parts, len(keys))
        else:
            break
    return keys


def _split(keys: Keys, parts: int) -> list[Keys]:
    """Split into parts of equal size, or nearly, in order."""
    ends = [len(keys) * part // parts for part in range(parts + 1)]
    return [keys[a:b] for a, b in pairwise(ends)]


def _first_bad(tried: list[Keys], suspects: int, label: str) -> Search[Subset, Keys | None]:
    sets = [frozenset(keys) for keys in tried]
    for at, keys in enumerate(tried):
        answer = yield Query(sets[at], tuple(sets[at + 1 :]), step=label, suspects=suspects)
        if answer.is_bad:
            return keys
    return None


def narrow(keys: tuple[str, ...], label: str = "narrowing") -> Search[Subset, tuple[str, ...]]:
    """Find a bad set among ``keys``, which are known to be bad. The keys stay in their order.

    The shortest prefix that is bad ends with a change that it needs; keep that one, and look for
    the shortest prefix of those before it that is bad together with what is kept, until what is
    kept is bad alone. Where more changes never make a bad set good this is a minimal set, after
    k · (log2(n) + 1) tests for k culprits among n, and of several minimal sets the one whose last
    change stands first (the order of QuickXplain: Junker, "QUICKXPLAIN: preferred explanations and
    relaxations for over-constrained problems", AAAI 2004). Where they do, it is still a bad set.
    """
    needed: tuple[str, ...] = ()
    rest = keys
    while rest:
        alone = yield Query(frozenset(needed), step=label, suspects=len(rest))
        if alone.is_bad:
            break
        low, high = yield from find_flip(0, len(rest), _ask_prefix(needed, rest, label))
        # More than one where those between have no answer: ddmin takes them apart.
        needed = rest[low:high] + needed
        rest = rest[:low]
    return needed


def _ask_prefix(needed: tuple[str, ...], rest: tuple[str, ...], label: str) -> AskAt[Subset]:
    def prefix(length: int) -> Subset:
        return frozenset(rest[:length] + needed)

    def ask(place: int, maybe: tuple[int, ...], suspects: int) -> Search[Subset, Answer]:
        later = tuple(prefix(length) for length in maybe)
        answer = yield Query(prefix(place), later, step=label, suspects=suspects)
        return answer

    return ask
