"""Stored noise floors: which class a machine belongs to, what is found again, what is forgotten."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perfcli.errors import PerfcliError
from perfcli.machine import noise_floors
from perfcli.model import Machine

MACHINE = Machine(
    "AMD EPYC 7763 64-Core Processor",
    "2.13.0+cpu",
    threads=1,
    cpus=(3,),
    facts={"fixed_layout": True, "cores": 2},
)
GPU = Machine("NVIDIA H200", "2.11.0", driver="580.82.07", uuid="GPU-1", threads=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def floor(relative: float = 0.012, **more: Any) -> noise_floors.StoredFloor:
    made = noise_floors.StoredFloor(
        relative=relative,
        scenario="softmax",
        params={"rows": 4, "dtype": "float32"},
        variant="default",
        pairs=(noise_floors.FloorPair(1.002, 0.999, 1.004, "same", 120, 7),),
        confidence=0.99,
        budget_seconds=20.0,
        created="2026-11-21T12:00:00Z",
        host="somewhere",
        device=MACHINE.device,
        torch=MACHINE.torch,
        triton=None,
        driver=None,
        perfcli="0.1.0",
    )
    return msgspec.structs.replace(made, **more)


def found(scenario: str = "softmax", machine: Machine = MACHINE, **params: Any) -> float | None:
    stored = noise_floors._find_known(machine, scenario, params or {"rows": 4, "dtype": "float32"})
    return stored.relative if stored else None


def test_a_class_is_a_name_for_files() -> None:
    assert noise_floors.environment_class(MACHINE) == (
        "amd-epyc-7763-64-core-processor_torch-2.13_threads-1_fixed-layout"
    )
    assert noise_floors.environment_class(GPU) == "nvidia-h200_driver-580_torch-2.11_threads-1"
    assert "/" not in noise_floors.environment_class(replace(GPU, device="../../etc", torch="a/b"))
    assert not noise_floors.environment_class(replace(GPU, device="../x")).startswith(".")


@pytest.mark.parametrize(
    "other",
    [
        {"uuid": "GPU-2"},
        {"device_index": 3},
        {"driver": "580.99"},
        {"torch": "2.11.1+cu130"},
        {"cpus": (5,)},
    ],
)
def test_what_a_class_does_not_tell_apart(other: dict[str, Any]) -> None:
    assert noise_floors.environment_class(replace(GPU, **other)) == noise_floors.environment_class(
        GPU
    )


@pytest.mark.parametrize(
    "other",
    [
        {"device": "NVIDIA H100"},
        {"driver": "590.1"},
        {"torch": "2.12.0"},
        {"threads": 2},
        {"facts": {"fixed_layout": False}},
        {"facts": {"fixed_layout": True}},
    ],
)
def test_what_a_class_tells_apart(other: dict[str, Any]) -> None:
    assert noise_floors.environment_class(replace(GPU, **other)) != noise_floors.environment_class(
        GPU
    )


def test_a_floor_is_found_again_on_a_machine_of_its_class_only() -> None:
    assert found() is None
    noise_floors.save(MACHINE, floor(0.012))
    assert found() == 0.012
    assert found(machine=replace(MACHINE, cpus=(1,))) == 0.012
    assert found(machine=replace(MACHINE, threads=2)) is None


def test_the_file_is_for_people_and_says_where_it_comes_from() -> None:
    path = noise_floors.save(MACHINE, floor())
    document = json.loads(path.read_text())
    assert path.parent == noise_floors.folder()
    assert document["class"] == noise_floors.environment_class(MACHINE) == path.stem
    assert len(path.read_text().splitlines()) > 20
    (stored,) = document["floors"]
    assert stored["pairs"][0]["ratio"] == 1.002
    assert stored["host"] == "somewhere"
    assert floor().source == "perfcli noise softmax, 2026-11-21"


def test_a_scenario_has_its_own_floor_others_take_the_highest() -> None:
    noise_floors.save(MACHINE, floor(0.03))
    noise_floors.save(MACHINE, floor(0.01, scenario="rmsnorm", params={}))
    assert found() == 0.03
    assert found("layernorm") == 0.03
    stored = noise_floors._find_known(MACHINE, "rmsnorm", {})
    assert stored is not None
    assert stored.relative == 0.01
    assert found("softmax", rows=5) == 0.03


def test_measured_again_replaces_and_another_variant_does_not() -> None:
    noise_floors.save(MACHINE, floor(0.03))
    noise_floors.save(MACHINE, floor(0.01))
    assert found() == 0.01
    noise_floors.save(MACHINE, floor(0.02, variant="max_autotune=true"))
    assert found() == 0.02


def test_forgetting_one_scenario_and_all() -> None:
    noise_floors.save(MACHINE, floor())
    noise_floors.save(MACHINE, floor(0.02, scenario="rmsnorm"))
    path = noise_floors.save(GPU, floor(0.01))
    assert noise_floors.forget("softmax") == 2
    assert not path.exists()
    assert found("rmsnorm") == 0.02
    assert noise_floors.forget("softmax") == 0
    assert noise_floors.forget() == 1
    assert noise_floors.load_floors() == []
    assert noise_floors.forget() == 0


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"perfcli":"noise","format":1}'])
def test_a_broken_file_is_as_none_and_written_over(text: str) -> None:
    path = noise_floors.save(MACHINE, floor())
    path.write_text(text)
    assert found() is None
    assert noise_floors.load_floors() == [(path, None)]
    assert noise_floors.forget("softmax") == 0
    assert path.exists()
    noise_floors.save(MACHINE, floor(0.02))
    assert found() == 0.02
    path.write_text(text)
    noise_floors.forget()
    assert not path.exists()


def test_a_newer_format_is_not_used() -> None:
    path = noise_floors.save(MACHINE, floor())
    newer = path.read_text().replace('"format": 1', '"format": 2')
    path.write_text(newer)
    assert found() is None
    with pytest.raises(PerfcliError, match="has format 2, this perfcli writes 1"):
        noise_floors.save(MACHINE, floor(0.02))
    assert path.read_text() == newer


def test_floors_saved_at_the_same_time_are_all_kept() -> None:
    """Each opens the lock itself, as processes do."""
    names = [f"scenario-{n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: noise_floors.save(MACHINE, floor(scenario=name)), names))
    ((_, known),) = noise_floors.load_floors()
    assert known is not None
    assert sorted(f.scenario for f in known.floors) == sorted(names)


def test_a_folder_that_cannot_be_written_is_said(cache: Path) -> None:
    cache.mkdir()
    (cache / "noise").write_text("a file")
    with pytest.raises(PerfcliError, match="can't write"):
        noise_floors.save(MACHINE, floor())
    assert found() is None
