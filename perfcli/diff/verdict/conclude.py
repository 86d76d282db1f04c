"""Gives a comparison its outcome, its reason and the parts of the reason: the one place that does.

Everything else only adds evidence to a comparison: counts, findings, wrong results, measured times.
"""

from __future__ import annotations

from dataclasses import replace

from perfcli.diff.verdict.counts import judge_counts
from perfcli.diff.verdict.findings import _object_to
from perfcli.diff.verdict.times import _weigh_times
from perfcli.model import Because, Comparison, Verdict, WrongResults


def conclude(comparison: Comparison) -> Comparison:
    """Return the comparison with the verdict that follows from all the evidence in it.

    The verdict that it had before plays no part: more evidence may be added, and concluded again.
    """
    return _with(comparison, _find_verdict(comparison))


def acquit(comparison: Comparison) -> Comparison:
    """Return a run beside itself as the same: there is nothing to judge, and no reason to give."""
    return _with(comparison, Verdict("same", ""))


def _find_verdict(comparison: Comparison) -> Verdict:
    """Ask the strongest evidence first: what it says, weaker evidence can't overrule."""
    if comparison.wrong is not None:
        return _judge_wrong_results(comparison, comparison.wrong)
    if comparison.timing is not None:
        return _weigh_times(comparison, comparison.timing)
    # An estimate of the step's time belongs here: measured times are stronger. Where its interval
    # leaves no doubt it decides, and the counts below become what explains it, as they explain a
    # measured time (`times.py` names the kernel to blame and what its counts say).
    return _object_to(judge_counts(comparison), comparison)


def _judge_wrong_results(comparison: Comparison, wrong: WrongResults) -> Verdict:
    """Return worse where the head's results are wrong, however fast or lean it is. Where the
    base's are wrong, there is nothing to hold the head against: unknown. Counts and times are
    silent, since the two sides do not compute the same."""
    told = [f for f in comparison.findings if f.severity == "error" and f.headline == wrong.what]
    code = told[0].code if told else ""
    return Verdict(
        "worse" if wrong.side == "head" else "unknown",
        f"{code} {wrong.what}" if code else wrong.what,
        Because(f"{code}: {wrong.what}" if code else wrong.what, code=code),
    )


def _with(comparison: Comparison, verdict: Verdict) -> Comparison:
    return replace(
        comparison, outcome=verdict.outcome, reason=verdict.reason, because=verdict.because
    )
