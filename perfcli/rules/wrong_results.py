"""Outputs differ from those of the model run eagerly.

What it sees: in a comparison that was to be measured, a side whose outputs differ from its
reference (the scenario's own, or the model run eagerly) by more than rounding explains, have
another shape or type, or hold NaN or infinity where the reference holds numbers. Both sides are
checked before anything is timed; the first that fails is told.

Why it costs: how fast a wrong result comes is of no use, so nothing is timed. The verdict is WORSE
where the head's results are wrong, UNSURE where the base's are: there is nothing to compare with.

What to try: change fewer options until the results are right; the option that breaks them is
worth reporting to the compiler's authors. `--no-time` compares the code alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Comparison, Finding, Rule


def _check(comparison: Comparison) -> Iterator[Finding]:
    wrong = comparison.wrong
    if wrong is not None:
        yield Finding(
            code="PC903",
            severity="error",
            headline=wrong.what,
            advice="change fewer options until its results are right; --no-time compares the code",
            subject=f"wrong results of the {wrong.side}",
            # Of a wrong base the head is not guilty.
            doubt=wrong.side == "base",
        )


RULE = Rule("PC903", "wrong results", __doc__, of_comparison=_check)
