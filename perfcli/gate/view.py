"""Renders a gate for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.frames.table import Column, Table
from perfcli.gate import holding
from perfcli.gate.judgement import NO_TIMES
from perfcli.model import Comparison, Judged, Judgement, KernelGroup, LimitResult, Origin

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

WORDS = {"pass": "PASS", "fail": "FAIL", "unsure": "UNSURE", "fault": "ERROR"}
_STYLES = {"pass": "green", "fail": "bold red", "unsure": "yellow", "fault": "bold red"}
_LISTED = 8
_OF_NAMES = "PC80"  # new, gone and renamed kernels
_WEIGH = (
    "bytes_moved", "peak_memory_bytes", "spilled_words", "vector_loads", "kernels", "graph_breaks",
    "extern_calls",
)  # fmt: skip


def report(judgement: Judgement, quiet: bool) -> Group:
    """Return one line for each check, what is broken in each, and what to know besides."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")  # a line of a log is not broken
    above = [warning for warning in judgement.warnings if warning.startswith(NO_TIMES)]
    _append_warnings(text, above)
    text.append(WORDS[judgement.outcome], _STYLES[judgement.outcome])
    text.append(f"  {judgement.reason}\n")
    shown = [check for check in judgement.checks if not (quiet and check.outcome == "pass")]
    if not quiet:
        text.append("\n")
    width = max((len(check.name) for check in shown), default=0)
    for check in shown:
        text.append(f"  {WORDS[check.outcome]:<6}", _STYLES[check.outcome])
        reason = _shorten_paths(check.fault or check.reason, judgement.root)
        text.append(units.printable(f"  {check.name:<{width}}  {reason}\n"))
    if quiet:
        return _whole(text)
    for check in judgement.checks:
        if lines := list(_details(check)):
            text.append(units.printable(f"\n{check.name}{_from(check)}\n"), "bold")
            short = [_shorten_paths(line, judgement.root) for line in lines]
            text.append("".join(units.printable(f"  {line}\n") for line in short))
    below = [warning for warning in judgement.warnings if warning not in above]
    if below:
        text.append("\n")
    _append_warnings(text, below)
    return _whole(text)


def _append_warnings(text: Text, warnings: Sequence[str]) -> None:
    for warning in warnings:
        text.append("warning: ", "yellow")
        text.append(units.printable(f"{warning}\n"))


def _shorten_paths(text: str, root: str) -> str:
    """Return a text whose paths inside the repository are relative to it."""
    return text.replace(f"{root.rstrip('/')}/", "") if root else text


def _whole(text: Text) -> Group:
    from rich.console import Group

    text.rstrip()
    return Group(text)  # alone, a text forgets that it is not wrapped


def _from(check: Judged) -> str:
    """Return ``, against perfcli-baseline.toml of 2026-11-22 (first baseline)``."""
    source = check.provenance
    if source is None:
        return ""
    parts = [source.where, f"of {source.created}" if source.created else ""]
    parts += [f"({source.reason})" if source.reason else ""]
    return f", against {' '.join(part for part in parts if part)}"


def _details(check: Judged) -> Iterator[str]:
    if check.comparison is None:
        return
    causes_first = sorted(check.limits, key=lambda result: not result.is_cause)
    for word, state in (("broken", "broken"), ("allowed", "allowed"), ("not known", "unknown")):
        for result in causes_first:
            if result.state == state:
                yield f"{word}: {result.text}"
                yield from _line_of(result.origin)
                if result.allowance:
                    yield f"  {result.allowance.reason} ({result.allowance.owner})"
    if check.outcome != "pass" and (better := list(_better(check.comparison))):
        yield f"better: {', '.join(better)}"
    yield from _findings(check, check.comparison)
    yield from kernels(check.comparison)


def _better(comparison: Comparison) -> Iterator[str]:
    for change in comparison.totals:
        if change.outcome == "better" and change.metric in _WEIGH:
            yield holding._moved(change)


def _findings(check: Judged, comparison: Comparison) -> Iterator[str]:
    states = {each.finding: each for each in check.findings}
    for number, finding in enumerate(comparison.findings):
        said = finding.severity != "info" or finding.code.startswith(_OF_NAMES)
        if finding.came_with_head and (number in states or (said and not finding.explained_by)):
            usual = "note" if finding.severity == "info" else "doubt"
            state = states[number].state if number in states else usual
            yield f"{state}: {finding.code} {finding.headline}"
            yield from _line_of(finding.origin)
            if finding.advice:
                yield f"  {finding.advice}"


def _line_of(origin: Origin | None) -> Iterator[str]:
    """Yield where in the model it comes from: ``  norm.py:14  print(x)``."""
    if origin is not None and (origin.location or origin.code):
        yield f"  {'  '.join(part for part in (origin.location, origin.code.strip()) if part)}"


# --- kernels ---------------------------------------------------------------------------------


def kernels(comparison: Comparison) -> Iterator[str]:
    """Yield what became of the kernels that are not the same, most of them in a line each."""
    changed = comparison.changed_groups
    for group in changed[:_LISTED]:
        yield f"{group.match.relation}: {_names(comparison, group)}"
    if len(changed) > _LISTED:
        yield f"and {units.plural(len(changed) - _LISTED, 'more group')} of kernels"


def _names(comparison: Comparison, group: KernelGroup) -> str:
    sides = group.match.select(comparison.base, comparison.head)
    base, head = ([kernel.name for kernel in side] for side in sides)
    if not base or not head or base == head:
        return ", ".join(head or base)
    return f"{', '.join(base)} → {', '.join(head)}"


# --- table -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LimitRow:
    """Holds a check with one of its limits, or without any."""

    check: Judged
    result: LimitResult | None = None


def list_limits(judgement: Judgement) -> list[LimitRow]:
    """Return all limits of all checks as rows; one row for a check that has none."""
    return [
        LimitRow(check, result)
        for check in judgement.checks
        for result in (check.limits or (None,))
    ]


def _of_result(field: str) -> Callable[[LimitRow], Any]:
    return lambda row: row.result and getattr(row.result, field)


LIMITS: Table[LimitRow] = Table(
    "limits",
    "a limit of a check, or a check without any",
    "`gate`",
    (
        Column("check", "text", "its name", lambda row: row.check.name),
        Column("outcome", "text", "pass, fail, unsure or fault", lambda row: row.check.outcome),
        Column("reason", "text", "why", lambda row: row.check.reason),
        Column("metric", "text", "what is limited", lambda r: r.result and r.result.limit.metric),
        Column("state", "text", "kept, broken, allowed, unknown or better", _of_result("state")),
        Column("kernel", "text", "the kernel; of a total none", lambda row: _kernel(row.result)),
        Column("base", "number", "the base's value, in the metric's unit", _of_result("base")),
        Column("head", "number", "the head's value", _of_result("head")),
        Column("allowed", "number", "where the limit breaks", _of_result("allowed")),
        Column("text", "text", "all of it in words", _of_result("text")),
    ),
)


def _kernel(result: LimitResult | None) -> str | None:
    return (result and result.kernel) or None
