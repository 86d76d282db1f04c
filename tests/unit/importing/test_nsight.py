from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.importing.traces.nsight import read_nsight
from perfcli.importing.traces.steps import observe

KERNELS = [("triton_red_fused_sum_0", 50_000, 255), ("nvjet_tst_64x8", 20_000, 168)]
"""Name, nanoseconds, registers."""


def export(path: Path, *, steps: int = 4, marks: bool = True, drop: tuple[str, ...] = ()) -> Path:
    """An export as Nsight Systems writes it, as far as it is read."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
            "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER);"
            "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
            " correlationId INTEGER, demangledName INTEGER, shortName INTEGER,"
            " registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,"
            " blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER,"
            " dynamicSharedMemory INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER,"
            " correlationId INTEGER, nameId INTEGER, globalTid INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER,"
            " correlationId INTEGER, deviceId INTEGER, copyKind INTEGER);"
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER);"
        )
        base.executemany(
            "INSERT INTO StringIds VALUES (?, ?)",
            [(10, "cuLaunchKernelEx"), *((n, k[0]) for n, k in enumerate(KERNELS))],
        )
        moment, number = 1_700_000_000_000_000_000, 0
        for _ in range(steps):
            began = moment
            for name, (_, nanoseconds, registers) in enumerate(KERNELS):
                number += 1
                base.execute(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, 10, 7)",
                    (moment, moment + 900, number),
                )
                begin = moment + 5_000
                base.execute(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
                    "(?, ?, 0, ?, ?, ?, ?, 512, 1, 1, 128, 1, 1, 16, 1024)",
                    (begin, begin + nanoseconds, number, name, name, registers),
                )
                moment += nanoseconds + 1_000
            base.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, 0, 8)",
                (moment + 5_000, moment + 8_000, number),
            )
            moment += 4_000
            if marks:
                base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 'step', NULL)", (began, moment))
        for table in drop:
            base.execute(f"DROP TABLE {table}")
    return path


def test_an_export_has_kernels_with_their_launch_configuration(tmp_path: Path) -> None:
    found = read_nsight(export(tmp_path / "a.sqlite"))
    assert found.device == "NVIDIA H200"
    assert list(found.works.seconds)[:2] == pytest.approx([50e-6, 20e-6])
    assert found.shapes.values[found.works.shape[0]] == (255, 1040, (512, 1, 1), (128, 1, 1))


@pytest.mark.parametrize("marks", [True, False])
def test_its_steps_are_ranges_or_what_repeats(tmp_path: Path, marks: bool) -> None:
    seen = observe(read_nsight(export(tmp_path / "a.sqlite", marks=marks)))
    assert seen.marks == ("ProfilerStep marks" if marks else "launches that repeat")
    assert len(seen.steps) == 4
    assert seen.step_seconds == pytest.approx([76e-6] * 3)
    assert {w.name: w.launches for w in seen.works} == {
        "triton_red_fused_sum_0": 1, "nvjet_tst_64x8": 1, "Memcpy DtoD": 1,
    }  # fmt: skip


def test_tables_and_columns_may_be_missing(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", marks=False, drop=("NVTX_EVENTS", "TARGET_INFO_GPU"))
    with sqlite3.connect(path) as base:
        for column in ("registersPerThread", "gridX", "staticSharedMemory", "dynamicSharedMemory"):
            base.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}")
    found = read_nsight(path)
    assert len(found.works.start) == 12
    assert found.shapes.values[found.works.shape[0]] == (None, None, (), (128, 1, 1))


def test_other_databases_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as base:
        base.execute("CREATE TABLE notes (text TEXT)")
    with pytest.raises(PerfcliError, match="of something else than Nsight Systems"):
        read_nsight(other)
    without = export(tmp_path / "b.sqlite", drop=("CUPTI_ACTIVITY_KIND_KERNEL",))
    with pytest.raises(PerfcliError, match="an export of Nsight Systems without kernels"):
        read_nsight(without)
    with pytest.raises(PerfcliError, match="an export of Nsight Systems without kernels"):
        read_nsight(export(tmp_path / "c.sqlite", steps=0))


def test_a_damaged_database_is_said_so(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    data = path.read_bytes()
    path.write_bytes(data[:5000] + b"\xff" * 3000)
    with pytest.raises(PerfcliError, match="can't be read as a database"):
        read_nsight(path)
