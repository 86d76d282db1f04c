"""Runs ``perfcli calibrate``: times, fits and writes, or says how good estimates are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from perfcli import units
from perfcli.calibrate import view
from perfcli.calibrate.accuracy import _check_run
from perfcli.calibrate.corpus import _list_cases
from perfcli.calibrate.finished import find_finished
from perfcli.calibrate.fit import _fit_calibration
from perfcli.calibrate.measuring import _start_pool, _time_cases, _time_operators, _TimedCase
from perfcli.calibrate.operator_cases import _list_operator_cases
from perfcli.calibrate.operator_fit import fit_operators, list_residuals, write_operators
from perfcli.calibrate.steps import _make_step_jobs, _time_steps, _TimedStep
from perfcli.console import documents, output
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.machine import environment, targets
from perfcli.machine.environment import Interpreter, cache_dir
from perfcli.model.kernel_work import TimedOperator
from perfcli.predict.calibration import (
    Calibration,
    calibration_for,
    derive_calibration,
    encode_calibration,
    shipped,
)
from perfcli.predict.calibration_files import own_folder
from perfcli.predict.operators import OperatorTable, shipped_table_for
from perfcli.storing import timings
from perfcli.storing.runfile import cannot_write
from perfcli.storing.whole import write_whole
from perfcli.worker.roles import Progress
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import load_stored

_FEWEST = 50
"""Timed launches without which nothing is fitted."""


@dataclass(frozen=True, slots=True)
class Calibrating:
    """Says what is calibrated and how."""

    file: Path | None = None
    """Where to write; None: where perfcli finds it."""
    also: tuple[str, ...] = ()
    """The user's own scenarios, ``FILE.py:name``, that are timed beside the shipped ones."""
    smoke: bool = False
    python: str | None = None
    jobs: int = 1


def calibrate_gpu(asked: Calibrating, json: Path | None, notes: Notes) -> None:
    """Calibrate the first visible GPU and write the file. Raises PerfcliError where there is no
    GPU, a scenario can't be compiled, too few kernels could be timed, or a file can't be written.
    Raises Interrupted by Ctrl-C; the message says that what is finished is kept."""
    if not targets.has_gpu():
        raise PerfcliError("no NVIDIA GPU found here to calibrate: it takes one to time kernels")
    target = targets.this_gpu()
    start, table = derive_calibration(target, shipped()), shipped_table_for(target)
    if start is None or table is None:
        raise PerfcliError(f"there are no constants to start from for {target.description}")
    interpreter = environment.probe(asked.python)
    jobs = _make_step_jobs(asked.also, asked.python, asked.jobs, Context(notes), asked.smoke)
    timed = _time_all(asked, jobs, start, interpreter, notes)
    if len(timed.cases) < _FEWEST:
        raise PerfcliError(
            f"only {len(timed.cases)} kernels could be timed: too few to fit anything"
        )
    found = _fit(timed, start, table, interpreter, asked.jobs)
    path = asked.file or own_folder() / f"{target.name}.json"
    try:
        write_whole(path, encode_calibration(found))
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error
    document = {"path": str(path), "calibration": replace(found, operators=b"")}
    output.write_document("calibration", document, json)
    if not notes.quiet:
        output.print_text(view._describe_calibration(found, path), json)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Holds all that was timed."""

    cases: list[_TimedCase]
    operators: list[TimedOperator]
    host: Mapping[str, float]
    steps: list[_TimedStep]


def _time_all(
    asked: Calibrating,
    jobs: Sequence[Job],
    start: Calibration,
    interpreter: Interpreter,
    notes: Notes,
) -> _Timed:
    target = start.target
    cases, calls = _list_cases(asked.smoke), _list_operator_cases(asked.smoke)
    done = 0
    with Reporter([target.name], notes) as reporter:

        def report(text: str, count: int, total: int) -> None:
            nonlocal done
            is_timing = text.startswith("timing")
            done = count if is_timing else done
            reporter(Progress(0, "check" if is_timing else "kernels", count, total, text))

        try:
            timed, uncounted = _time_cases(cases, target, interpreter, asked.jobs, report)
            if uncounted:
                notes.say(
                    f"{units.plural(uncounted, 'kernel')} left out: perfcli could not count what "
                    "they ask of the GPU"
                )
            operators, host = _time_operators(calls, target, interpreter, notes, report)
            path = find_finished("steps", target, interpreter)
            cache = start.constants["cache_bytes"]
            steps = _time_steps(jobs, path, cache, notes, partial(report, "timing steps of models"))
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"interrupted after {done} of {len(cases)} kernels; {cache_dir() / 'calibrate'} "
                "keeps what is finished, and the same command goes on from there"
            ) from error
    return _Timed(timed, operators, host, steps)


def _fit(
    timed: _Timed, start: Calibration, table: OperatorTable, interpreter: Interpreter, jobs: int
) -> Calibration:
    today = datetime.now(UTC).date().isoformat()
    versions = interpreter.torch, interpreter.triton or "", today
    with _start_pool(jobs) as pool:
        found = _fit_calibration(timed.cases, timed.steps, start, versions, pool)
        classes = fit_operators(timed.operators, table, start.target, pool)
    calls = sum(len(each.errors) for each in classes.values())
    known = f"; {table.gpu['description']} had told how far others are from their formulas"
    return replace(
        found,
        residuals={**found.residuals, **list_residuals(classes)},
        notes=(
            *found.notes,
            f"operators: {calls:,} calls in {len(classes)} classes, each left out for its "
            f"residual{known}",
        ),
        operators=write_operators(classes, table, start.target, timed.host),
    )


def check_estimates(reference: str, wanted: documents.Wanted, quiet: bool) -> None:
    """Say how good the estimates of a stored run are, held against its newest measurement. Raises
    PerfcliError where there is no such run, or no estimate or measurement of it."""
    context = Context(Notes(quiet), written=wanted.places)
    run = load_stored(reference, context).run
    measurement = timings.find_measurement_of(run.id)
    if measurement is None:
        raise PerfcliError(
            f"run {run.id} was not measured here: perfcli compare --device cuda measures it"
        )
    kernels = _check_run(run, measurement)
    calibration = calibration_for(run.target) if run.target else None
    assert calibration is not None  # there are estimates
    derived = f", derived from {calibration.derived}" if calibration.derived else ""
    source = calibration.source + derived
    fields = {"run": run.id, "calibration": source, **view._describe_accuracy(kernels)}
    output.write_document("calibration-check", fields, wanted.json)
    documents.write_table(view.CHECKED, kernels, wanted)
    text = "\n".join(view._describe_check(kernels, source)) + "\n"
    output.print_text(("" if quiet else view._list_checked(kernels)) + text, wanted.stdout)
