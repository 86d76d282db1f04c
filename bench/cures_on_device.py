"""Do the cures that findings propose help on a real GPU? Times pairs of variants, interleaved, and
prints a table: ``python bench/cures_on_device.py --out FILE --page FILE``.

Each case compiles its variants for real in this process and alternates them in random order, round
by round, with a flushed L2; it prints the median of the step's device time (CUDA events), the
interquartile range, the peak of allocated memory, and the time of the slowest generated kernel
(torch.profiler). Needs torch with CUDA. It is the check of the rules' advice, no part of perfcli.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cures_cases import CASES, LIMIT, Case, Side

ROUNDS = 30
SEED = 20261121


@dataclass
class Ready:
    """A compiled variant and what was measured of it."""

    side: Side
    step: Callable[[], None]
    seconds: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    """Above what was allocated before the step."""
    kernels: list[tuple[str, float]] = field(default_factory=list)
    """Generated kernels by device time, microseconds per step, slowest first."""


def prepare(case: Case, side: Side) -> Ready:
    """Builds, compiles and warms up one variant."""
    import torch
    from torch._inductor.compile_fx import compile_fx

    from perfcli.loading import registry

    scenario = registry.scenario(case.scenario)
    params = registry.resolve_params(scenario, None, {**case.params, **side.params})
    torch.manual_seed(SEED)
    with torch.device("cuda"):
        workload = registry.build(scenario, params)
    # False, not None: other sizes than the last variant's would make Dynamo turn to dynamic shapes.
    training = workload.mode == "training"

    def compiled_step(call: Any) -> Callable[[], None]:
        def step() -> None:
            kind = workload.autocast and getattr(torch, workload.autocast)
            scope = torch.autocast("cuda", dtype=kind) if kind else contextlib.nullcontext()
            with scope, torch.set_grad_enabled(training):
                out = call(*workload.inputs, **workload.kwargs)
            if training:
                out.backward(torch.ones_like(out))
                forget_gradients(workload)

        return step

    def backend(graph: Any, inputs: Any) -> Any:
        """One of its own per variant: Dynamo keeps compiled code by backend."""
        return compile_fx(graph, inputs)

    step = compiled_step(torch.compile(workload.call, backend=backend, dynamic=side.dynamic))
    with chosen(side):
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    return Ready(side, step)


def forget_gradients(workload: Any) -> None:
    if hasattr(workload.call, "parameters"):
        for parameter in workload.call.parameters():
            parameter.grad = None
    for value in workload.inputs:
        if hasattr(value, "grad"):
            value.grad = None


@contextlib.contextmanager
def chosen(side: Side) -> Iterator[None]:
    """Compiles with the variant's options and launch configurations."""
    import torch._inductor.config as inductor
    from torch._inductor.runtime import triton_heuristics

    options = dict(side.options)
    limit = options.pop(LIMIT, None)
    if limit is not None and LIMIT in inductor._config:
        options[LIMIT] = limit
        limit = None
    original = triton_heuristics.CachingAutotuner.__init__

    def init(self: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
        original(self, fn, *args, **kwargs)
        if "RSPLIT_SIZE" in fn.arg_names:
            for config in self.configs:
                config.num_warps = side.warps or config.num_warps
                if side.xblock and "XBLOCK" in config.kwargs:
                    config.kwargs["XBLOCK"] = side.xblock

    triton_heuristics.CachingAutotuner.__init__ = init
    inductor.force_disable_caches = True
    try:
        with inductor.patch(options), limited(limit):
            yield
    finally:
        triton_heuristics.CachingAutotuner.__init__ = original


@contextlib.contextmanager
def limited(limit: int | None) -> Iterator[None]:
    """The read limit on a torch that has none."""
    if limit is None:
        yield
        return
    from perfcli.compile.patches import installed

    undo = installed.install(LIMIT, limit)
    try:
        yield
    finally:
        undo()


def measure(ready: Sequence[Ready], rounds: int) -> None:
    import torch

    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    order = random.Random(SEED)
    for one in ready:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        one.step()
        torch.cuda.synchronize()
        one.peak_bytes = torch.cuda.max_memory_allocated() - before
    for _ in range(rounds):
        for one in order.sample(list(ready), len(ready)):
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            one.step()
            end.record()
            torch.cuda.synchronize()
            one.seconds.append(start.elapsed_time(end) / 1e3)
    for one in ready:
        one.kernels = profiled(one.step)


def profiled(step: Callable[[], None], steps: int = 5) -> list[tuple[str, float]]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
    found = [
        (event.key, event.device_time_total / steps)
        for event in profiler.key_averages()
        if event.key.startswith("triton_")
    ]
    return sorted(found, key=lambda item: -item[1])


def report(case: Case, ready: Sequence[Ready]) -> list[dict[str, Any]]:
    first = statistics.median(ready[0].seconds)
    rows = []
    for one in ready:
        low, middle, high = statistics.quantiles(one.seconds, n=4)
        rows.append(
            {
                "rules": case.rule,
                "scenario": case.scenario,
                "params": dict(case.params),
                "variant": one.side.name,
                "median_ms": middle * 1e3,
                "iqr_ms": (high - low) * 1e3,
                "change": middle / first - 1,
                "peak_bytes": one.peak_bytes,
                "generated_us": sum(t for _, t in one.kernels),
                "kernels": len(one.kernels),
                "slowest": one.kernels[:5],
            }
        )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| rules | scenario | variant | step, median | IQR | change | peak memory | "
        "generated kernels |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        params = " ".join(f"{k}={v}" for k, v in row["params"].items())
        lines.append(
            f"| {row['rules']} | {row['scenario']} {params} | {row['variant']} "
            f"| {row['median_ms']:.3f} ms | {row['iqr_ms']:.3f} | {row['change']:+.1%} "
            f"| {row['peak_bytes'] / 1e9:.2f} GB | {row['kernels']}, "
            f"{row['generated_us'] / 1e3:.3f} ms |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="all numbers, JSON")
    parser.add_argument("--page", type=Path, required=True, help="the table, Markdown")
    parser.add_argument("--only", default="", help="rules or scenarios that hold this text")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    import torch
    import torch._dynamo

    rows: list[dict[str, Any]] = []
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    for case in CASES:
        if arguments.only not in f"{case.rule} {case.scenario}":
            continue
        try:
            ready = [prepare(case, side) for side in case.sides]
            measure(ready, arguments.rounds)
            rows += report(case, ready)
        except Exception as error:  # one case must not lose the others
            print(f"{case.rule} {case.scenario}: {type(error).__name__}: {error}"[:2000])
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        arguments.out.write_text(json.dumps({"device": device, "rows": rows}, indent=1))
        arguments.page.write_text(f"{device}\n\n{table(rows)}")
    print(arguments.page.read_text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
