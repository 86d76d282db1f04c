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
from perfcli.model import ABOUT_NAMES, Appearance, Comparison, Finding, Rule, Run
from perfcli.names import suggestion

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
    """Return the findings of one run alone, the gravest first. Raises RuleFailed."""
    found = [f for r in rules() for f in _ask(r, r.of_run, run, f"run {run.id}")]
    return tuple(sorted(_mark_consequences(found), key=_order))


def diagnose(comparison: Comparison, of_base: Sequence[Finding] | None = None) -> Comparison:
    """Return the comparison with its findings, and with the verdict that follows: what head has
    and what base had, and what only the two together show. What came with the head comes first.
    ``of_base``: what was said of a base that is no whole run any more. Raises RuleFailed."""
    base = explain(comparison.base) if of_base is None else of_base
    head = explain(comparison.head)
    where = f"runs {comparison.base.id} and {comparison.head.id}"
    between = (f for r in rules() for f in _ask(r, r.of_comparison, comparison, where))
    found = tuple(sorted([*between, *_both_sides(comparison, base, head)], key=_order))
    return conclude(replace(comparison, findings=found))


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
    causes: dict[tuple[int, str], tuple[int, str]] = {}
    explains = {each.code: each.explains for each in rules()}
    for place, finding in enumerate(findings):
        for kernel, code in itertools.product(finding.kernels, explains.get(finding.code, ())):
            causes.setdefault((kernel, code), (place, finding.code))
    for finding in findings:
        found = (causes.get((kernel, finding.code)) for kernel in finding.kernels)
        first = min(filter(None, found), default=None)
        yield replace(finding, explained_by=first[1]) if first else finding


def _order(finding: Finding) -> tuple[int, bool, int, bool, int, str, float]:
    """Return the sort key of a finding: first what came with the head, then what is gone, then what
    stayed; in each the gravest first, causes before consequences, and last what only says which
    kernels there are. Amounts are only compared within one code: others count something else."""
    return (
        _STAGES[finding.appearance],
        finding.code in ABOUT_NAMES,
        _SEVERITIES.index(finding.severity),
        bool(finding.explained_by),
        _APPEARANCES.index(finding.appearance),
        finding.code,
        -(finding.amount or 0.0),
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


def _appearance(before: Sequence[Finding], now: Sequence[Finding]) -> Appearance:
    if not before:
        return "new"
    was, is_ = amount(before), amount(now)
    if abs(is_ - was) <= was * DECIDING.get(now[0].metric, 0.0):
        return "same"
    return "worse" if is_ > was else "better"
