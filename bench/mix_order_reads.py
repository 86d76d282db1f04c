"""At how many reads does fusing more into a mix-order reduction make it slower?

    python bench/mix_order_reads.py estimate --python .venv-2.11/bin/python --out estimated.json
    python bench/mix_order_reads.py time --out measured.json
    python bench/mix_order_reads.py table estimated.json measured.json

``estimate`` compiles every case with another torch for a GPU that need not be here. ``time`` needs
one, torch with CUDA, and some cores: processes compile the cases at the same time, then each has
the GPU for itself while the variants of its cases take turns in random order, with a flushed L2.
``table`` puts both side by side, kernel by kernel. The cases are in ``mix_order_cases.py``.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import queue
import random
import statistics
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cures_cases import Case, Side
from mix_order_cases import LADDER, MODELS, name_of

SEED = 20261123
ROUNDS = {True: 24, False: 12}
"""Of a model, of a step of the ladder."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("estimate", "time"):
        added = commands.add_parser(command)
        added.add_argument("--out", type=Path, required=True)
        added.add_argument("--only", default="", help="cases whose name holds this text")
        if command == "estimate":
            added.add_argument("--python", default=sys.executable)
            added.add_argument("--target", default="h200")
        else:
            added.add_argument("--processes", type=int, default=15)
            added.add_argument("--seconds", type=int, default=270, help="stop starting cases then")
    added = commands.add_parser("table")
    added.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "table":
        return show(given.files)
    cases = [case for case in (*MODELS, *LADDER) if given.only in name_of(case)]
    if given.command == "estimate":
        return estimate(cases, given)
    return measure_all(cases, given)


# --- without a GPU ---------------------------------------------------------------------------


