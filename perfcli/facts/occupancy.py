"""Computes how many blocks of a kernel fit on one multiprocessor: on an NVIDIA GPU by the rules of
the CUDA occupancy calculator, on an AMD GPU by what a compute unit has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perfcli.model import SourceFacts, Target

# A multiprocessor has four partitions, a compute unit of CDNA four SIMDs: each has its own part of
# the registers.
_PARTITIONS = 4

# The same for every capability from 7.0 to 12.x except the shared memory's granularity, which is
# 256 B before 8.0 (cuda_occupancy.h of CUDA 13.1).
_NVIDIA_REGISTERS = 256
_NVIDIA_MAX_REGISTERS = 255
_NVIDIA_SHARED_BYTES = 128
_NVIDIA_SHARED_BYTES_BEFORE_8_0 = 256

# Of gfx942. Registers are counted per lane.
_AMD_REGISTERS = 8
_AMD_SHARED_BYTES = 512


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
    block of ``num_warps``. A thread is a lane of a wave on an AMD GPU, a warp a wave, and shared
    memory LDS.

    ``shared_bytes`` is what the kernel asks for (Triton's ``metadata.shared``, or static plus
    dynamic), without what the system reserves for each block.
    """
    fitting = _WARPS_BY_REGISTERS[target.vendor](target, registers)
    warps_per_sm = target.max_threads_per_sm // target.warp_size
    limits = {
        "blocks": target.max_blocks_per_sm,
        "warps": _blocks_by_warps(target, num_warps),
        "shared memory": _blocks_by_shared_memory(target, shared_bytes),
        "registers": fitting // num_warps,
    }
    limit = min(reversed(limits), key=lambda name: limits[name])
    blocks = limits[limit]
    if blocks * num_warps == warps_per_sm:
        limit = "warps"  # full: whatever else is just as scarce costs nothing
    return _Occupancy(blocks, blocks * num_warps / warps_per_sm, limit)


def _blocks_by_warps(target: Target, num_warps: int) -> int:
    threads = num_warps * target.warp_size
    return 0 if threads > target.max_threads_per_block else target.max_threads_per_sm // threads


def _nvidia_warps_by_registers(target: Target, registers: int) -> int:
    """Return the warps for which there are registers: within each partition, warps are handed
    registers in units of 256."""
    if registers > _NVIDIA_MAX_REGISTERS:
        return 0
    per_warp = _round_up(max(registers, 1) * target.warp_size, _NVIDIA_REGISTERS)
    return target.registers_per_sm // _PARTITIONS // per_warp * _PARTITIONS


def _amd_warps_by_registers(target: Target, registers: int) -> int:
    """Return the waves for which there are registers: each lane is handed them in units of 8."""
    per_lane = target.registers_per_sm // _PARTITIONS // target.warp_size
    return per_lane // _round_up(max(registers, 1), _AMD_REGISTERS) * _PARTITIONS


_WARPS_BY_REGISTERS: dict[str, Callable[[Target, int], int]] = {
    "nvidia": _nvidia_warps_by_registers,
    "amd": _amd_warps_by_registers,
}


def _blocks_by_shared_memory(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_bytes_per_block_optin:
        return 0
    asked = shared_bytes + target.reserved_shared_bytes_per_block
    allocated = _round_up(asked, _shared_bytes_per_allocation(target))
    return target.shared_bytes_per_sm // allocated if allocated else target.max_blocks_per_sm


def _shared_bytes_per_allocation(target: Target) -> int:
    if target.vendor == "amd":
        return _AMD_SHARED_BYTES
    early = target.capability < (8, 0)
    return _NVIDIA_SHARED_BYTES_BEFORE_8_0 if early else _NVIDIA_SHARED_BYTES


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def lower_bound_seconds(bytes_moved: int | None, target: Target) -> float | None:
    """Return seconds to move ``bytes_moved`` through device memory at the data sheet's bandwidth:
    no kernel that misses the cache can be faster. None where either is not known."""
    if bytes_moved is None or target.bandwidth <= 0:
        return None
    return bytes_moved / target.bandwidth


def bytes_swept(
    bytes_moved: int | None, arguments: Mapping[str, int], facts: SourceFacts | None
) -> int | None:
    """Return ``bytes_moved`` (each buffer once) plus, for each sweep over an argument after its
    first, the bytes behind that argument again, or None where the bytes or the sweeps are not
    known."""
    if bytes_moved is None or facts is None:
        return None
    again = (arguments.get(name, 0) * (passes - 1) for name, passes in facts.passes.items())
    return bytes_moved + sum(again)
