from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.machine import driver, targets
from perfcli.model import Target

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": KiB of shared
# memory per SM and per block, resident threads and blocks per SM.
PER_CAPABILITY = {
    (8, 0): (164, 163, 2048, 32),
    (8, 9): (100, 99, 1536, 24),
    (9, 0): (228, 227, 2048, 32),
    (10, 0): (228, 227, 2048, 32),
}

needs_gpu = pytest.mark.skipif(not targets.has_gpu(), reason="no GPU")

H200 = {
    "max_threads_per_block": 1024,
    "shared_bytes_per_block": 49152,
    "warp_size": 32,
    "clock_khz": 1_980_000,
    "sm_count": 132,
    "memory_clock_khz": 3_201_000,
    "memory_bus_bits": 6144,
    "l2_bytes": 62914560,
    "max_threads_per_sm": 2048,
    "capability_major": 9,
    "capability_minor": 0,
    "shared_bytes_per_sm": 233472,
    "registers_per_sm": 65536,
    "shared_bytes_per_block_optin": 232448,
    "max_blocks_per_sm": 32,
    "reserved_shared_bytes_per_block": 1024,
}


@pytest.mark.parametrize("target", targets.TARGETS.values(), ids=lambda t: t.name)
def test_limits_are_those_of_the_programming_guide(target: Target) -> None:
    sm_kib, block_kib, threads, blocks = PER_CAPABILITY[target.capability]
    assert target.shared_bytes_per_sm == sm_kib * 1024
    assert target.shared_bytes_per_block_optin == block_kib * 1024
    assert target.shared_bytes_per_block == 49152
    assert (target.max_threads_per_sm, target.max_blocks_per_sm) == (threads, blocks)
    assert (target.registers_per_sm, target.warp_size) == (65536, 32)
    assert target.max_threads_per_block == 1024
    assert target.reserved_shared_bytes_per_block == 1024
    assert target.source


def test_h200_is_what_inductor_reads_on_one() -> None:
    h200 = targets.get("h200")
    assert (h200.description, h200.sm_count, h200.arch) == ("NVIDIA H200", 132, "sm_90")
    assert h200.l2_bytes == 62914560
    assert h200.shared_bytes_per_block_optin == 232448
    assert h200.shared_bytes_per_sm == 233472


@pytest.mark.parametrize(
    ("name", "megahertz", "bits"),
    [
        ("h100", 2619, 5120),
        ("h200", 3201, 6144),
        ("a100", 1593, 5120),
        ("b200", 3996, 7680),
        ("l40s", 9001, 384),
    ],
)
def test_bandwidth_agrees_with_memory_clock_and_bus_width(
    name: str, megahertz: int, bits: int
) -> None:
    """Clock and width as nvidia-smi and deviceQuery report them; two transfers a cycle."""
    assert targets.get(name).bandwidth == pytest.approx(megahertz * 1e6 * 2 * bits / 8, rel=0.03)


@pytest.mark.parametrize(
    ("name", "megahertz", "per_cycle"),
    [("h100", 1830, 4096), ("a100", 1410, 2048), ("l40s", 2520, 1024), ("b200", 1850, 8192)],
)
def test_bf16_peak_agrees_with_boost_clock_and_tensor_cores(
    name: str, megahertz: int, per_cycle: int
) -> None:
    target = targets.get(name)
    assert target.peak_flops["bf16"] == pytest.approx(
        target.sm_count * megahertz * 1e6 * per_cycle, rel=0.03
    )


def test_names_are_found_in_any_case_and_typos_get_the_nearest() -> None:
    assert targets.get("H100") is targets.TARGETS["h100"]
    with pytest.raises(PerfcliError, match=r"did you mean h100 or h200\? Known: h100"):
        targets.get("h10")
    with pytest.raises(PerfcliError, match="'quantum': known: h100, h200, a100, b200, l40s"):
        targets.get("quantum")


def test_the_mi300x_is_a_target_of_handwritten_kernels_alone() -> None:
    found = targets.get_for_kernels("mi300x")
    assert (found.vendor, found.arch, found.warp_size) == ("amd", "gfx942", 64)
    assert targets.get_for_kernels("gfx942") is found
    assert targets.get_for_kernels("h200") is targets.get("h200")
    # 192 GB behind 8192 pins at 5.2 Gb/s; 128 KiB of vector registers on each of four SIMDs
    assert found.bandwidth == pytest.approx(8192 / 8 * 5.2e9, rel=0.01)
    assert found.registers_per_sm * 4 == 4 * 128 * 1024
    with pytest.raises(PerfcliError, match="hand-written kernels only"):
        targets.get("mi300x")
    with pytest.raises(PerfcliError, match=r"did you mean mi300x\?"):
        targets.get_for_kernels("mi300")


