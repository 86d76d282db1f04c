"""Names the kernel of a group that a verdict blames, and what became of it."""

from __future__ import annotations

from perfcli.diff.metrics import launched_kernels
from perfcli.model import KernelGroup, Run


def pick_kernel(group: KernelGroup, base: Run, head: Run) -> str:
    """Return the kernel of a group that spills most, then moves most: the head's, where it has
    any."""
    named = [head.kernels[index] for index in group.match.head] or [
        base.kernels[index] for index in group.match.base
    ]
    named = launched_kernels(named) or named
    return max(named, key=lambda k: (k.spilled_words or 0, k.bytes_moved or 0)).name


def describe_change(group: KernelGroup, base: Run, head: Run) -> str:
    """Write ``fuses 3 kernels``: what became of a group, said of its kernel."""
    if _became_looped(group, base, head):
        return "now loops over what it held at once"
    return {
        "new": "is new",
        "gone": "is gone",
        "fused": f"fuses {len(group.match.base)} kernels",
        "split": f"comes from a split into {len(group.match.head)} kernels",
        "regrouped": f"was regrouped with others ({_ratio(group)})",
        "same": f"is the same code, {_describe_other_use(group, base, head)}",
    }.get(group.match.relation, "changed")


def _describe_other_use(group: KernelGroup, base: Run, head: Run) -> str:
    """Write how the same code can cost something else."""
    before = sum(base.kernels[index].launches for index in group.match.base)
    after = sum(head.kernels[index].launches for index in group.match.head)
    return "over other data" if before == after else "launched another number of times"


def _became_looped(group: KernelGroup, base: Run, head: Run) -> bool:
    """Return whether one kernel held what it reduces at once, and goes over it piece by piece
    now."""
    if group.match.relation != "changed" or len(group.match.base) != 1:
        return False
    kinds = base.kernels[group.match.base[0]].kind, head.kernels[group.match.head[0]].kind
    return kinds == ("persistent-reduction", "reduction")


def _ratio(group: KernelGroup) -> str:
    return f"{len(group.match.base)} → {len(group.match.head)}"
