"""Holds one comparison against the limits: what is broken, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfcli.diff.metrics import DECIDING, FEW_WORDS, is_trifling
from perfcli.diff.verdict.decide import is_estimated, judge_counts
from perfcli.gate import holding, limits
from perfcli.gate.allowances import _covers
from perfcli.gate.holding import _find_most
from perfcli.gate.limits import STEP_TIME, TIME
from perfcli.model import (
    Allowance,
    Comparison,
    Finding,
    FindingResult,
    KernelFacts,
    KernelGroup,
    Limit,
    LimitResult,
    Origin,
    Passing,
    Severity,
)

_LIBRARIES = ("site-packages/", "dist-packages/")


def _locate(comparison: Comparison, result: LimitResult) -> Origin | None:
    """Return the line where Dynamo broke the graph, or one of the kernels that cost most: one
    that the base does not have, where there is one. None where no line is known."""
    if result.limit.metric == "graph_breaks":
        return _find_break(comparison)
    group: KernelGroup | None
    if result.group is None:
        group = _find_most(comparison, result.limit.metric)
    else:
        group = comparison.groups[result.group]
    if group is None:
        return None
    _, kernels = group.match.select(comparison.base, comparison.head)
    return _find_line(kernels, comparison.base.kernels)


def _find_break(comparison: Comparison) -> Origin | None:
    base, head = comparison.base, comparison.head
    for reason, number in head.graph_breaks.items():
        places = head.break_places.get(reason, ())
        known = base.break_places.get(reason, ())
        if number > base.graph_breaks.get(reason, 0) and places:
            new = [place for place in places if place.code not in {each.code for each in known}]
            place = (new or places)[0]
            return Origin("", "", location=place.location, code=place.code)
    return None


def _find_line(kernels: Sequence[KernelFacts], before: Sequence[KernelFacts]) -> Origin | None:
    found = [origin for kernel in kernels for origin in kernel.origins if origin.location]
    found = [o for o in found if not any(name in o.location for name in _LIBRARIES)] or found
    old = [origin for kernel in before for origin in kernel.origins]
    codes = {origin.code for origin in old if origin.code}
    work = {(origin.op, origin.module, origin.shape) for origin in old}
    # A baseline's file has no lines: there a line is new where its operator is.
    changed = [origin for origin in found if codes and origin.code not in codes]
    changed = changed or [o for o in found if (o.op, o.module, o.shape) not in work]
    return next(iter((*changed, *found)), None)


_MOST_CODE = 60
"""Of a line of the model, behind what it is to blame for."""
_GRAVEST_FIRST: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Policy:
    """Says what one check is held against."""

    limits: tuple[Limit, ...]
    allowances: tuple[Allowance, ...] = ()
    """Those that have not expired."""
    fail_on: Severity | None = "warning"
    signs: frozenset[Limit] = frozenset()
    """Limits that hold only where the numbers did not get better."""
    usual_spills: bool = False
    """Whether nobody wrote the limit on all spilled words."""
    usual: frozenset[Limit] = frozenset()
    """Limits that nobody wrote."""
    usual_fail_on: bool = False
    """Whether nobody wrote which findings fail."""

    def goes_by_time(self, comparison: Comparison) -> bool:
        """Return whether the step's estimated time stands in for what nobody wrote about counts and
        findings; not where its limit was taken away."""
        limited = any(limit.metric == STEP_TIME for limit in self.limits)
        return limited and is_estimated(comparison)


@dataclass(frozen=True, slots=True)
class Ruling:
    """Says what became of it."""

    comparison: Comparison
    limits: tuple[LimitResult, ...]
    findings: tuple[FindingResult, ...]
    outcome: Passing = "pass"
    reason: str = ""
    warnings_doubt: bool = True
    """Whether a warning that fails nothing makes it unsure: not where findings never fail."""
    estimated: bool = False
    """Whether the step's estimated time was held, in place of counts."""

    @property
    def used(self) -> set[Allowance]:
        found = [each.allowance for each in self.limits] + [f.allowance for f in self.findings]
        also = {allowance for each in self.limits for allowance in each.also}
        return also | {allowance for allowance in found if allowance is not None}


