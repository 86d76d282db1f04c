"""Ranks the variants of a sweep among those that compute the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from perfcli.model import Swept


def rank(variants: Sequence[Swept]) -> tuple[Swept, ...]:
    """Return the variants with their ratios to the first one of their workload, and with the Pareto
    front of time against memory. Where a workload is measured, only what was measured counts:
    beside it an estimate says nothing."""
    groups: dict[Hashable, list[Swept]] = {}
    for each in variants:
        if each.time is not None:
            groups.setdefault(each.workload, []).append(each)
    for workload, group in groups.items():
        groups[workload] = [each for each in group if each.is_measured] or group
    rated = [_rate(each, groups.get(each.workload, [])) for each in variants]
    rivals: dict[Hashable, list[Swept]] = {}
    for each in rated:
        if each.ratio is not None:
            rivals.setdefault(each.workload, []).append(each)
    return tuple(_place(each, rivals.get(each.workload, [])) for each in rated)


def _rate(variant: Swept, group: Sequence[Swept]) -> Swept:
    if variant.time is None or not group[0].time:
        return variant
    if variant.is_measured != group[0].is_measured:  # beside what is measured
        return variant
    measured = variant.measured.ratio if variant.measured else None
    return replace(variant, ratio=measured or variant.time / group[0].time)


def _place(variant: Swept, group: Sequence[Swept]) -> Swept:
    if variant.ratio is None or variant.memory_bytes is None or len(group) == 1:
        return variant
    return replace(variant, pareto=not any(_dominates(other, variant) for other in group))


def _dominates(other: Swept, variant: Swept) -> bool:
    """Return whether another variant is as fast and as small, and better in one of both. Measured
    ratios whose intervals overlap are alike."""
    if other.memory_bytes is None or variant.memory_bytes is None:
        return False
    (low, high), (own_low, own_high) = _span(other), _span(variant)
    no_worse = low <= own_high and other.memory_bytes <= variant.memory_bytes
    return no_worse and (high < own_low or other.memory_bytes < variant.memory_bytes)


def _span(variant: Swept) -> tuple[float, float]:
    """Return the interval of a ratio that is measured; of any other, itself twice."""
    assert variant.ratio is not None
    found = variant.measured
    if found is None or found.ratio_low is None or found.ratio_high is None:
        return variant.ratio, variant.ratio
    return found.ratio_low, found.ratio_high
