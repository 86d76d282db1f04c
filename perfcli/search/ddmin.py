"""The minimising delta debugging algorithm, with three outcomes."""

from __future__ import annotations

from itertools import pairwise

from perfcli.search.options import Subset
from perfcli.search.question import Question, Search

Keys = tuple[str, ...]


def ddmin(keys: Keys, parts: int = 2, label: str = "minimising") -> Search[Subset, Keys]:
    """A 1-minimal bad set of ``keys``, which are known to be bad: without any one of its changes
    it is not bad (good, or unresolved). In their order.

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
    """Into parts of equal size, or nearly, in order."""
    ends = [len(keys) * part // parts for part in range(parts + 1)]
    return [keys[a:b] for a, b in pairwise(ends)]


def _first_bad(tried: list[Keys], suspects: int, label: str) -> Search[Subset, Keys | None]:
    sets = [frozenset(keys) for keys in tried]
    for at, keys in enumerate(tried):
        answer = yield Question(sets[at], tuple(sets[at + 1 :]), step=label, suspects=suspects)
        if answer.is_bad:
            return keys
    return None
