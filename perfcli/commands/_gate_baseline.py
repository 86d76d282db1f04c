"""The head against the committed baseline."""

from __future__ import annotations

from dataclasses import replace

from perfcli.baseline import facts, renewing
from perfcli.baseline.entry import Entry
from perfcli.commands import _baseline_file, _gate_checks
from perfcli.commands._gate_order import Against, Compared, Order
from perfcli.diagnosis import diagnose, rule
from perfcli.diff.compare import ASPECTS, compare
from perfcli.errors import NotComparable, PerfcliError
from perfcli.gate.checks import Check
from perfcli.model import Finding, Provenance, Run


def with_baseline(order: Order) -> Compared:
    """Compares heads with the committed baseline. Raises NotComparable where there is none."""
    path, typed = order.config.baseline, order.config.typed
    file = _baseline_file.read(path, typed)

    def compared(check: Check, order: Order) -> Against:
        entry = _baseline_file.entry(path, file, check.name, typed)
        head = _gate_checks.head(order.config, check, order.how, order.jobs, order.notes)
        base, findings = _baseline_file.base(entry, head.run, check.name, order.allow, typed)
        # The check's name says what it is: its file and function may be called something else.
        allow = [*(a for a in order.allow if a in ASPECTS), "scenario"]
        try:
            comparison = compare(base, head.run, allow)
        except NotComparable as error:
            renew = renewing.command(typed, check.name)
            raise NotComparable(f"{error}; where it is meant, {renew}") from None
        comparison = replace(
            comparison, differences=(*_target(entry, head.run), *comparison.differences)
        )
        comparison = diagnose(comparison, [_headed(f) for f in findings])
        environment = entry.run.environment
        provenance = Provenance(
            kind="baseline",
            where=path.name,
            created=entry.made.created,
            reason=entry.made.reason,
            revision=entry.made.revision,
            torch=environment.torch,
            triton=environment.triton or "",
        )
        return Against(comparison, head, provenance)

    return compared


def _target(entry: Entry, head: Run) -> tuple[str, ...]:
    """What was allowed to differ is said: the base was given the head's target."""
    target = facts.described_target(head)
    return () if entry.target == target else (f"target {entry.target} → {target}",)


def _headed(finding: Finding) -> Finding:
    """The file keeps no sentences: the rule's title, and what it is about."""
    try:
        title = rule(finding.code).title
    except PerfcliError:
        return finding
    return replace(finding, headline=f"{title}: {finding.headline}")
