"""The two runs of ``compare``, stored or compiled, held together and where possible measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from perfcli.console import documents, output
from perfcli.console.notes import Notes
from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare
from perfcli.diff.verdict.conclude import conclude
from perfcli.errors import PerfcliError, RuleFailed
from perfcli.model import GRAVEST_FIRST, Comparison, Judged, Judgement, Outcome, Passing, Provenance
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import (
    Obtained,
    StoredTexts,
    load_stored,
    obtain,
    warn_forward_only,
)
from perfcli.workflow.request import Question, Side, order_jobs
from perfcli.workflow.setting import MeasuringOptions, settle
from perfcli.workflow.timing import load_times, measure_times


@dataclass(frozen=True, slots=True)
class Pair:
    """``comparison`` has its times, or what is wrong with its results: ``judge`` concludes it."""

    base: Obtained
    head: Obtained
    comparison: Comparison


def load_pair(
    base: str, head: str, asked: MeasuringOptions, allow: Collection[str], notes: Notes
) -> Pair:
    """Return two stored runs with the newest measurement of them.

    Raises PerfcliError where there are none, NotComparable where they are unlike.
    """
    asked.refuse("two stored runs are compared as they are, with their newest measurement")
    ours, theirs = load_stored(base), load_stored(head)
    comparison = compare(ours.run, theirs.run, allow)
    timing = None if asked.no_time else load_times(comparison, notes)
    return Pair(ours, theirs, replace(comparison, timing=timing))


def compile_pair(
    question: Question,
    sides: Sequence[Side],
    asked: MeasuringOptions,
    allow: Collection[str],
    context: Context,
) -> Pair:
    """Return two variants of a scenario, compiled or reused, then measured where there is a device.

    Raises PerfcliError for what the user got wrong, and what compiling and measuring raise.
    """
    setting = settle(question, asked, context)
    question = replace(question, threads=setting.threads if setting else None)
    jobs = order_jobs(question, sides, context)
    base, head = obtain(jobs, context)
    warn_forward_only(head.run, context.notes)
    comparison = compare(base.run, head.run, allow)
    if setting is not None:
        comparison = measure_times(comparison, setting, jobs, context)
    return Pair(base, head, comparison)


def judge(comparison: Comparison) -> tuple[Comparison, RuleFailed | None]:
    """Return the comparison with its findings and its verdict. A rule that failed is for the end:
    the report stands without findings."""
    try:
        return diagnose(comparison), None
    except RuleFailed as error:
        return conclude(comparison), error


_PASSING: dict[Outcome, Passing] = {
    "same": "pass", "better": "pass", "worse": "fail", "unknown": "unsure",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pairing:
    """Holds one comparison for a document: the two runs, and how they compare.

    ``name`` tells it from others; ``fault`` is what of perfcli failed while it was judged.
    """

    base: Obtained
    head: Obtained
    comparison: Comparison
    name: str = ""
    fault: str = ""
    alone: bool = False
    """One run by itself: it is both sides."""


def judgement_of(pairings: Sequence[Pairing], command: str = "") -> Judgement:
    """Return comparisons that nobody put limits on as a judgement: as bad as the worst of them."""
    from perfcli.diagnosis import rules

    checks = tuple(_judged(pairing) for pairing in pairings)
    worst = min(range(len(checks)), key=lambda n: GRAVEST_FIRST.index(checks[n].outcome))
    return Judgement(
        checks=checks,
        outcome=checks[worst].outcome,
        reason=checks[worst].reason,
        exit_code=_exit_code(pairings[worst]),
        command=command,
        rules=rules(),
        root=str(documents.project_root()),
    )


def _exit_code(pairing: Pairing) -> int:
    """Return what ``compare`` returns."""
    if pairing.fault:
        return PerfcliError.exit_code
    return output.EXIT_CODES[pairing.comparison.outcome]


def _judged(pairing: Pairing) -> Judged:
    base = pairing.base.run
    environment = base.environment
    return Judged(
        name=pairing.name,
        outcome="fault" if pairing.fault else _PASSING[pairing.comparison.outcome],
        reason=pairing.comparison.reason,
        comparison=pairing.comparison,
        provenance=Provenance(
            kind="run",
            where=base.id,
            created=base.created[:10],
            torch=environment.torch,
            triton=environment.triton or "",
        ),
        fault=pairing.fault,
        alone=pairing.alone,
        texts=StoredTexts(pairing.base, pairing.head),
    )
