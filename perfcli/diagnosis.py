"""Turns runs and comparisons into findings: asks every rule, and holds both sides of a comparison
together."""

from __future__ import annotations

import functools
import itertools
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from perfcli.diff.metrics import DECIDING
from perfcli.diff.verdict.conclude import conclude
from perfcli.errors import PerfcliError, RuleFailed
from perfcli.loading import registry
from perfcli.model import (
    ABOUT_NAMES,
    Appearance,
    Comparison,
    Cost,
    Cure,
    Finding,
    Proposal,
    Rule,
    Run,
)
from perfcli.names import suggestion
from perfcli.predict.step import estimate_run

_SEVERITIES = ("error", "warning", "info")
_STAGES: Mapping[Appearance, int] = {
    "new": 0, "worse": 0, "": 0, "gone": 1, "better": 2, "same": 2,
}  # fmt: skip
_APPEARANCES = tuple(_STAGES)

Looked = TypeVar("Looked", Run, Comparison)


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, by code."""
    found = (registry.load_declared("rules", name, Rule) for name in registry.names("rules"))
    return tuple(sorted(found, key=lambda rule: rule.code))


def rule(wanted: str) -> Rule:
    """Return a rule by its code, in any case. Raises PerfcliError, with those that begin with it or
    else the nearest, where there is none."""
    known = {found.code: found for found in rules()}
    if wanted.upper() not in known:
        begin = [code for code in known if code.startswith(wanted.upper())]
        if begin:
            raise PerfcliError(f"no rule {wanted!r}: {', '.join(begin)} begin like that")
        raise PerfcliError(f"no rule {wanted!r}: {suggestion(wanted.upper(), known)}")
    return known[wanted.upper()]


def explain(run: Run) -> tuple[Finding, ...]:
    """Return the findings of one run alone, which has its estimates, the costliest first. Raises
    RuleFailed."""
    found = [f for r in rules() for f in _ask(r, r.of_run, run, f"run {run.id}")]
    return tuple(sorted(_mark_consequences(found), key=_order))


def examine(run: Run) -> tuple[Run, tuple[Finding, ...]]:
    """Return a run with its estimates, as every command shows it that shows one run, and its
    findings: without estimates, rules that weigh what something costs say nothing. Raises
    RuleFailed."""
    estimated = estimate_run(run)
    return estimated, explain(estimated)


def diagnose(
    comparison: Comparison,
    of_base: Sequence[Finding] | None = None,
    of_head: Sequence[Finding] | None = None,
) -> Comparison:
    """Return the comparison with its findings, and with the verdict that follows: what head has
    and what base had, and what only the two together show. What came with the head comes first.
    ``of_base``: what was said of a base that is no whole run any more, and ``of_head`` what is said
    of the head in the same way. Raises RuleFailed."""
    base = explain(comparison.base) if of_base is None else of_base
    head = explain(comparison.head) if of_head is None else of_head
    where = f"runs {comparison.base.id} and {comparison.head.id}"
    between = (f for r in rules() for f in _ask(r, r.of_comparison, comparison, where))
    measured = {r.code for r in rules() if r.is_measured(comparison)}
    base, head = ([f for f in side if f.code not in measured] for side in (base, head))
    found = _mark_consequences([*between, *_both_sides(comparison, base, head)])
    return conclude(replace(comparison, findings=tuple(sorted(found, key=_order))))


def judge(comparison: Comparison) -> tuple[Comparison, RuleFailed | None]:
    """Return the comparison with its findings and its verdict. A rule that failed is for the end:
    the report stands without findings."""
    try:
        return diagnose(comparison), None
    except RuleFailed as error:
        return conclude(comparison), error


def _ask(
    rule: Rule, ask: Callable[[Looked], Iterable[Finding]], looked: Looked, where: str
) -> list[Finding]:
    """Return what one rule says. A rule that raises is a fault of ours and must be heard of: a
    report that quietly lacks its findings would be taken for a clean one."""
    try:
        return list(ask(looked))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise RuleFailed(
            f"internal error: rule {rule.code} ({rule.title}) failed on {where}: "
            f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno}); "
            "PERFCLI_DEBUG=1 shows where it comes from"
        ) from error


def _mark_consequences(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings, those marked that are consequences of others about the same kernel."""
    causes: dict[tuple[int, bool, str], tuple[int, str]] = {}
    explains = {each.code: each.explains for each in rules()}
    for place, finding in enumerate(findings):
        for kernel, code in itertools.product(finding.kernels, explains.get(finding.code, ())):
            causes.setdefault((kernel, finding.on_base, code), (place, finding.code))
    for finding in findings:
        found = (causes.get((kernel, finding.on_base, finding.code)) for kernel in finding.kernels)
        first = min(filter(None, found), default=None)
        yield replace(finding, explained_by=first[1]) if first else finding


LEAST_SHARE = 0.01
"""A finding that costs less of the step than this is not put before others for it."""


def _order(finding: Finding) -> tuple[int, bool, bool, float, int, bool, int, str, float]:
    """Return the sort key of a finding: first what came with the head, then what is gone, then what
    stayed; in each the costliest first, behind errors whose cost no estimate tells, then by
    gravity, causes before consequences, and last what only says which kernels there are. Amounts
    are only compared within one code: others count something else."""
    cost, share = (finding.cost.seconds, finding.cost.share) if finding.cost else (0.0, None)
    counts = share is None or abs(share) >= LEAST_SHARE
    return (
        _STAGES[finding.appearance],
        finding.code in ABOUT_NAMES,
        not (finding.severity == "error" and finding.cost is None),
        -cost if counts else 0.0,
        _SEVERITIES.index(finding.severity),
        bool(finding.explained_by),
        _APPEARANCES.index(finding.appearance),
        finding.code,
        -(finding.amount or 0.0),
    )


