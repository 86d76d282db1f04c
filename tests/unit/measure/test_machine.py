from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

import pytest

from perfcli.machine.environment import read_cpu_name
from perfcli.measure import machine
from perfcli.measure.nvml import Nvml
from perfcli.model import DeviceState

CPUINFO = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Fast CPU 3000 @ 2.0GHz\n\nprocessor\t: 1\n"


def test_the_cpus_name() -> None:
    assert read_cpu_name(CPUINFO) == "Fast CPU 3000 @ 2.0GHz"
    assert read_cpu_name("processor\t: 0\n") == platform.machine()


@pytest.mark.parametrize(("personality", "fixed"), [("00040000\n", True), ("00000000\n", False)])
def test_facts_of_the_host(personality: str, fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/personality": personality,
        "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor": "performance\n",
        "/proc/cpuinfo": CPUINFO,
    }
    monkeypatch.setattr(machine, "_read", lambda path: files.get(path, ""))
    assert machine._host_facts([3, 4]) == {
        "cores": os.cpu_count(),
        "cpu": "Fast CPU 3000 @ 2.0GHz",
        "governor": "performance",
        "fixed_layout": fixed,
    }
    files.clear()
    assert set(machine._host_facts([])) == {"cores", "cpu"}


@pytest.mark.torch
def test_a_cpu_worker_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    found = machine.describe("cpu", threads=1, cpus=(0,))
    assert (found.torch, found.threads, found.cpus) == (torch.__version__, 1, (0,))
    assert found.device == read_cpu_name()
    assert found.python == platform.python_version()
    assert found.variables["TORCHINDUCTOR_MAX_AUTOTUNE"] == "1"
    assert machine.describe("cpu").threads == torch.get_num_threads()


class Library:
    """Stands for NVML: what it writes for each question; what is missing fails with 3."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        def ask(*arguments: Any) -> int:
            if name == "nvmlSystemGetDriverVersion":
                arguments[0].value = b"580.1"
                return 0
            if name in ("nvmlInit_v2", "nvmlDeviceGetHandleByUUID"):
                return 0
            key = name.removeprefix("nvmlDeviceGet")
            asked = [a.value for a in arguments if isinstance(a, ctypes.c_uint)]
            answer = self.answers.get("_".join([key, *map(str, asked)]))
            if answer is None:
                return 3
            outs = [a._obj for a in arguments if hasattr(a, "_obj")]
            for out, value in zip(outs, answer, strict=True):
                out.value = value
            return 0

        return ask


def gpu(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Nvml:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library(**answers))
    return Nvml("GPU-1")


def test_what_is_set_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpu(
        monkeypatch,
        EnforcedPowerLimit=[700_000],
        MaxClockInfo_1=[1980],
        MaxClockInfo_2=[3201],
        EccMode=[1, 0],
        PersistenceMode=[0],
    )
    assert found.driver() == "580.1"
    assert found.facts() == {
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201,
        "power_limit_watts": 700.0,
        "ecc": True,
        "persistence": False,
    }


def test_the_state_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpu(
        monkeypatch,
        PowerUsage=[595_500],
        ClockInfo_1=[1755],
        Temperature_0=[58],
        CurrentClocksThrottleReasons=[0x4],
    )
    assert found.state(frozenset({1})) == DeviceState(
        sm_clock_mhz=1755,
        power_watts=595.5,
        temperature_celsius=58,
        throttle=("power cap",),
    )


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(OSError, match="nvidia-ml"):
        Nvml("GPU-1")
    assert machine.find_gpu("GPU-1") is None
