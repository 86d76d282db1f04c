"""Ranks the variants of a sweep among those that compute the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from perfcli.model import Swept


def rank(variants: Sequence[Swept]) -> tuple[Swept, ...]:
    """Return the variants with their ratios to the first one of their workload, and with the Pareto
    front of time against memory."""
    groups: dict[Hashable, list[Swept]] = {}
    for each in variants:
        if each.seconds is not None:
            groups.setdefault(each.workload, []).append(each)
    return tuple(_place(each, groups.get(each.workload, [])) for each in variants)


def _place(variant: Swept, group: Sequence[Swept]) -> Swept:
    seconds, memory = variant.seconds, variant.memory_bytes
    if seconds is None:
        return variant
    first = group[0].seconds
    ratio = seconds / first if first else None
    if memory is None or len(group) == 1:
        return replace(variant, ratio=ratio)
    beaten = any(_dominates(other, seconds, memory) for other in group)
    return replace(variant, ratio=ratio, pareto=not beaten)


def _dominates(other: Swept, seconds: float, memory: float) -> bool:
    """Return whether another variant is as fast and as small, and better in one of both."""
    if other.seconds is None or other.memory_bytes is None:
        return False
    no_worse = other.seconds <= seconds and other.memory_bytes <= memory
    return no_worse and (other.seconds < seconds or other.memory_bytes < memory)
