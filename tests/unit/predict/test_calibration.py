"""Which calibration a target gets, and files that can't be used."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.predict.calibration import (
    calibration_for,
    choose_calibration,
    derive_calibration,
    encode_calibration,
    name_operators,
    read_calibration,
    shipped,
)
from perfcli.predict.calibration_files import VARIABLE, own_folder
from perfcli.predict.operators import table_for

H200, H100 = targets.get("h200"), targets.get("h100")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv(VARIABLE, "")


def write(path: Path, **changes: Any) -> Path:
    plain = json.loads(encode_calibration(shipped()["h200"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**plain, **changes}))
    return path


def test_a_shipped_target_has_its_own() -> None:
    found = calibration_for(H200)
    assert found is not None
    assert (found.derived, found.target.name) == ("", "h200")


def test_the_users_own_comes_before_the_shipped_one() -> None:
    path = write(own_folder() / "h200.json", date="2027-01-02")
    found = calibration_for(H200)
    assert found is not None and found.date == "2027-01-02"
    write(path, date="2027-01-03")
    os.utime(path, ns=(1, 1))  # a clock may be coarse
    found = calibration_for(H200)
    assert found is not None and found.date == "2027-01-03"


def test_a_chosen_file_comes_before_all(tmp_path: Path) -> None:
    write(own_folder() / "h200.json", date="2027-01-02")
    choose_calibration(write(tmp_path / "mine.json", date="2027-05-05"))
    found = calibration_for(H200)
    assert found is not None and found.date == "2027-05-05"


def test_another_gpu_is_derived_by_data_sheet_with_wider_intervals(tmp_path: Path) -> None:
    choose_calibration(write(tmp_path / "mine.json"))
    ours, found = shipped()["h200"], calibration_for(H100)
    assert found is not None
    assert found.derived == "h200"
    # Memory of 3.35 against 4.8 TB/s; the same multiprocessors at the same clock.
    assert found.constants["dram"] / ours.constants["dram"] == pytest.approx(3.35 / 4.8)
    assert found.constants["l2"] == pytest.approx(ours.constants["l2"])
    assert found.residuals["all"].q90 == pytest.approx(1.6 * ours.residuals["all"].q90)
    assert found.pair["k80"] == pytest.approx(1.6 * ours.pair["k80"])


def test_the_nearest_target_is_of_the_same_architecture() -> None:
    h200 = shipped()["h200"]
    older = replace(h200, target=replace(h200.target, name="old", capability=(8, 0)))
    found = derive_calibration(H100, {"old": older, "h200": h200})
    assert found is not None and found.derived == "h200"


def test_nothing_is_derived_for_another_vendor(tmp_path: Path) -> None:
    amd = targets.KERNEL_TARGETS["mi300x"]
    assert calibration_for(amd) is None
    choose_calibration(write(tmp_path / "mine.json"))
    with pytest.raises(PerfcliError, match="is of NVIDIA H200, and nothing of AMD Instinct MI300X"):
        calibration_for(amd)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no calibration file"),
        ("[1]", "is no calibration file"),
        ('{"format": 7}', "has format 7, this perfcli reads 1: run perfcli calibrate again"),
        ('{"format": 1}', "is no calibration file"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(PerfcliError, match=message) as caught:
        read_calibration(path)
    assert "\n" not in str(caught.value)


def test_a_file_without_a_number_that_is_needed_says_which(tmp_path: Path) -> None:
    constants = dict(shipped()["h200"].constants)
    del constants["round"]
    path = write(tmp_path / "x.json", constants=constants)
    with pytest.raises(PerfcliError, match=r"lacks constants\.round: run perfcli calibrate"):
        read_calibration(path)
    path = write(tmp_path / "x.json", constants={**constants, "round": -1})
    with pytest.raises(PerfcliError, match="has no number round > 0"):
        read_calibration(path)
    path = write(tmp_path / "x.json", residuals={})
    with pytest.raises(PerfcliError, match=r"lacks residuals\.all"):
        read_calibration(path)


TARGET = json.loads(msgspec.json.encode(shipped()["h200"].target))
NEGATIVE = {"kernels": 9, "median": 0.1, "q80": 0.2, "q90": -0.3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clock_mhz": 0}, "clock_mhz > 0"),
        ({"target": {**TARGET, "bandwidth": 0}}, r"target\.bandwidth > 0"),
        ({"target": {**TARGET, "l2_bytes": 0}}, r"target\.l2_bytes > 0"),
        ({"target": {**TARGET, "sm_count": -1}}, r"target\.sm_count > 0"),
        ({"residuals": {"all": NEGATIVE}}, r"residuals\.all\.q90 ≥ 0"),
    ],
)
def test_a_number_that_can_not_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "x.json", **changes)
    with pytest.raises(PerfcliError, match=rf"has no number {message}: run perfcli calibrate"):
        read_calibration(path)


def test_a_file_that_an_older_perfcli_wrote_is_read(tmp_path: Path) -> None:
    found = read_calibration(write(tmp_path / "x.json", operators={}))
    assert found.operators == b""
    assert replace(found, operators=shipped()["h200"].operators) == shipped()["h200"]


@pytest.mark.parametrize("unknown", ["ours", "theirs", "both"])
def test_a_clock_that_is_not_known_scales_nothing(tmp_path: Path, unknown: str) -> None:
    own = {**TARGET, "clock_khz": 0} if unknown != "theirs" else TARGET
    choose_calibration(write(tmp_path / "mine.json", target=own))
    other = replace(H100, clock_khz=0 if unknown != "ours" else H100.clock_khz * 2)
    found = calibration_for(other)
    assert found is not None
    assert found.clock_mhz == shipped()["h200"].clock_mhz
    assert found.constants["l2"] == pytest.approx(shipped()["h200"].constants["l2"])


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match=r"can't read calibration .*nope\.json: No such file"):
        choose_calibration(tmp_path / "nope.json")
    assert not os.environ[VARIABLE]


def test_a_gpu_whose_data_sheet_is_not_known_has_no_constants() -> None:
    """Others are scaled by it: a bandwidth of 0 is none, and no division by it."""
    for unknown in ({"bandwidth": 0.0}, {"sm_count": 0}, {"l2_bytes": 0}):
        target = replace(H100, name="new", **unknown)
        assert calibration_for(target) is None
        assert name_operators(target) == ""
        assert table_for(target) is None
    # One that was calibrated itself needs none.
    assert calibration_for(replace(H200, bandwidth=0.0)) is not None


def test_operators_of_the_chosen_file_come_first(tmp_path: Path) -> None:
    own = table_for(H200)
    assert own is not None
    plain = json.loads(encode_calibration(shipped()["h200"]))["operators"]
    host = {**plain["host_micros"], "step": 1.0}
    write(own_folder() / "h200.json", operators={**plain, "host_micros": host})
    found = table_for(H200)
    assert found is not None and found.host_micros["step"] == 1.0
    names = {name_operators(H200)}
    chosen = write(
        tmp_path / "mine.json", operators={**plain, "host_micros": {**host, "step": 2.0}}
    )
    choose_calibration(chosen)
    found = table_for(H200)
    assert found is not None and found.host_micros["step"] == 2.0
    names.add(name_operators(H200))
    # A file that has none leaves it to the others.
    choose_calibration(write(tmp_path / "without.json", operators=None))
    found = table_for(H200)
    assert found is not None and found.host_micros["step"] == 1.0
    assert name_operators(H200) in names and len(names) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"host_micros": {"step": 1.0, "launch": 2.0}}, r"operators\.host_micros\.operator"),
        ({"classes": {"product half 8": {}}}, "its operators are damaged"),
        ({"classes": 7}, "its operators are damaged"),
    ],
)
def test_operators_that_are_damaged_are_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    plain = json.loads(encode_calibration(shipped()["h200"]))["operators"]
    path = write(tmp_path / "x.json", operators={**plain, **change})
    with pytest.raises(PerfcliError, match=message) as caught:
        read_calibration(path)
    assert "\n" not in str(caught.value)


def test_a_row_of_another_length_is_refused(tmp_path: Path) -> None:
    plain = json.loads(encode_calibration(shipped()["h200"]))["operators"]
    classes = {**plain["classes"]}
    classes["other sort"] = {**classes["other sort"], "rows": [[0, 1.0]]}
    path = write(tmp_path / "x.json", operators={**plain, "classes": classes})
    with pytest.raises(PerfcliError, match=r"operators\.classes\.other sort\.rows of 6 numbers"):
        read_calibration(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "h200.json"
    path.write_bytes(encode_calibration(shipped()["h200"]))
    assert read_calibration(path) == shipped()["h200"]
    bare = replace(shipped()["h200"], operators=b"")
    path.write_bytes(encode_calibration(bare))
    assert read_calibration(path) == bare
