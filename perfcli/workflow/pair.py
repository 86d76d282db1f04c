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
from perfcli.workflow.obtain import Obtained, StoredTexts, load_stored, obtain, warn_forward_only
from perfcli.workflow.request import Question, Side, order_jobs
from perfcli.workflow.setting import MeasuringOptions, settle
from perfcli.workflow.timing import load_times, measure_times


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, and how they compare."""

    base: Obtained
    head: Obtained
    comparison: Comparison
    """With its times, or what is wrong with its results; findings and verdict come from
    ``judge``."""
    name: str = ""
    """What tells it from other pairs in a document."""
    fault: str = ""
    """What of perfcli failed while it was judged."""
    alone: bool = False
    """Whether one run is both sides."""


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


def summarize(pairs: Sequence[Pair], command: str = "") -> Judgement:
    """Return comparisons that nobody put limits on as a judgement: as bad as the worst of them."""
    from perfcli.diagnosis import rules

    checks = tuple(_describe(pair) for pair in pairs)
    worst = min(range(len(checks)), key=lambda n: GRAVEST_FIRST.index(checks[n].outcome))
    return Judgement(
        checks=checks,
        outcome=checks[worst].outcome,
        reason=checks[worst].reason,
        exit_code=_exit_code(pairs[worst]),
        command=command,
        rules=rules(),
        root=str(documents.find_root()),
    )


def _exit_code(pair: Pair) -> int:
    """Return what ``compare`` returns."""
    if pair.fault:
        return PerfcliError.exit_code
    return output.EXIT_CODES[pair.comparison.outcome]


def _describe(pair: Pair) -> Judged:
    base = pair.base.run
    environment = base.environment
    return Judged(
        name=pair.name,
        outcome="fault" if pair.fault else _PASSING[pair.comparison.outcome],
        reason=pair.comparison.reason,
        comparison=pair.comparison,
        provenance=Provenance(
            kind="run",
            where=base.id,
            created=base.created[:10],
            torch=environment.torch,
            triton=environment.triton or "",
        ),
        fault=pair.fault,
        alone=pair.alone,
        texts=StoredTexts(pair.base, pair.head),
    )
