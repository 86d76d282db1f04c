"""ddmin as it is mostly written, to hold the search of perfcli against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise


def plain_ddmin(keys: Sequence[str], test: Callable[[frozenset[str]], bool]) -> list[str]:
    """Two outcomes, True for bad, each set tested once; what is left is tested in every round and
    held to be bad, as in picire 21.8, which raises AssertionError where it is not."""
    keys, parts = list(keys), 2
    known: dict[frozenset[str], bool] = {}

    def is_bad(tried: Sequence[str]) -> bool:
        subset = frozenset(tried)
        if subset not in known:
            known[subset] = test(subset)
        return known[subset]

    while True:
        assert test(frozenset(keys)), "what was bad is not"
        if len(keys) < 2:
            return keys
        ends = [len(keys) * part // parts for part in range(parts + 1)]
        split = [keys[a:b] for a, b in pairwise(ends)]
        rests = [[k for k in keys if k not in part] for part in split] if parts > 2 else []
        part = next((tried for tried in split if is_bad(tried)), None)
        rest = None if part is not None else next((t for t in rests if is_bad(t)), None)
        if part is not None:
            keys, parts = part, 2
        elif rest is not None:
            keys, parts = rest, max(parts - 1, 2)
        elif parts < len(keys):
            parts = min(2 * parts, len(keys))
        else:
            return keys