def judge(comparison: Comparison, policy: Policy) -> Ruling:
    """Judge a comparison: a broken limit, a grave finding that came with the head, and wrong
    results fail. It is unsure where there is none of these, but a limit can't be told, or something
    else keeps the two runs from being called no worse."""
    better, estimated = _is_better(comparison), policy.goes_by_time(comparison)
    held = [each for each in policy.limits if not (estimated and _stands_for_time(each, policy))]
    results = tuple(
        result
        for limit in held
        if not (better and limit in policy.signs)
        for result in holding._held(
            comparison,
            limit,
            policy.allowances,
            holding.LEAST_SHARE if limit in policy.signs else 0.0,
        )
    )
    results = tuple(each for each in results if not _is_said_by_loads(comparison, each, policy))
    if policy.usual_spills:
        results = tuple(_excuse_few_words(comparison, each) for each in results)
    results = tuple(
        replace(each, origin=_locate(comparison, each)) if each.state == "broken" else each
        for each in results
    )
    findings = tuple(_hold_findings(comparison, policy))
    doubt = policy.fail_on is not None
    ruling = Ruling(comparison, results, findings, warnings_doubt=doubt, estimated=estimated)
    return _settle(ruling)


def _stands_for_time(limit: Limit, policy: Policy) -> bool:
    """Return whether a limit is one that nobody wrote, on what the time itself tells."""
    usual = limit in policy.usual
    return usual and (limit.metric in limits.STAND_FOR_TIME or limit in policy.signs)


def _excuse_few_words(comparison: Comparison, result: LimitResult) -> LimitResult:
    """Excuse a few more spilled words where fewer bytes are moved, since the step may have got
    faster: that is for people to tell."""
    moved = limits._total(comparison, "bytes_moved")
    few = (result.head or 0.0) - (result.base or 0.0) <= FEW_WORDS
    spills = result.limit.metric == "spilled_words" and not result.limit.kernel
    if result.state != "broken" or not (spills and few and moved and moved.outcome == "better"):
        return result
    text = f"{result.text}; but {holding._moved(moved)}: can't tell which weighs more"
    return replace(result, state="unknown", text=text)


def _is_said_by_loads(comparison: Comparison, result: LimitResult, policy: Policy) -> bool:
    """Return whether only new loads are in loops: those are for the limit on loads, and its
    exceptions. The usual limit on loads in loops is for those that moved there."""
    if result.limit.metric != "loads_in_loops" or result.limit not in policy.signs:
        return False
    loads = limits._total(comparison, "loads")
    grown = (loads.delta or 0) if loads is not None else 0
    return result.state == "broken" and (result.head or 0) - (result.base or 0) <= grown


def _settle(result: Ruling) -> Ruling:
    """Return the ruling with the outcome that follows, and its reason in one sentence."""
    comparison = result.comparison
    if broken := list(_list_broken(result)):
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        return replace(result, outcome="fail", reason=f"{broken[0]}{more}")
    if doubt := _find_doubt(result):
        return replace(result, outcome="unsure", reason=doubt)
    reason = comparison.reason
    if comparison.outcome in ("worse", "unknown"):
        reason = f"{'allowed' if result.used else 'within the limits'}: {reason}"
    return replace(result, outcome="pass", reason=reason)


def _list_broken(result: Ruling) -> Iterator[str]:
    comparison = result.comparison
    if comparison.wrong is not None and comparison.wrong.side == "head":
        yield comparison.wrong.what
    broken = [each for each in result.limits if each.state == "broken"]
    for each in sorted(broken, key=lambda each: not each.is_cause):  # stable
        yield f"{each.text}{_write_place(each.origin)}"
    for counted in result.findings:
        finding = comparison.findings[counted.finding]
        if counted.state == "broken" and not (comparison.wrong and finding.code == "PC903"):
            yield f"{finding.code} {finding.headline}{_write_place(finding.origin)}"


