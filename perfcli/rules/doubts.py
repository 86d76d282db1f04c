"""What the numbers of a report rest on that is weaker than usual.

What it sees: in one run, kernels whose machine code is not known, launch configurations that did
not compile, kernels whose bytes Inductor does not tell, and what was assumed because there is no
device or no value to look at (padding, sizes, values, branches). In a comparison also kernels
matched by their names or by less than half of their work, changed kernels without FX nodes,
another torch, triton or ptxas, and differences that were allowed with `--allow`. One finding for
each kind; a warning where the metric that the verdict names rests on it.

Why it costs: nothing. But a number that leaves something out can look better than it is.

What to try: each finding says how to make sure: usually a run on the device, or two runs that
differ in one thing only.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, Finding, Rule, Run
from perfcli.rules import _doubts, _pair_doubts

ASSUMED = ("taken as", "counted as", "not counted")
"""In every note of compile/ that assumes something."""


def check(run: Run) -> Iterator[Finding]:
    for part in (_kernels, _assumptions):
        yield from part(run)


def _kernels(run: Run) -> Iterator[Finding]:
    for kind in _doubts.KERNEL_DOUBTS:
        kernels = [kernel for kernel in run.kernels if kind.applies(kernel)]
        if kernels:
            yield _doubts.doubt(
                kind.subject,
                f"{len(kernels)} of {units.plural(len(run.kernels), 'kernel')} {kind.says}",
                evidence=(_doubts.named(kernels),),
                advice=kind.advice,
                amount=len(kernels),
            )


def _assumptions(run: Run) -> Iterator[Finding]:
    assumed = tuple(note for note in run.notes if any(word in note for word in ASSUMED))
    if assumed:
        yield _doubts.doubt(
            "assumptions",
            f"{units.plural(len(assumed), 'decision')} of the device had to be assumed",
            evidence=assumed,
            advice="a run on the device decides itself",
            amount=len(assumed),
        )


def check_pair(comparison: Comparison) -> Iterator[Finding]:
    for part in _pair_doubts.PARTS:
        yield from part(comparison)


RULE = Rule(
    _doubts.CODE, "doubts about the numbers", __doc__, of_run=check, of_comparison=check_pair
)
