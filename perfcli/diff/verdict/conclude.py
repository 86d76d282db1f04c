"""Gives a comparison its outcome, its reason and the parts of the reason: the one place that does.

Everything else only adds evidence to a comparison: counts, findings, wrong results, and
measured and estimated times.
"""

from __future__ import annotations

from dataclasses import replace

from perfcli.diff.verdict.counts import judge_counts
from perfcli.diff.verdict.times import _weigh_estimate, _weigh_times, is_estimated
from perfcli.model import Because, Comparison, Finding, Verdict, WrongResults


def _object_to(verdict: Verdict, comparison: Comparison) -> Verdict:
    """Return what is left of a verdict on counts. It is worse where the head has a new error: a
    reduction that leaves most of the device idle moves fewer bytes than the split one that takes a
    tenth of its time. Better or the same can't be said where it has a new warning."""
    if verdict.outcome == "worse":
        return verdict
    came = [f for f in comparison.findings if f.came_with_head and not f.doubt]  # gravest first
    error = next((finding for finding in came if finding.severity == "error"), None)
    if error is not None:
        return _condemn(verdict, comparison, error)
    warning = next((finding for finding in came if finding.severity == "warning"), None)
    if warning is not None and verdict.outcome != "unknown":
        return _doubt(verdict, comparison, warning)
    return verdict


def _condemn(verdict: Verdict, comparison: Comparison, error: Finding) -> Verdict:
    gained = verdict.because if verdict.outcome == "better" else None
    against = gained.change if gained else ""
    though = f", though {against}" if against else ""
    because = replace(_end_in(error, error.code, verdict, comparison), though=against)
    return Verdict("worse", f"{error.code} {error.headline}{though}", because)


def _doubt(verdict: Verdict, comparison: Comparison, warning: Finding) -> Verdict:
    said = verdict.because.change if verdict.because else verdict.reason
    change = f"{said}{'; but' if ', but ' in said else ', but'} {warning.code}"
    because = _end_in(warning, change, verdict, comparison)
    return Verdict("unknown", f"{change}: {warning.headline}", because)


def _end_in(finding: Finding, change: str, verdict: Verdict, comparison: Comparison) -> Because:
    """Return a reason that ends in a finding: its code ends ``change``, its headline follows."""
    kernels = set(finding.kernels)
    matches = (group.match for group in comparison.groups)
    group = next((n for n, m in enumerate(matches) if not kernels.isdisjoint(m.head)), None)
    before = verdict.because
    sums = before.sums if before and before.group == group else ""
    names = [comparison.head.kernels[number].name for number in finding.kernels[:1]]
    for name in names:
        if finding.headline.startswith(f"{name} "):
            how = finding.headline.removeprefix(name).lstrip()
            return Because(change, group, name, how, sums, code=finding.code)
    return Because(f"{change}: {finding.headline}", group, sums=sums, code=finding.code)


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
    if comparison.estimate is not None and is_estimated(comparison):
        return _weigh_estimate(comparison, comparison.estimate)
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
