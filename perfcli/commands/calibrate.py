"""``perfcli calibrate`` fits the constants behind estimated times to this machine's GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.errors import Interrupted, PerfcliError

if TYPE_CHECKING:
    from perfcli.calibrate.measuring import TimedCase
    from perfcli.console.notes import Notes
    from perfcli.machine.environment import Interpreter
    from perfcli.model import Measurement, Run, Target
    from perfcli.predict.calibration import Calibration

_FEWEST = 50
"""Timed launches without which nothing is fitted."""


def calibrate(
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Time a twelfth of the kernels, to see that it works.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the calibration here. [default: where perfcli finds it]",
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Only say how good the estimates of a measured run are."),
    ] = None,
    calibration: args.Calibration = None,
    python: args.Python = None,
    jobs: args.Jobs = None,
    json: args.Json = None,
    quiet: args.Quiet = False,
) -> int:
    """Fit the constants of estimated times to this GPU.

    Times some thousand launches of generated kernels, and writes a calibration file that estimates
    for this GPU use from then on. Takes a few minutes; started again, it goes on where it was
    interrupted.

    Exit code: 0, 2 error.
    """
    from perfcli.console import output
    from perfcli.console.notes import Notes

    output.check_writable(json)
    if check is not None:
        if smoke or file or python or jobs:
            raise PerfcliError("--check measures and writes nothing: give it alone, or with --json")
        args.use_calibration(calibration)
        return _check(check, json, quiet)
    if calibration is not None:
        raise PerfcliError("--calibration goes with --check: what is fitted starts from the GPU's")
    return _calibrate(smoke, file, python, jobs, json, Notes(quiet))


def _calibrate(
    smoke: bool,
    file: Path | None,
    python: str | None,
    jobs: int | None,
    json: Path | None,
    notes: Notes,
) -> int:
    from perfcli.calibrate import view
    from perfcli.console import output
    from perfcli.machine import environment, targets
    from perfcli.predict.calibration import own_folder

    output.check_writable(file)
    if not targets.has_gpu():
        raise PerfcliError("no NVIDIA GPU found here to calibrate: it takes one to time kernels")
    target = targets.this_gpu()
    start = _find_start(target)
    if smoke and file is None:
        raise PerfcliError("--smoke is a try, which must not replace a calibration: give -o FILE")
    path = file or own_folder() / f"{target.name}.json"
    interpreter = environment.probe(python)
    timed = _time(target, interpreter, smoke, jobs or os.cpu_count() or 1, notes)
    if len(timed) < _FEWEST:
        raise PerfcliError(f"only {len(timed)} kernels could be timed: too few to fit anything")
    found = _fit(timed, start, interpreter)
    _write(found, path)
    output.write_document("calibration", {"path": str(path), "calibration": found}, json)
    if not notes.quiet:
        output.print_text(view.describe_calibration(found, path), json)
    return 0


def _find_start(target: Target) -> Calibration:
    from perfcli.predict.calibration import derive_calibration, shipped

    start = derive_calibration(target, shipped())
    if start is None:
        raise PerfcliError(f"there are no constants to start from for {target.description}")
    return start


def _time(
    target: Target, interpreter: Interpreter, smoke: bool, jobs: int, notes: Notes
) -> list[TimedCase]:
    """Return the timed cases. Raises Interrupted with what is kept."""
    from perfcli.calibrate.corpus import list_cases
    from perfcli.calibrate.measuring import find_finished, time_cases
    from perfcli.console.notes import Reporter
    from perfcli.worker.roles import Progress

    cases = list_cases(smoke)
    done = 0
    with Reporter([target.name], notes) as reporter:

        def report(text: str, count: int, total: int) -> None:
            nonlocal done
            is_timing = text.startswith("timing")
            done = count if is_timing else done
            reporter(Progress(0, "check" if is_timing else "kernels", count, total, text))

        try:
            return time_cases(cases, target, interpreter, jobs, report)
        except KeyboardInterrupt as error:
            path = find_finished(target, interpreter)
            raise Interrupted(
                f"interrupted after {done} of {len(cases)} kernels; {path} keeps them, and the "
                "same command goes on from there"
            ) from error


def _fit(timed: list[TimedCase], start: Calibration, interpreter: Interpreter) -> Calibration:
    from datetime import UTC, datetime

    from perfcli.calibrate.fit import calibrate as fit

    today = datetime.now(UTC).date().isoformat()
    return fit(timed, start, interpreter.torch, interpreter.triton or "", today)


def _write(found: Calibration, path: Path) -> None:
    import msgspec

    from perfcli.storing.runfile import cannot_write
    from perfcli.storing.whole import write_whole

    text = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error


# --- how good estimates are ------------------------------------------------------------------


def _check(reference: str, json: Path | None, quiet: bool) -> int:
    from perfcli.calibrate import view
    from perfcli.calibrate.accuracy import check_run
    from perfcli.console import output, table
    from perfcli.predict.calibration import calibration_for
    from perfcli.workflow.obtain import load_stored

    run = load_stored(reference).run
    kernels = check_run(run, _find_measurement(run))
    calibration = calibration_for(run.target) if run.target else None
    assert calibration is not None  # there are estimates
    derived = f", derived from {calibration.derived}" if calibration.derived else ""
    source = calibration.source + derived
    fields = {"run": run.id, "calibration": source, **view.describe_accuracy(kernels)}
    output.write_document("calibration-check", fields, json)
    headers, rows = view.list_checked(kernels)
    text = "\n".join(view.describe_check(kernels, source)) + "\n"
    output.print_text(("" if quiet else table.plain(headers, rows)) + text, json)
    return 0


def _find_measurement(run: Run) -> Measurement:
    from perfcli.storing import timings

    found = timings.find_measurement_of(run.id)
    if found is None:
        raise PerfcliError(
            f"run {run.id} was not measured here: perfcli compare --device cuda measures it"
        )
    return found
