"""Takes a set of options down to the smallest that keeps most of its gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from perfcli.errors import PerfcliError
from perfcli.search.question import Subset
from perfcli.tune.answer import Ratio, Tried

KEPT = 0.95
"""The share of the gain that the smallest set keeps at least."""
MOST_TO_TRY_ALL = 5
"""Of so many options all smaller sets are tried, at most 30; of more, one is dropped at a time."""

Look = Callable[[Sequence[Subset]], Sequence[Ratio | None]]
"""Says how long sets take against the default; None: not known."""


def find_single(alone: Sequence[Tried], whole: Ratio, is_sure: Callable[[Ratio], bool]) -> Subset:
    """Return the single change that is surely faster and gains most, where it keeps ``KEPT`` of the
    gain of the best set, or that set (``whole``) is not surely faster; else no change."""
    sure = [tried for tried in alone if is_sure(tried.known)]
    most = max(sure, key=lambda tried: tried.known.gain, default=None)
    least = KEPT * whole.gain if is_sure(whole) else 0.0
    return most.keys if most is not None and most.known.gain >= least else frozenset()


def find_smallest(
    keys: Sequence[str], whole: Ratio, look: Look, is_sure: Callable[[Ratio], bool]
) -> Subset:
    """Return the smallest set that keeps ``KEPT`` of the gain of all ``keys`` and is surely faster;
    of several the one that gains most."""
    least = KEPT * whole.gain

    def enough(sets: Sequence[Subset]) -> Subset | None:
        fit = [
            (ratio.gain, subset)
            for subset, ratio in zip(sets, look(sets), strict=True)
            if ratio is not None and ratio.gain >= least and is_sure(ratio)
        ]
        return max(fit, key=lambda each: each[0], default=(0.0, None))[1]

    left = frozenset(keys)
    if len(keys) <= MOST_TO_TRY_ALL:
        for size in range(1, len(keys)):
            found = enough([frozenset(each) for each in combinations(keys, size)])
            if found is not None:
                return found
        return left
    while len(left) > 1:
        found = enough([left - {key} for key in keys if key in left])
        if found is None:
            break
        left = found
    return left


def look_with(
    judge: Callable[[Subset], Ratio],
    compile_all: Callable[[Sequence[Subset]], None],
    may_look: Callable[[Subset], bool] = lambda subset: True,
) -> Look:
    """Return what looks at sets that are compiled at once; one that fails, or that it may not look
    at, has no answer."""

    def look(sets: Sequence[Subset]) -> list[Ratio | None]:
        compile_all([subset for subset in sets if may_look(subset)])
        found: list[Ratio | None] = []
        for subset in sets:
            try:
                found.append(judge(subset) if may_look(subset) else None)
            except PerfcliError:
                found.append(None)
        return found

    return look
