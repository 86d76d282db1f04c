"""Which file of the folder is the measurement of two runs, and what exchanged sides are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_record import measured, measurement, prepared

from perfcli.model import Measurement, MemoryUse, Turn
from perfcli.storing import timings
from perfcli.storing.timings import (
    EXCHANGED,
    _exchange,
    _Found,
    find_measurement,
    find_measurement_of,
)


def put(folder: Path, id: str, hour: int, **more: Any) -> Path:
    made = replace(measurement(id, created=f"2026-11-21T{hour:02}:00:00Z"), **more)
    return timings.write(made, folder)


def found_id(folder: Path, base: str = "run-a", head: str = "run-b") -> str | None:
    found = find_measurement(base, head, folder).measurement
    return found.id if found else None


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_newest_of_two_runs(tmp_path: Path) -> None:
    put(tmp_path, "c", 12)
    put(tmp_path, "b", 13, stopped="budget spent")
    put(tmp_path, "d", 14, base="other")
    assert found_id(tmp_path) == "b"
    assert found_id(tmp_path, "run-b", "other") == "d"
    assert found_id(tmp_path, "run-b", "run-b") is None
    assert find_measurement("run-a", "run-b", tmp_path / "nowhere") == find_measurement(
        "x", "y", tmp_path
    )


@pytest.mark.parametrize("stopped", ["interrupted", "failed: x", "failed", timings.BROKEN_OFF, ""])
def test_what_was_cut_short_comes_after_what_was_not(tmp_path: Path, stopped: str) -> None:
    put(tmp_path, "short", 11, stopped=stopped)
    put(tmp_path, "newer", 12, stopped=stopped)
    assert found_id(tmp_path) == "newer"
    put(tmp_path, "whole", 10)
    assert found_id(tmp_path) == "whole"


def test_both_orders_count_alike(tmp_path: Path) -> None:
    put(tmp_path, "one", 10)
    put(tmp_path, "other", 11, base="run-b", head="run-a")
    assert found_id(tmp_path) == found_id(tmp_path, "run-b", "run-a") == "other"
    found = find_measurement("run-a", "run-b", tmp_path).measurement
    assert found is not None
    assert (found.base, found.head, found.notes) == ("run-a", "run-b", ("a note", EXCHANGED))
    as_measured = find_measurement("run-b", "run-a", tmp_path).measurement
    assert as_measured is not None
    assert as_measured.notes == ("a note",)


def test_of_another_pair_the_header_alone_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "a", 12)
    put(tmp_path, "b", 13, base="other")
    read = []
    original = timings.read

    def counted(path: Path) -> Measurement:
        read.append(path)
        return original(path)

    monkeypatch.setattr(timings, "read", counted)
    assert found_id(tmp_path) == "a"
    assert read == [path]


def test_what_is_broken_is_told_and_the_next_is_taken(tmp_path: Path) -> None:
    put(tmp_path, "good", 9)
    edit(put(tmp_path, "field", 13), '"at":0.0', '"at":"x"')
    edit(put(tmp_path, "header", 12), '"seed":7', '"seed":"x"')
    edit(put(tmp_path, "newer", 11), '"format":5', '"format":6')
    put(tmp_path, "empty", 10).write_text((tmp_path / "good.jsonl").read_text().split("\n")[0])
    edit(put(tmp_path, "of others", 14, base="other"), '"seed":7', '"seed":"x"')
    edit(put(tmp_path, "old", 8), '"seed":7', '"seed":"x"')
    found = find_measurement("run-a", "run-b", tmp_path)
    assert found.measurement is not None
    assert found.measurement.id == "good"
    names = ["field", "header", "newer", "empty"]
    assert [Path(text.split()[0]).stem for text in found.left_out] == names
    reasons = ("in line 4", "in line 1", "has format 6", "has no round")
    for text, reason in zip(found.left_out, reasons, strict=True):
        assert reason in text
    assert found.unreadable == ()


def test_one_without_rounds_is_left_out(tmp_path: Path) -> None:
    path = put(tmp_path, "killed", 12)
    path.write_text(path.read_text().split("\n")[0] + "\n")
    found = find_measurement("run-a", "run-b", tmp_path)
    assert (found.measurement, found.left_out) == (None, (f"{path} has no round",))


def test_what_may_be_of_any_pair(tmp_path: Path) -> None:
    for name, text in (("b", "?"), ("a", ""), ("c", "[1]"), ("d", '{"perfcli":"run"}')):
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "e.jsonl").mkdir()
    edit(put(tmp_path, "f", 12), '"base":"run-a",', "")
    found = find_measurement("run-a", "run-b", tmp_path)
    assert found.unreadable == tuple(f"{name}.jsonl" for name in "abcdef")
    assert (found.measurement, found.left_out) == (None, ())


@pytest.mark.parametrize(
    ("left_out", "unreadable", "measured", "remarks"),
    [
        ((), (), False, []),
        (("a", "b"), (), True, ["left out: a; b"]),
        (("a",), (), False, ["left out: a; the report follows without times"]),
        ((), ("x",), True, ["1 file in .perfcli/timings can't be read (x)"]),
        (
            ("a",),
            ("x", "y"),
            True,
            ["left out: a", "2 files in .perfcli/timings can't be read (the first is x)"],
        ),
    ],
)
def test_a_line_for_these_runs_and_one_for_any(
    left_out: tuple[str, ...], unreadable: tuple[str, ...], measured: bool, remarks: list[str]
) -> None:
    found = _Found(measurement() if measured else None, left_out, unreadable)
    assert list(found.remarks) == remarks


def test_of_one_run_the_newest_that_timed_launches(tmp_path: Path) -> None:
    """On either side, whatever ended it; what can't be read is passed over."""
    launches = (replace(measured(0), kind="kernels"), measured(1))
    put(tmp_path, "as base", 10, stopped="interrupted", rounds=launches)
    assert find_measurement_of("run-b", tmp_path) == timings.read(tmp_path / "as base.jsonl")
    put(tmp_path, "as head", 11, base="other", head="run-a", rounds=launches)
    put(tmp_path, "steps alone", 12)
    put(tmp_path, "of others", 13, base="x", head="y", rounds=launches)
    edit(put(tmp_path, "broken", 14, rounds=launches), '"at":0.0', '"at":"x"')
    found = [find_measurement_of(run, tmp_path) for run in ("run-a", "run-b", "nobody")]
    assert [each and each.id for each in found] == ["as head", "as base", None]


