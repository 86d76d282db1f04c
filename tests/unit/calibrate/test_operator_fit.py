"""Fitting library operators finds constants that are known, because the times were made of them."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfcli.calibrate.operator_fit import (
    FittedClass,
    fit_operators,
    list_residuals,
    take_middle,
    write_operators,
)
from perfcli.machine import targets
from perfcli.model import OperatorWork, Target
from perfcli.model.kernel_work import TimedOperator
from perfcli.predict.calibration import choose_calibration, encode_calibration, shipped
from perfcli.predict.calibration_files import VARIABLE
from perfcli.predict.operator_formulas import parts_of
from perfcli.predict.operators import (
    OperatorTable,
    estimate_call,
    scale_constants,
    shipped_table_for,
    work_of_row,
)

H200, H100 = targets.get("h200"), targets.get("h100")
NAME = "product half 8"


def thin_table(rows: int = 60) -> OperatorTable:
    """The table that comes with perfcli, with some calls of one class."""
    table = shipped_table_for(H200)
    assert table is not None
    given = dict(table.given[NAME])
    given["rows"] = given["rows"][:: max(1, len(given["rows"]) // rows)][:rows]
    return replace(table, given={NAME: given}, estimates={})


def product(m: int, n: int, k: int) -> OperatorWork:
    sizes = {"m": m, "n": n, "k": k, "batch": 1, "left": 0, "right": 1, "align": 8,
             "batched": 0, "bias": 0, "added": 0}  # fmt: skip
    work = {name: float(value) for name, value in sizes.items()}
    return OperatorWork("product", "bf16", 2.0 * m * n * k, 0.0, 0.0, work)


def time_with(constants: Mapping[str, float], sms: int, count: int = 40) -> list[TimedOperator]:
    """Calls whose times are what these constants make, with 2 % of noise."""
    draw = random.Random(1)
    found = []
    for _ in range(count):
        work = product(*(8 * draw.choice((16, 32, 64, 128, 256, 512, 1024)) for _ in range(3)))
        (part,) = parts_of(work) or ()
        micros = float(part.formula(part.sizes, {**constants, "sms": float(sms)}))
        micros *= math.exp(draw.gauss(0, 0.02))
        found.append(TimedOperator(work, ((micros * 1.1,), (micros / 1.1,))))
    return found


def fit(
    timed: list[TimedOperator], table: OperatorTable, target: Target = H200
) -> dict[str, FittedClass]:
    with ThreadPoolExecutor(1) as pool:
        return fit_operators(timed, table, target, pool)


def test_the_time_of_a_call_is_the_middle_of_cold_and_hot() -> None:
    timed = TimedOperator(product(64, 64, 64), ((9.0, 8.0, 900.0), (4.0, 1.0, 5.0)))
    assert take_middle(timed) == pytest.approx(6.0)  # √(9 · 4), of medians


def test_constants_of_another_gpu_are_found() -> None:
    table = thin_table()
    derived = dict(scale_constants(table.given[NAME]["constants"], table.gpu, H100))
    true = {**derived, "rate": derived["rate"] * 0.6, "launch": 3.5}
    found = fit(time_with(true, H100.sm_count), table, H100)[NAME]
    assert np.median(found.formula_errors) < 0.05
    assert np.median(found.errors) < 0.05
    # A long product that was not timed takes as long as the true constants say.
    (part,) = parts_of(product(4096, 12288, 3072)) or ()
    ours, theirs = (
        float(part.formula(part.sizes, {**c, "sms": 132.0})) for c in (found.constants, true)
    )
    assert ours == pytest.approx(theirs, rel=0.1)


def test_calls_that_the_table_had_say_something_of_their_neighbours() -> None:
    """All of the old ones took 1.3 times the formula; the new ones do, too. One alone, far from the
    other new ones, is known by its neighbours of before."""
    table = thin_table(10)
    given = table.given[NAME]
    rows = []
    for row in given["rows"]:
        (part,) = parts_of(work_of_row(given, row)) or ()
        micros = float(part.formula(part.sizes, {**given["constants"], "sms": 132.0})) * 1.3
        rows.append([*row[:-2], micros, 0])
    table = replace(table, given={NAME: {**given, "rows": rows}})
    near = work_of_row(given, rows[0])
    again = replace(near, sizes={**near.sizes, "m": near.sizes["m"] + 8})
    (part,) = parts_of(again) or ()
    micros = float(part.formula(part.sizes, {**given["constants"], "sms": 132.0})) * 1.3
    alone = TimedOperator(again, ((micros,), (micros,)))
    found = fit([alone], table)[NAME]
    assert found.formula_errors[0] == pytest.approx(math.log(1.3))
    assert found.errors[0] < 0.5 * math.log(1.3)
    assert len(found.calls) == 11


def test_few_calls_narrow_no_interval() -> None:
    table = thin_table()
    before = dict(map(tuple, table.given[NAME]["spread"]))
    found = fit(time_with(table.given[NAME]["constants"], 132, count=8), table)[NAME]
    assert all(width >= before[at] for at, width in found.spread)
    derived = fit(time_with(table.given[NAME]["constants"], 132, count=8), table, H100)[NAME]
    assert all(width >= 1.6 * before[at] for at, width in derived.spread)


def test_residuals_are_told_by_family() -> None:
    table = thin_table()
    found = list_residuals(fit(time_with(table.given[NAME]["constants"], 132), table))
    (name,) = found
    assert (name, found[name].kernels) == ("operators: product", 40)
    assert found[name].median <= found[name].q80 <= found[name].q90 < 0.3


# --- the file ----------------------------------------------------------------------------------


def write(found: dict[str, FittedClass], table: OperatorTable, target: Target) -> Any:
    return json.loads(write_operators(found, table, target, {"operator": 9.0, "convolution": 5.0}))


def test_a_table_that_was_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    table = thin_table()
    slow = {**table.given[NAME]["constants"], "launch": 40.0}
    found = fit(time_with(slow, 132), table)
    text = write_operators(found, table, H200, {})
    path = tmp_path / "mine.json"
    path.write_bytes(encode_calibration(replace(shipped()["h200"], operators=text)))
    small = product(128, 128, 128)
    before = estimate_call(small, H200)
    choose_calibration(path)
    after = estimate_call(small, H200)
    assert before is not None and after is not None
    assert before.seconds < 5e-6
    assert after.seconds == pytest.approx(40e-6, rel=0.25)


def test_each_call_is_a_line_with_its_time_and_weight() -> None:
    table = thin_table(5)
    timed = time_with(table.given[NAME]["constants"], 132, count=14)
    text = write_operators(fit(timed, table), table, H200, {}).decode()
    made = json.loads(text)["classes"][NAME]
    assert made["columns"][:4] == ["precision", "m", "n", "k"]
    assert len(made["rows"]) == 14 + 5
    first = timed[0].work.sizes
    assert made["rows"][0][1:4] == [first["m"], first["n"], first["k"]]
    assert made["rows"][0][-2] == pytest.approx(take_middle(timed[0]), rel=1e-3)
    line = json.dumps(made["rows"][0], separators=(",", ":"))
    assert sum(line in each for each in text.splitlines()) == 1


def test_classes_of_which_nothing_was_timed_are_taken_over() -> None:
    table = thin_table()
    own = write({}, table, H200)["classes"][NAME]
    assert own == table.given[NAME]
    other = write({}, table, H100)["classes"][NAME]
    assert other["constants"]["dram"] == pytest.approx(own["constants"]["dram"] * 3.35 / 4.8)
    assert [width for _, width in other["spread"]] == pytest.approx(
        [1.6 * width for _, width in own["spread"]], abs=1e-3
    )
    assert {row[-2] for row in other["rows"]} == {0}  # not measured there
    assert [row[-1] for row in other["rows"]] == [row[-1] for row in own["rows"]]


def test_what_the_host_needs_is_that_of_this_machine() -> None:
    table = thin_table()
    micros = write({}, table, H200)["host_micros"]
    assert (micros["operator"], micros["convolution"]) == (9.0, 5.0)
    assert micros["convolution backward"] == 10.0
    assert micros["attention"] == table.host_micros["attention"]
    assert micros["step"] == table.host_micros["step"]
