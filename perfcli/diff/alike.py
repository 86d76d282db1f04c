"""What a group of kernels is, in words."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli import units
from perfcli.diff.metrics import launched
from perfcli.model import KernelFacts, KernelGroup, Run


def describe(group: KernelGroup, base: Run, head: Run) -> str:
    """``3 kernels, 14 loads → 1 kernel, 17 loads``."""
    ours = [base.kernels[index] for index in group.match.base]
    theirs = [head.kernels[index] for index in group.match.head]
    return f"{_side(ours)} → {_side(theirs)}"


def _side(kernels: Sequence[KernelFacts]) -> str:
    if not kernels:
        return "nothing"
    facts = [k.source_facts for k in launched(kernels) if k.source_facts]
    loads = f", {units.plural(sum(f.loads for f in facts), 'load')}" if facts else ""
    return units.plural(len(kernels), "kernel") + loads


def one_of(group: KernelGroup, groups: Sequence[KernelGroup]) -> str:
    """``; one of 15 new kernels``: what one kernel adds is not all that the new ones do. Empty
    where it is alone."""
    relation = group.match.relation
    alike = [each for each in groups if each.match.relation == relation]
    if relation not in ("new", "gone") or len(alike) == 1:
        return ""
    kernels = sum(len(each.match.base) + len(each.match.head) for each in alike)
    return f"; one of {kernels} {'new kernels' if relation == 'new' else 'that are gone'}"