# --- the other way round ---------------------------------------------------------------------


def test_exchanged_sides() -> None:
    small, large = MemoryUse(10, None, "caching allocator"), MemoryUse(30, None, "same")
    sides = (
        replace(prepared("base"), memory=small, step_seconds=1.0),
        replace(prepared("head"), memory=large, step_seconds=3.0),
    )
    made = replace(measured(0), base=Turn((1.0,)), head=Turn((3.0,)), first="head")
    given = replace(
        measurement(),
        prepared=sides,
        rounds=(made, replace(made, number=1, first="base")),
        stopped="failed: the head's worker died",
        notes=("the driver: 580 in the base, 570 in the head", "baseline of the headroom"),
    )
    found = _exchange(given)
    assert (found.base, found.head) == ("run-b", "run-a")
    base, head = found.of("base"), found.of("head")
    assert base is not None
    assert head is not None
    assert (base.memory, base.step_seconds) == (large, 3.0)
    assert (head.memory, head.step_seconds) == (small, 1.0)
    assert [(r.base.seconds, r.head.seconds) for r in found.rounds] == [((3.0,), (1.0,))] * 2
    assert [r.first for r in found.rounds] == ["base", "head"]
    assert found.stopped == "failed: the base's worker died"
    assert found.notes[0] == "the driver: 580 in the head, 570 in the base"
    assert found.notes[1] == given.notes[1]
    assert _exchange(found) == given
