"""What findings make of a verdict: numbers that got better are no proof against a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcli.model import Because, Comparison, Finding


def judged(comparison: Comparison, findings: Sequence[Finding]) -> Comparison:
    """Worse, whatever the totals say, where the head has a new error: a reduction that leaves most
    of the device idle moves fewer bytes than the split one that takes a tenth of its time. Where
    it has a new warning, better or the same can't be said. ``findings``: the gravest first."""
    if comparison.outcome == "worse":
        return comparison
    came = [finding for finding in findings if finding.came_with_head and not finding.doubt]
    error = next((finding for finding in came if finding.severity == "error"), None)
    if error is not None:
        return _worse(comparison, error)
    warning = next((finding for finding in came if finding.severity == "warning"), None)
    if warning is not None and comparison.outcome != "unknown":
        return _unsure(comparison, warning)
    return comparison


def _worse(comparison: Comparison, error: Finding) -> Comparison:
    against = comparison.because.change if comparison.because else ""
    though = f", though {against}" if against else ""
    return replace(
        comparison,
        outcome="worse",
        reason=f"{error.code} {error.headline}{though}",
        because=replace(_because(comparison, error, error.code), though=against),
    )


def _unsure(comparison: Comparison, warning: Finding) -> Comparison:
    said = comparison.because.change if comparison.because else comparison.reason
    change = f"{said}{'; but' if ', but ' in said else ', but'} {warning.code}"
    return replace(
        comparison,
        outcome="unknown",
        reason=f"{change}: {warning.headline}",
        because=_because(comparison, warning, change),
    )


def _because(comparison: Comparison, finding: Finding, change: str) -> Because:
    """A reason that ends in a finding: its code ends ``change``, its headline comes behind it."""
    matches = [group.match for group in comparison.groups]
    kernels = set(finding.kernels)
    groups = (number for number, m in enumerate(matches) if not kernels.isdisjoint(m.head))
    group = next(groups, None)
    before = comparison.because
    sums = before.sums if before and before.group == group else ""
    names = [comparison.head.kernels[number].name for number in finding.kernels[:1]]
    for name in names:
        if finding.headline.startswith(f"{name} "):
            how = finding.headline.removeprefix(name).lstrip()
            return Because(change, group, name, how, sums, code=finding.code)
    return Because(f"{change}: {finding.headline}", group, sums=sums, code=finding.code)
