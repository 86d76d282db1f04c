from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcli.facts.occupancy import _Occupancy, bytes_swept, lower_bound_seconds, occupancy
from perfcli.machine import targets
from perfcli.model import SourceFacts, Target

KIB = 1024
# max threads per SM, max blocks per SM, shared KiB per SM, reserved bytes per block: "Technical
# Specifications per Compute Capability", CUDA C++ Programming Guide.
SPECIFICATIONS = {
    (7, 5): (1024, 16, 64, 0),
    (8, 0): (2048, 32, 164, KIB),
    (8, 6): (1536, 16, 100, KIB),
    (8, 9): (1536, 24, 100, KIB),
    (9, 0): (2048, 32, 228, KIB),
    (10, 0): (2048, 32, 228, KIB),
}


def target(*capability: int) -> Target:
    major, minor = capability
    threads, blocks, shared, reserved = SPECIFICATIONS[major, minor]
    return Target(
        name="test",
        description="",
        vendor="nvidia",
        capability=(major, minor),
        sm_count=100,
        registers_per_sm=65536,
        max_threads_per_sm=threads,
        max_threads_per_block=1024,
        max_blocks_per_sm=blocks,
        warp_size=32,
        shared_bytes_per_sm=shared * KIB,
        shared_bytes_per_block=48 * KIB,
        shared_bytes_per_block_optin=shared * KIB - reserved,
        reserved_shared_bytes_per_block=reserved,
        l2_bytes=0,
        memory_bytes=0,
        bandwidth=1e12,
        peak_flops={},
        source="",
    )


def nvidia_cases() -> list[tuple[str, int, int, int, int]]:
    text = (Path(__file__).parents[2] / "fixtures" / "occupancy.txt").read_text()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [(c, int(r), int(s), int(w), int(b)) for c, r, s, w, b in rows]


@pytest.mark.parametrize(("capability", "registers", "shared", "warps", "blocks"), nvidia_cases())
def test_agrees_with_nvidias_own_code(
    capability: str, registers: int, shared: int, warps: int, blocks: int
) -> None:
    device = target(*map(int, capability.split(".")))
    assert occupancy(device, registers, shared, warps).blocks_per_sm == blocks


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_the_best_practices_guides_example(capability: tuple[int, int]) -> None:
    # CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers per thread are 75 % with
    # 12 blocks of 128 threads, but 63 % with 4 blocks of 320. It says so for 7.0, whose registers
    # and threads per multiprocessor are those of 8.0 and 9.0.
    device = target(*capability)
    assert occupancy(device, 37, 0, 4) == _Occupancy(12, 0.75, "registers")
    assert occupancy(device, 37, 0, 10) == _Occupancy(4, 0.625, "registers")


def test_warps_are_allocated_in_fours() -> None:
    # kokkos/kokkos pull request 5739: 92 registers round up to 96, which leaves room for 21 warps,
    # three blocks of 7; but a multiprocessor's four partitions hold 5 each, so 20 and two blocks.
    assert occupancy(target(8, 0), 92, 0, 7).blocks_per_sm == 2


def test_registers_round_up_to_eights() -> None:
    # xmartlabs/cuda-calculator pull request 1: 128 threads with 85 registers, 5 blocks.
    assert occupancy(target(8, 9), 85, 0, 4).blocks_per_sm == 5


def test_threads_limit_an_a6000() -> None:
    # Simon Boehm, "How to Optimize a CUDA Matmul Kernel": 1024 threads, 37 registers, 8 KiB of
    # shared memory leave one block per multiprocessor, 32 of 48 warps.
    assert occupancy(target(8, 6), 37, 8 * KIB, 32) == _Occupancy(1, 32 / 48, "registers")


def test_shared_memory_is_handed_out_in_256_bytes_before_8_0() -> None:
    # 65,536 B are 13 blocks of 4,992 B (39 units of 128 B), but 12 of 5,120 B (20 of 256 B).
    assert 65536 // 4992 == 13
    assert occupancy(target(7, 5), 16, 4992, 1).blocks_per_sm == 12
    newer = replace(target(7, 5), capability=(8, 0))
    assert occupancy(newer, 16, 4992, 1).blocks_per_sm == 13


def test_what_limits() -> None:
    h100 = target(9, 0)
    assert occupancy(h100, 32, 0, 4) == _Occupancy(16, 1.0, "warps")
    assert occupancy(h100, 32, 0, 1) == _Occupancy(32, 0.5, "blocks")
    assert occupancy(h100, 32, 100 * KIB, 4) == _Occupancy(2, 0.125, "shared memory")
    assert occupancy(h100, 255, 0, 8) == _Occupancy(1, 0.125, "registers")


