"""Runs ``perfcli calibrate``: times, fits and writes, or says how good estimates are."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from perfcli import units
from perfcli.calibrate import view
from perfcli.calibrate.accuracy import _check_run
from perfcli.calibrate.corpus import _list_cases
from perfcli.calibrate.fit import _fit_calibration
from perfcli.calibrate.measuring import _find_finished, _time_cases, _TimedCase
from perfcli.console import documents, output, table
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.machine import environment, targets
from perfcli.machine.environment import Interpreter
from perfcli.model import Target
from perfcli.predict.calibration import (
    Calibration,
    calibration_for,
    derive_calibration,
    own_folder,
    shipped,
)
from perfcli.storing import timings
from perfcli.storing.runfile import cannot_write
from perfcli.storing.whole import write_whole
from perfcli.worker.roles import Progress
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import load_stored

_FEWEST = 50
"""Timed launches without which nothing is fitted."""


def calibrate_gpu(
    file: Path | None, python: str | None, jobs: int, json: Path | None, notes: Notes, smoke: bool
) -> None:
    """Calibrate the first visible GPU and write the file.

    Raises:
        PerfcliError: there is no GPU, too few kernels could be timed, or a file can't be written.
        Interrupted: by Ctrl-C; the message says what is kept.
    """
    if not targets.has_gpu():
        raise PerfcliError("no NVIDIA GPU found here to calibrate: it takes one to time kernels")
    target = targets.this_gpu()
    start = derive_calibration(target, shipped())
    if start is None:
        raise PerfcliError(f"there are no constants to start from for {target.description}")
    interpreter = environment.probe(python)
    timed, uncounted = _time(target, interpreter, smoke, jobs, notes)
    if uncounted:
        notes.say(
            f"{units.plural(uncounted, 'kernel')} left out: perfcli could not count what they "
            "ask of the GPU"
        )
    if len(timed) < _FEWEST:
        raise PerfcliError(f"only {len(timed)} kernels could be timed: too few to fit anything")
    today = datetime.now(UTC).date().isoformat()
    found = _fit_calibration(timed, start, interpreter.torch, interpreter.triton or "", today)
    path = file or own_folder() / f"{target.name}.json"
    _write(found, path)
    output.write_document("calibration", {"path": str(path), "calibration": found}, json)
    if not notes.quiet:
        output.print_text(view._describe_calibration(found, path), json)


def _time(
    target: Target, interpreter: Interpreter, smoke: bool, jobs: int, notes: Notes
) -> tuple[list[_TimedCase], int]:
    cases = _list_cases(smoke)
    done = 0
    with Reporter([target.name], notes) as reporter:

        def report(text: str, count: int, total: int) -> None:
            nonlocal done
            is_timing = text.startswith("timing")
            done = count if is_timing else done
            reporter(Progress(0, "check" if is_timing else "kernels", count, total, text))

        try:
            return _time_cases(cases, target, interpreter, jobs, report)
        except KeyboardInterrupt as error:
            path = _find_finished(target, interpreter)
            raise Interrupted(
                f"interrupted after {done} of {len(cases)} kernels; {path} keeps what is "
                "finished, and the same command goes on from there"
            ) from error


def _write(found: Calibration, path: Path) -> None:
    text = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error


def check_estimates(reference: str, json: Path | None, quiet: bool) -> None:
    """Say how good the estimates of a stored run are, held against its newest measurement.

    Raises:
        PerfcliError: there is no such run, or no estimate or measurement of it.
    """
    context = Context(Notes(quiet), written=documents.Wanted(json=json).places)
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
    output.write_document("calibration-check", fields, json)
    headers, rows = view._list_checked(kernels)
    text = "\n".join(view._describe_check(kernels, source)) + "\n"
    output.print_text(("" if quiet else table.plain(headers, rows)) + text, json)