# --- what to do about them --------------------------------------------------------------------

MOST_PROPOSALS = 3


def choose_proposals(findings: Sequence[Finding]) -> tuple[Proposal, ...]:
    """Return the three changes that save most of a step, of those that save a hundredth or more:
    options that findings propose, with what the findings cost that they are to cure, or advice."""
    found: dict[tuple[object, ...], list[tuple[Finding, Cure | None]]] = {}
    for finding in findings:
        if finding.cost is None or finding.on_base or finding.explained_by or finding.doubt:
            continue
        cures = [cure for cure in finding.cures if _may_help(finding, cure)]
        if cures:
            key: tuple[object, ...] = tuple(sorted(cures[0].options.items()))
            found.setdefault(key, []).append((finding, cures[0]))
        elif finding.advice and not finding.cures:
            found.setdefault((finding.code, finding.advice), []).append((finding, None))
    proposals = (_join_proposal(each) for each in found.values())
    worth = [p for p in proposals if p.seconds > 0 and (p.share or 0.0) >= LEAST_SHARE]
    return tuple(sorted(worth, key=lambda p: -p.seconds)[:MOST_PROPOSALS])


def _may_help(finding: Finding, cure: Cure) -> bool:
    tried = [trial.outcome for trial in finding.trials if trial.cure.options == cure.options]
    return not tried or tried[0].startswith("helps")


def _join_proposal(cured: Sequence[tuple[Finding, Cure | None]]) -> Proposal:
    """Return one change for all that it cures. A kernel counts once, with what costs it most; what
    was compiled counts as it was estimated."""
    finding, cure = cured[0]
    best: dict[tuple[int, ...], Cost] = {}
    for each, _ in cured:
        if each.cost is not None and each.cost.seconds > 0:
            known = best.get(each.kernels)
            best[each.kernels] = max(known or each.cost, each.cost, key=lambda cost: cost.seconds)
    seconds = sum(cost.seconds for cost in best.values())
    share = sum(cost.share or 0.0 for cost in best.values())
    proven = False
    for trial in (t for t in finding.trials if cure is not None and t.cure.options == cure.options):
        time = next((c for c in trial.changes if c.metric == "step_time"), None)
        if time is not None and time.base and time.delta is not None:
            seconds, share, proven = -time.delta, -time.delta / time.base, True
    return Proposal(
        seconds,
        share,
        cure.options if cure else {},
        cure.why if cure else finding.advice,
        tuple(each for each, _ in cured),
        proven,
    )


# --- the same finding on both sides ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Family:
    """Groups findings about the same thing, as indices into those of base and head: one code, and
    kernels that were matched. A split kernel's finding may go on as two, those of fused kernels as
    one."""

    base: list[int] = field(default_factory=list)
    head: list[int] = field(default_factory=list)


def families(
    comparison: Comparison, base: Sequence[Finding], head: Sequence[Finding]
) -> list[_Family]:
    """Return every finding of both sides, in exactly one family. Findings without kernels belong
    together by their subject; those that name the base's kernels on both sides, by these."""
    family_of: dict[Hashable, _Family] = {}
    matches = [group.match for group in comparison.groups]
    base_groups = {index: number for number, m in enumerate(matches) for index in m.base}
    head_groups = {index: number for number, m in enumerate(matches) for index in m.head}
    for number, finding in enumerate(base):
        _join(family_of, _keys(finding, base_groups)).base.append(number)
    for number, finding in enumerate(head):
        _join(family_of, _keys(finding, head_groups)).head.append(number)
    return list({id(family): family for family in family_of.values()}.values())


def _keys(finding: Finding, groups: Mapping[int, int]) -> list[Hashable]:
    """Return keys of a finding: findings that share one of them are about the same thing."""
    if not finding.kernels:
        return [(finding.code, "subject", finding.subject)]
    if finding.on_base:
        return [(finding.code, "kernel", index) for index in finding.kernels]
    return [(finding.code, "group", groups.get(index)) for index in finding.kernels]


def _join(family_of: dict[Hashable, _Family], keys: Sequence[Hashable]) -> _Family:
    """Return the one family of all these keys; what belonged to several of them goes together."""
    first, *others = {id(f): f for key in keys if (f := family_of.get(key))}.values() or [_Family()]
    for other in others:
        first.base.extend(other.base)
        first.head.extend(other.head)
        keys = [*keys, *(key for key, family in family_of.items() if family is other)]
    family_of.update(dict.fromkeys(keys, first))
    return first


def amount(findings: Iterable[Finding]) -> float:
    """Return how bad several findings are together."""
    return sum(finding.amount or 0.0 for finding in findings)


def _both_sides(
    comparison: Comparison, base: Sequence[Finding], head: Sequence[Finding]
) -> Iterator[Finding]:
    for family in families(comparison, base, head):
        ours, theirs = [base[n] for n in family.base], [head[n] for n in family.head]
        for finding in theirs:
            yield replace(finding, appearance=_appearance(ours, theirs))
        if not theirs:
            yield from (replace(f, appearance="gone", on_base=True) for f in ours)


_ESTIMATED = 0.1
"""Amounts that are estimated are equal within a tenth."""


def _appearance(before: Sequence[Finding], now: Sequence[Finding]) -> Appearance:
    if not before:
        return "new"
    was, is_ = amount(before), amount(now)
    tolerance = _ESTIMATED if now[0].metric.endswith("_seconds") else 0.0
    if abs(is_ - was) <= was * DECIDING.get(now[0].metric, tolerance):
        return "same"
    return "worse" if is_ > was else "better"
