"""Takes a set of options down to the smallest that keeps most of its gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfcli.errors import PerfcliError
from perfcli.search.question import Subset
from perfcli.tune.answer import Ratio, Tried

KEPT = 0.95
"""The share of the gain that the smallest set keeps at least."""
LEAST_ADDED = 0.005
"""The share of the time that options which are left out save together at most. On an H200, 23
options that save more by estimate, up to 0.06, saved as much on average; 27 that save less took
0.7 % longer (docs/tune.md)."""

Look = Callable[[Sequence[Subset]], Sequence[tuple[Ratio, Ratio] | None]]
"""Says how long sets take against the default, and how long the whole set takes against each of
them; None: not known."""


def find_single(alone: Sequence[Tried], is_sure: Callable[[Ratio], bool]) -> Subset:
    """Return the single change that is surely faster and gains most; else no change."""
    sure = [tried for tried in alone if is_sure(tried.known)]
    most = max(sure, key=lambda tried: tried.known.gain, default=None)
    return most.keys if most is not None else frozenset()


def find_smallest(
    keys: Sequence[str], whole: Ratio, look: Look, is_sure: Callable[[Ratio], bool]
) -> Subset:
    """Return what is left of all ``keys`` when one after the other is dropped, the one without
    which most is gained first, as long as the rest is surely faster, keeps ``KEPT`` of the gain of
    all, and lacks no more than ``LEAST_ADDED``."""
    left = frozenset(keys)
    while len(left) > 1:
        sets = [left - {key} for key in keys if key in left]
        fit = [
            (ratio.gain, -place, subset)
            for place, (subset, found) in enumerate(zip(sets, look(sets), strict=True))
            if found is not None and is_sure(ratio := found[0]) and _keeps(ratio, found[1], whole)
        ]
        if not fit:
            break
        left = max(fit)[2]
    return left


def _keeps(ratio: Ratio, on_top: Ratio, whole: Ratio) -> bool:
    """Return whether a set keeps enough, where the rest adds ``on_top`` of it."""
    return ratio.gain >= KEPT * whole.gain and on_top.gain <= LEAST_ADDED


def look_with(
    judge: Callable[[Subset], Ratio],
    add_rest: Callable[[Subset], Ratio],
    compile_all: Callable[[Sequence[Subset]], None],
    may_look: Callable[[Subset], bool] = lambda subset: True,
) -> Look:
    """Return what looks at sets that are compiled at once; one that fails, or that it may not look
    at, has no answer. ``add_rest`` says what the whole set takes against one."""

    def look(sets: Sequence[Subset]) -> list[tuple[Ratio, Ratio] | None]:
        compile_all([subset for subset in sets if may_look(subset)])
        found: list[tuple[Ratio, Ratio] | None] = []
        for subset in sets:
            try:
                found.append((judge(subset), add_rest(subset)) if may_look(subset) else None)
            except PerfcliError:
                found.append(None)
        return found

    return look
