"""What measuring gives on this machine's device: joined kernels, times, memory, the machine.

    python bench/measure_on_device.py [--device cuda|cpu] [CASE …]

Prints a table per case, and writes the raw events of one profiled step to ``--keep FOLDER``.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

sys.path[:0] = [str(Path(__file__).parents[1])]

from perfcli.measure import clocks, machine, memory, replay  # noqa: E402
from perfcli.measure import step as steps  # noqa: E402
from perfcli.measure.profiling import StepProfiler  # noqa: E402
from perfcli.measure.sampler import Sampler, sampler  # noqa: E402
from perfcli.model import MeasureRequest, Scalar, Variant  # noqa: E402
from perfcli.model.values import Device  # noqa: E402
from perfcli.workflow.request import build_request  # noqa: E402

CASES: Mapping[str, tuple[str, str | None, Mapping[str, Scalar]]] = {
    "softmax": ("softmax", None, {}),
    "gqa smoke": ("gqa-transformer", "smoke", {"mode": "training"}),
    "gqa smoke forward": ("gqa-transformer", "smoke", {"mode": "forward"}),
    "gqa learned": (
        "gqa-transformer",
        None,
        {"mode": "training", "learned": True, "layers": 3, "batch": 48},
    ),
}
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    import torch

    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    for name in arguments.cases or CASES:
        torch._dynamo.reset()
        gc.collect()
        show(name, arguments.device, arguments.keep)


def show(name: str, device: Device, keep: Path | None) -> None:
    scenario, preset, params = CASES[name]
    asked = build_request(
        scenario, Variant("base"), params=params, preset=preset, device=device, jobs=1
    )
    request = MeasureRequest(asked, "base", seed=1, threads=1 if device == "cpu" else None)
    step = timed("build, compile, warm", lambda: steps.prepare(request))
    print(f"== {name}: compiled in {step.compile_seconds:.1f} s")
    if device == "cuda":
        print(step_lines(request, step))
    profiler = timed("first profile", lambda: StepProfiler(step))
    for _ in range(3):
        times = timed("profile of 3 steps", lambda: profiler.times(3))
    print(f"joined {profiler.joined}, kernels {profiler.kernel_count}, notes {profiler.notes}")
    print(f"kernels' sum, ms: {[round(sum(t) * 1e3, 4) for t in times]}")
    medians = [statistics.median(values) for values in zip(*times, strict=True)]
    show_launches(profiler, medians)
    use = timed("memory", lambda: memory.measure_memory(step))
    print(use.peak_allocated_bytes, use.peak_reserved_bytes, use.method, len(use.timeline))
    if use.timeline:
        print(f"timeline's peak {max(held for _, held in use.timeline)}, ends {use.timeline[-1]}")
    print(timed("describe", lambda: machine.describe(device)))
    state_lines(sampler(device), step)
    print(f"copy: {(timed('copy', lambda: clocks.copy_bandwidth(device)) or 0) / 1e9:.0f} GB/s")
    if keep:
        raw = {"launches": [asdict(launch) for launch in profiler.launches], "times": times}
        file = keep / f"{name.replace(' ', '_')}.json"
        file.write_text(json.dumps(raw), encoding="utf-8")


def step_lines(request: MeasureRequest, step: steps.Step) -> str:
    """Times without the profiler: as it is, with L2 flushed, slowed down, and as a graph."""
    lines = []

    def line(what: str) -> None:
        for _ in range(2):
            for _ in range(2):
                step.run()
            turn = clocks.time_gpu_steps(step, 10)
        lines.append(f"{what:14} {spread(turn.seconds)} | wall {spread(turn.wall)}")

    line("step")
    for what, changed in (("flushed", {"flush_l2": True}), ("3 % slower", {"slow_down": 0.03})):
        step.request = MeasureRequest(**{**fields(request), **changed})
        line(what)
    step.request = request
    lines.append(f"graph: {replay.take_graph(step, memory.measure_memory(step))}")
    line("with graph")
    step.graphed = None
    return "\n".join(lines)


def fields(request: MeasureRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__dataclass_fields__}


def spread(seconds: Sequence[float]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{middle * 1e3:9.4f} ms ({low * 1e3:.4f} to {high * 1e3:.4f})"


def show_launches(profiler: StepProfiler, medians: Sequence[float]) -> None:
    rows = sorted(zip(medians, profiler.launches, strict=True), key=lambda row: -row[0])
    for seconds, launch in rows[:12]:
        shape = (
            f"{launch.registers} regs, {launch.shared_bytes} shared, {launch.grid}x{launch.block}"
        )
        print(f"  {seconds * 1e6:9.1f} us {launch.name[:64]:64} {launch.graph:11} {shape}")
        if launch.generated and launch.config:
            print(f"{'':16}{launch.config}")


def state_lines(sampling: Sampler, step: steps.Step) -> None:
    for _ in range(3):
        with sampling:
            for _ in range(3):
                step.run()
            step.wait()
        sampling._next = 0.0  # each turn is sampled here, to see them
        print(sampling.state)
    print(f"a sample takes {timed('sample', sampling._sample)}")


def timed(what: str, run: Callable[[], T]) -> T:
    started = time.perf_counter()
    result = run()
    print(f"[{what}: {(time.perf_counter() - started) * 1e3:.2f} ms]", flush=True)
    return result


if __name__ == "__main__":
    main()
