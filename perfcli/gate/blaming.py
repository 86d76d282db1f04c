"""Which kernel a broken total comes from."""

from __future__ import annotations

from perfcli import units
from perfcli.diff.metrics import launched
from perfcli.diff.verdict import how_changed, to_look_at
from perfcli.gate import metrics
from perfcli.model import Comparison, Limit, LimitResult

_ONE_EACH = ("kernels", "launches")
"""Each kernel counts about alike: none of them has most."""


def to_blame(comparison: Comparison, result: LimitResult) -> str:
    """``triton_red_fused_add_3 fuses 2 kernels``: the group that adds most to a total; where none
    adds anything but the total itself is limited, ``most of it in triton_red_fused_add_3 (2)``."""
    return _added_most(comparison, result.limit.metric) or _has_most(comparison, result.limit)


def _added_most(comparison: Comparison, metric: str) -> str:
    sign = -1 if metrics.higher_is_better(metric) else 1
    best, most = None, 0.0
    for group in comparison.groups:
        change = next((c for c in group.changes if c.metric == metric), None)
        delta = sign * (change.delta or 0.0) if change else 0.0
        if delta > most:
            best, most = group, delta
    if best is None:
        return ""
    return f"{to_look_at(best, comparison.base, comparison.head)} {how_changed(best)}"


def _has_most(comparison: Comparison, limit: Limit) -> str:
    metric = metrics.OF_KERNELS.get(limit.metric)
    if limit.most is None or metric is None or metric.better == "higher":
        return ""
    if metric.name in _ONE_EACH:
        return ""
    values = [(metric.of(k) or 0.0, k.name) for k in launched(comparison.head.kernels)]
    most, name = max(values, key=lambda each: each[0], default=(0.0, ""))
    return f"most of it in {name} ({units.writer(metric.name)(most)})" if most else ""
