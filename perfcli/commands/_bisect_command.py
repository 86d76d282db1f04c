"""bisect-config from what was typed to what is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from perfcli import environment
from perfcli.bisect import metrics
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.metrics import Metric
from perfcli.commands import _bisect_file, _bisect_run, _bisect_sides, _obtain
from perfcli.commands import _measuring_options as measuring
from perfcli.commands import _output as output
from perfcli.commands._bisect_across import check_comparable
from perfcli.commands._bisect_asked import Asked, ends_of, identity
from perfcli.commands._bisect_shown import Shown, compared, show, worth_comparing
from perfcli.commands._bisect_sides import Sides
from perfcli.commands._measuring_options import Setting
from perfcli.commands._obtain import How
from perfcli.commands._progress import Notes
from perfcli.commands._request import Question, choose_device
from perfcli.errors import PerfcliError
from perfcli.search.improvement import Direction
from perfcli.worker.generator import Generator


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


def bisect(
    question: Question,
    typed: Typed,
    timing: measuring.Asked,
    how: How,
    shown: Shown,
    notes: Notes,
) -> int:
    """The exit code. Raises PerfcliError for what the user got wrong, and what compiling raises."""
    output.check_writable(shown.json)
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
    check_comparable(asked)
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
    ends = compared(jobs, how, notes, place) if worth_comparing(found) else None
    show(found, ends, shown)
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
