"""The head has kernels that the baseline does not have.

What it sees: against a committed baseline, kernels of the head that share no work with any of the
baseline's: something in the model is computed that was not before, or what was an operator of a
library is generated code now.

Why it costs: each moves its bytes and is launched; the totals say how much. A new kernel has
nothing to be held against, so limits on growth do not see what it spills or how wide it loads, but
for the totals.

What to try: where it is meant, `perfcli baseline update --reason …` takes it in; limits with an
absolute value (`[tool.perfcli.kernels."triton_*"] spilled_words = 0`) hold for new kernels, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, Finding, Rule
from perfcli.rules._evidence.words import against_a_baseline, groups, list_kernels, origin_of


def _check(comparison: Comparison) -> Iterator[Finding]:
    indices = [index for group in groups(comparison, "new") for index in group.match.head]
    if not indices or not against_a_baseline(comparison):
        return
    kernels = [comparison.head.kernels[index] for index in indices]
    yield Finding(
        code=RULE.code,
        severity="info",
        headline=f"{units.plural(len(kernels), 'kernel')} that the baseline does not have",
        kernels=tuple(indices),
        evidence=list_kernels(kernels),
        advice="if intended, run perfcli baseline update",
        metric="kernels",
        amount=len(kernels),
        origin=origin_of(kernels[0]),
    )


RULE = Rule("PC801", "new kernels", __doc__, of_comparison=_check)
