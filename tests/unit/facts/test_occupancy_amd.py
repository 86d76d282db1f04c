"""Waves on a compute unit of gfx942, counted by hand: 4 SIMDs, 512 registers a lane, 8 waves."""

from __future__ import annotations

import pytest

from perfcli.facts.occupancy import occupancy_amd
from perfcli.machine import targets

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
        (32, 65537, 4, 0, 0.0, "shared memory"),
        (32, 0, 16, 2, 1.0, "warps"),
        (32, 0, 32, 0, 0.0, "warps"),  # 2,048 threads in a block
        (32, 0, 1, 32, 1.0, "warps"),
    ],
)
def test_occupancy(
    registers: int, shared: int, waves: int, blocks: int, fraction: float, limit: str
) -> None:
    found = occupancy_amd(MI300X, registers, shared, waves)
    assert (found.blocks_per_sm, found.limit) == (blocks, limit)
    assert found.fraction == pytest.approx(fraction)
