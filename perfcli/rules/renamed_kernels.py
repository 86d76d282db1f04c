"""Kernels have other names than in the baseline.

What it sees: against a committed baseline, kernels whose code is the same and that have another
name, numbers apart: Inductor names a kernel after the operators that it fuses. One whose code is
another too is listed as changed, under both names.

Why it costs: nothing. But limits and exceptions for a pattern of names (`triton_red_fused_add*`)
may mean other kernels from now on.

What to try: look at the patterns in `[tool.perfcli]`; `perfcli baseline update --reason …` takes
the new names over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, Finding, Rule
from perfcli.names import stem
from perfcli.rules._evidence.words import NAMED, against_a_baseline, origin_of


def _check(comparison: Comparison) -> Iterator[Finding]:
    if not against_a_baseline(comparison):
        return
    head = comparison.head.kernels
    gone, came = _differing_names(comparison)
    pairs = [
        (stem(comparison.base.kernels[group.match.base[0]].name), group.match.head[0])
        for group in comparison.groups
        if group.match.relation == "same" and len(group.match.base) == len(group.match.head) == 1
    ]
    # Twins of equal code under two names are matched either way: no name is new then.
    renamed = [(old, i) for old, i in pairs if old in gone and stem(head[i].name) in came]
    if not renamed:
        return
    were, them = ("was", "it") if len(renamed) == 1 else ("were", "them")
    lines = [f"{old} → {stem(head[index].name)}" for old, index in renamed[:NAMED]]
    more = len(renamed) - NAMED
    yield Finding(
        code=RULE.code,
        severity="info",
        headline=f"{units.plural(len(renamed), 'kernel')} {were} renamed since the baseline",
        kernels=tuple(index for _, index in renamed),
        evidence=(*lines, f"and {units.count(more)} more") if more > 0 else tuple(lines),
        advice=f"check the patterns of limits and exceptions that match {them}",
        metric="kernels",
        amount=len(renamed),
        origin=origin_of(head[renamed[0][1]]),
    )


def _differing_names(comparison: Comparison) -> tuple[Counter[str], Counter[str]]:
    """Return names that the base has more often than the head, and the other way round."""
    base, head = (
        Counter(stem(kernel.name) for kernel in run.kernels)
        for run in (comparison.base, comparison.head)
    )
    return base - head, head - base


RULE = Rule("PC803", "renamed kernels", __doc__, of_comparison=_check)
