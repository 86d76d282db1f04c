"""Makes a candidate of a compiled launch: from NVIDIA's cubin, from AMD's code object, or of one
that Triton refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfcli.compile.binaries.candidate import nvidia_candidate
from perfcli.facts.binary.cubin import find_tools, read_cubin
from perfcli.facts.binary.hsaco import read_hsaco
from perfcli.facts.occupancy import occupancy
from perfcli.model import Candidate, KernelLaunch, Target


def launched_candidate(kernel: Any, launch: KernelLaunch, target: Target) -> Candidate:
    """Return the candidate of what ``triton.compile`` gives."""
    if target.vendor == "amd":
        return _amd_candidate(kernel, launch, target)
    return _nvidia_candidate(kernel, launch, target)


def _nvidia_candidate(kernel: Any, launch: KernelLaunch, target: Target) -> Candidate:
    import triton

    tools = find_tools(Path(triton.__file__).parent)
    facts = read_cubin(kernel.asm["cubin"], tools, "", kernel.asm["ptx"])
    config = _numbers(launch)
    return nvidia_candidate(kernel, facts, target, config, launch.num_warps, launch.num_stages)


def _amd_candidate(kernel: Any, launch: KernelLaunch, target: Target) -> Candidate:
    facts = read_hsaco(kernel.asm["hsaco"], kernel.asm["amdgcn"])
    # Triton asks for its LDS at launch; the code object names what is static.
    shared = max(int(kernel.metadata.shared), facts.shared_bytes)
    resident = occupancy(target, facts.vector_registers, shared, launch.num_warps)
    return Candidate(
        config=_numbers(launch),
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        registers=facts.vector_registers,
        stack_bytes=facts.stack_bytes,
        local_array_bytes=max(facts.stack_bytes - 4 * facts.spilled_words, 0),
        shared_bytes=shared,
        local_loads=facts.local_loads,
        local_stores=facts.local_stores,
        global_loads=dict(facts.global_loads),
        global_stores=dict(facts.global_stores),
        tma_loads=0,
        tma_stores=0,
        blocks_per_sm=resident.blocks_per_sm,
        occupancy=resident.fraction,
        occupancy_limit=resident.limit,
        binary_hash=facts.code_hash,
    )


def refused_launch(launch: KernelLaunch, error: Exception) -> Candidate:
    # Triton's own errors quote the source between the place and the reason.
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    told = " ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))
    return Candidate(
        config=_numbers(launch),
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        error=f"{type(error).__name__}: {told}"[:300],
    )


def _numbers(launch: KernelLaunch) -> dict[str, int]:
    return {name: int(v) for name, v in launch.constants.items() if isinstance(v, int)}
