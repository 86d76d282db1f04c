"""Makes what the page shows of one check: its verdict, its limits, where its base comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfcli.model import Comparison, FindingResult, Judged, LimitState, Passing

from .._rows.judgement import (
    STATES,
    join_lines,
    name_check,
    name_limited,
    write_allowance,
    write_check_outcome,
    write_limit,
    write_provenance,
    write_reason,
)
from .comparison import ComparisonView, _comparison_view, _run_view
from .data import PageTexts, _check_id

_STATES: tuple[LimitState, ...] = ("broken", "unknown", "allowed", "kept", "better")
KEPT: tuple[LimitState, ...] = ("kept", "better")
_CLASSES = {
    "PASS": "good", "BETTER": "good", "FASTER": "good", "SAME": "good",
    "FAIL": "bad", "WORSE": "bad", "SLOWER": "bad", "ERROR": "bad", "UNSURE": "doubt",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _LimitLine:
    """``state``: as the limit's, for its colour; ``word``: what people read."""

    state: str
    word: str
    on: str
    text: str


@dataclass(frozen=True, slots=True)
class CheckView:
    number: int
    id: str
    name: str
    word: str
    look: str
    """The word's colour: ``good``, ``bad`` or ``doubt``; empty where there is no word."""
    reason: str
    """Of a run by itself how many findings it has."""
    fault: str
    outcome: Passing
    where_from: str
    limits: tuple[_LimitLine, ...]
    kept: tuple[_LimitLine, ...]
    """Those that nobody has to look at."""
    comparison: ComparisonView | None


def _check_view(judged: Judged, number: int, root: str, texts: PageTexts) -> CheckView:
    word = write_check_outcome(judged)
    ours = judged.provenance is not None and judged.provenance.kind != "run"
    comparison = judged.comparison
    limits = list(_limits(judged))
    return CheckView(
        number=number,
        id=_check_id(number),
        name=name_check(judged),
        word=word,
        look=_look(word),
        reason=write_reason(judged),
        outcome=judged.outcome,
        fault=join_lines(judged.fault),
        where_from=write_provenance(judged) if ours else "",
        limits=tuple(line for line in limits if line.state not in KEPT),
        kept=tuple(line for line in limits if line.state in KEPT),
        comparison=_shown(judged, comparison, number, root, texts) if comparison else None,
    )


def _shown(
    judged: Judged, comparison: Comparison, number: int, root: str, texts: PageTexts
) -> ComparisonView:
    known = texts.of(judged.texts)
    if judged.alone:
        return _run_view(comparison, number, root, known)
    return _comparison_view(comparison, number, root, known)


def _look(word: str) -> str:
    return _CLASSES.get(word, "doubt") if word else ""


# --- limits ----------------------------------------------------------------------------------


def _limits(judged: Judged) -> Iterator[_LimitLine]:
    """Yield those that are broken first."""
    for result in sorted(judged.limits, key=lambda r: _STATES.index(r.state)):
        word = STATES[result.state]
        on, text = name_limited(result), write_limit(result)
        yield _LimitLine(result.state, word, on, text.removeprefix(f"{on}: "))
    for finding in judged.findings:
        if judged.comparison is not None:
            yield _finding_limit(judged.comparison, finding)


def _finding_limit(comparison: Comparison, result: FindingResult) -> _LimitLine:
    finding = comparison.findings[result.finding]
    excepted = result.allowance
    more = f"; {write_allowance(excepted)}" if excepted else ""
    return _LimitLine(result.state, result.state, finding.code, f"{finding.headline}{more}")