def test_a_known_device_differs_from_the_table_only_in_its_source_and_memory() -> None:
    found = targets._from_device(driver.Device("NVIDIA H200", 150_108_897_280, H200))
    listed = targets.get("h200")
    assert found.memory_bytes == 150_108_897_280
    for field in listed.__dataclass_fields__:
        if field not in ("memory_bytes", "source"):
            assert getattr(found, field) == getattr(listed, field), field


def test_an_unknown_device_gets_bandwidth_and_peaks_from_its_clocks() -> None:
    ada = {"capability_major": 8, "capability_minor": 9, "sm_count": 128, "clock_khz": 2_520_000}
    memory = {"memory_clock_khz": 10_501_000, "memory_bus_bits": 384}
    device = driver.Device("NVIDIA GeForce RTX 4090", 25_000_000_000, {**H200, **ada, **memory})
    found = targets._from_device(device)
    assert found.name == "nvidia-geforce-rtx-4090"
    assert found.bandwidth == pytest.approx(1008e9, rel=0.001)  # the data sheet's 1008 GB/s
    assert found.peak_flops["fp32"] == pytest.approx(82.6e12, rel=0.001)  # and 82.6 TFLOPS


class FakeLibrary:
    """libcuda with one H200, or with an answer that says no."""

    def __init__(self, devices: int = 1, attribute_status: int = 0) -> None:
        self.devices, self.attribute_status = devices, attribute_status

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.devices
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:
        handle._obj.value = index
        return 0

    def cuDeviceGetName(self, name: Any, length: int, handle: Any) -> int:
        ctypes.memmove(name, b"NVIDIA H200\0", 12)
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, handle: Any) -> int:
        memory._obj.value = 150_108_897_280
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, handle: Any) -> int:
        names = {number: name for name, number in driver.ATTRIBUTES.items()}
        value._obj.value = H200[names[number]]
        return self.attribute_status


def test_this_gpu_reads_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", lambda: FakeLibrary())
    assert targets.has_gpu()
    assert targets.get("this-gpu").memory_bytes == 150_108_897_280
    assert targets.this_gpu().l2_bytes == 62914560
    assert driver.device_name(1) == "NVIDIA H200"


@pytest.mark.parametrize("library", [None, FakeLibrary(devices=0)])
def test_without_a_gpu_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, library: FakeLibrary | None
) -> None:
    monkeypatch.setattr(driver, "_library", lambda: library)
    assert not targets.has_gpu()
    with pytest.raises(PerfcliError, match=r"no NVIDIA GPU found here: .*--target h100"):
        targets.this_gpu()


def test_a_driver_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", lambda: FakeLibrary(attribute_status=999))
    with pytest.raises(PerfcliError, match=r"cuDeviceGetAttribute.*error 999"):
        targets.this_gpu()


def test_driver_version_is_read_from_the_kernel_module(tmp_path: Path) -> None:
    path = tmp_path / "version"
    path.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon\nGCC 12.2.0\n")
    assert driver.driver_version(path) == "580.159.04"
    assert driver.driver_version(Path("/no/such/file")) is None


@pytest.mark.gpu
@needs_gpu
def test_this_gpu_says_what_torch_says() -> None:
    torch = pytest.importorskip("torch")
    mine, real = targets.this_gpu(), torch.cuda.get_device_properties(0)
    assert mine.description == real.name
    assert mine.capability == (real.major, real.minor)
    assert mine.sm_count == real.multi_processor_count
    assert mine.l2_bytes == real.L2_cache_size
    assert mine.memory_bytes == real.total_memory
    assert mine.registers_per_sm == real.regs_per_multiprocessor
    assert mine.max_threads_per_sm == real.max_threads_per_multi_processor
    assert mine.shared_bytes_per_block == real.shared_memory_per_block
    assert mine.shared_bytes_per_block_optin == real.shared_memory_per_block_optin
    assert mine.shared_bytes_per_sm == real.shared_memory_per_multiprocessor


@pytest.mark.gpu
@needs_gpu
def test_the_table_says_what_the_driver_says() -> None:
    mine = targets.this_gpu()
    listed = targets.TARGETS.get(mine.name)
    if listed is None:
        pytest.skip(f"{mine.description} is not in the table")
    assert mine.memory_bytes == pytest.approx(listed.memory_bytes, rel=0.005)
    for field in listed.__dataclass_fields__:
        if field not in ("memory_bytes", "source"):
            assert getattr(mine, field) == getattr(listed, field), field
