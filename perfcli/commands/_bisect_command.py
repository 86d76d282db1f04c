"""bisect-config from what was typed to what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from perfcli import environment
from perfcli.bisect import document, metrics
from perfcli.bisect.answer import Bisection
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.metrics import Metric
from perfcli.commands import _bisect_file, _bisect_run, _bisect_sides, _bisect_view, _obtain
from perfcli.commands import _measuring_options as measuring
from perfcli.commands import _output as output
from perfcli.commands import _pair as pairs
from perfcli.commands._bisect_asked import Asked, ends_of, identity
from perfcli.commands._bisect_sides import Sides
from perfcli.commands._measuring_options import Setting
from perfcli.commands._obtain import How, Obtained
from perfcli.commands._progress import Notes
from perfcli.commands._request import Job, Question, choose_device
from perfcli.diff.compare import compare
from perfcli.errors import NotComparable, PerfcliError
from perfcli.model import Comparison
from perfcli.search.improvement import Direction
from perfcli.worker.generator import Generator

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Typed:
    """Options of bisect-config alone."""

    metric: str
    good: tuple[str, ...]
    bad: tuple[str, ...]
    good_python: str | None
    bad_python: str | None
    direction: str | None
    max_runs: int | None
    budget: float | None
    flip: bool
    resume: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    json: Path | None
    quiet: bool
    report: bool


def bisect(
    question: Question,
    typed: Typed,
    timing: measuring.Asked,
    how: How,
    shown: Shown,
    notes: Notes,
) -> int:
    """The exit code. Raises PerfcliError for what the user got wrong, and what compiling raises."""
    device, _ = choose_device(question.device, question.target)
    metric = metrics.find(typed.metric, device)
    sides = Sides(typed.good, typed.bad, typed.good_python, typed.bad_python)
    direction = _direction(typed, sides)
    setting = _setting(question, metric, timing, how)
    question = replace(question, threads=setting.threads if setting else None)
    place = _obtain.workshop(how, question.device)
    plan = _bisect_sides.plan(question, sides, metric, place.probe)
    for job in {job.interpreter.torch: job for job in plan.jobs}.values():
        if warning := environment.torch_warning(job.interpreter.torch):
            notes.warn(warning)
    asked = Asked(
        question,
        plan,
        metric,
        how,
        direction,
        setting,
        typed.max_runs,
        typed.budget,
        typed.flip,
    )
    known = identity(asked)
    if typed.resume:
        record = _bisect_file.resumed(typed.resume, known)
    else:
        record = _bisect_file.Record(known, Knowledge())
    generator = _generator(how)
    try:
        found = _bisect_run.search(asked, record, generator, notes)
    finally:
        generator.close()
        record.save()
        if record.failure:
            notes.warn(f"{record.failure}; the search can't be resumed")
    jobs = ends_of(asked, found.cure)
    ends = _compared(jobs, how, notes, place) if _worth_comparing(found) else None
    _show(found, ends, shown)
    return found.exit_code


def _direction(typed: Typed, sides: Sides) -> Direction | None:
    if not sides.is_catalogue:
        if typed.direction:
            raise PerfcliError(
                "--direction is for the catalogue: leave it out, or leave out the bad side"
            )
        return None
    chosen = typed.direction or "worsen"
    for known in get_args(Direction):
        if chosen == known:
            return chosen  # type: ignore[return-value]  # one of the two
    raise PerfcliError(f"--direction is improve or worsen, not {chosen!r}")


def _setting(
    question: Question, metric: Metric, timing: measuring.Asked, how: How
) -> Setting | None:
    """How to measure; None for metrics that need no device. Raises PerfcliError where the metric
    needs one that is not there."""
    if metric.kind not in ("time", "memory"):
        timing.refuse(f"{metric.name} is not measured on a device")
        return None
    if metric.kind == "memory" and not timing.typed and question.device == "cpu":
        return None
    setting = measuring.settle(question, timing, how)
    if metric.kind == "memory":
        return setting if setting and setting.device == "cuda" else None
    if setting is None:
        where = f"--target {question.target} is no device" if question.target else "none is here"
        raise PerfcliError(
            f"{metric.name} is measured on a device, and {where}: give --device cpu, or call "
            "perfcli where the GPU is; spills, bytes, lower-bound and others need none"
        )
    return setting


def _generator(how: How) -> Generator:
    if plan := _obtain.fake_plan(how):
        from perfcli.worker.fake_generator import FakeGenerator

        return FakeGenerator(plan)
    from perfcli.worker.template import TemplateProcess

    return TemplateProcess(how.timeout)


# --- the comparison of both ends -----------------------------------------------------------------


def _worth_comparing(found: Bisection) -> bool:
    """Not where it was interrupted: nobody waits. Of a catalogue where there is an answer."""
    if found.stopped == "interrupted":
        return False
    return found.direction is None or bool(found.cure)


@dataclass(frozen=True, slots=True)
class Compared:
    comparison: Comparison
    places: list[tuple[str, str]]


def _compared(
    jobs: Sequence[Job], how: How, notes: Notes, place: _obtain.Workshop
) -> Compared | None:
    """Both compiled to the end, each in a fresh process, or as stored."""
    try:
        runs: list[Obtained] = _obtain.obtain(jobs, place.executor, how.fresh, notes)
        comparison, broken = pairs.judged(compare(runs[0].run, runs[1].run))
    except NotComparable as error:
        notes.warn(f"the two ends are not compared: {error}")
        return None
    if broken:
        notes.warn(str(broken))
    return Compared(comparison, [(run.reference, run.shown_path) for run in runs])


def _line(text: str) -> Text:
    """Commands are to be pasted: they stay in one line."""
    from rich.text import Text

    if "perfcli compare " in text:
        return Text(text, no_wrap=True, overflow="ignore")
    return Text(text)


def _show(found: Bisection, ends: Compared | None, shown: Shown) -> None:
    from rich.console import Group
    from rich.text import Text

    comparison = ends.comparison if ends else None
    if shown.json is not None:
        references = [reference for reference, _ in ends.places] if ends else []
        fields = document.fields(found, comparison, references)
        output.write_document("bisection", fields, shown.json)
    lines = [_bisect_view.verdict(found)] if shown.quiet else _bisect_view.lines(found)
    output.show(Group(*map(_line, lines)), shown.json)
    if ends is None or shown.quiet:
        return
    screen = output.screen()
    head = Text("\nthe two ends:" if found.direction is None else "\nbefore and after:")
    body = screen.comparison(ends.comparison, ends.places, not shown.report, False)
    output.show(Group(head, body), shown.json)
    references = [reference for reference, _ in ends.places]
    if not shown.report and all(references):
        line = f"look closer: perfcli compare {' '.join(references)}"
        output.show(Group(_line(line)), shown.json)
