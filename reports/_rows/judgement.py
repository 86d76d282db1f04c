"""A judgement in words: of all checks, of each, and of each limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Allowance, Judged, Judgement, LimitResult, LimitState, Passing

from .._screen.findings import sum_up
from .totals import write_questions, write_verdict

OUTCOME_WORDS: Mapping[Passing, str] = {
    "pass": "PASS",
    "fail": "FAIL",
    "unsure": "UNSURE",
    "fault": "ERROR",
}
STATES: Mapping[LimitState, str] = {
    "kept": "kept",
    "broken": "broken",
    "allowed": "allowed",
    "unknown": "not known",
    "better": "better",
}


@dataclass(frozen=True, slots=True)
class _CheckRow:
    """``text``: one sentence, safe to show, not escaped."""

    word: str
    name: str
    text: str


def is_plain(judgement: Judgement) -> bool:
    """Return whether it is of comparisons that nobody put limits on."""
    return all(map(is_plain_check, judgement.checks))


def is_plain_check(check: Judged) -> bool:
    own = check.provenance is not None and check.provenance.kind == "run"
    return own and not check.limits and not check.findings


def write_outcome(judgement: Judgement) -> str:
    """Return ``FAIL``; of plain comparisons the verdict of the one that decided, ``WORSE``, or what
    the command concludes."""
    if judgement.conclusion is not None:
        return judgement.conclusion.word
    if is_plain(judgement):
        decided = (c for c in judgement.checks if c.outcome == judgement.outcome)
        return next(map(write_check_outcome, decided), OUTCOME_WORDS[judgement.outcome])
    return OUTCOME_WORDS[judgement.outcome]


def write_check_outcome(check: Judged) -> str:
    """Return the gate's word; of a plain comparison its verdict; none of a run by itself."""
    if check.comparison is None or check.outcome == "fault" or not is_plain_check(check):
        return OUTCOME_WORDS[check.outcome]
    return "" if check.alone else write_verdict(check.comparison)


def name_check(check: Judged) -> str:
    """Return its name, or for a plain comparison what is compared and its target."""
    if check.name:
        return units.printable(check.name)
    if check.comparison is None:
        return "comparison"
    base, head = check.comparison.base, check.comparison.head
    where = head.place
    if base.scenario != head.scenario:
        return units.printable(f"{base.scenario} → {head.scenario} · {where}")
    return units.printable(f"{head.scenario}@{where}")


def write_reason(check: Judged) -> str:
    """Return why, in one sentence; of a run by itself how many findings it has."""
    if check.alone and check.comparison is not None and not check.fault:
        return sum_up(check.comparison.head, check.comparison.findings)
    return join_lines(check.fault or check.reason)


def list_checks(judgement: Judgement) -> list[_CheckRow]:
    """Return a row for each check, in the judgement's order."""
    return [
        _CheckRow(write_check_outcome(check), name_check(check), write_reason(check))
        for check in judgement.checks
    ]


def _question(check: Judged) -> str:
    """Return what was compiled, in one line; empty where nothing was."""
    return write_questions(check.comparison) if check.comparison else ""


def write_provenance(check: Judged) -> str:
    """Return where the base comes from: ``baseline perfcli-baseline.toml of 2026-11-22 (first
    one)``."""
    source = check.provenance
    if source is None:
        return ""
    parts = [source.kind, source.where]
    parts += [f"of {source.created}"] if source.created else []
    parts += [f"at {source.revision[:12]}"] if source.revision and source.kind == "baseline" else []
    parts += [f"({source.reason})"] if source.reason else []
    return join_lines(" ".join(parts))


def write_limit(result: LimitResult) -> str:
    """Return ``spilled words 2 → 94, at most 2``, with the exception that covers it."""
    text = join_lines(result.text) or units.title(result.limit.metric)
    return f"{text}; {write_allowance(result.allowance)}" if result.allowance else text


def name_limited(result: LimitResult) -> str:
    """Return what it is put on: a kernel, or the total."""
    return units.printable(result.kernel) if result.group is not None or result.kernel else "total"


def write_allowance(allowance: Allowance) -> str:
    owner = f"{allowance.owner}, " if allowance.owner else ""
    return join_lines(f"allowed ({owner}until {allowance.expires}): {allowance.reason}")


def join_lines(text: str) -> str:
    return units.printable(" ".join(text.split()))
