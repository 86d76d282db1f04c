"""One comparison held against the limits: what is broken, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.diff.verdict import judge
from perfcli.gate import holding
from perfcli.gate.allowances import covers
from perfcli.model import (
    Allowance,
    Comparison,
    Finding,
    FindingResult,
    Limit,
    LimitResult,
    Passing,
    Severity,
)

_GRAVEST_FIRST: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Policy:
    """What one check is held against."""

    limits: tuple[Limit, ...]
    allowances: tuple[Allowance, ...] = ()
    """Those that have not expired."""
    fail_on: Severity | None = "warning"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of it."""

    outcome: Passing
    reason: str
    limits: tuple[LimitResult, ...]
    findings: tuple[FindingResult, ...]

    @property
    def used(self) -> set[Allowance]:
        found = [each.allowance for each in self.limits] + [f.allowance for f in self.findings]
        return {allowance for allowance in found if allowance is not None}


def judged(comparison: Comparison, policy: Policy) -> Result:
    """A broken limit or a grave finding that came with the head fails. It is unsure where neither
    is there, but a limit can't be told, or something else keeps the two runs from being called
    no worse."""
    limits = tuple(
        result
        for limit in policy.limits
        for result in holding.held(comparison, limit, policy.allowances)
    )
    findings = tuple(_findings(comparison, policy))
    broken = [each.text for each in limits if each.state == "broken"]
    broken += [
        _said(comparison.findings[each.finding]) for each in findings if each.state == "broken"
    ]
    if broken:
        more = f" (and {units.plural(len(broken) - 1, 'more')})" if len(broken) > 1 else ""
        return Result("fail", f"{broken[0]}{more.replace('mores', 'more')}", limits, findings)
    if doubt := _doubt(comparison, limits, findings):
        return Result("unsure", doubt, limits, findings)
    return Result("pass", _passes(comparison, limits), limits, findings)


def _passes(comparison: Comparison, limits: Sequence[LimitResult]) -> str:
    if comparison.outcome in ("worse", "unknown"):
        allowed = any(each.state == "allowed" for each in limits)
        return f"{'allowed' if allowed else 'within the limits'}: {comparison.reason}"
    return comparison.reason


# --- findings --------------------------------------------------------------------------------


def _findings(comparison: Comparison, policy: Policy) -> Iterator[FindingResult]:
    for number, finding in enumerate(comparison.findings):
        if not _counts(comparison, finding, policy.fail_on):
            continue
        names = [comparison.head.kernels[index].name for index in finding.kernels]
        cover = [a for a in policy.allowances if covers(a, finding.code, names, finding.amount)]
        if cover:
            yield FindingResult(number, "allowed", cover[0])
        else:
            yield FindingResult(number, "broken")


def _counts(comparison: Comparison, finding: Finding, fail_on: Severity | None) -> bool:
    """Whether a finding fails: what another one explains is that one's."""
    if fail_on is None or not finding.came_with_head or finding.doubt or finding.explained_by:
        return False
    if _GRAVEST_FIRST.index(finding.severity) > _GRAVEST_FIRST.index(fail_on):
        return False
    return finding.severity == "error" or _numbers(comparison) != "better"


def _numbers(comparison: Comparison) -> str:
    """What the numbers alone say: where they got better, a warning is a doubt, no regression."""
    return judge(comparison.base, comparison.head, comparison.totals, comparison.groups)[0]


def _said(finding: Finding) -> str:
    return f"{finding.code} {finding.headline}"


# --- doubts ----------------------------------------------------------------------------------


def _doubt(
    comparison: Comparison, limits: Sequence[LimitResult], findings: Sequence[FindingResult]
) -> str:
    """Why it can't be told whether anything got worse; empty where it can."""
    unknown = next((each for each in limits if each.state == "unknown"), None)
    if unknown is not None:
        return unknown.text
    if comparison.timing is not None and comparison.outcome == "unknown":
        return comparison.reason
    if _numbers(comparison) == "unknown":
        return comparison.reason
    judged = {each.finding for each in findings}
    for number, finding in enumerate(comparison.findings):
        doubtful = finding.came_with_head and not finding.doubt and finding.severity == "warning"
        if doubtful and number not in judged and not finding.explained_by:
            return comparison.reason
    return ""
