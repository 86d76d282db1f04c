"""Says how good the estimates of library operators are, class by class.

    python bench/operators.py measure OUT.jsonl [--seed N]
    python bench/operators.py report TIMES.jsonl … [--held-out OUT.jsonl …]

``measure`` needs a GPU and times calls that are drawn with another seed than those of
``perfcli calibrate``, whose own times are in its cache folder (``calibrate/operators-*.jsonl``).
``report`` fits the tables to times as ``perfcli calibrate`` does and holds each call against the
estimate of a table that does not know it.
"""

from __future__ import annotations

import argparse
import collections
import math
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from perfcli.calibrate.finished import append_finished, read_finished  # noqa: E402
from perfcli.calibrate.measuring import _OperatorTimes  # noqa: E402
from perfcli.calibrate.operator_cases import _list_operator_cases  # noqa: E402
from perfcli.calibrate.operator_fit import fit_operators, take_middle, write_operators  # noqa: E402
from perfcli.machine import targets  # noqa: E402
from perfcli.model.kernel_work import OperatorsRequest, TimedOperator  # noqa: E402
from perfcli.predict import calibration_files  # noqa: E402
from perfcli.predict.calibration import encode_calibration, shipped  # noqa: E402
from perfcli.predict.operator_formulas import parts_of  # noqa: E402
from perfcli.predict.operators import estimate_call, shipped_table_for  # noqa: E402
from perfcli.worker import kernels  # noqa: E402


def measure(out: Path, seed: int) -> None:
    cases = _list_operator_cases(seed=seed)
    for found in kernels.time_operators(OperatorsRequest(cases)):
        if not isinstance(found, dict):
            append_finished(out, _OperatorTimes(cases[found[0]], found[1]))


def read_times(paths: Sequence[Path]) -> Iterator[TimedOperator]:
    for path in paths:
        for each in read_finished(path, _OperatorTimes):
            yield from each.timed


def report(paths: Sequence[Path], held_out: Sequence[Path], target_name: str) -> None:
    target = targets.get(target_name)
    table = shipped_table_for(target)
    assert table is not None
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        classes = fit_operators(list(read_times(paths)), table, target, pool)
    everything: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    print(f"{'class':42} calls | formula, % | left out, %")
    for name, fitted in classes.items():
        print(
            f"{name:42} {len(fitted.errors):5} | {quantiles(fitted.formula_errors)} | "
            f"{quantiles(fitted.errors)}"
        )
        everything[name.split()[0], "left out"] += list(fitted.errors)
    known = write_operators(classes, table, target, {})
    for name, errors in hold_out(list(read_times(held_out)), known, target):
        everything[name, "held out"] += errors
    for (family, how), errors in sorted(everything.items()):
        print(f"{family:12} {how}: {len(errors):5} calls, {quantiles(errors)}")


def hold_out(
    timed: Sequence[TimedOperator], operators: bytes, target: Any
) -> Iterator[tuple[str, list[float]]]:
    """Yield the family and error of each call by a table that was fitted without it."""
    made = replace(shipped()["h200"], target=target, operators=operators)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(encode_calibration(made))
        file.flush()
        os.environ[calibration_files.VARIABLE] = file.name
        for each in timed:
            parts = parts_of(each.work) or ()
            found = estimate_call(each.work, target)
            if found is not None and len(parts) == 1:
                error = abs(math.log(found.seconds * 1e6 / take_middle(each)))
                yield parts[0].name.split()[0], [error]


def quantiles(errors: Any) -> str:
    found = np.abs(np.asarray(errors))
    return f"{100 * np.expm1(np.median(found)):5.1f} {100 * np.expm1(np.quantile(found, 0.9)):6.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("out", type=Path)
    one.add_argument("--seed", type=int, default=1)
    one = commands.add_parser("report")
    one.add_argument("times", type=Path, nargs="+")
    one.add_argument("--held-out", type=Path, nargs="*", default=[])
    one.add_argument("--target", default="h200")
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.out, given.seed)
    else:
        report(given.times, given.held_out, given.target)


if __name__ == "__main__":
    main()
