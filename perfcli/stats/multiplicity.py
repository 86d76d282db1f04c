"""Many kernels at once: of twenty tests at 5 % one finds something where nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcli.model import TimeChange

LEVEL = 0.05


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini and Hochberg's adjusted p values (``scipy.stats.false_discovery_control``); those
    that are None stay None and do not count."""
    known = [p for p in p_values if p is not None]
    if not known:
        return [None] * len(p_values)
    from scipy.stats import false_discovery_control

    found = iter(false_discovery_control(known))
    return [None if p is None else float(next(found)) for p in p_values]


def among(changes: Sequence[TimeChange]) -> list[TimeChange]:
    """The same changes; slower or faster becomes unsure where it may be one of the false finds
    that so many tests make. The values stay as they are."""
    return [
        change
        if change.verdict not in ("slower", "faster") or (p is not None and p <= LEVEL)
        else replace(change, verdict="unsure", why=f"may be chance among {len(changes)} kernels")
        for change, p in zip(changes, adjusted([c.p for c in changes]), strict=True)
    ]
