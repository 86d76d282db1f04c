"""A kernel's source to machine code for the target: every candidate launch configuration.

Runs in the compile pool's processes. Inductor's own ``CachingAutotuner`` compiles, so that the
candidates are those of the real GPU; the cubin is read, never loaded. Results are cached by
content: the source (which names the device properties), torch, triton and python versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perfcli.blobs import blob_id, pack
from perfcli.compile.ptxas import ptxas_version, select_ptxas
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.facts.binary import BinaryFacts, find_tools, read_cubin
from perfcli.facts.occupancy import occupancy
from perfcli.facts.ptx import local_array_bytes
from perfcli.model import Candidate, LineCounts, Target

FORMAT = 6
"""Of the cache entries: raise it when a fact is added or counted differently."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """All candidates of a kernel and the packed texts that they name."""

    candidates: tuple[Candidate, ...]
    blobs: dict[str, str]
    error: str = ""


def compile_kernel(source: str, name: str, target: Target, cache_dir: Path) -> Compiled:
    """Compiles (or finds) every candidate of the kernel. A kernel that Triton refuses comes back
    with ``error`` and no candidates."""
    path = _cache_path(source, name, target, cache_dir)
    found = _read(path)
    if found is not None:
        return found
    try:
        compiled = _compile(source, name, target)
    except PerfcliError:
        raise
    except Exception as error:
        return Compiled((), {}, f"{type(error).__name__}: {error}"[:4000])
    _write(path, compiled)
    return compiled


def _compile(source: str, name: str, target: Target) -> Compiled:
    import triton
    from torch._inductor.codecache import PyCodeCache

    module = PyCodeCache.load(source)
    tuner = getattr(module, name)
    for corner in ("precompile", "compile_results", "_make_launchers", "_dynamic_scale_rblock"):
        if not hasattr(tuner, corner):
            raise CompileFailed(
                f"this torch's {type(tuner).__name__} has no {corner}, which perfcli compiles "
                "kernels with (tested: torch 2.11 to 2.15)"
            )
    tools = find_tools(Path(triton.__file__).parent)
    tuner.precompile(warm_cache_only=True)
    facts = [_read_result(r, tools, module.__file__) for r in tuner.compile_results]
    scaled = _scaled_results(tuner, facts)
    facts += [_read_result(r, tools, module.__file__) for r in scaled]
    blobs: dict[str, str] = {}
    candidates = tuple(
        _candidate(result, fact, target, blobs, Path(module.__file__).parent)
        for result, fact in zip(tuner.compile_results, facts, strict=True)
    )
    return Compiled(candidates, blobs)


def _read_result(result: Any, tools: Path, source_file: str) -> BinaryFacts:
    asm = result.kernel.asm
    return read_cubin(asm["cubin"], tools, source_file, asm["ptx"])


def _scaled_results(tuner: Any, facts: list[BinaryFacts]) -> list[Any]:
    """The configurations that Inductor adds once it knows the registers of the first ones
    (``dynamic_scale_rblock``): on a device the driver tells it, here the cubin does."""
    known = len(tuner.compile_results)
    for result, fact in zip(tuner.compile_results, facts, strict=True):
        result.kernel.n_regs = fact.registers
    tuner._make_launchers = lambda: None  # launchers need a device
    tuner._dynamic_scale_rblock()
    return list(tuner.compile_results[known:])


def _candidate(
    result: Any, fact: BinaryFacts, target: Target, blobs: dict[str, str], folder: Path
) -> Candidate:
    kernel, config = result.kernel, result.config
    shared = int(kernel.metadata.shared)
    resident = occupancy(target, fact.registers, shared, config.num_warps)
    names = {}
    for kind, text in (
        ("ttgir", without_folders(kernel.asm["ttgir"], folder)),
        ("ptx", without_folders(kernel.asm["ptx"], folder)),
        ("sass", fact.sass),
    ):
        names[kind] = blob_id(text)
        blobs[names[kind]] = pack(text)
    return Candidate(
        config={k: int(v) for k, v in config.kwargs.items() if isinstance(v, int)},
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        registers=fact.registers,
        stack_bytes=fact.stack_bytes,
        local_array_bytes=local_array_bytes(kernel.asm["ptx"]),
        shared_bytes=shared,
        local_loads=fact.local_loads,
        local_stores=fact.local_stores,
        local_loads_in_loops=fact.local_loads_in_loops,
        local_stores_in_loops=fact.local_stores_in_loops,
        global_loads=dict(fact.global_loads),
        global_stores=dict(fact.global_stores),
        tma_loads=fact.tma_loads,
        tma_stores=fact.tma_stores,
        lines=dict(fact.lines),
        blocks_per_sm=resident.blocks_per_sm,
        occupancy=resident.fraction,
        occupancy_limit=resident.limit,
        binary_hash=fact.code_hash,
        **names,
    )


def without_folders(text: str, folder: Path) -> str:
    """A text without the folders of this machine: the kernel's own, which is another in every
    run, and that of the installed packages."""
    import torch

    packages = Path(torch.__file__).parents[1]
    return text.replace(f"{folder}{os.sep}", "").replace(f"{packages}{os.sep}", "")


def prepare_process() -> None:
    """Settings of a pool process: Inductor may not try to load what it compiled."""
    import torch._inductor.config as inductor

    if "TRITON_CACHE_DIR" not in os.environ:
        os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="perfcli-triton-")
    select_ptxas()
    for name in ("use_static_cuda_launcher", "use_static_triton_launcher"):
        if name in inductor._config:
            setattr(inductor, name, False)


def _cache_path(source: str, name: str, target: Target, cache_dir: Path) -> Path:
    import torch
    import triton

    parts = [
        str(FORMAT),
        name,
        source,
        repr(target),
        torch.__version__,
        triton.__version__,
        str(ptxas_version(target)),
        sys.version.split()[0],
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_dir / "kernels" / key[:2] / f"{key}.json.z"


def _read(path: Path) -> Compiled | None:
    try:
        data = json.loads(zlib.decompress(path.read_bytes()))
        candidates = tuple(
            replace(
                Candidate(**{k: v for k, v in c.items() if k != "lines"}),
                lines={k: LineCounts(**v) for k, v in c["lines"].items()},
            )
            for c in data["candidates"]
        )
        return Compiled(candidates, data["blobs"])
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        return None  # missing, or cut off by whoever wrote it: compile again


def _write(path: Path, compiled: Compiled) -> None:
    data = {"candidates": [asdict(c) for c in compiled.candidates], "blobs": compiled.blobs}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(zlib.compress(json.dumps(data).encode(), 1))
        os.replace(temporary, path)
    except OSError:
        return  # a cache: full or read-only, the result itself is good
