"""Which of many changes do something, where most do nothing: all at once, then halves."""

from __future__ import annotations

from perfcli.search.effects import changes_code
from perfcli.search.options import Subset
from perfcli.search.question import Question, Search

Keys = tuple[str, ...]


def that_change_code(base: Subset, keys: Keys, step: str) -> Search[Subset, Keys]:
    """Those of ``keys`` that change the generated code on top of ``base``.

    One test where none does, 2 · log2(n) for each that does. A group that has no answer is split,
    too. Changes that undo each other are missed.
    """
    before = yield Question(base, (base.union(keys),), step=step)
    groups = [keys] if keys else []
    found: list[str] = []
    while groups:
        group = groups.pop(0)
        halves = (group[: len(group) // 2], group[len(group) // 2 :])
        later = tuple(base.union(keys) for keys in (*groups, *halves) if keys)
        after = yield Question(base.union(group), later, step=step, suspects=len(group))
        if changes_code(before, after) is False:
            continue
        if len(group) > 1:
            groups += halves
        elif after.code is not None:
            found += group
    return tuple(key for key in keys if key in found)
