"""Exceptions to a limit on a total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcli.gate import metrics
from perfcli.gate.allowances import EVERYTHING, covers
from perfcli.model import Allowance, Comparison, LimitResult


def excepted(
    comparison: Comparison, result: LimitResult, allowances: Sequence[Allowance]
) -> LimitResult:
    """Allowed where an exception covers the total, or where it would hold without what the
    excepted kernels added."""
    metric, head = result.limit.metric, result.head or 0.0
    for allowance in allowances:
        if allowance.kernel == EVERYTHING and covers(allowance, metric, [], head):
            return replace(result, state="allowed", allowance=allowance)
        less = _added(comparison, metric, allowance)
        allowed = result.allowed if result.allowed is not None else head
        if less and not metrics.is_worse(metric, head - less, allowed):
            return replace(result, state="allowed", allowance=allowance)
    return result


def _added(comparison: Comparison, metric: str, allowance: Allowance) -> float:
    """What the kernels that an exception names added to a sum."""
    if metric not in metrics.OF_KERNELS or metrics.OF_KERNELS[metric].fold != "sum":
        return 0.0
    added = 0.0
    for group in comparison.groups:
        change = metrics.of_group(comparison, group, metric)
        names = [kernel.name for kernel in metrics.members(comparison, group)[1]]
        if change is None or not names or not covers(allowance, metric, names, change.head):
            continue
        added += max((change.head or 0.0) - (change.base or 0.0), 0.0)
    return added
