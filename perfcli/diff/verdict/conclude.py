"""Gives a comparison its outcome, its reason and the parts of the reason: the one place that does.

Everything else only adds evidence to a comparison: counts, findings, wrong results, and
measured and estimated times.
"""

from __future__ import annotations

from dataclasses import replace

from perfcli.diff.verdict.decide import _decide
from perfcli.diff.verdict.words import _write_verdict
from perfcli.model import Comparison, Verdict


def conclude(comparison: Comparison) -> Comparison:
    """Return the comparison with the verdict that follows from all the evidence in it.

    The verdict that it had before plays no part: more evidence may be added, and concluded again.
    """
    ruling = _decide(comparison)
    return _with(comparison, _write_verdict(ruling, comparison))


def acquit(comparison: Comparison) -> Comparison:
    """Return a run beside itself as the same: there is nothing to judge, and no reason to give."""
    return _with(comparison, Verdict("same", ""))


def _with(comparison: Comparison, verdict: Verdict) -> Comparison:
    return replace(
        comparison, outcome=verdict.outcome, reason=verdict.reason, because=verdict.because
    )
