"""The line of the model that a broken limit leads to: what to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli.gate.holding import _find_most
from perfcli.model import Comparison, KernelFacts, KernelGroup, LimitResult, Origin

_LIBRARIES = ("site-packages/", "dist-packages/")


def _locate(comparison: Comparison, result: LimitResult) -> Origin | None:
    """Return the line where Dynamo broke the graph, or one of the kernels that cost most: one
    that the base does not have, where there is one. None where no line is known."""
    if result.limit.metric == "graph_breaks":
        return _find_break(comparison)
    group: KernelGroup | None
    if result.group is None:
        group = _find_most(comparison, result.limit.metric)
    else:
        group = comparison.groups[result.group]
    if group is None:
        return None
    kernels = [comparison.head.kernels[index] for index in group.match.head]
    return _find_line(kernels, comparison.base.kernels)


def _find_break(comparison: Comparison) -> Origin | None:
    base, head = comparison.base, comparison.head
    for reason, number in head.graph_breaks.items():
        places = head.break_places.get(reason, ())
        known = base.break_places.get(reason, ())
        if number > base.graph_breaks.get(reason, 0) and places:
            new = [place for place in places if place.code not in {each.code for each in known}]
            place = (new or places)[0]
            return Origin("", "", location=place.location, code=place.code)
    return None


def _find_line(kernels: Sequence[KernelFacts], before: Sequence[KernelFacts]) -> Origin | None:
    found = [origin for kernel in kernels for origin in kernel.origins if origin.location]
    found = [o for o in found if not any(name in o.location for name in _LIBRARIES)] or found
    old = [origin for kernel in before for origin in kernel.origins]
    codes = {origin.code for origin in old if origin.code}
    work = {(origin.op, origin.module, origin.shape) for origin in old}
    # A baseline's file has no lines: there a line is new where its operator is.
    changed = [origin for origin in found if codes and origin.code not in codes]
    changed = changed or [o for o in found if (o.op, o.module, o.shape) not in work]
    return next(iter((*changed, *found)), None)
