"""``perfcli targets`` lists the GPUs to compile for, and where their estimates come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.frames.table import Column, Table

if TYPE_CHECKING:
    from perfcli.model import Target
    from perfcli.predict.calibration import Calibration

ONLY_KERNELS = " (hand-written kernels only)"
"""What is said of a GPU for which no model can be compiled."""


def targets(
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
) -> int:
    """List the GPUs to compile for, and the calibration of each.

    A GPU that was not calibrated gets the constants of the nearest one, scaled by data sheet, and
    wider intervals.
    """
    from perfcli.console import output, table
    from perfcli.machine.targets import KERNEL_TARGETS, TARGETS

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    known = [*TARGETS.values(), *KERNEL_TARGETS.values()]
    rows = [(target, _find_calibration(target)) for target in known]
    fields = [_describe(target, calibration) for target, calibration in rows]
    output.write_document("targets", {"targets": fields}, json)
    documents.write_table(TABLE, fields, wanted)
    if not wanted.stdout:
        table.show(
            ("TARGET", "GPU", "ESTIMATES", "DATE"),
            [
                (
                    target.name,
                    target.description + ONLY_KERNELS * (target.name in KERNEL_TARGETS),
                    _name_source(calibration),
                    _date(calibration),
                )
                for target, calibration in rows
            ],
        )
    return 0


def _find_calibration(target: Target) -> Calibration | None:
    """Return the target's calibration; None where the chosen file is of another vendor's GPU."""
    from perfcli.errors import PerfcliError
    from perfcli.predict.calibration import calibration_for, read_chosen

    try:
        return calibration_for(target)
    except PerfcliError:
        if read_chosen() is None:
            raise
        return None


def _name_source(calibration: Calibration | None) -> str:
    if calibration is None:
        return "none"
    if calibration.derived:
        return f"derived from {calibration.derived}"
    return f"calibrated, torch {calibration.torch}"


def _date(calibration: Calibration | None) -> str:
    return calibration.date if calibration else ""


def _describe(target: Target, calibration: Calibration | None) -> dict[str, object]:
    return {
        "name": target.name,
        "description": target.description,
        "estimates": _name_source(calibration),
        "calibrated": calibration is not None and not calibration.derived,
        "derived_from": calibration.derived if calibration else "",
        "date": _date(calibration),
    }


TABLE: Table[dict[str, object]] = Table(
    "targets",
    "a GPU to compile for",
    "`targets`",
    (
        Column("name", "text", "what `--target` takes", lambda row: row["name"]),
        Column("description", "text", "the GPU", lambda row: row["description"]),
        Column("estimates", "text", "where its constants come from", lambda row: row["estimates"]),
        Column("calibrated", "flag", "whether it was calibrated", lambda row: row["calibrated"]),
        Column(
            *("derived_from", "text", "the GPU whose constants were scaled"),
            lambda row: row["derived_from"] or None,
        ),
        Column("date", "text", "when it was calibrated", lambda row: row["date"] or None),
    ),
)
