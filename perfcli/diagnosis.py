"""Runs and comparisons to findings: every rule asked, both sides of a comparison held together."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfcli import registry
from perfcli.errors import PerfcliError
from perfcli.model import Appearance, Comparison, Finding, Rule, Run
from perfcli.names import suggestion

_SEVERITIES = ("error", "warning", "info")
_APPEARANCES = ("new", "worse", "", "gone", "better", "same")


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    found = (registry.declared("rules", name, Rule) for name in registry.names("rules"))
    return tuple(sorted(found, key=lambda rule: rule.code))


def rule(wanted: str) -> Rule:
    """A rule by its code, in any case. Raises PerfcliError, with the nearest, where there is
    none."""
    known = {found.code: found for found in rules()}
    if wanted.upper() not in known:
        raise PerfcliError(f"no rule {wanted!r}: {suggestion(wanted.upper(), known)}")
    return known[wanted.upper()]


def explain(run: Run) -> tuple[Finding, ...]:
    """The findings of one run alone, the gravest first."""
    return tuple(sorted((f for r in rules() for f in r.of_run(run)), key=_order))


def diagnose(comparison: Comparison) -> Comparison:
    """The comparison with its findings: what head has and what base had, and what only the two
    together show. New and worse ones come first."""
    head, base = explain(comparison.head), explain(comparison.base)
    between = [f for r in rules() for f in r.of_comparison(comparison)]
    found = [*between, *_both_sides(comparison, base, head)]
    return replace(comparison, findings=tuple(sorted(found, key=_order)))


def _order(finding: Finding) -> tuple[int, int, float]:
    return (
        _APPEARANCES.index(finding.appearance),
        _SEVERITIES.index(finding.severity),
        -(finding.amount or 0.0),
    )


# --- the same finding on both sides ----------------------------------------------------------


def _both_sides(
    comparison: Comparison, base: Sequence[Finding], head: Sequence[Finding]
) -> Iterator[Finding]:
    waiting = list(base)
    for finding in head:
        before = [f for f in base if same_finding(comparison, f, finding)]
        waiting = [f for f in waiting if f not in before]
        yield replace(finding, appearance=_appearance(before, finding))
    for finding in waiting:
        yield replace(finding, appearance="gone", on_base=True)


def same_finding(comparison: Comparison, base: Finding, head: Finding) -> bool:
    """Whether two sides' findings are about the same: one code, and kernels that were matched, or
    one subject."""
    if base.code != head.code:
        return False
    if not base.kernels and not head.kernels:
        return base.subject == head.subject
    return any(
        not set(group.match.base).isdisjoint(base.kernels)
        and not set(group.match.head).isdisjoint(head.kernels)
        for group in comparison.groups
    )


def _appearance(before: Sequence[Finding], now: Finding) -> Appearance:
    if not before:
        return "new"
    was, is_ = sum(f.amount or 0.0 for f in before), now.amount or 0.0
    return "worse" if is_ > was else "better" if is_ < was else "same"
