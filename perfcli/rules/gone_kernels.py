"""Kernels of the baseline are gone.

What it sees: against a committed baseline, its kernels that share no work with any of the head's:
something is not computed any more, or by operators of a library or eagerly (PC402, PC403).

Why it costs: nothing, where the work is gone. But the totals look better for it, and a baseline
that lists what is gone does not notice when it comes back.

What to try: `perfcli baseline update --reason …` where it is meant; else look for what the model
lost: a branch that is not taken, a layer that is not called, a graph break.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, Finding, Rule
from perfcli.rules._evidence.words import against_a_baseline, groups, list_kernels


def _check(comparison: Comparison) -> Iterator[Finding]:
    indices = [index for group in groups(comparison, "gone") for index in group.match.base]
    if not indices or not against_a_baseline(comparison):
        return
    kernels = [comparison.base.kernels[index] for index in indices]
    yield Finding(
        code=RULE.code,
        severity="info",
        headline=f"{units.plural(len(kernels), 'kernel')} of the baseline "
        f"{'is' if len(kernels) == 1 else 'are'} gone",
        evidence=list_kernels(kernels),
        advice="where it is meant, take it over with perfcli baseline update",
        metric="kernels",
        amount=len(kernels),
        subject=", ".join(kernel.name for kernel in kernels),
    )


RULE = Rule("PC802", "gone kernels", __doc__, of_comparison=_check)
