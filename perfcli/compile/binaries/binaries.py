"""Compiles a kernel's source to machine code for the target, in every candidate launch
configuration.

Runs in the compile pool's processes. Inductor's own ``CachingAutotuner`` compiles, so that the
candidates are those of the real GPU; the cubin is read, never loaded.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from perfcli.compile.binaries import cache
from perfcli.compile.binaries.alternatives import needs_alternatives, other_configs, sort_best_first
from perfcli.compile.binaries.assembler import (
    Assembler,
    AssemblerTooSlow,
    allowed_seconds,
    select_ptxas,
)
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.candidate import attach_texts, candidate_of, refused_candidate
from perfcli.compile.capture.definition import Definition
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.facts.binary.cubin import Binary, BinaryFacts, count_registers, find_tools, read_cubins
from perfcli.machine.environment import cache_dir
from perfcli.model import Candidate, KernelKind, Target
from perfcli.storing.whole import write_whole


def _fits(result: Any, target: Target) -> bool:
    """Return whether the device has the shared memory that a ``CompileResult`` asks for."""
    kernel = result.kernel  # one that Inductor launches itself has no metadata
    return int(getattr(kernel, "metadata", kernel).shared) <= target.shared_bytes_per_block_optin


def _add_unpipelined(tuner: Any, target: Target) -> None:
    """Add the configuration that is compiled again, if there is one, to the tuner's results.
    Raises what Triton raises, as it would on the device."""
    last = tuner.compile_results[-1].config
    if (
        hasattr(tuner, "compile_by_disabling_pipelining")
        and tuner.inductor_meta.get("dynamic_disable_pipelining", True)
        and (last.num_stages > 1 or last.kwargs.get("NUM_STAGES", 1) > 1)
        and not any(_fits(result, target) for result in tuner.compile_results)
    ):
        config = copy.deepcopy(last)
        config.num_stages = 1
        if "NUM_STAGES" in config.kwargs:
            config.kwargs["NUM_STAGES"] = 1
        tuner.compile_results.append(tuner._precompile_config(config))


_CORNERS = (
    "precompile",
    "compile_results",
    "_make_launchers",
    "_dynamic_scale_rblock",
    "_precompile_config",
)


def compile_kernels(
    definitions: Sequence[Definition], target: Target, cache_dir: Path
) -> list[Compiled]:
    """Compile (or find) every candidate of each kernel and, where these are at fault, some others.
    A kernel that Triton refuses comes back with ``error`` and no candidates; a configuration that
    the assembler takes too long for is a candidate with an ``error``."""
    found: dict[int, Compiled] = {}
    paths: dict[int, Path] = {}
    running: dict[int, _Steps] = {}
    for number, each in enumerate(definitions):
        path = cache.entry(each.source, each.name, target, cache_dir)
        stored = cache.read(path)
        if stored is not None and not 0 < stored.given_up_after < allowed_seconds():
            found[number] = stored
            if os.environ.get("TRITON_CACHE_DIR") == str(cache_dir / "triton"):
                keep_binaries(each, target)
        else:
            paths[number], running[number] = path, _compile(each, target)
    answers: dict[int, list[BinaryFacts]] = {}
    while running:
        asked: dict[int, list[Binary]] = {}
        for number, steps in list(running.items()):
            try:
                asked[number] = steps.send(answers.get(number))
                continue
            except StopIteration as end:
                found[number] = end.value
                cache.write(paths[number], end.value)
            except PerfcliError:
                raise
            except Exception as error:
                found[number] = Compiled((), {}, f"{type(error).__name__}: {error}"[:4000])
            del running[number]
        answers = _read_at_once(asked)
    return [found[number] for number in range(len(definitions))]


def keep_binaries(definition: Definition, target: Target) -> Sequence[Any]:
    """Have Triton's cache hold the binaries of a kernel, for who loads them. Return what Inductor
    made of it; nothing where that fails."""
    try:
        kernel = _load(definition, target)
        tuner = kernel.tuner
        tuner.precompile(warm_cache_only=True)
        _add_scaled(kernel)
        return list(tuner.compile_results)
    except Exception:  # who loads them says what is wrong
        return ()


def _read_cubin(kernel: Any) -> Any:
    """Return the binary of Triton's kernel, or of one that Inductor launches itself (torch 2.11);
    None where it is none for NVIDIA's GPUs."""
    return getattr(kernel, "cubin_raw", None) or getattr(kernel, "asm", {}).get("cubin")


