"""Exceptions to a limit on a total."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfcli.gate import limits
from perfcli.gate.allowances import EVERYTHING, _covers
from perfcli.model import Allowance, Comparison, LimitResult


def _excepted(
    comparison: Comparison, result: LimitResult, allowances: Sequence[Allowance]
) -> LimitResult:
    """Return the limit as allowed where an exception covers the total, or where it would hold
    without what all excepted kernels together added."""
    metric, head = result.limit.metric, result.head or 0.0
    for allowance in allowances:
        if allowance.kernel == EVERYTHING and _covers(allowance, metric, [], result.head):
            return replace(result, state="allowed", allowance=allowance)
    # ``*`` means the total: each kernel alone may stay below what all of them together pass.
    added = list(_added(comparison, metric, [a for a in allowances if a.kernel != EVERYTHING]))
    allowed = result.allowed if result.allowed is not None else head
    if not added or limits._is_worse(metric, head - sum(more for more, _ in added), allowed):
        return result
    first, *others = dict.fromkeys(allowance for _, allowance in added)
    return replace(result, state="allowed", allowance=first, also=tuple(others))


def exceeded(comparison: Comparison, allowance: Allowance) -> float | None:
    """Return the worst value that an exception would cover if it were not for its ``most``; None
    where none is beyond it."""
    if allowance.most is None:
        return None
    anything = replace(allowance, most=None)
    beyond = [
        value
        for names, value in _values(comparison, allowance.limit)
        if value is not None and _covers(anything, allowance.limit, names, value)
        if not _covers(allowance, allowance.limit, names, value)
    ]
    return (min if limits._higher_is_better(allowance.limit) else max)(beyond, default=None)


def _values(comparison: Comparison, limit: str) -> Iterator[tuple[Sequence[str], float | None]]:
    """Yield what the head has of a metric, in all and in each kernel, or what its findings amount
    to."""
    total = limits._total(comparison, limit)
    if total is not None:
        yield [], total.head
    if limit in limits.OF_KERNELS:
        for kernel in comparison.head.kernels:
            yield [kernel.name], limits.OF_KERNELS[limit].of(kernel)
    for finding in comparison.findings:
        if finding.code == limit and finding.came_with_head:
            names = [comparison.head.kernels[index].name for index in finding.kernels]
            yield names, finding.amount


def _added(
    comparison: Comparison, metric: str, allowances: Sequence[Allowance]
) -> Iterator[tuple[float, Allowance]]:
    """Yield what each group of kernels that an exception names added to a sum, and the
    exception."""
    if metric not in limits.OF_KERNELS or limits.OF_KERNELS[metric].fold != "sum":
        return
    for group in comparison.groups:
        change = limits.of_group(comparison, group, metric)
        _, head = group.match.select(comparison.base, comparison.head)
        names = [kernel.name for kernel in head]
        if change is None or not names:
            continue
        added = (change.head or 0.0) - (change.base or 0.0)
        cover = next((a for a in allowances if _covers(a, metric, names, change.head)), None)
        if cover is not None and added > 0:
            yield added, cover
