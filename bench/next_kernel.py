"""Times what a kernel's policies for L2 do to the kernel that comes next, on a GPU.

    python bench/next_kernel.py OUT.json [--rounds 30] [--problem OPERATION,ROWS,COLUMNS,DTYPE]…

A launch that tells L2 what to evict first leaves other lines there than one that tells nothing. So
both are timed together with what comes after them: nothing, an elementwise kernel that reads their
output or their input, a matrix product of the output, and a copy of other memory. Before them, L2
is flushed by writes, or the input has just been written by another kernel. All combinations take
turns in random order; the table gives percent of time that the policies save, of both kernels
together.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from widths import family_of, read_problem  # noqa: E402

from perfcli.handwritten import describing  # noqa: E402
from perfcli.handwritten.device_clock import DeviceClock  # noqa: E402
from perfcli.machine import targets  # noqa: E402
from perfcli.model import LaunchPlan, Problem, Target  # noqa: E402

PROBLEMS = (
    "rmsnorm,4096,4096,bfloat16",
    "rmsnorm,8192,4096,bfloat16",
    "layernorm,8192,4096,bfloat16",
    "softmax,4096,8192,bfloat16",
    "layernorm,32768,2880,bfloat16",
    "softmax,32768,4096,bfloat16",
    "softmax,2048,65536,bfloat16",
    "rmsnorm,16384,8192,bfloat16",
    "layernorm-residual,16384,4096,bfloat16",
    "softmax-backward,16384,8192,bfloat16",
    "log-softmax,8192,32000,bfloat16",
    "cross-entropy,4096,32000,bfloat16",
    "cross-entropy,32768,4096,bfloat16",
    "cross-entropy,2048,65536,bfloat16",
    "cross-entropy,4096,50257,bfloat16",
    "cross-entropy,8192,32000,bfloat16",
)
ALWAYS: Mapping[str, Any] = {"FROM_SIZES": 1.0, "READ_UP_TO_SIZES": math.inf}
NEVER: Mapping[str, Any] = {"FROM_SIZES": math.inf, "READ_UP_TO_SIZES": 0.0}
"""Limits of ``kernels._eviction``: whatever is beyond L2 is told something, or nothing is."""
BEFORE = ("flushed", "written")
AFTER = ("nothing", "reads output", "product", "reads input", "other copy")
AHEAD_SECONDS = 1.5e-3
"""The device is busy while the host enqueues both kernels."""
PRODUCT_COLUMNS = 1024
OTHER_BYTES = 64 << 20


def plan_both(problem: Problem, target: Target) -> dict[str, LaunchPlan]:
    """Return launches that tell L2 what to evict first, and those that tell it nothing, whatever
    the planner takes."""
    found = {}
    for way, limits in (("told", ALWAYS), ("usual", NEVER)):
        with patch.multiple(import_module("perfcli.kernels._eviction"), **limits):
            found[way] = family_of(problem).plan(problem, target, None)
    return found


class _Pairs:
    """Times a problem's kernel together with the next one."""

    def __init__(self, problem: Problem, plans: Mapping[str, LaunchPlan]) -> None:
        import torch

        self._problem, self._plans = problem, plans
        self._code = describing.load_code(family_of(problem).code, family_of(problem).name)
        self._tensors = self._code.inputs(problem, "cuda", 1)
        self._first = next(iter(self._tensors.values()))
        self._source = self._first.clone()
        output = self._launch("usual")
        dtype = self._first.dtype
        self._weights = torch.randn(problem.columns, PRODUCT_COLUMNS, device="cuda", dtype=dtype)
        self._spare = torch.empty_like(self._first)
        self._produced = torch.empty(problem.rows, PRODUCT_COLUMNS, device="cuda", dtype=dtype)
        self._others = [torch.empty(OTHER_BYTES, dtype=torch.uint8, device="cuda") for _ in "ab"]
        self._has_output = output.shape == self._first.shape
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self._flushing = torch.empty(2 * l2, dtype=torch.uint8, device="cuda")
        self._cycles = int(AHEAD_SECONDS * DeviceClock.cycles_per_second())

    def _launch(self, way: str) -> Any:
        outputs = self._code.run(self._problem, self._tensors, self._plans[way])
        return next(iter(outputs.values()))

    def combinations(self) -> list[tuple[str, str, str]]:
        after = [n for n in AFTER if self._has_output or n not in ("reads output", "product")]
        return list(itertools.product(BEFORE, after, self._plans))

    def seconds(self, before: str, after: str, way: str) -> float:
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flushing.zero_()
        torch.cuda.synchronize()
        torch.cuda._sleep(self._cycles)
        if before == "written":
            self._first.copy_(self._source)
        begin.record()
        self._next(after, self._launch(way))
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def _next(self, after: str, output: Any) -> None:
        import torch

        if after == "reads output":
            torch.neg(output, out=self._spare)
        elif after == "reads input":
            torch.neg(self._first, out=self._spare)
        elif after == "product":
            torch.mm(output, self._weights, out=self._produced)
        elif after == "other copy":
            self._others[0].copy_(self._others[1])


def time_one(problem: Problem, plans: Mapping[str, LaunchPlan], rounds: int) -> dict[str, Any]:
    """Return the seconds of every combination, by ``before|after|way``."""
    pairs, draw = _Pairs(problem, plans), random.Random(1)
    order = pairs.combinations()
    taken: dict[str, list[float]] = {"|".join(each): [] for each in order}
    for number in range(rounds + 1):
        draw.shuffle(order)
        for each in order:
            seconds = pairs.seconds(*each)
            if number:  # the first round compiles and loads
                taken["|".join(each)].append(seconds)
    return taken


def describe(label: str, taken: Mapping[str, list[float]]) -> Iterator[str]:
    yield f"{label}: µs as usual, and percent of it that the policies save"
    for before, after in itertools.product(BEFORE, AFTER):
        usual, told = (taken.get(f"{before}|{after}|{way}") for way in ("usual", "told"))
        if usual and told:
            saved = [100 * (1 - t / u) for u, t in zip(usual, told, strict=True)]
            low, middle, high = statistics.quantiles(saved, n=4)
            yield (
                f"  {before:8} {after:13} {1e6 * statistics.median(usual):8.1f} "
                f"{middle:6.1f} [{low:5.1f}, {high:5.1f}]"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--problem", action="append", default=[])
    given = parser.parse_args()
    if given.rounds < 2:
        raise SystemExit(f"--rounds takes 2 or more, not {given.rounds}: they are compared")
    found: dict[str, Any] = {}
    for label in given.problem or PROBLEMS:
        problem = read_problem(label)
        plans = plan_both(problem, targets.this_gpu())
        if plans["told"].launches == plans["usual"].launches:
            sys.stdout.write(f"{label}: tells nothing\n")
            continue
        found[label] = time_one(problem, plans, given.rounds)
        given.out.write_text(json.dumps(found))
        sys.stdout.writelines(f"{line}\n" for line in describe(label, found[label]))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
