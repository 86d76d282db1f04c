"""perfcli sweep --measure: sessions with a control, devices, what is found again, what fails."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Perfcli

from perfcli.fake import measuring
from perfcli.machine import driver, targets
from perfcli.model import Measured, Swept
from perfcli.storing import store, timings
from perfcli.sweep import devices
from perfcli.sweep.pareto import rank
from perfcli.workflow import bench

MIX = "triton.mix_order_reduction"
WAYS = ("-p", "layers=1,2", "-o", f"{MIX}=unset,false")
CPU = ("sweep", "gqa-transformer", *WAYS, "--measure", "--device", "cpu", "--seed", "7")
GPUS = ("sweep", "gqa-transformer", *WAYS, "--measure", "--seed", "7")
PLANTED = f"1;ratio=1.05;only={MIX};noise=0.002"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, perfcli: Perfcli, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", PLANTED)
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "has_gpu", lambda: True)
    monkeypatch.setattr(targets, "this_gpu", lambda: targets.get("h200"))
    monkeypatch.setattr(driver, "device_count", lambda: 2)
    monkeypatch.setattr(driver, "device_name", lambda index: "NVIDIA H200")


def read(path: str = "sweep.json") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(path).read_text())["variants"]
    return found


def test_the_ratio_is_the_planted_one_and_found_again(perfcli: Perfcli) -> None:
    import pandas

    written = ("--json", "sweep.json", "--csv", "s.csv", "--html", "s.html")
    result = perfcli(*CPU, *written)
    assert (result.code, result.out.splitlines()[0]) == (0, "4 variants: 4 compiled; 4 measured")
    assert "measuring 2 variants on 1 device (made-up processor)" in result.err
    for first, second in (read()[:2], read()[2:]):
        assert first["measured"]["ratio"] == 1
        assert second["ratio"] == pytest.approx(1.05, abs=0.002)
        assert second["measured"]["ratio_low"] < 1.05 < second["measured"]["ratio_high"]
        assert first["measured"]["measurement"] == second["measured"]["measurement"]
    frame = pandas.read_csv("s.csv")
    assert list(frame["measured_seconds"]) == [v["measured"]["seconds"] for v in read()]
    assert set(frame["measured_on"]) == {"made-up processor"}
    assert set(frame["measured_clock"]) == {"step"}
    assert "Times are measured on made-up processor." in Path("s.html").read_text()
    files = set(timings.FOLDER.iterdir())
    again = perfcli(*CPU, "-q")
    assert again.out == "4 variants: 0 compiled, 4 stored before; 4 measured (4 before)\n"
    assert set(timings.FOLDER.iterdir()) == files


def test_what_another_device_said_is_measured_again(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    perfcli(*CPU)
    monkeypatch.setattr(measuring, "DEVICE", "newer processor")
    result = perfcli(*CPU)
    assert result.out.splitlines()[0] == "4 variants: 0 compiled, 4 stored before; 4 measured"
    assert "2 variants measured on made-up processor before: measured again on newer" in result.err


def test_a_variant_alone_is_measured_against_itself(perfcli: Perfcli) -> None:
    result = perfcli(*CPU[:2], *CPU[6:], "--json", "sweep.json")
    assert (result.code, result.out.splitlines()[0]) == (0, "1 variant: 1 compiled; 1 measured")
    (only,) = read()
    assert (only["measured"]["ratio"], only["measured"]["seconds"]) == (
        1,
        pytest.approx(0.004, 0.01),
    )


def test_the_code_of_the_control_is_not_measured_twice(perfcli: Perfcli) -> None:
    typed = [part.replace(f"{MIX}=unset,false", "size_asserts=unset,false") for part in CPU]
    perfcli(*typed, "--json", "sweep.json")
    assert {(v["measured"]["why"], v["measured"]["ratio"]) for v in read()} == {("", 1)}
    assert len(list(timings.FOLDER.glob("*.jsonl"))) == 2


def test_what_can_t_be_measured_keeps_its_numbers_and_says_why(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"{PLANTED};fail=wrong:head:prepare")
    result = perfcli(*CPU, "--json", "sweep.json", "--html", "s.html")
    assert (result.code, result.out.splitlines()[0]) == (
        3,
        "4 variants: 4 compiled; 0 measured, 4 not",
    )
    assert "not measured: the head's output" in " ".join(result.out.split())
    assert all(v["run"] and v["metrics"]["kernels"] and v["measured"]["why"] for v in read())
    assert "4 not measured" in Path("s.html").read_text()
    monkeypatch.setenv("PERFCLI_FAKE", PLANTED)
    assert perfcli(*CPU, "-q").out.endswith("4 stored before; 4 measured\n")


def test_ctrl_c_keeps_what_is_measured(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"{PLANTED};fail=interrupt:head:prepare")
    result = perfcli(*CPU)
    assert (result.code, result.complaint) == (
        130,
        "perfcli: interrupted; all runs are stored, and so are the measurements that had ended",
    )


@pytest.mark.usefixtures("two_gpus")
def test_each_gpu_has_one_session_at_a_time(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy: Counter[int] = Counter()
    used: Counter[int] = Counter()
    lock, real = threading.Lock(), bench.measure

    def watch(subject: Any, setting: Any, *rest: Any) -> Any:
        index = setting.asked.a_device
        with lock:
            used[index] += 1
            busy[index] += 1
            assert busy[index] == 1
        time.sleep(0.01)
        measured = real(subject, setting, *rest)
        with lock:
            busy[index] -= 1
        return measured

    monkeypatch.setattr(devices, "measure", watch)
    typed = [part.replace("layers=1,2", "layers=1,2,3,4") for part in GPUS]
    result = perfcli(*typed, "--json", "sweep.json")
    assert (result.code, result.out.splitlines()[0]) == (0, "8 variants: 8 compiled; 8 measured")
    assert (set(used), used.total()) == ({0, 1}, 4)
    assert {v["measured"]["clock"] for v in read()} == {"device"}
    perfcli(*typed, "--device", "cuda:1", "--fresh")
    assert (used[0] < used[1], used.total()) == (True, 8)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("more", "beside"),
    [((), True), (("--time", "step"), False), (("--device", "cpu"), False)],
)
def test_only_the_device_s_own_time_is_taken_beside_compilations(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], beside: bool
) -> None:
    stored_then, real = [], devices.LocalDevices.begin

    def begin(self: Any, *given: Any) -> None:
        stored_then.append(len(list(store.runs())))
        real(self, *given)

    monkeypatch.setattr(devices.LocalDevices, "begin", begin)
    assert perfcli(*GPUS, *more).code == 0
    assert (len(stored_then), min(stored_then) < 4) == (2, beside)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--measure",), "--measure needs a device, and there is no GPU here: give --device cpu"),
        (("--measure", "--target", "h100,a100"), "--target h100 compiles without one"),
        (("--measure", "--device", "cpu:0,cpu:1"), "a CPU is one device"),
        (("--measure", "--device", "cuda:0,1"), "cuda, cpu, or GPUs are expected"),
        (("--measure", "--device", "cuda"), "--measure needs a device, and there is no GPU here"),
        (("--measure", "--device", "cpu", "--time", "device"), "a CPU has one clock"),
        (("--measure", "--device", "cpu", "--time", "both"), "--time is device or step"),
        (("--budget", "3"), "only --measure measures: leave out --budget"),
        (("--device", "cuda:0,cuda:1"), "several devices are for --measure"),
    ],
)
def test_what_is_typed_wrong_is_one_line(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...], says: str
) -> None:
    monkeypatch.setattr(targets, "has_gpu", lambda: False)
    result = perfcli("sweep", "softmax", *typed)
    assert (result.code, says in result.complaint) == (2, True)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("cuda:0,cuda:7", "--device cuda:7: no such GPU, there are 2 GPUs, from 0"),
        ("cuda:0,cuda:1", "GPUs of one kind are expected (cuda:0 is GPU 0, cuda:1 is GPU 1)"),
    ],
)
def test_gpus_that_are_not_there_or_unlike(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch, device: str, says: str
) -> None:
    monkeypatch.setattr(driver, "device_name", lambda index: f"GPU {index}")
    result = perfcli(*GPUS, "--device", device)
    assert (result.code, says in result.complaint) == (2, True)


def test_the_front_of_measured_times_knows_their_intervals() -> None:
    """The second one's interval overlaps the first's and it is smaller: it beats the first. The
    third is estimated only, and has no place beside them."""

    def swept(ratio: float, memory: int, **more: Any) -> Swept:
        found = Measured(ratio, ratio=ratio, ratio_low=ratio - 0.01, ratio_high=ratio + 0.01)
        return Swept(
            "s", measured=found, metrics={"peak_memory_bytes": memory}, seconds=1.0, **more
        )

    others = Swept("s", options={"o": 4}, seconds=0.1, metrics={"peak_memory_bytes": 1})
    ranked = rank([swept(1, 9), swept(1.005, 8), swept(0.9, 10), others])
    assert [each.pareto for each in ranked] == [False, True, True, None]
    assert [each.ratio for each in ranked] == [1, 1.005, 0.9, None]


@pytest.mark.torch
def test_a_real_model_is_measured_on_the_cpu(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch, cache_of_the_run: Path, warm_workers: None
) -> None:
    """Without vectors a softmax takes several times as long."""
    monkeypatch.setenv("PERFCLI_FAKE", "0")
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(cache_of_the_run))
    typed = ("sweep", "softmax", "--preset", "smoke", "-o", "cpp.simdlen=unset,0", "--measure")
    # Precompiled headers take longer than the two kernels that would need them.
    bare = ("-o", "cpp_cache_precompile_headers=false")
    result = perfcli(*typed, *bare, "--device", "cpu", "--budget", "1", "--json", "sweep.json")
    assert (result.code, result.out.splitlines()[0]) == (0, "2 variants: 2 compiled; 2 measured")
    first, second = (v["measured"] for v in read())
    assert second["ratio_low"] > 1.5
    assert first["memory_bytes"] is None or first["memory_bytes"] > 0
    assert 0 < first["low"] <= first["seconds"] <= first["high"]
