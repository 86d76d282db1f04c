"""Compiles and times the kernels of a calibration, in a worker process on a machine with a GPU.

All cases are compiled before any is timed. Each is launched several times with the L2 cache
flushed before it ("cold"), then several times in a row ("hot"); the times are those of the
launches on the device, by CUPTI.
"""

from __future__ import annotations

import json
import multiprocessing
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any

from perfcli.errors import WorkerFailed
from perfcli.facts.binary.cubin import find_tools, read_cubin
from perfcli.model import Target
from perfcli.model.kernel_work import ColdAndHot, CorpusCase, CorpusCode, CorpusRequest

_COLD, _HOT = 5, 6
_BATCH = 60
_FLUSHED = 256 << 20
"""Bytes that are read to leave nothing else in the L2 cache; more than twice what GPUs have."""
_FILE = "_corpus.py"
_POINTERS = {
    "bf16": "*bf16", "fp32": "*fp32", "i8": "*i8", "i32": "*i32", "chain": "*i32", "rows": "*i64",
}  # fmt: skip
_LOOKED_UP = 4096
"""Rows that ``rows`` are indices of."""


def compile_cases(request: CorpusRequest) -> Iterator[CorpusCode]:
    """Yield what cases are compiled to, as it comes. Cases that differ in nothing that Triton
    specialises on are compiled once; those that it refuses are left out. Raises WorkerFailed where
    a compiling process was killed."""
    import triton

    _load_kernels()  # once, before the pool forks
    tools = find_tools(Path(triton.__file__).parent)
    alike: dict[str, list[int]] = {}
    for number, case in enumerate(request.cases):
        alike.setdefault(_specialisation(case), []).append(number)
    pool = ProcessPoolExecutor(max(request.jobs, 1), multiprocessing.get_context("fork"))
    try:
        futures = [
            pool.submit(_compile, request.cases[numbers[0]], tuple(numbers), request.target, tools)
            for numbers in alike.values()
        ]
        for future in as_completed(futures):
            if (code := future.result()) is not None:
                yield code
    except BrokenProcessPool as error:
        raise WorkerFailed("a process that compiled kernels was killed (out of memory?)") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _load_kernels() -> Mapping[str, Any]:
    found: Mapping[str, Any] = import_module("perfcli.kernels._corpus").KERNELS
    return found


def _specialisation(case: CorpusCase) -> str:
    kinds = {name: (v % 16 == 0, v == 1) for name, v in case.scalars.items()}
    types = [kind for _, kind, _ in case.tensors]
    return json.dumps([case.kernel, case.warps, dict(case.constants), kinds, types])


def _compile(
    case: CorpusCase, numbers: tuple[int, ...], target: Target, tools: Path
) -> CorpusCode | None:
    try:
        made = _build(case, target)
    except Exception:  # Triton refuses it, for whatever reason
        return None
    facts = read_cubin(made.asm["cubin"], tools, _FILE, made.asm["ptx"])
    shared = made.metadata.shared
    return CorpusCode(
        numbers, facts.registers, facts.stack_bytes, shared, made.asm["ttgir"], facts.sass
    )


def _build(case: CorpusCase, target: Target) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _load_kernels()[case.kernel]
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
        target=GPUTarget("cuda", target.capability_number, 32),
        options={"num_warps": case.warps, "num_stages": 1},
    )


def time_cases(cases: Sequence[tuple[int, CorpusCase]]) -> Iterator[list[tuple[int, ColdAndHot]]]:
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
) -> list[tuple[int, ColdAndHot]]:
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
        (number, (tuple(part[:_COLD]), tuple(part[_COLD:])))
        for (number, _), part in zip(batch, parts, strict=True)
    ]


def _make_launch(case: CorpusCase, kept: dict[tuple[str, str], Any]) -> Any:
    function = _load_kernels()[case.kernel]
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
