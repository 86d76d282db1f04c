"""Between a place that is not bad and one that is: two neighbours where it flips."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perfcli.search.answer import Answer
from perfcli.search.question import K, Search

# Places without an answer that are passed over before what lies between is left as it is.
MOST_UNRESOLVED = 8

AskAt = Callable[[int, tuple[int, ...], int], Search[K, Answer]]
"""Asks for a place; then the places that may be next, and how many places are still suspected."""


def flip(low: int, high: int, ask: AskAt[K]) -> Search[K, tuple[int, int]]:
    """The last place known not to be bad and the first known to be bad, by bisection.

    ``low``, not bad, and ``high``, bad, are known and not asked. At most ceil(log2(high - low))
    tests where each has an answer. Where the places around the middle have none, others are tried,
    the nearest first; two places that are not neighbours mean that what is between is unresolved.
    Where it flips several times one of these places is found.
    """
    unresolved: set[int] = set()
    while (middle := next(_untried(low, high, unresolved), None)) is not None:
        quarters = ((low + middle) // 2, (middle + high) // 2)
        maybe = tuple(place for place in quarters if low < place < high)
        answer = yield from ask(middle, maybe, high - low)
        if answer.outcome == "bad":
            high = middle
        elif answer.outcome == "good":
            low = middle
        else:
            unresolved.add(middle)
            if sum(low < place < high for place in unresolved) >= MOST_UNRESOLVED:
                break
    return low, high


def _untried(low: int, high: int, unresolved: set[int]) -> Iterator[int]:
    middle = (low + high) // 2
    for distance in range(high - low):
        for place in (middle - distance, middle + distance):
            if low < place < high and place not in unresolved:
                yield place