def _write_place(origin: Origin | None) -> str:
    """`` (models/norm.py:14: print(x))``; empty where no line is known."""
    if origin is None or not origin.location:
        return ""
    code = origin.code.strip()
    short = code if len(code) <= _MOST_CODE else f"{code[: _MOST_CODE - 1]}…"
    return f" ({origin.location}{f': {short}' if short else ''})"


# --- findings --------------------------------------------------------------------------------


def _hold_findings(comparison: Comparison, policy: Policy) -> Iterator[FindingResult]:
    """Yield the findings that count. Where the time is known they explain it: then only those count
    that somebody wrote."""
    if policy.usual_fail_on and policy.goes_by_time(comparison):
        return
    for number, finding in enumerate(comparison.findings):
        if not _does_count(comparison, finding, policy.fail_on):
            continue
        names = [comparison.head.kernels[index].name for index in finding.kernels]
        cover = [a for a in policy.allowances if _covers(a, finding.code, names, finding.amount)]
        if cover:
            yield FindingResult(number, "allowed", cover[0])
        else:
            yield FindingResult(number, "broken")


def _does_count(comparison: Comparison, finding: Finding, fail_on: Severity | None) -> bool:
    """Return whether a finding fails: what another one explains is that one's."""
    if fail_on is None or not finding.came_with_head or finding.doubt or finding.explained_by:
        return False
    if _GRAVEST_FIRST.index(finding.severity) > _GRAVEST_FIRST.index(fail_on):
        return False
    return finding.severity == "error" or not _is_better(comparison)


def _is_better(comparison: Comparison) -> bool:
    """Return whether the numbers got better by what weighs something: then a warning is a doubt,
    and more kernels are no loss."""
    if judge_counts(comparison).outcome != "better":
        return False
    got = [c for c in comparison.totals if c.metric in DECIDING and c.outcome == "better"]
    return not all(map(is_trifling, got))


# --- doubts ----------------------------------------------------------------------------------


def _find_doubt(result: Ruling) -> str:
    """Return why it can't be told whether anything got worse; empty where it can."""
    comparison = result.comparison
    unknown = next((each for each in result.limits if each.state == "unknown"), None)
    if unknown is not None:
        return unknown.text
    measured = comparison.timing is not None or comparison.wrong is not None
    if measured and comparison.outcome == "unknown":
        return comparison.reason
    if result.estimated:
        contradicted = comparison.because is not None and comparison.because.code
        return comparison.reason if contradicted and comparison.outcome == "unknown" else ""
    if judge_counts(comparison).outcome == "unknown":
        return comparison.reason
    if not result.warnings_doubt:
        return ""
    judged = {each.finding for each in result.findings}
    for number, finding in enumerate(comparison.findings):
        doubtful = finding.came_with_head and not finding.doubt and finding.severity == "warning"
        if doubtful and number not in judged and not finding.explained_by:
            return f"{finding.code} {finding.headline}"
    return ""


def _find_slower(result: Ruling) -> LimitResult | None:
    """Return the limit on time that is broken."""
    return next((r for r in result.limits if r.limit.metric == TIME and r.state == "broken"), None)


def _confirm(first: Ruling, second: Ruling) -> Ruling:
    """Return what follows from two measurements, the first of which was slower than allowed."""
    before, after = _find_slower(first), _find_slower(second)
    if before is None:
        return second
    limits = tuple(
        _repeat(result, before.text, after is not None) if result.limit.metric == TIME else result
        for result in second.limits
    )
    return _settle(replace(second, limits=limits))


def _repeat(result: LimitResult, before: str, still: bool) -> LimitResult:
    if still:
        return replace(result, text=f"{result.text}, confirmed in fresh processes")
    text = f"{before}, but not confirmed in fresh processes: {result.text}"
    return replace(result, state="unknown", text=text)
