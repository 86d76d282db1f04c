"""Runs a sweep: every point compiled, or found in the store, each with its own errors."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from perfcli import units
from perfcli.diff.metrics import totals
from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.loading.references import name_missing
from perfcli.model import Run, Swept
from perfcli.predict.step import estimate_step
from perfcli.sweep.devices import Devices
from perfcli.sweep.measuring import Sessions
from perfcli.sweep.pareto import rank
from perfcli.sweep.plan import SweepPoint
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import Obtained, obtain_each
from perfcli.workflow.request import Question, check_compiled, make_jobs, read_reference
from perfcli.workflow.setting import Setting


def run_sweep(
    points: Sequence[SweepPoint], context: Context, devices: Devices | None = None
) -> tuple[Swept, ...]:
    """Return what came of each point, in order, measured on ``devices`` where there are any. What
    is finished is stored at once, and found there by the next sweep. Raises PerfcliError where not
    one point can be compiled for what was typed, Interrupted on Ctrl-C."""
    if devices is not None:
        points = [_fit(point, devices.setting) for point in points]
        context = replace(context, jobs=context.jobs or devices.count_spare_cores())
    found: dict[int, Swept] = {}
    jobs: dict[int, Job] = {}
    for number, made in enumerate(make_all(points, context)):
        if isinstance(made, PerfcliError):
            found[number] = replace(_begin(points[number]), error=str(made))
        else:
            jobs[number] = made
    with ExitStack() as stack:
        sessions = None
        if devices is not None:
            jobs = {
                n: replace(j, request=replace(j.request, measured=True)) for n, j in jobs.items()
            }
            groups = _group(points, jobs)
            sessions = stack.enter_context(Sessions(devices, groups, context.notes))
        numbers = list(jobs)
        arriving = stack.enter_context(
            closing(obtain_each(list(jobs.values()), context, again=None))
        )
        for place, obtained in arriving:
            number = numbers[place]
            found[number] = _finish(_begin(points[number], jobs[number]), obtained)
            if sessions is not None:
                sessions.take(number, jobs[number], obtained)
        if sessions is not None:
            for number, measured in sessions.finish().items():
                found[number] = replace(found[number], measured=measured)
    return rank([found[number] for number in range(len(points))])


def _fit(point: SweepPoint, setting: Setting) -> SweepPoint:
    """Return the point compiled for as many threads as it is measured with."""
    return replace(point, question=replace(point.question, threads=setting.threads))


def _group(points: Sequence[SweepPoint], numbers: Iterable[int]) -> list[list[int]]:
    """Return the numbers of the points that compute the same, in order."""
    groups: dict[Question, list[int]] = {}
    for number in numbers:
        groups.setdefault(points[number].question, []).append(number)
    return list(groups.values())


def make_all(points: Sequence[SweepPoint], context: Context) -> list[Job | PerfcliError]:
    """Return the job of each point, or what is wrong with it: of several scenarios and releases
    some may lack an option. Raises the first error where all points have one, or all with a target,
    or with a value of a parameter or option, whose scenario and interpreter do otherwise."""
    for scenario in dict.fromkeys(point.question.scenario for point in points):
        check_compiled(scenario, context)
        _check_there(scenario)
    probe = {
        device: functools.cache(context.choose_probe(device))
        for device in {point.question.device for point in points}
    }
    made: list[Job | PerfcliError] = []
    for point in points:
        try:
            device = probe[point.question.device]
            (job,) = make_jobs(point.question, [point.side], device, context.jobs)
            made.append(job)
        except PerfcliError as error:
            made.append(error)
    errors = [each for each in made if isinstance(each, PerfcliError)]
    if errors and len(errors) == len(made):
        raise errors[0]
    if (wrong := _find_wrong_value(points, made)) is not None:
        raise wrong
    return made


def _find_wrong_value(
    points: Sequence[SweepPoint], made: Sequence[Job | PerfcliError]
) -> PerfcliError | None:
    """Return what is wrong with a value that no point can have; None where there is none."""
    pairs = list(zip(points, made, strict=True))
    sound = {_name_maker(point) for point, each in pairs if not isinstance(each, PerfcliError)}
    wrong: dict[object, PerfcliError | None] = {}
    for point, each in pairs:
        if _name_maker(point) in sound:
            error = each if isinstance(each, PerfcliError) else None
            for value in _list_values(point):
                wrong[value] = wrong.get(value, error) if error else None
    return next((error for error in wrong.values() if error is not None), None)


def _name_maker(point: SweepPoint) -> tuple[str, str | None]:
    return point.question.scenario, point.side.python


def _list_values(point: SweepPoint) -> Iterator[object]:
    """Yield where a point lies on the axes of target, parameters and options."""
    yield "target", point.target
    for axis, values in (("param", point.params), ("option", point.options)):
        yield from ((axis, name, units.setting(value)) for name, value in values.items())


def _check_there(scenario: str) -> None:
    """Raise PerfcliError for a scenario or a file that is not there: that is no variant's own."""
    reference = read_reference(scenario)
    if reference.kind == "scenario":
        registry.scenario(scenario)
    elif reference.path and not reference.revision and not Path(reference.path).is_file():
        raise PerfcliError(name_missing(Path(reference.path), reference.path))


def _begin(point: SweepPoint, job: Job | None = None) -> Swept:
    target, torch = point.target, ""
    if job is not None:
        request, torch = job.request, job.interpreter.torch or ""
        target = request.place
    return Swept(
        point.question.scenario,
        point.params,
        point.options,
        target=target,
        torch=torch,
        python=point.side.python or "",
    )


def _finish(begun: Swept, obtained: Obtained | PerfcliError) -> Swept:
    """Return the variant with the numbers of its run, or with its error."""
    if isinstance(obtained, PerfcliError):
        return replace(begun, error=str(obtained))
    run = obtained.run
    step = estimate_step(run)
    return replace(
        begun,
        target=run.place,
        torch=run.environment.torch,
        run=obtained.reference or run.id,
        reused=not obtained.compiled,
        seconds=step.seconds if step else None,
        low=step.low if step else None,
        high=step.high if step else None,
        metrics=_measure(run),
        compile_seconds=round(sum(run.compile_seconds.values()), 3),  # as its parts are
        compile_cpu_seconds=run.compile_work.cpu_seconds if run.compile_work else None,
    )


def _measure(run: Run) -> dict[str, float | None]:
    return {change.metric: change.head for change in totals(run, run)}
