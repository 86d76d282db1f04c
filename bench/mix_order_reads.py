"""At how many reads does fusing more into a mix-order reduction make it slower?

    python bench/mix_order_reads.py estimate --python .venv-2.11/bin/python --out estimated.json
    python bench/mix_order_reads.py time --out measured.json
    python bench/mix_order_reads.py table estimated.json measured.json

``estimate`` compiles every case with another torch for a GPU that need not be here. ``time`` needs
one, torch with CUDA, and some cores: processes compile at the same time, and one of them at a time
has the GPU, where the variants of a case take turns in random order, with a flushed L2.
``table`` puts both side by side, kernel by kernel. The cases are in ``mix_order_cases.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import multiprocessing
import os
import queue
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cures_cases import Case, Side
from mix_order_cases import LADDER, MODELS, OFF, ON, PIPELINED, name_of

SEED = 20261123
ROUNDS = {True: 20, False: 12}
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
            added.add_argument("--skip", type=Path, help="leave out what this file has whole")
            added.add_argument("--processes", type=int, default=14)
            added.add_argument("--seconds", type=int, default=180, help="stop starting cases then")
    added = commands.add_parser("table")
    added.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "table":
        return show(given.files)
    cases = [case for case in (*MODELS, *LADDER) if given.only in name_of(case)]
    if given.command == "time" and given.skip:
        known = _list_known(given.skip)
        cases = [c for c in cases if not known >= {(name_of(c), side.name) for side in c.sides}]
    if given.command == "estimate":
        return estimate(cases, given)
    return measure_all(cases, given)


def _list_known(path: Path) -> set[tuple[str, str]]:
    rows = json.loads(path.read_text())["rows"]
    return {(row["case"], row["side"]) for row in rows if "error" not in row}


# --- without a GPU ---------------------------------------------------------------------------


def estimate(cases: Sequence[Case], given: argparse.Namespace) -> int:
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
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
        run = compile_in_process(request, 900).run
    except PerfcliError as error:
        return {**row, "error": str(error).splitlines()[0]}
    step = estimate_step(run)
    if step is None:
        return {**row, "error": "no estimate"}
    kernels: dict[str, dict[str, Any]] = {}
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
    """Compile in many processes at once, and let one at a time use the GPU."""
    import torch

    begin = time.monotonic()
    context = multiprocessing.get_context("spawn")
    gpu, results = context.Lock(), context.Queue()
    workers = [
        context.Process(target=_work, args=(part, gpu, results, begin + given.seconds))
        for part in _share(cases, given.processes)
    ]
    for worker in workers:
        worker.start()
    rows: list[dict[str, Any]] = []
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    while any(worker.is_alive() for worker in workers) or not results.empty():
        try:
            rows.append(results.get(timeout=1))
        except queue.Empty:
            if time.monotonic() > begin + given.seconds + 15:
                for worker in workers:
                    worker.kill()
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


def _work(cases: Sequence[Case], gpu: Any, results: Any, end: float) -> None:
    """Compile and measure one case after the other. Compiling holds next to no memory of the GPU
    and runs nothing there; it makes way for the process that measures."""
    model = cases[0] in MODELS
    # Warps and blocks are changed where kernels are made: in this process alone.
    alone = not model or any(side.warps or side.xblock for side in cases[0].sides)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1" if alone else "3"
    for case in cases:
        os.setpriority(os.PRIO_PROCESS, 0, 10)
        sides = []
        for side in case.sides:
            if time.monotonic() < end:
                try:
                    sides.append(_Compiled(case, side))
                except Exception as error:
                    results.put(_failed(case, side, error))
        with gpu:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            if time.monotonic() < end:
                try:
                    for row in _measure(case, sides):
                        results.put(row)
                except Exception as error:
                    results.put(_failed(case, ON, error))
            sides.clear()
            _free()


class _NotYet(Exception):
    """Stops a step that is only to be compiled, before it runs."""


class _Compiled:
    """Holds one variant of a case, compiled and not run yet."""

    def __init__(self, case: Case, side: Side) -> None:
        import torch
        import torch._functorch.config as functorch
        from cures_on_device import chosen
        from torch._inductor.compile_fx import compile_fx

        self.side, self.kernels = side, list[Any]()
        self._workload, self.inputs = _build(case, side)
        self._may_run = False

        def backend(graph: Any, inputs: Any) -> Any:
            if self._may_run:
                raise RuntimeError("compiled again, without the variant's options")
            compiled = compile_fx(graph, inputs)

            def run(*given: Any) -> Any:
                if not self._may_run:
                    raise _NotYet
                return compiled(*given)

            return run

        self._call = torch.compile(self._workload.call, backend=backend, dynamic=False)
        with (
            chosen(side),
            _record(self.kernels),
            functorch.patch(force_non_lazy_backward_lowering=True),
            contextlib.suppress(_NotYet),
        ):
            self.step()
        self._may_run = True
        _free()

    def step(self) -> None:
        import torch
        from cures_on_device import forget_gradients

        training = self._workload.mode == "training"
        kind = self._workload.autocast and getattr(torch, self._workload.autocast)
        scope = torch.autocast("cuda", dtype=kind) if kind else contextlib.nullcontext()
        with scope, torch.set_grad_enabled(training):
            out = self._call(*self.inputs)
        if training:
            out.backward()
            forget_gradients(self._workload)


def _build(case: Case, side: Side) -> tuple[Any, tuple[Any, ...]]:
    """Return the workload, and inputs to compile it with: a model's are its own; those of the
    ladder share their memory, since only their sizes count."""
    import torch

    from perfcli.loading import registry

    scenario = registry.scenario(case.scenario)
    params = registry.resolve_params(scenario, None, {**case.params, **side.params})
    torch.manual_seed(SEED)
    with torch.device("cuda" if case in MODELS else "meta"):
        workload = registry.build(scenario, params)
    if case in MODELS:
        return workload, workload.inputs
    shared = torch.zeros(max(each.nbytes for each in workload.inputs), dtype=torch.int8)
    shared = shared.to("cuda")
    views = (shared[: each.nbytes].view(each.dtype).view(each.shape) for each in workload.inputs)
    return workload, tuple(views)


def _real_inputs(case: Case) -> tuple[Any, ...]:
    import torch

    from perfcli.loading import registry

    scenario = registry.scenario(case.scenario)
    with torch.device("cuda"):
        workload = registry.build(scenario, registry.resolve_params(scenario, None, case.params))
    return tuple(workload.inputs)


def _free() -> None:
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def _failed(case: Case, side: Side, error: Exception) -> dict[str, Any]:
    return {
        "case": name_of(case),
        "side": side.name,
        "error": f"{type(error).__name__}: {error}"[:600],
    }


@contextlib.contextmanager
def _record(kernels: list[Any]) -> Iterator[None]:
    """Collect the kernels that are compiled meanwhile."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    original = CachingAutotuner.precompile

    def precompile(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        kernels.append(self)

    CachingAutotuner.precompile = precompile
    try:
        yield
    finally:
        CachingAutotuner.precompile = original


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


def _measure(case: Case, sides: Sequence[_Compiled]) -> Iterator[dict[str, Any]]:
    import torch

    if case not in MODELS:
        inputs = _real_inputs(case)
        for one in sides:
            one.inputs = inputs
    for one in sides:
        for _ in range(2):  # the first one chooses launch configurations
            one.step()
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    order = random.Random(SEED)
    seconds: dict[str, list[float]] = {one.side.name: [] for one in sides}
    for _ in range(ROUNDS[case in MODELS]):
        for one in order.sample(list(sides), len(sides)):
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            one.step()
            end.record()
            torch.cuda.synchronize()
            seconds[one.side.name].append(start.elapsed_time(end) / 1e3)
    for one in sides:
        kernels = _profile(one.step, flush)
        low, middle, high = statistics.quantiles(seconds[one.side.name], n=4)
        yield {
            "case": name_of(case),
            "side": one.side.name,
            "step_us": middle * 1e6,
            "step_low_us": low * 1e6,
            "step_high_us": high * 1e6,
            "seconds": seconds[one.side.name],
            "device_us": sum(kernels.values()),
            "generated_us": sum(t for name, t in kernels.items() if name.startswith("triton_")),
            "kernels": kernels,
            "launched": _facts(one.kernels),
        }


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
    """Print the ladder and the models as Markdown, with what the files know."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    measured: dict[tuple[str, str], dict[str, Any]] = {}
    for path in files:
        content = json.loads(path.read_text())
        place = measured if "device" in content else rows
        for row in content["rows"]:
            place[row["case"], row["side"]] = row
    print("\n".join([*_ladder(rows, measured), "", *_models(rows, measured)]))
    print("\n".join(["", *_kernels(rows, measured)]))
    return 0


Rows = Mapping[tuple[str, str], Mapping[str, Any]]


def _ladder(rows: Rows, measured: Rows) -> Iterator[str]:
    """All times are of the whole reduction, with the sums that finish it."""
    yield (
        "| dtype | columns | sums | reads | registers | spilled words | fused, estimated µs "
        "| measured | apart, estimated µs | measured | fused against apart "
        "| pipelined: spilled words | estimated µs | measured |"
    )
    yield "| --- " * 14 + "|"
    for case in LADDER:
        p, name = case.params, name_of(case)
        found = [rows.get((name, side.name), {}) for side in (ON, OFF, PIPELINED)]
        real = [measured.get((name, side.name), {}) for side in (ON, OFF, PIPELINED)]
        fused, _, pipelined = (_mixed(*pair) for pair in zip(found, real, strict=True))
        estimates = [row.get("generated_us") for row in found]
        times = [row.get("device_us") for row in real]
        yield _cells(
            *(p["dtype"], p["columns"], p["sums"], p["reads"]),
            *(fused.get("registers"), fused.get("spilled"), estimates[0], times[0]),
            *(estimates[1], times[1], _change(times[1], times[0])),
            *(pipelined.get("spilled"), estimates[2], times[2]),
        )


def _mixed(row: Mapping[str, Any], real: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one mix-order kernel of a step of the ladder: as launched, else as compiled."""
    launched = list(real.get("launched", {}).values())
    compiled = [k for k in row.get("kernels", {}).values() if k["mix_order"]]
    return next(iter([*launched, *compiled]), {})


def _models(rows: Rows, measured: Rows) -> Iterator[str]:
    yield (
        "| model | variant | mix-order kernels | most loads | spilled words "
        "| generated, estimated ms | measured | step, estimated ms | measured | IQR "
        "| change, estimated | measured |"
    )
    yield "| --- " * 12 + "|"
    for case in MODELS:
        base = rows.get((name_of(case), ON.name), {})
        real_base = measured.get((name_of(case), ON.name), {})
        for side in case.sides:
            row = rows.get((name_of(case), side.name), {})
            real = measured.get((name_of(case), side.name), {})
            every = row.get("kernels", {}).values()
            mixed = [kernel for kernel in every if kernel["mix_order"]]
            low, high = real.get("step_low_us"), real.get("step_high_us")
            yield _cells(
                *(name_of(case), side.name),
                sum(k["launches"] for k in mixed) if row.get("kernels") else None,
                max((k["loads"] for k in mixed), default=None),
                sum(k["spilled"] or 0 for k in every) if every else None,
                *(_milli(row.get("generated_us")), _milli(real.get("generated_us"))),
                *(_milli(row.get("step_us")), _milli(real.get("step_us"))),
                _milli(high - low) if low and high else None,
                _change(base.get("step_us"), row.get("step_us")),
                _change(real_base.get("step_us"), real.get("step_us")),
            )


def _kernels(rows: Rows, measured: Rows) -> Iterator[str]:
    yield (
        "| model | variant | mix-order kernel | launches | loads | registers | spilled words "
        "| warps | estimated µs | measured |"
    )
    yield "| --- " * 10 + "|"
    for case in MODELS:
        for side in case.sides:
            times = measured.get((name_of(case), side.name), {}).get("kernels", {})
            found = measured.get((name_of(case), side.name), {}).get("launched", {})
            known = rows.get((name_of(case), side.name), {}).get("kernels", {})
            names = {n.split(" ")[-1]: k for n, k in known.items() if k["mix_order"]}
            for name in names or found:
                kernel = {**names.get(name, {}), **found.get(name, {})}
                launches = kernel.get("launches", 1)
                yield _cells(
                    *(name_of(case), side.name, name, launches),
                    *(kernel.get(n) for n in ("loads", "registers", "spilled", "warps", "us")),
                    times[name] / launches if name in times else None,
                )


def _milli(micros: float | None) -> float | None:
    return None if micros is None else micros / 1e3


def _change(base: float | None, head: float | None) -> str | None:
    return None if not base or not head else f"{head / base - 1:+.1%}"


def _cells(*values: Any) -> str:
    def cell(value: Any) -> str:
        if value is None:
            return "–"
        if not isinstance(value, float):
            return str(value)
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"

    return "| " + " | ".join(cell(value) for value in values) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
