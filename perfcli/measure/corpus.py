"""Compiles and times the kernels of a calibration, in a worker process on a machine with a GPU.

All cases are compiled before any is timed. Each is launched several times with the L2 cache
flushed before it ("cold"), then several times in a row ("hot"); the times are those of the
launches on the device, by CUPTI.
"""

from __future__ import annotations

import json
import multiprocessing
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from perfcli.errors import WorkerFailed
from perfcli.facts.binary.cubin import find_tools, read_cubin
from perfcli.model import Target
from perfcli.model.kernel_work import CorpusCase, CorpusRequest, CorpusTimes, CorpusWork

_COLD, _HOT = 5, 6
_BATCH = 60
_FLUSHED = 256 << 20
"""Bytes that are read to leave nothing else in the L2 cache; more than twice what GPUs have."""
_FILE = "corpus_kernels.py"
_POINTERS = {
    "bf16": "*bf16", "fp32": "*fp32", "i8": "*i8", "i32": "*i32", "chain": "*i32", "rows": "*i64",
}  # fmt: skip
_LOOKED_UP = 4096
"""Rows that ``rows`` are indices of."""


def compile_cases(request: CorpusRequest) -> Iterator[tuple[int, CorpusWork | None]]:
    """Yield each case's number and what it asks for, as they come; None for one that Triton
    refuses. Cases that differ in nothing that Triton specialises on are compiled once.

    Raises:
        WorkerFailed: a compiling process was killed.
    """
    import triton

    from perfcli.measure import corpus_kernels  # noqa: F401  imported once, before the pool forks

    tools = find_tools(Path(triton.__file__).parent)
    alike: dict[str, list[int]] = {}
    for number, case in enumerate(request.cases):
        alike.setdefault(_specialisation(case), []).append(number)
    pool = ProcessPoolExecutor(max(request.jobs, 1), multiprocessing.get_context("fork"))
    try:
        futures = {
            pool.submit(_weigh, [request.cases[n] for n in numbers], request.target, tools): numbers
            for numbers in alike.values()
        }
        for future in as_completed(futures):
            yield from zip(futures[future], future.result(), strict=True)
    except BrokenProcessPool as error:
        raise WorkerFailed("a process that compiled kernels was killed (out of memory?)") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _specialisation(case: CorpusCase) -> str:
    kinds = {name: (v % 16 == 0, v == 1) for name, v in case.scalars.items()}
    types = [kind for _, kind, _ in case.tensors]
    return json.dumps([case.kernel, case.warps, dict(case.constants), kinds, types])


def _weigh(cases: Sequence[CorpusCase], target: Target, tools: Path) -> list[CorpusWork | None]:
    """Compile the code that all cases share, and count what each asks for."""
    from perfcli.facts.binary.sass import parse_annotated
    from perfcli.facts.work.launch_work import work_of
    from perfcli.facts.work.ttgir import parse_module

    try:
        compiled = _compile(cases[0], target)
    except Exception:  # Triton refuses it, for whatever reason
        return [None] * len(cases)
    facts = read_cubin(compiled.asm["cubin"], tools, _FILE, compiled.asm["ptx"])
    module, listing = parse_module(compiled.asm["ttgir"]), parse_annotated(facts.sass)
    found: list[CorpusWork | None] = []
    for case in cases:
        try:
            work = work_of(module, listing, _FILE, case.grid, case.scalars)
        except Exception:  # whatever the index arithmetic stumbles over
            work = None
        shared = compiled.metadata.shared
        found.append(CorpusWork(facts.registers, facts.stack_bytes, shared, work))
    return found


def _compile(case: CorpusCase, target: Target) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from perfcli.measure.corpus_kernels import KERNELS

    function = KERNELS[case.kernel]
    pointers = {name: _POINTERS[kind] for name, kind, _ in case.tensors}
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for place, name in enumerate(function.arg_names):
        fixed = case.constants.get(name, 1 if case.scalars.get(name) == 1 else None)
        if fixed is not None:
            signature[name] = "constexpr"
            constants[(place,)] = fixed
            continue
        signature[name] = pointers.get(name, "i32")
        if name in pointers or case.scalars[name] % 16 == 0:
            attributes[(place,)] = [["tt.divisibility", 16]]
    return triton.compile(
        ASTSource(function, signature, constants, attributes),
        target=GPUTarget("cuda", target.capability[0] * 10 + target.capability[1], 32),
        options={"num_warps": case.warps, "num_stages": 1},
    )


def time_cases(
    cases: Sequence[tuple[int, CorpusCase]],
) -> Iterator[list[tuple[int, CorpusTimes]]]:
    """Yield batches of cases by their number with their times, in a random order: what a device
    does over minutes, such as growing warm, meets all kinds alike."""
    import torch

    flushed = torch.zeros(_FLUSHED, dtype=torch.int8, device="cuda")
    kept: dict[tuple[str, str], Any] = {}
    order = list(cases)
    random.Random(1).shuffle(order)
    for start in range(0, len(order), _BATCH):
        batch = order[start : start + _BATCH]
        yield _time_batch(batch, [_make_launch(case, kept) for _, case in batch], flushed)


def _time_batch(
    batch: Sequence[tuple[int, CorpusCase]], launches: Sequence[Any], flushed: Any
) -> list[tuple[int, CorpusTimes]]:
    """Return the batch with its times; nothing where the profiler lost events."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for launch in launches:  # what is loaded and compiled at the first launch
        launch()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for launch in launches:
            for _ in range(_COLD):
                flushed.max()
                launch()
            for _ in range(_HOT):
                launch()
            torch.cuda.synchronize()
    names = {f"_{case.kernel}" for _, case in batch}
    seen = [e for e in profiled.events() if e.device_type.name == "CUDA" and e.name in names]
    seen.sort(key=lambda event: event.time_range.start)
    each = _COLD + _HOT
    expected = [f"_{case.kernel}" for _, case in batch for _ in range(each)]
    if [event.name for event in seen] != expected:
        return []
    micros = [round(event.time_range.elapsed_us(), 3) for event in seen]
    parts = [micros[at : at + each] for at in range(0, len(micros), each)]
    return [
        (number, CorpusTimes(tuple(part[:_COLD]), tuple(part[_COLD:])))
        for (number, _), part in zip(batch, parts, strict=True)
    ]


def _make_launch(case: CorpusCase, kept: dict[tuple[str, str], Any]) -> Any:
    from perfcli.measure.corpus_kernels import KERNELS

    function = KERNELS[case.kernel]
    arguments = {name: _make_tensor(name, kind, n, kept) for name, kind, n in case.tensors}
    arguments.update(case.scalars)
    arguments.update(case.constants)

    def launch() -> None:
        function[case.grid](**arguments, num_warps=case.warps, num_stages=1)

    return launch


def _make_tensor(name: str, kind: str, elements: int, kept: dict[tuple[str, str], Any]) -> Any:
    """Return a tensor; those of plain numbers share memory with the cases before."""
    import torch

    if kind == "chain":
        return torch.arange(elements, device="cuda", dtype=torch.int32)
    if kind == "rows":
        return torch.randint(0, _LOOKED_UP, (elements,), device="cuda")
    found = kept.get((name, kind))
    if found is None or found.numel() < elements:
        if kind in ("bf16", "fp32"):
            dtype = torch.bfloat16 if kind == "bf16" else torch.float32
            found = torch.randn(elements, device="cuda").to(dtype)
        else:
            dtype = torch.int8 if kind == "i8" else torch.int32
            found = torch.ones(elements, device="cuda", dtype=dtype)
        kept[name, kind] = found
    return found[:elements]