def estimate(cases: Sequence[Case], given: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    if given.out.exists():
        rows = json.loads(given.out.read_text())["rows"]
    known = {(row["case"], row["side"]) for row in rows}
    for case in cases:
        for side in case.sides:
            if side.warps or side.xblock or (name_of(case), side.name) in known:
                continue
            rows.append(_estimate(case, side, given.python, given.target))
            given.out.write_text(json.dumps({"target": given.target, "rows": rows}, indent=1))
            print(name_of(case), side.name, rows[-1].get("generated_us"), flush=True)
    return 0


def _estimate(case: Case, side: Side, python: str, target: str) -> dict[str, Any]:
    from perfcli.errors import PerfcliError
    from perfcli.loading import registry
    from perfcli.machine import targets
    from perfcli.model import Variant
    from perfcli.predict.step import estimate_step
    from perfcli.worker.process import compile_in_process
    from perfcli.workflow.request import build_request

    scenario = registry.scenario(case.scenario)
    row: dict[str, Any] = {"case": name_of(case), "side": side.name}
    try:
        request = build_request(
            case.scenario,
            Variant(side.name, side.options, python=python),
            params=registry.resolve_params(scenario, None, {**case.params, **side.params}),
            target=targets.get(target),
        )
        run = compile_in_process(request, 0, lambda _: None, 900).run
    except PerfcliError as error:
        return {**row, "error": str(error).splitlines()[0]}
    step = estimate_step(run)
    if step is None:
        return {**row, "error": "no estimate"}
    kernels = {}
    for kernel, found in zip(run.kernels, step.kernels, strict=True):
        number = found.candidate if found else None
        best = kernel.best if number is None else kernel.candidates[number]
        if best is None or found is None or kernel.source_facts is None:
            continue
        kernels[f"{kernel.graph} {kernel.name}"] = {
            "mix_order": kernel.kind == "mix-order-reduction",
            "launches": kernel.launches,
            "loads": kernel.source_facts.loads,
            "stores": kernel.source_facts.stores,
            "reads": sum(each.role != "output" for each in kernel.buffers) - 1,
            "registers": best.registers,
            "spilled": best.spilled_words,
            "warps": best.num_warps,
            "config": dict(best.config),
            "us": found.seconds * 1e6,
            "of_step_us": found.of_step * 1e6,
        }
    generated = sum(k["launches"] * k["of_step_us"] for k in kernels.values())
    whole = step.seconds * 1e6 if None not in step.externs else None
    moved = sum(k.launches * ((k.bytes_read or 0) + (k.bytes_written or 0)) for k in run.kernels)
    row |= {"generated_us": generated, "step_us": whole, "bytes": moved, "kernels": kernels}
    return row


# --- on a GPU --------------------------------------------------------------------------------


def measure_all(cases: Sequence[Case], given: argparse.Namespace) -> int:
    """Compile in all processes at once, then let one after the other have the GPU."""
    import torch

    begin = time.monotonic()
    context = multiprocessing.get_context("spawn")
    share = _share(cases, given.processes)
    ready = context.Barrier(len(share))
    gpu, results = context.Lock(), context.Queue()
    workers = [
        context.Process(target=_work, args=(part, ready, gpu, results, begin + given.seconds))
        for part in share
    ]
    for worker in workers:
        worker.start()
    rows: list[dict[str, Any]] = []
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    while any(worker.is_alive() for worker in workers) or not results.empty():
        try:
            rows.append(results.get(timeout=1))
        except queue.Empty:
            continue
        row = rows[-1]
        given.out.write_text(json.dumps({"device": device, "rows": rows}))
        say = row.get("error") or f"{row['step_us']:9.1f} µs, generated {row['generated_us']:9.1f}"
        print(f"{time.monotonic() - begin:5.0f} s {row['case']:60} {row['side']:18} {say}"[:230])
    print(f"{time.monotonic() - begin:.0f} s in all, {device}, {len(rows)} rows")
    return 0


def _share(cases: Sequence[Case], processes: int) -> list[list[Case]]:
    """Give each model a process of its own, and the rest of the processes the ladder."""
    models = [[case] for case in cases if case in MODELS]
    steps = [case for case in cases if case not in MODELS]
    rest = max(1, processes - len(models))
    return [*models, *(part for n in range(rest) if (part := steps[n::rest]))]


def _work(cases: Sequence[Case], ready: Any, gpu: Any, results: Any, end: float) -> None:
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import torch
    from cures_on_device import prepare

    made: list[tuple[Case, list[Any]]] = []
    defined = _record()
    try:
        for case in cases:
            made.append((case, []))
            for side in case.sides:
                if time.monotonic() > end:
                    break
                try:
                    one = prepare(case, side)
                    made[-1][1].append((one, _facts(defined)))
                    defined.clear()
                    if case not in MODELS:
                        one.inputs = ()  # those of all cases would not fit
                except Exception as error:
                    results.put(_failed(case, side, error))
                gc.collect()
                torch.cuda.empty_cache()
    finally:
        try:
            ready.wait(timeout=max(1, end - time.monotonic()))
        except Exception:
            traceback.print_exc()
    with gpu:
        for case, sides in made:
            if time.monotonic() < end and sides:
                try:
                    for row in _measure(case, sides):
                        results.put(row)
                except Exception as error:
                    results.put(_failed(case, sides[0][0].side, error))
            torch.cuda.empty_cache()


def _failed(case: Case, side: Side, error: Exception) -> dict[str, Any]:
    return {
        "case": name_of(case),
        "side": side.name,
        "error": f"{type(error).__name__}: {error}"[:600],
    }


def _record() -> list[Any]:
    """Return a list that every kernel joins which this process defines from now on."""
    from torch._inductor.runtime import triton_heuristics

    defined: list[Any] = []
    original = triton_heuristics.CachingAutotuner.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        defined.append(self)

    triton_heuristics.CachingAutotuner.__init__ = init
    return defined


def _facts(defined: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return what the launches of mix-order kernels are made of, by the kernel's name."""
    found = {}
    for each in defined:
        if each.launchers and "RSPLIT_SIZE" in each.fn.arg_names:
            launcher = each.launchers[0]
            found[each.inductor_meta.get("kernel_name", each.fn.__name__)] = {
                "registers": launcher.n_regs,
                "spilled": launcher.n_spills,
                "warps": launcher.config.num_warps,
                "config": dict(launcher.config.kwargs),
            }
    return found


def _measure(case: Case, made: Sequence[tuple[Any, Any]]) -> Iterator[dict[str, Any]]:
    import torch

    sides = [one for one, _ in made]
    if case not in MODELS:
        inputs = _inputs(case)
        for one in sides:
            one.inputs = inputs
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    order = random.Random(SEED)
    for one in sides:
        one.step()
    for _ in range(ROUNDS[case in MODELS]):
        for one in order.sample(sides, len(sides)):
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            one.step()
            end.record()
            torch.cuda.synchronize()
            one.seconds.append(start.elapsed_time(end) / 1e3)
    for one, facts in made:
        kernels = _profile(one.step, flush)
        low, middle, high = statistics.quantiles(one.seconds, n=4)
        yield {
            "case": name_of(case),
            "side": one.side.name,
            "step_us": middle * 1e6,
            "step_low_us": low * 1e6,
            "step_high_us": high * 1e6,
            "seconds": one.seconds,
            "device_us": sum(kernels.values()),
            "generated_us": sum(t for name, t in kernels.items() if name.startswith("triton_")),
            "kernels": kernels,
            "launched": facts,
        }
    for one in sides:
        one.inputs = ()


def _inputs(case: Case) -> tuple[Any, ...]:
    import torch

    from perfcli.loading import registry

    scenario = registry.scenario(case.scenario)
    with torch.device("cuda"):
        workload = registry.build(scenario, registry.resolve_params(scenario, None, case.params))
    return tuple(workload.inputs)


def _profile(step: Any, flush: Any, steps: int = 5) -> dict[str, float]:
    """Return the microseconds of a step that each kernel runs, by name."""
    from torch.profiler import ProfilerActivity, profile

    flush.zero_()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
    events = profiler.key_averages()
    return {event.key: event.device_time_total / steps for event in events}


# --- both ------------------------------------------------------------------------------------


def show(files: Sequence[Path]) -> int:
    raise NotImplementedError


if __name__ == "__main__":
    raise SystemExit(main())
