"""Groups that became the same: one of them is not all."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli.model import KernelGroup


def one_of(group: KernelGroup, groups: Sequence[KernelGroup]) -> str:
    """``; one of 15 new kernels``: what one kernel adds is not all that the new ones do. Empty
    where it is alone."""
    relation = group.match.relation
    alike = [each for each in groups if each.match.relation == relation]
    if relation not in ("new", "gone") or len(alike) == 1:
        return ""
    kernels = sum(len(each.match.base) + len(each.match.head) for each in alike)
    return f"; one of {kernels} {'new kernels' if relation == 'new' else 'that are gone'}"