_Steps: TypeAlias = "Generator[list[Binary], list[BinaryFacts] | None, Compiled]"
"""How a kernel is compiled: it asks for what stands in binaries, and goes on when it is told."""


def _read_at_once(asked: Mapping[int, list[Binary]]) -> dict[int, list[BinaryFacts]]:
    """Return what stands in the binaries that each kernel asks for."""
    import triton

    binaries = [binary for each in asked.values() for binary in each]
    tools = find_tools(Path(triton.__file__).parent)
    facts = iter(read_cubins(binaries, tools) if binaries else [])
    return {number: list(islice(facts, len(each))) for number, each in asked.items()}


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Holds one kernel while it is compiled."""

    tuner: Any
    source: str
    source_file: str
    target: Target
    given_up: list[Candidate] = field(default_factory=list)
    """Configurations that the assembler took too long for."""

    def binaries(self, results: Sequence[Any]) -> list[Binary]:
        asm = [result.kernel.asm for result in results]
        return [(each["cubin"], self.source_file, each["ptx"]) for each in asm]

    def candidate(self, result: Any, facts: BinaryFacts) -> Candidate:
        return candidate_of(result, facts, self.target, self.source)


def _compile(definition: Definition, target: Target) -> _Steps:
    kernel = _load(definition, target)
    tuner = kernel.tuner
    with _going_on(kernel):
        tuner.precompile(warm_cache_only=True)
    if tuner.compile_results:
        with _going_on(kernel):
            _add_unpipelined(tuner, target)
    if tuner.compile_results:
        _add_scaled(kernel)
    facts = (yield kernel.binaries(tuner.compile_results)) or []
    results = list(zip(tuner.compile_results, facts, strict=True))
    candidates = [kernel.candidate(result, fact) for result, fact in results]
    alternatives = yield from _alternatives(kernel, candidates, definition.kind)
    blobs: dict[str, str] = {}
    folder = Path(kernel.source_file).parent
    return Compiled(
        tuple(
            attach_texts(candidate, result.kernel.asm, fact.sass, blobs, folder)
            for candidate, (result, fact) in zip(candidates, results, strict=True)
        )
        + tuple(kernel.given_up),
        blobs,
        alternatives=alternatives,
        given_up_after=allowed_seconds() if kernel.given_up else 0.0,
    )


def _load(definition: Definition, target: Target) -> _Kernel:
    from torch._inductor.codecache import PyCodeCache

    module = PyCodeCache.load(definition.source)
    tuner = getattr(module, definition.name)
    for corner in _CORNERS:
        if not hasattr(tuner, corner):
            raise CompileFailed(
                f"this torch's {type(tuner).__name__} has no {corner}, which perfcli compiles "
                "kernels with (tested: torch 2.11 to 2.15)"
            )
    kernel = _Kernel(tuner, definition.source, module.__file__, target)
    _give_up_slow(kernel, definition.name)
    return kernel


def _give_up_slow(kernel: _Kernel, name: str) -> None:
    """Let Inductor leave out a configuration that the assembler takes too long for, as it leaves
    out those that the assembler refuses."""
    from torch._inductor.runtime.triton_heuristics import PTXASError

    compile_one = kernel.tuner._precompile_config

    def precompile(config: Any) -> Any:
        _ASSEMBLER.begin(name, _describe(config))
        try:
            return compile_one(config)
        except AssemblerTooSlow as error:
            kernel.given_up.append(refused_candidate(config, str(error)))
            raise PTXASError(str(error)) from error

    kernel.tuner._precompile_config = precompile


def _describe(config: Any) -> str:
    """Return ``XBLOCK=1024, 4 warps``."""
    sizes = [f"{name}={value}" for name, value in config.kwargs.items()]
    return ", ".join([*sizes, f"{config.num_warps} warps"])


@contextmanager
def _going_on(kernel: _Kernel) -> Iterator[None]:
    """Go on after what Inductor raises where a configuration was given up."""
    before = len(kernel.given_up)
    try:
        yield
    except Exception:
        if len(kernel.given_up) == before:
            raise


def _alternatives(
    kernel: _Kernel, candidates: Sequence[Candidate], kind: KernelKind
) -> Generator[list[Binary], list[BinaryFacts] | None, tuple[Candidate, ...]]:
    """Compile other configurations in the same way where Inductor's own are at fault. Their texts
    are not kept."""
    if kernel.given_up or not needs_alternatives(candidates, kind):
        return ()
    configs = [result.config for result in kernel.tuner.compile_results]
    tried: list[tuple[Any, Candidate | None]] = []
    for config in other_configs(sort_best_first(configs, candidates), kernel.target):
        try:
            tried.append((kernel.tuner._precompile_config(config), None))
        except Exception as error:  # Triton refuses it, for whatever reason
            if kernel.given_up:  # the next one would take as long
                break
            tried.append((None, refused_candidate(config, f"{type(error).__name__}: {error}")))
    results = [result for result, refused in tried if refused is None]
    facts = iter((yield kernel.binaries(results)) or [])
    return tuple(refused or kernel.candidate(result, next(facts)) for result, refused in tried)


def _add_scaled(kernel: _Kernel) -> None:
    """Add to the tuner's results the configurations that Inductor adds once it knows how many
    registers the first ones take (``dynamic_scale_rblock``). On a device the driver reports that
    number; here the cubin does. A binary that the driver would refuse has none."""
    tuner = kernel.tuner
    for result in tuner.compile_results:
        cubin = _read_cubin(result.kernel)
        fits = cubin and _fits(result, kernel.target)
        result.kernel.n_regs = count_registers(cubin) if fits else None
    tuner._make_launchers = lambda: None  # launchers need a device
    with _going_on(kernel):
        tuner._dynamic_scale_rblock()


_ASSEMBLER = Assembler()
"""Runs the assembler for this process."""


def prepare_process(tell: Callable[[str], None]) -> None:
    """Configure a pool process: Inductor may not try to load what it compiled. ``tell`` hears of
    kernels that take the assembler long."""
    import torch._inductor.config as inductor

    _ASSEMBLER.tell = tell
    _ASSEMBLER.install()

    if "TRITON_CACHE_DIR" not in os.environ:
        os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="perfcli-triton-")
    key_caches_by_version()
    select_ptxas()
    for name in ("use_static_cuda_launcher", "use_static_triton_launcher"):
        if name in inductor._config:
            setattr(inductor, name, False)


def key_caches_by_version() -> None:
    """Let Triton and Inductor tell their releases apart by number, and by when their files were
    written. They read all of these for that, half a gigabyte in each process. What Inductor writes
    into a kernel's text is what it read; that is kept for the next process."""
    import torch
    import triton
    from torch._inductor import codecache

    # It keeps the function that it finds, whose answer is part of a kernel's text.
    from torch._inductor.runtime import triton_compat
    from triton.runtime import cache

    # Triton's cache outlives the worker where there is a GPU; Inductor's does not.
    installed = f"{triton.__version__} {_sign_files(Path(triton.__file__).parent)}"
    read: Any = triton_compat.triton_key
    if not isinstance(read, functools.partial):  # as in a fork of a process that did this
        kept = cache_dir() / "triton-keys" / hashlib.sha256(installed.encode()).hexdigest()
        triton_compat.triton_key = functools.partial(_keep_text, kept, read)
    keys: tuple[tuple[Any, str, Any], ...] = (
        (cache, "triton_key", installed),
        (codecache, "torch_key", torch.__version__.encode()),
    )
    for module, name, key in keys:
        found: Any = getattr(module, name, None)
        if hasattr(found, "set"):  # it keeps its answer, for those too that imported it
            found.clear()
            found.set(key)
        elif found is not None:
            setattr(module, name, lambda key=key: key)


@functools.cache
def _keep_text(path: Path, make: Callable[[], str]) -> str:
    """Return a file's text, made and kept where there is none."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8")
    made = make()
    with suppress(OSError):
        write_whole(path, made.encode())
    return made


def _sign_files(folder: Path) -> str:
    """Return a hash of the sizes and times of all files in a folder."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        for name in sorted(names):
            found = os.stat(os.path.join(place, name))
            digest.update(f"{place}/{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
