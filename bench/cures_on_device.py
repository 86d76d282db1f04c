"""Do the cures that findings propose help on a real GPU? Times pairs of variants, interleaved, and
prints a table: ``python bench/cures_on_device.py --out FILE --page FILE``. With ``--costs FILE``,
which ``costed.py`` wrote, it times what findings cost instead: each case as it is and with its
cure, beside the cost that was estimated.

Each case compiles its variants for real in this process and alternates them in random order, round
by round, with a flushed L2; it prints the median of the step's device time (CUDA events), the
interquartile range, the peak of allocated memory, and the time of the slowest generated kernel
(torch.profiler). Needs torch with CUDA. It is the check of the rules' advice, no part of perfcli.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cures_cases import CASES, Case, Side

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

    options = {n: value for n, value in side.options.items() if n in inductor._config}
    patches = {n: value for n, value in side.options.items() if n not in options}
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
        with inductor.patch(options), patched(patches):
            yield
    finally:
        triton_heuristics.CachingAutotuner.__init__ = original


@contextlib.contextmanager
def patched(patches: Mapping[str, Any]) -> Iterator[None]:
    """perfcli's patches, and options that this torch lacks."""
    from perfcli.compile.patches import installed

    undo = [installed.install(name, value) for name, value in patches.items()]
    try:
        yield
    finally:
        for each in reversed(undo):
            each()


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


# --- costs ------------------------------------------------------------------------------------

STEPS = 4
"""Steps of a turn, under the profiler."""
LEAST_SECONDS = 2e-6
"""A gain below this can't be told from none."""


def time_costs(entries: Sequence[dict[str, Any]], rounds: int, limit: float) -> None:
    """Add to each entry the seconds of device time as it is, cured, and their difference."""
    import torch
    import torch._dynamo

    began = time.monotonic()
    flush = torch.zeros(256 << 20, dtype=torch.int8, device="cuda")
    for entry in entries:
        if time.monotonic() - began > limit:
            entry["error"] = "no time was left"
            continue
        dynamic = entry["dynamic"]
        case = Case("", entry["scenario"], (), entry["params"])
        options = entry["options"]
        sides = (
            Side("as it is", options=options, dynamic=dynamic),
            Side("cured", options={**options, **entry["cure"]}, dynamic=dynamic),
        )
        try:
            ready = [prepare(case, side) for side in sides]
            for _ in range(rounds):
                for one in random.sample(ready, len(ready)):
                    one.seconds.append(time_on_device(one.step, flush))
            before, after = (statistics.median(one.seconds) for one in ready)
            entry.update(before=before, after=after, gain=before - after)
            entry["spread"] = [statistics.pstdev(one.seconds) for one in ready]
        except Exception as error:  # one case must not lose the others
            entry["error"] = f"{type(error).__name__}: {error}"[:500]
        print(write_entry(entry), flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def time_on_device(step: Callable[[], None], flush: Any) -> float:
    """Return the seconds of all kernels of a step, with nothing in the L2 cache before it."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            flush.bitwise_not_()
            step()
        torch.cuda.synchronize()
    micros = sum(
        event.self_device_time_total
        for event in profiler.key_averages()
        if event.device_type == DeviceType.CUDA and "bitwise_not" not in event.key
    )
    return float(micros) / STEPS / 1e6


def write_entry(entry: Mapping[str, Any]) -> str:
    given = " ".join(f"{n}={v}" for n, v in {**entry["params"], **entry["options"]}.items())
    cure = " ".join(f"{name}={value}" for name, value in entry["cure"].items())
    name = f"{entry['scenario'].rpartition(':')[2]} {given} | {'+'.join(entry['codes'])} {cure}"
    if "gain" not in entry:
        return f"{name} | {entry['error']}"
    compiled = entry.get("compiled")
    numbers = (entry["before"], entry["cost"], compiled, entry["gain"])
    return " | ".join((name, *("–" if n is None else f"{n * 1e6:.1f} µs" for n in numbers)))


def sum_up_costs(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how often costs have the sign of the measured gain, and how far they are off."""
    found: dict[str, Any] = {}
    measured = [e for e in entries if "gain" in e]
    for name in ("cost", "compiled"):
        known = [(e[name], e["gain"], e) for e in measured if e.get(name) is not None]
        telling = [(cost, gain, e) for cost, gain, e in known if abs(gain) >= LEAST_SECONDS]
        right = [abs(cost - gain) / abs(gain) for cost, gain, _ in telling if cost * gain > 0]
        logs = [math.log(gain / cost) for cost, gain, _ in telling if cost * gain > 0]
        inside = [e["low"] <= e["gain"] <= e["high"] for _, _, e in known]
        found[name] = {
            "measured": len(known),
            "beyond 2 µs": len(telling),
            "right sign": len(right),
            "median error": statistics.median(right) if right else None,
            "median |log|": statistics.median(map(abs, logs)) if logs else None,
            "q80 |log|": sorted(map(abs, logs))[int(0.8 * (len(logs) - 1))] if logs else None,
            **({"inside interval": sum(inside)} if name == "cost" else {}),
        }
    return found


def run_costs(arguments: argparse.Namespace, device: str) -> int:
    entries = json.loads(arguments.costs.read_text())
    entries = [e for e in entries if arguments.only in e["scenario"]]
    print("case | finding, cure | step | cost | compiled | measured gain")
    time_costs(entries, arguments.rounds, arguments.limit)
    summary = sum_up_costs(entries)
    told = {"device": device, "summary": summary, "entries": entries}
    arguments.out.write_text(json.dumps(told, indent=1))
    print(json.dumps(summary, indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="all numbers, JSON")
    parser.add_argument("--page", type=Path, help="the table, Markdown")
    parser.add_argument("--costs", type=Path, help="what costed.py wrote: time it instead")
    parser.add_argument("--limit", type=float, default=200, help="seconds for --costs")
    parser.add_argument("--only", default="", help="rules or scenarios that hold this text")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    import torch
    import torch._dynamo

    rows: list[dict[str, Any]] = []
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    if arguments.costs:
        return run_costs(arguments, device)
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
        if arguments.page:
            arguments.page.write_text(f"{device}\n\n{table(rows)}")
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
