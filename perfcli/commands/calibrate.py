"""``perfcli calibrate`` fits the constants behind estimated times to this machine's GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError


def calibrate(
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Time a small part of all, to see that it works.")
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
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="Time a step of this model beside those of the shipped scenarios. Repeatable.",
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
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
) -> int:
    """Fit the constants of estimated times to this GPU.

    Times generated kernels, library operators and steps of models, and writes a calibration file
    that estimates for this GPU use from then on. Takes some five minutes; started again, it goes on
    where it was interrupted.

    Exit code: 0, 2 error.
    """
    from perfcli.calibrate.run import Calibrating, calibrate_gpu, check_estimates
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.loading.references import parse_reference

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    if check is not None:
        if smoke or file or python or jobs or also:
            raise PerfcliError(
                "--check measures nothing: it goes with --json, --csv and --parquet only"
            )
        args.use_calibration(calibration)
        check_estimates(check, wanted, quiet)
        return 0
    if csv or parquet:
        raise PerfcliError("--csv and --parquet go with --check, which prints a table of kernels")
    if calibration is not None:
        raise PerfcliError("--calibration goes with --check: what is fitted starts from the GPU's")
    if smoke and file is None:
        raise PerfcliError(
            "--smoke is only a trial, which must not replace a calibration: give -o FILE"
        )
    output.check_writable(file)
    if scripts := [text for text in also or () if parse_reference(text).script is not None]:
        raise PerfcliError(
            f"{scripts[0]} is a script, and steps of scripts are not timed: name a model in it, "
            "--also FILE.py:NAME"
        )
    asked = Calibrating(file, tuple(also or ()), smoke, python, jobs or os.cpu_count() or 1)
    calibrate_gpu(asked, json, Notes(quiet))
    return 0
