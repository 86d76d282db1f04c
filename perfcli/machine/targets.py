"""Knows the devices to compile for: those of a table, by name, and the GPU in this machine.

What Inductor reads (SM count, shared memory, L2, threads per SM, capability) is what the driver
reports on the real device. Sources of the columns:

* threads, blocks, registers and shared memory per SM and per block: CUDA C++ Programming Guide,
  "Technical Specifications per Compute Capability"; 1 KiB of shared memory is reserved for each
  resident block from capability 8.0 on
* SM count, L2, memory: deviceQuery on the device. Usable memory differs by some MiB between
  driver versions and is less than what nvidia-smi prints
* clocks (highest SM clock, memory clock, MHz; bus width, bits): nvidia-smi -q and deviceQuery
* bandwidth and peaks (dense, no sparsity): the data sheet named in ``source``
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.machine import driver
from perfcli.model import Target

KIB, MIB, TERA = 2**10, 2**20, 1e12
THIS_GPU = "this-gpu"


def get_for_kernels(name: str) -> Target:
    """Return a target for hand-written kernels, as ``get``: Triton compiles these for AMD's devices
    as well, which are also known by their architecture, ``gfx942``. Raises PerfcliError as ``get``
    does."""
    by_arch = {target.arch: target for target in KERNEL_TARGETS.values()}
    return by_arch.get(name.lower()) or _find(name, {**TARGETS, **KERNEL_TARGETS})


def get(name: str) -> Target:
    """Return the target called ``name``; ``this-gpu`` asks the driver. Raises PerfcliError
    where there is no such target (the nearest names are in the message), or no GPU here."""
    if name.lower() in KERNEL_TARGETS:
        raise PerfcliError(
            f"{name} is a target for hand-written kernels only (perfcli kernels --target {name}); "
            f"known here: {', '.join([*TARGETS, THIS_GPU])}"
        )
    return _find(name, TARGETS)


def _find(name: str, table: Mapping[str, Target]) -> Target:
    if name == THIS_GPU:
        return this_gpu()
    if name.lower() in table:
        return table[name.lower()]
    near = difflib.get_close_matches(name.lower(), [*table, THIS_GPU], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? Known" if near else "known"
    raise PerfcliError(f"no target {name!r}: {hint}: {', '.join([*table, THIS_GPU])}")


def has_gpu() -> bool:
    """Return whether a working NVIDIA driver shows at least one GPU. Safe without a driver."""
    return driver.device_count() > 0


def this_gpu() -> Target:
    """Return the first visible GPU. A device of the table keeps its name, bandwidth and peaks
    there, so that runs with and without the GPU have the same lower bounds; all else comes from the
    driver. Raises PerfcliError where there is no GPU."""
    return _from_device(driver.first_device())


def _from_device(device: driver.Device) -> Target:
    """Return a target from what the driver reported.

    For a device outside the table the bandwidth is memory clock × bus width × 2 (double data
    rate), and the peaks are operations per cycle and SM × SMs × SM clock.
    """
    facts = device.attributes
    capability = (facts["capability_major"], facts["capability_minor"])
    asked: dict[str, Any] = {n: v for n, v in facts.items() if not n.startswith("capability_")}
    listed = next((t for t in TARGETS.values() if t.description == device.name), None)
    return Target(
        name=listed.name if listed else "-".join(device.name.lower().split()),
        description=device.name,
        vendor="nvidia",
        capability=capability,
        memory_bytes=device.memory_bytes,
        bandwidth=listed.bandwidth if listed else _bandwidth(facts),
        peak_flops=listed.peak_flops if listed else _peaks(capability, facts),
        source=f"CUDA driver; bandwidth and peaks: {listed.source if listed else 'from clocks'}",
        **asked,
    )


def _bandwidth(facts: Mapping[str, int]) -> float:
    return facts["memory_clock_khz"] * 1e3 * 2 * facts["memory_bus_bits"] / 8


# Operations per cycle and SM (a multiply-add is two): CUDA C++ Programming Guide, "Throughput of
# Native Arithmetic Instructions", and the architecture whitepapers for dense tensor-core bf16.
_PER_CYCLE: Mapping[tuple[int, int], Mapping[str, int]] = {
    (8, 0): {"fp32": 128, "bf16": 2048},
    (8, 6): {"fp32": 256, "bf16": 512},
    (8, 9): {"fp32": 256, "bf16": 1024},
    (9, 0): {"fp32": 256, "bf16": 4096},
    (10, 0): {"fp32": 256, "bf16": 8192},
}


def _peaks(capability: tuple[int, int], facts: Mapping[str, int]) -> dict[str, float]:
    cycles = facts["sm_count"] * facts["clock_khz"] * 1e3
    return {kind: n * cycles for kind, n in _PER_CYCLE.get(capability, {}).items()}


def _nvidia(
    name: str,
    description: str,
    capability: tuple[int, int],
    *,
    sms: int,
    l2_mib: float,
    memory_mib: int,
    terabytes: float,
    teraflops: Mapping[str, float],
    clocks: tuple[int, int, int],
    source: str,
) -> Target:
    shared_kib, threads, blocks = _PER_SM[capability]
    return Target(
        name=name,
        description=description,
        vendor="nvidia",
        capability=capability,
        sm_count=sms,
        registers_per_sm=65536,
        max_threads_per_sm=threads,
        max_threads_per_block=1024,
        max_blocks_per_sm=blocks,
        warp_size=32,
        shared_bytes_per_sm=shared_kib * KIB,
        shared_bytes_per_block=48 * KIB,
        shared_bytes_per_block_optin=(shared_kib - 1) * KIB,
        reserved_shared_bytes_per_block=KIB,
        l2_bytes=int(l2_mib * MIB),
        memory_bytes=memory_mib * MIB,
        bandwidth=terabytes * TERA,
        peak_flops={kind: value * TERA for kind, value in teraflops.items()},
        source=f"CUDA C++ Programming Guide 13; deviceQuery; {source}",
        clock_khz=clocks[0] * 1000,
        memory_clock_khz=clocks[1] * 1000,
        memory_bus_bits=clocks[2],
    )


# Shared memory (KiB), threads and blocks per SM.
_PER_SM = {
    (8, 0): (164, 2048, 32),
    (8, 9): (100, 1536, 24),
    (9, 0): (228, 2048, 32),
    (10, 0): (228, 2048, 32),
}
_HOPPER = {
    "fp64": 67.0,
    "fp32": 67.0,
    "tf32": 494.7,
    "bf16": 989.4,
    "fp16": 989.4,
    "fp8": 1978.9,
    "int8": 1978.9,
}
_KNOWN = (
    _nvidia(
        "h100",
        "NVIDIA H100 80GB HBM3",
        (9, 0),
        sms=132,
        l2_mib=50,
        memory_mib=81090,
        terabytes=3.35,
        clocks=(1980, 2619, 5120),
        teraflops=_HOPPER,
        source="NVIDIA H100 Tensor Core GPU data sheet and architecture whitepaper (SXM5)",
    ),
    _nvidia(
        "h200",
        "NVIDIA H200",
        (9, 0),
        sms=132,
        l2_mib=60,
        memory_mib=143156,
        terabytes=4.8,
        clocks=(1980, 3201, 6144),
        teraflops=_HOPPER,
        source="NVIDIA H200 Tensor Core GPU data sheet (SXM)",
    ),
    _nvidia(
        "a100",
        "NVIDIA A100-SXM4-80GB",
        (8, 0),
        sms=108,
        l2_mib=40,
        memory_mib=81158,
        terabytes=2.039,
        clocks=(1410, 1593, 5120),
        teraflops={
            "fp64": 19.5,
            "fp32": 19.5,
            "tf32": 156.0,
            "bf16": 312.0,
            "fp16": 312.0,
            "int8": 624.0,
        },
        source="NVIDIA A100 80GB Tensor Core GPU data sheet (SXM)",
    ),
    _nvidia(
        "b200",
        "NVIDIA B200",
        (10, 0),
        sms=148,
        l2_mib=126.5,
        memory_mib=182642,
        terabytes=7.7,
        clocks=(1965, 3996, 7680),
        teraflops={
            "fp64": 37.0,
            "fp32": 75.0,
            "tf32": 1100.0,
            "bf16": 2250.0,
            "fp16": 2250.0,
            "fp8": 4500.0,
            "int8": 4500.0,
            "fp4": 9000.0,
        },
        source="NVIDIA HGX B200 data sheet (an eighth of the eight-GPU board)",
    ),
    _nvidia(
        "l40s",
        "NVIDIA L40S",
        (8, 9),
        sms=142,
        l2_mib=96,
        memory_mib=45589,
        terabytes=0.864,
        clocks=(2520, 9001, 384),
        teraflops={
            "fp32": 91.6,
            "tf32": 183.0,
            "bf16": 362.05,
            "fp16": 362.05,
            "fp8": 733.0,
            "int8": 733.0,
        },
        source="NVIDIA L40S data sheet",
    ),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in _KNOWN}

# Sources: AMD Instinct MI300X data sheet (compute units, memory, clocks, peaks without sparsity);
# AMD CDNA 3 white paper (LDS, 4 MiB of L2 for each of 8 dies, which is what the driver reports);
# LLVM's AMDGPUBaseInfo.cpp for gfx942 (512 vector registers a lane and SIMD, 8 waves a SIMD).
KERNEL_TARGETS: Mapping[str, Target] = {
    "mi300x": Target(
        name="mi300x",
        description="AMD Instinct MI300X",
        vendor="amd",
        capability=(9, 4),
        sm_count=304,
        registers_per_sm=4 * 512 * 64,
        max_threads_per_sm=4 * 8 * 64,
        max_threads_per_block=1024,
        max_blocks_per_sm=32,
        warp_size=64,
        shared_bytes_per_sm=64 * KIB,
        shared_bytes_per_block=64 * KIB,
        shared_bytes_per_block_optin=64 * KIB,
        reserved_shared_bytes_per_block=0,
        l2_bytes=4 * MIB,
        memory_bytes=196608 * MIB,
        bandwidth=5.3 * TERA,
        peak_flops={
            "fp64": 81.7 * TERA,
            "fp32": 163.4 * TERA,
            "tf32": 653.7 * TERA,
            "bf16": 1307.4 * TERA,
            "fp16": 1307.4 * TERA,
            "fp8": 2614.9 * TERA,
            "int8": 2614.9 * TERA,
        },
        source="AMD Instinct MI300X data sheet; CDNA 3 white paper; LLVM AMDGPUBaseInfo.cpp",
        clock_khz=2100 * 1000,
        memory_clock_khz=2600 * 1000,
        memory_bus_bits=8192,
    )
}
"""Devices that hand-written kernels can be compiled for, and nothing else: Inductor's code for
them is not what the real device gets, because nothing stands in for it."""
