"""The head against another revision or another interpreter, both compiled here and, on a device
that is there, measured in turns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli.diagnosis import diagnose, examine, rule
from perfcli.diff.compare import ASPECTS, gather_evidence
from perfcli.errors import Interrupted, NotComparable, PerfcliError
from perfcli.gate import compiled
from perfcli.gate.baseline import committed, facts
from perfcli.gate.baseline.file import suggest_update
from perfcli.gate.baseline.reading import BaselineEntry
from perfcli.gate.checks import Check
from perfcli.gate.request import Against, CompareCheck, GateRequest, NoBase
from perfcli.loading.references import find_file, list_files, parse_reference
from perfcli.model import Clocks, Comparison, Finding, Provenance, Run
from perfcli.stats.timing import is_broken_off
from perfcli.workflow.fingerprint import Job, make_job
from perfcli.workflow.obtain import Obtained, obtain
from perfcli.workflow.pair import measure_times
from perfcli.workflow.request import Question, Side, order_jobs
from perfcli.workflow.revision import Revision, check_out, look_in
from perfcli.workflow.setting import MeasuringOptions, Setting, settle


@dataclass(frozen=True, slots=True)
class _Base:
    """Says where the base comes from: a revision, an interpreter, or both."""

    revision: Revision | None
    python: str | None

    @property
    def provenance(self) -> Provenance:
        if self.revision is not None:
            commit = self.revision.commit
            return Provenance("revision", self.revision.name, revision=commit)
        return Provenance("interpreter", self.python or "")


def _with_base(base: _Base) -> CompareCheck:
    """Compares heads with what the base makes of the same check."""

    def compare_check(check: Check, order: GateRequest) -> Against:
        return _compare_with(base, check, order)

    return compare_check


def _compare_with(base: _Base, check: Check, order: GateRequest) -> Against:
    question, side = compiled._asked(order.config, check)
    before = _ask_base(base, check, order, question)
    setting = _settle_setting(question, order)
    ours, jobs_base = _make_base(base, before, replace(side, python=base.python), order)
    theirs, jobs_head = _make_side(question, side, order)
    compiled._check_kernels(theirs.run, check)
    jobs = [*jobs_base, *jobs_head]
    comparison = gather_evidence(ours.run, theirs.run, [a for a in order.allow if a in ASPECTS])

    def measure() -> Comparison:
        assert setting is not None
        found = measure_times(comparison, setting, jobs, order.context)
        if is_broken_off(found.timing):
            raise Interrupted(f"interrupted while {check.name} was measured")
        return diagnose(found)  # what was measured has findings of its own

    environment = ours.run.environment
    provenance = replace(base.provenance, torch=environment.torch, triton=environment.triton or "")
    if setting is None:
        return Against(diagnose(comparison), theirs, provenance, ours)
    return Against(measure(), theirs, provenance, ours, again=measure)


def _settle_setting(question: Question, order: GateRequest) -> Setting | None:
    """Return how to measure, None where a check is for a target: the budget and whose time decides
    are the configuration's. A CPU has one clock, whatever is configured."""
    if question.target:
        return None
    setting = settle(
        question, MeasuringOptions(allow_env=order.allow_env, no_time=order.no_time), order.context
    )
    if setting is None:
        return None
    asked = replace(setting.asked, clocks=order.config.clocks)
    return replace(setting, asked=asked, budget=order.config.budget or setting.budget)


def _make_side(
    question: Question,
    side: Side,
    order: GateRequest,
    revision: Revision | None = None,
    path: Sequence[Path] = (),
) -> tuple[Obtained, Sequence[Job]]:
    """Compile a side; with a ``revision`` the question is about its files.

    ``path``: folders that Python looks in first.
    """
    jobs = order_jobs(question, [side], order.context)
    if path:
        jobs = [make_job(look_in(job.request, path), job.interpreter) for job in jobs]
    own = revision is not None and bool(question.folder or find_file(question.scenario))
    current = Path(question.folder or Path.cwd())
    if own and revision is not None and (folder := revision.working_folder(current)):
        jobs = [make_job(replace(job.request, folder=str(folder)), job.interpreter) for job in jobs]
    # Files that are gone in a minute are never compiled again: their run is of no more use.
    (found,) = obtain(jobs, order.context, keeps=not own)
    return found, jobs


def _make_base(
    base: _Base, question: Question, side: Side, order: GateRequest
) -> tuple[Obtained, Sequence[Job]]:
    """Return the base of its own files.

    What it imports of the user's checkout, since the project is installed from there (``pip install
    -e``), is the head's code: then it is compiled once more, with the revision's folders before
    those. Raises PerfcliError where that does not help.
    """
    found, jobs = _make_side(question, side, order, base.revision)
    if base.revision is None or not (foreign := base.revision.foreign(found.run.sources)):
        return found, jobs
    path = base.revision.import_folders(foreign)
    found, jobs = _make_side(question, side, order, base.revision, path)
    if foreign := base.revision.foreign(found.run.sources):
        raise PerfcliError(
            f"the base at {base.revision.name} imports {foreign[0]}, which is the head's: give an "
            "interpreter in which it is not installed (--base-python), or compare with a baseline"
        )
    # How it was found is no difference between the two.
    plain = replace(found.run, variant=replace(found.run.variant, env={}, name="default"))
    return replace(found, run=plain), jobs


