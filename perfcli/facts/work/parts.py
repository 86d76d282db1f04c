"""Finds loads of which each element takes one: the parts of a cat that was inlined into its reader.

Their masks exclude each other. Inductor writes one part after the other, so that what stands
between the first part's load and the last one's is the work of all parts but the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from perfcli.facts.work.accesses import Numbers
from perfcli.facts.work.programs import Execution, MemoryEvent

_FEWEST = 2


def find_parts(runs: Iterable[Execution]) -> tuple[int, frozenset[int]]:
    """Return how many such parts there are at most at one place in the source, 0 where there are
    none, and the lines from behind the first one's load to the last one's load."""
    places: dict[tuple[int, ...], dict[int, list[Numbers]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for event in run.events:
            if event.kind == "load" and event.mask is not None and event.tensor is not None:
                places[event.loops][event.line].append(_spread(event))
    most, lines = 0, set[int]()
    for masks in places.values():
        parts = _longest(sorted(masks.items()))
        if len(parts) >= _FEWEST:
            most = max(most, len(parts))
            lines.update(range(parts[0] + 1, parts[-1] + 1))
    return most, frozenset(lines)


def _spread(event: MemoryEvent) -> Numbers:
    assert event.mask is not None and event.tensor is not None
    shape = (event.mask.shape[0], *event.tensor.shape)
    return np.broadcast_to(event.mask, shape)


def _longest(masks: Sequence[tuple[int, list[Numbers]]]) -> list[int]:
    """Return the lines of the longest chain of loads, one behind the other in the source, whose
    masks exclude each other. A load of the same part has the same mask: it is no part of its
    own."""
    best: list[int] = []
    chain: list[tuple[int, list[Numbers]]] = []
    for line, own in masks:
        if chain and _are_alike(chain[-1][1], own) and any(np.any(mask) for mask in own):
            continue
        if all(_exclude(other, own) for _, other in chain):
            chain.append((line, own))
        else:
            chain = [(line, own)]
        if len(chain) > len(best):
            best = [each for each, _ in chain]
    return best


def _are_alike(one: Sequence[Numbers], two: Sequence[Numbers]) -> bool:
    return len(one) == len(two) and all(
        a.shape == b.shape and np.array_equal(a, b) for a, b in zip(one, two, strict=True)
    )


def _exclude(one: Sequence[Numbers], two: Sequence[Numbers]) -> bool:
    return len(one) == len(two) and all(
        a.shape == b.shape and not np.any(a & b) for a, b in zip(one, two, strict=True)
    )
