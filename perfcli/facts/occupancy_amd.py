"""How many blocks of a kernel fit on one of AMD's compute units.

LLVM's rules (``AMDGPUBaseInfo.cpp``) for gfx90a and gfx942: each of the four SIMDs has 512 vector
registers a lane, handed to waves in units of 8, and holds 8 waves at most; LDS goes to blocks in
units of 512 B.
"""

from __future__ import annotations

from perfcli.facts.occupancy import Occupancy
from perfcli.model import Target

_SIMDS = 4
_REGISTERS_PER_ALLOCATION = 8
_SHARED_BYTES_PER_ALLOCATION = 512


def occupancy(target: Target, registers: int, shared_bytes: int, num_waves: int) -> Occupancy:
    """Of a kernel with ``registers`` vector registers a lane, ``shared_bytes`` of LDS a block and
    ``num_waves`` waves a block."""
    waves_per_unit = target.max_threads_per_sm // target.warp_size
    limits = {
        "blocks": target.max_blocks_per_sm,
        "warps": waves_per_unit // num_waves,
        "shared memory": _by_shared_memory(target, shared_bytes),
        "registers": _by_registers(target, registers, num_waves),
    }
    if num_waves * target.warp_size > target.max_threads_per_block:
        limits["warps"] = 0
    limit = min(reversed(limits), key=lambda name: limits[name])
    blocks = limits[limit]
    if blocks * num_waves == waves_per_unit:
        limit = "warps"  # full: whatever else is just as scarce costs nothing
    return Occupancy(blocks, blocks * num_waves / waves_per_unit, limit)


def _by_registers(target: Target, registers: int, num_waves: int) -> int:
    per_lane = target.registers_per_sm // _SIMDS // target.warp_size
    waves_per_simd = target.max_threads_per_sm // target.warp_size // _SIMDS
    unit = _REGISTERS_PER_ALLOCATION
    fitting = min(per_lane // max(-(-registers // unit) * unit, unit), waves_per_simd)
    return fitting * _SIMDS // num_waves


def _by_shared_memory(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_bytes_per_block_optin:
        return 0
    unit = _SHARED_BYTES_PER_ALLOCATION
    allocated = -(-shared_bytes // unit) * unit
    return target.shared_bytes_per_sm // allocated if allocated else target.max_blocks_per_sm