def test_nothing_fits() -> None:
    h100 = target(9, 0)
    too_much_shared = occupancy(h100, 32, h100.shared_bytes_per_block_optin + 1, 4)
    assert too_much_shared == _Occupancy(0, 0.0, "shared memory")
    assert occupancy(h100, 128, 0, 32) == _Occupancy(0, 0.0, "registers")
    assert occupancy(h100, 256, 0, 1) == _Occupancy(0, 0.0, "registers")
    assert occupancy(h100, 16, 0, 33) == _Occupancy(0, 0.0, "warps")


def test_each_block_costs_the_reserved_shared_memory_too() -> None:
    h100 = target(9, 0)
    without = replace(h100, reserved_shared_bytes_per_block=0)
    assert occupancy(without, 16, 114 * KIB, 4).blocks_per_sm == 2
    assert occupancy(h100, 16, 114 * KIB, 4).blocks_per_sm == 1
    assert occupancy(h100, 16, 113 * KIB, 4).blocks_per_sm == 2


@given(
    st.sampled_from(sorted(SPECIFICATIONS)),
    st.integers(1, 254),
    st.integers(0, 100 * KIB),
    st.integers(1, 32),
)
def test_more_resources_never_raise_occupancy(
    capability: tuple[int, int], registers: int, shared: int, warps: int
) -> None:
    device = target(*capability)
    here = occupancy(device, registers, shared, warps)
    assert 0 <= here.fraction <= 1
    assert occupancy(device, registers + 1, shared, warps).blocks_per_sm <= here.blocks_per_sm
    assert occupancy(device, registers, shared + 512, warps).blocks_per_sm <= here.blocks_per_sm


# --- AMD, counted by hand: gfx942 has 4 SIMDs, each 512 registers a lane and 8 waves -----------

MI300X = targets.get_for_kernels("mi300x")


@pytest.mark.parametrize(
    ("registers", "shared", "waves", "blocks", "fraction", "limit"),
    [
        (64, 0, 4, 8, 1.0, "warps"),  # 512 / 64 = 8 waves a SIMD
        (65, 0, 4, 7, 7 / 8, "registers"),  # 72 after rounding: 7 waves
        (150, 0, 4, 3, 3 / 8, "registers"),  # 152: 3 waves
        (512, 0, 4, 1, 1 / 8, "registers"),
        (32, 16384, 4, 4, 0.5, "shared memory"),
        (32, 16385, 4, 3, 3 / 8, "shared memory"),  # 16,896 B after rounding to 512
        # 21,504 B are 42 units of 512 and 84 of 256: one byte more tells the two apart.
        (32, 21504, 4, 3, 3 / 8, "shared memory"),
        (32, 21505, 4, 2, 2 / 8, "shared memory"),
        (32, 65537, 4, 0, 0.0, "shared memory"),
        (32, 0, 16, 2, 1.0, "warps"),
        (32, 0, 32, 0, 0.0, "warps"),  # 2,048 threads in a block
        (32, 0, 1, 32, 1.0, "warps"),
        (8, 0, 3, 10, 30 / 32, "warps"),  # registers for 256 waves, of which there are 32
        (0, 0, 4, 8, 1.0, "warps"),
    ],
)
def test_waves_on_a_compute_unit(
    registers: int, shared: int, waves: int, blocks: int, fraction: float, limit: str
) -> None:
    found = occupancy(MI300X, registers, shared, waves)
    assert (found.blocks_per_sm, found.limit) == (blocks, limit)
    assert found.fraction == pytest.approx(fraction)


# --- bytes and their time ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moved", "bandwidth", "seconds"),
    [
        (10, 4.0, 2.5),
        (10, 1.0, 10.0),
        (0, 4.0, 0.0),
        (10, 0.0, None),
        (10, -4.0, None),
        (None, 4.0, None),
    ],
)
def test_a_lower_bound_needs_bytes_and_a_bandwidth(
    moved: int | None, bandwidth: float, seconds: float | None
) -> None:
    assert lower_bound_seconds(moved, replace(target(9, 0), bandwidth=bandwidth)) == seconds


def test_each_sweep_after_the_first_adds_an_arguments_bytes() -> None:
    passes = {"in_ptr0": 3, "in_ptr1": 1, "in_ptr2": 2, "unknown": 5}
    facts = SourceFacts(1, 0, 1, 0, 0, 1, 0, (), passes, 1, 1)
    arguments = {"in_ptr0": 100, "in_ptr1": 20, "in_ptr2": 7}
    assert bytes_swept(1000, arguments, facts) == 1000 + 2 * 100 + 7
    assert bytes_swept(None, arguments, facts) is None
    assert bytes_swept(1000, arguments, None) is None


def test_no_registers_at_all_are_as_few() -> None:
    assert occupancy(target(9, 0), 0, 0, 4) == occupancy(target(9, 0), 1, 0, 4)
