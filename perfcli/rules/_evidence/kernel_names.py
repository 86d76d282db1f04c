"""Compares names of kernels without Inductor's numbers, for rules about what a baseline keeps."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli import units
from perfcli.model import Comparison, KernelFacts, KernelGroup, Relation

NAMED = 6


def against_a_baseline(comparison: Comparison) -> bool:
    """Return whether the base is a baseline: it keeps what kernels are made of, not their sources.
    Elsewhere the list of kernels says what these rules say."""
    base = comparison.base
    return not base.id and not any(kernel.source for kernel in base.kernels)


def groups(comparison: Comparison, relation: Relation) -> list[KernelGroup]:
    return [group for group in comparison.groups if group.match.relation == relation]


def list_kernels(kernels: Sequence[KernelFacts]) -> tuple[str, ...]:
    """Return a line each, with what the kernel costs."""
    lines = [f"{k.name}: {_launches(k)}, {units.size(k.bytes_moved)} each" for k in kernels[:NAMED]]
    more = len(kernels) - NAMED
    return (*lines, f"and {units.count(more)} more") if more > 0 else tuple(lines)


def _launches(kernel: KernelFacts) -> str:
    return units.plural(kernel.launches, "launch", "launches")
