"""Describes what changed between two runs apart from their kernels."""

from __future__ import annotations

from collections import Counter

from perfcli import units
from perfcli.model import Run

_LISTED = 3


def find_besides(base: Run, head: Run) -> tuple[str, ...]:
    """Return ``extern calls 43 → 42 (aten.mm −1)``, ``graph breaks 0 → 3``."""
    found = []
    ours, theirs = (_extern_calls(run) for run in (base, head))
    moved = {op: theirs[op] - ours[op] for op in {**ours, **theirs} if theirs[op] != ours[op]}
    if moved:
        listed = [f"{op} {units.signed(units.count, n)}" for op, n in moved.items()]
        more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
        numbers = f"{units.count(ours.total())} → {units.count(theirs.total())}"
        found.append(f"extern calls {numbers} ({', '.join(listed[:_LISTED])}{more})")
    breaks = [sum(run.graph_breaks.values()) for run in (base, head)]
    if base.graph_breaks != head.graph_breaks:
        found.append(f"graph breaks {breaks[0]} → {breaks[1]}")
    return tuple(found)


def _extern_calls(run: Run) -> Counter[str]:
    calls: Counter[str] = Counter()
    for extern in run.externs:
        calls[extern.op] += extern.count
    return calls