def _ask_base(base: _Base, check: Check, order: GateRequest, question: Question) -> Question:
    """Return the same question, of the base's files. Raises NoBase where it has none for it."""
    folder = order.config.folder
    reference = parse_reference(check.scenario, folder=folder)
    if base.revision is None or not (reference.path or reference.script):
        return question
    places = [base.revision.place(folder / path) for path in list_files(reference)]
    if not any(place.is_file() for place in places):
        raise NoBase(f"{check.name} is new: {base.revision.name} has no {list_files(reference)[0]}")
    if not reference.path:
        return question
    return replace(question, scenario=reference.move(str(places[0])).text)


def _with_baseline(order: GateRequest) -> CompareCheck:
    """Compares heads with the committed baseline. Raises NotComparable where there is none."""
    path, typed = order.config.baseline, order.config.typed
    file = committed.read(path, typed)

    def compare_check(check: Check, order: GateRequest) -> Against:
        entry = committed.entry(path, file, check.name, typed)
        head = compiled.compile_head(order.config, check, order.context)
        base, findings = committed.base(entry, head.run, check.name, order.allow, typed)
        # The check's name says what it is: its file and function may be called something else.
        allow = [*(a for a in order.allow if a in ASPECTS), "scenario"]
        try:
            comparison = gather_evidence(base, head.run, allow)
        except NotComparable as error:
            renew = suggest_update(typed, check.name)
            raise NotComparable(f"{error}; where it is meant, {renew}") from None
        comparison = replace(
            comparison, differences=(*_say_target(entry, head.run), *comparison.differences)
        )
        # As when the file was made: the comparison has estimates of what both sides have alone.
        _, own = examine(head.run)
        # Another release may find more in code that is the same.
        of_base = own if _is_unchanged(comparison) else [_give_headline(f) for f in findings]
        comparison = diagnose(comparison, of_base, own)
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

    return compare_check


def _say_target(entry: BaselineEntry, head: Run) -> tuple[str, ...]:
    """Return what was allowed to differ, because it is said: the base was given the head's
    target."""
    target = facts.described_target(head)
    return () if entry.target == target else (f"target {entry.target} → {target}",)


def _is_unchanged(comparison: Comparison) -> bool:
    """Return whether nothing that was compared differs."""
    numbers = all(change.outcome == "same" for change in comparison.totals)
    return numbers and not comparison.changed_groups and not comparison.besides


def _give_headline(finding: Finding) -> Finding:
    """Return the finding with a headline, because the file keeps no sentences: the rule's title,
    and what it is about."""
    try:
        title = rule(finding.code).title
    except PerfcliError:
        return finding
    return replace(finding, headline=f"{title}: {finding.headline}")


@dataclass(frozen=True, slots=True)
class Wish:
    baseline: Path | None = None
    revision: str | None = None
    python: str | None = None
    allow_env: tuple[str, ...] = ()
    no_time: bool = False
    strict: bool = False
    clocks: Clocks | None = None

    @property
    def pair(self) -> bool:
        """Return whether the base is compiled here."""
        return self.revision is not None or self.python is not None

    def check(self) -> None:
        """Raise PerfcliError for options that contradict each other."""
        if self.pair and self.baseline is not None:
            raise PerfcliError("--baseline is a base already: leave out --base-rev, --base-python")
        typed = {"--allow-env": self.allow_env, "--no-time": self.no_time, "--time": self.clocks}
        option = next((name for name, value in typed.items() if value), "")
        if not self.pair and option:
            raise PerfcliError(
                f"{option}: a baseline has no times: leave it out, or give --base-rev"
            )

    def command(self, checks: Sequence[str], typed: Sequence[str] = ()) -> str:
        """Return the command that makes it again. ``typed``: options that mean other files."""
        words = ["perfcli", "gate", *checks, *typed]
        words += ["--base-rev", self.revision] if self.revision else []
        words += ["--base-python", self.python] if self.python else []
        words += ["--time", self.clocks] if self.clocks else []
        words += ["--strict"] if self.strict else []
        return shlex.join(words)


@contextmanager
def base_of(wish: Wish, order: GateRequest) -> Iterator[CompareCheck]:
    """Yield what compares a check with its base. Raises PerfcliError and NotComparable where there
    is no base at all."""
    if not wish.pair:
        yield _with_baseline(order)
        return
    if wish.revision is None:
        yield _with_base(_Base(None, wish.python))
        return
    with ExitStack() as stack:
        try:
            revision = stack.enter_context(check_out(wish.revision, order.config.folder))
        except PerfcliError as error:
            raise PerfcliError(f"--base-rev: {error}", detail=error.detail) from error
        yield _with_base(_Base(revision, wish.python))
