"""Compiles launches of hand-written kernels to machine code for a target, and tells what that is
made of.

Triton compiles as it would at the launch: the same signature, constants and divisibility. Its own
ptxas is used, as a kernel outside of Inductor gets it. No device is asked for anything. Seen with
triton 3.6 and 3.7.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfcli.compile.binaries import cache
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.candidate import nvidia_candidate
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.facts.binary.cubin import find_tools, read_cubin
from perfcli.facts.binary.hsaco import read_hsaco
from perfcli.facts.occupancy import occupancy
from perfcli.facts.source.specialization import specialize
from perfcli.facts.source.sweeps import join_sweeps
from perfcli.facts.source.triton import triton_facts
from perfcli.handwritten import describing
from perfcli.model import Candidate, KernelLaunch, Scalar, SourceFacts, Target
from perfcli.model.kernel_work import LaunchesRequest, LaunchToCompile

FORMAT = 1
"""The format of the cache's entries: raise it when a fact is added or counted differently."""


def compile_all(request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
    """Yield each launch's number and what it became, as they come. One that Triton refuses has its
    ``error``. Raises WorkerFailed where a compiling process was killed and PerfcliError where a
    family's code is not there."""
    for name in {each.code for each in request.launches}:
        describing.load_code(name, request.family)  # imported once, before the pool forks
    context = multiprocessing.get_context("fork")
    cache_dir = Path(request.cache_dir)
    pool = ProcessPoolExecutor(max(request.jobs, 1), mp_context=context)
    try:
        futures = {
            pool.submit(compile_launch, each, request.family, cache_dir): number
            for number, each in enumerate(request.launches)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise WorkerFailed(
            "a process that compiled kernels was killed (out of memory?): use fewer with --jobs, "
            "what it finished is cached"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def compile_launch(asked: LaunchToCompile, family: str, cache_dir: Path) -> Candidate:
    """Compile the launch, or take what an earlier run kept of it."""
    try:
        function = describing.load_code(asked.code, family).function(asked.launch.function)
        source = _source(function, asked.launch)
    except PerfcliError:
        raise
    except Exception as error:  # a launch that does not fit its function: the family's fault
        return refused_launch(asked.launch, error)
    path = _entry(source, asked, cache_dir)
    found = cache.read(path)
    if found is not None and found.candidates:
        return found.candidates[0]
    try:
        candidate = _compile(source, asked)
    except PerfcliError:
        raise
    except Exception as error:  # Triton refuses it, for whatever reason
        return refused_launch(asked.launch, error)
    cache.write(path, Compiled((candidate,), {}))
    return candidate


def _source(function: Any, launch: KernelLaunch) -> Any:
    """Return what Triton's launcher would compile for these arguments."""
    given = {**launch.arguments, **dict.fromkeys(launch.constants, "constexpr")}
    unknown = given.keys() - set(function.arg_names)
    missing = [name for name in function.arg_names if name not in given]
    if unknown or missing:
        raise ValueError(
            f"{launch.function} takes ({', '.join(function.arg_names)}); its launch lacks "
            f"{missing or 'nothing'} and has besides {sorted(unknown) or 'nothing'}"
        )
    place = {name: index for index, name in enumerate(function.arg_names)}
    return _source_type(function)(
        function,
        {name: given[name] for name in function.arg_names},
        {(place[name],): value for name, value in launch.constants.items()},
        _attributes(function, launch),
    )


def _source_type(function: Any) -> Any:
    """Return the class that Triton's launcher makes sources of: functions written in Gluon have
    their own."""
    if describing.is_gluon(function):
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def _attributes(function: Any, launch: KernelLaunch) -> dict[tuple[int], list[Any]]:
    """Return the attributes as Triton's launcher writes them: an entry for each pointer and for
    each whole number that it specialises on, and for constants: from 3.7 on for each, before that
    for text."""
    import triton

    every = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7)
    constants = {n for n, value in launch.constants.items() if every or isinstance(value, str)}
    told = constants | {n for n, kind in launch.arguments.items() if kind[0] in "*iu"}
    told -= {parameter.name for parameter in function.params if parameter.do_not_specialize}
    return {
        (index,): [["tt.divisibility", 16]] if name in launch.divisible_by_16 else []
        for index, name in enumerate(function.arg_names)
        if name in told
    }


def _entry(source: Any, asked: LaunchToCompile, cache_dir: Path) -> Path:
    """Return where the entry is, or will be: by the source with all that it calls, the launch, the
    target and triton, which brings its own ptxas."""
    import triton

    launch = asked.launch
    parts = [
        "hand-written",
        str(FORMAT),
        str(cache.FORMAT),
        source.hash(),
        repr((launch.num_warps, launch.num_stages, sorted(launch.constants))),
        repr(asked.target),
        triton.__version__,
        sys.version.split()[0],
        *([] if launch.maxnreg is None else [f"maxnreg {launch.maxnreg}"]),
        *(["overlaps"] if launch.overlaps else []),
        *(["all at once"] if launch.all_at_once else []),
        *([f"cluster {launch.cluster}"] if launch.cluster > 1 else []),
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_dir / "kernels" / key[:2] / f"{key}.json.z"


def _compile(source: Any, asked: LaunchToCompile) -> Candidate:
    return launched_candidate(_build(source, asked), asked.launch, asked.target)


def _build(source: Any, asked: LaunchToCompile) -> Any:
    import triton

    launch = asked.launch
    return triton.compile(source, target=_gpu(asked.target), options=launch.options)


def _gpu(target: Target) -> Any:
    from triton.backends.compiler import GPUTarget

    if target.vendor == "amd":
        return GPUTarget("hip", target.arch, target.warp_size)
    return GPUTarget("cuda", target.capability_number, target.warp_size)


def launch_facts(
    source: str, name: str, constants: Mapping[str, Scalar]
) -> tuple[str, SourceFacts]:
    """Return the kernel's text as the launch compiles it, and its facts.

    Passes are those over whole rows: what the device may read again in a branch of its own (a
    fallback) does not count, nor do loads outside of the loops that read a buffer (the few elements
    before the first aligned address, one that is looked up). Raises UnreadableSource where the text
    is no Python, or has no such function."""
    text = specialize(source, name, constants)
    facts = triton_facts(text, name)
    certain = triton_facts(
        join_sweeps(specialize(source, name, constants, only_certain=True)), name
    )
    every = triton_facts(join_sweeps(text), name)
    passes = {
        pointer: _passes(pointer, certain if pointer in certain.passes else every)
        for pointer in every.passes
    }
    # Whether maximum and sum are taken together is known of Inductor's library calls alone.
    return text, replace(facts, passes=passes, online_softmax=None)


def _passes(pointer: str, facts: SourceFacts) -> int:
    depths = {a.depth for a in facts.accesses if a.pointer == pointer and a.kind == "load"}
    return max(facts.passes[pointer] - (len(depths) > 1), 1)


# --- what comes of it -----------------------------------------------------------------------------


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
