"""Computes how many blocks of a kernel fit on one multiprocessor, by the CUDA occupancy
calculator's rules."""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model import Target

# The same for every capability from 7.0 to 12.x except the shared memory's granularity, which is
# 256 B before 8.0 (cuda_occupancy.h of CUDA 13.1).
_REGISTERS_PER_ALLOCATION = 256
_PARTITIONS_PER_SM = 4
_MAX_REGISTERS_PER_THREAD = 255
_SHARED_BYTES_PER_ALLOCATION = 128
_SHARED_BYTES_PER_ALLOCATION_BEFORE_8_0 = 256


@dataclass(frozen=True, slots=True)
class _Occupancy:
    """Holds the theoretical occupancy of one kernel on one multiprocessor."""

    blocks_per_sm: int
    """The number of blocks that fit; 0 where not even one does: the launch would fail."""
    fraction: float
    """Resident warps over the most that the multiprocessor can hold, 0 to 1."""
    limit: str
    """The scarcest resource: ``registers``, ``shared memory``, ``warps`` or ``blocks``; the first
    of these where several are equally scarce."""


def occupancy(target: Target, registers: int, shared_bytes: int, num_warps: int) -> _Occupancy:
    """Return the occupancy of a kernel with ``registers`` per thread and ``shared_bytes`` per
    block.

    ``shared_bytes`` is what the kernel asks for (Triton's ``metadata.shared``, or static plus
    dynamic), without what the system reserves for each block. The formula is that of NVIDIA's
    ``cuda_occupancy.h``: registers are handed to warps in units of 256 within each of the four
    partitions of a multiprocessor, shared memory to blocks in units of 128 B.
    """
    warps_per_sm = target.max_threads_per_sm // target.warp_size
    limits = {
        "blocks": target.max_blocks_per_sm,
        "warps": _blocks_by_warps(target, num_warps),
        "shared memory": _blocks_by_shared_memory(target, shared_bytes),
        "registers": _blocks_by_registers(target, registers, num_warps),
    }
    limit = min(reversed(limits), key=lambda name: limits[name])
    blocks = limits[limit]
    if blocks * num_warps == warps_per_sm:
        limit = "warps"  # full: whatever else is just as scarce costs nothing
    return _Occupancy(blocks, blocks * num_warps / warps_per_sm, limit)


def _blocks_by_warps(target: Target, num_warps: int) -> int:
    threads = num_warps * target.warp_size
    return 0 if threads > target.max_threads_per_block else target.max_threads_per_sm // threads


def _blocks_by_registers(target: Target, registers: int, num_warps: int) -> int:
    if registers > _MAX_REGISTERS_PER_THREAD:
        return 0
    per_warp = _round_up(max(registers, 1) * target.warp_size, _REGISTERS_PER_ALLOCATION)
    # A launch is checked as if its warps were spread evenly over the partitions.
    if per_warp * _round_up(num_warps, _PARTITIONS_PER_SM) > target.registers_per_sm:
        return 0
    warps_per_partition = target.registers_per_sm // _PARTITIONS_PER_SM // per_warp
    return warps_per_partition * _PARTITIONS_PER_SM // num_warps


def _blocks_by_shared_memory(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_bytes_per_block_optin:
        return 0
    unit = (
        _SHARED_BYTES_PER_ALLOCATION
        if target.capability >= (8, 0)
        else _SHARED_BYTES_PER_ALLOCATION_BEFORE_8_0
    )
    allocated = _round_up(shared_bytes + target.reserved_shared_bytes_per_block, unit)
    return target.shared_bytes_per_sm // allocated if allocated else target.max_blocks_per_sm


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


_SIMDS = 4
_REGISTERS_PER_ALLOCATION_AMD = 8
_SHARED_BYTES_PER_ALLOCATION_AMD = 512


def occupancy_amd(target: Target, registers: int, shared_bytes: int, num_waves: int) -> _Occupancy:
    """Return the occupancy of a kernel with ``registers`` vector registers per lane,
    ``shared_bytes`` of LDS per block and ``num_waves`` waves per block."""
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
    return _Occupancy(blocks, blocks * num_waves / waves_per_unit, limit)


def _by_registers(target: Target, registers: int, num_waves: int) -> int:
    per_lane = target.registers_per_sm // _SIMDS // target.warp_size
    waves_per_simd = target.max_threads_per_sm // target.warp_size // _SIMDS
    unit = _REGISTERS_PER_ALLOCATION_AMD
    fitting = min(per_lane // max(-(-registers // unit) * unit, unit), waves_per_simd)
    return fitting * _SIMDS // num_waves


def _by_shared_memory(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_bytes_per_block_optin:
        return 0
    unit = _SHARED_BYTES_PER_ALLOCATION_AMD
    allocated = -(-shared_bytes // unit) * unit
    return target.shared_bytes_per_sm // allocated if allocated else target.max_blocks_per_sm
