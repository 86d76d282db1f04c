"""Registers, spilled words and shared memory of the mix-order kernel as functions of its reads,
and where the cliff is, for every launch configuration around Inductor's, as plain text. No GPU is
needed. ``perfcli kernels probe mix-order`` shows the same, with bars, a chart and times.

    python bench/mix_order_cliff.py [--target h200] [--jobs 2] [--reads 3,5,7,9,11]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any

from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.machine.environment import cache_dir
from perfcli.model import Candidate, KernelFamily, KernelLaunch, Target
from perfcli.model.kernel_work import LaunchToCompile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--reads", default="3,5,7,9,11")
    given = parser.parse_args()
    target = targets.get_for_kernels(given.target)
    reads = tuple(int(n) for n in given.reads.split(","))
    probe = import_module("perfcli.kernels.mix_order.probe")
    rows = compiled(probe, probe.settings(reads=reads), target, given.jobs)
    sys.stdout.writelines(f"{line}\n" for line in (*table(rows), *summary(probe.cliffs(rows))))
    return 0


def compiled(probe: Any, problems: Sequence[Any], target: Target, jobs: int) -> list[Any]:
    family = registry.load_declared("kernels", "mix-order", KernelFamily)
    launches = [family.plan(problem, target, "inductor").launches[0] for problem in problems]
    with ProcessPoolExecutor(jobs) as pool:
        made = list(pool.map(partial(_compile, code=family.code, target=target), launches))
    return [
        probe.row_of(p, la, c, None, target)
        for p, la, c in zip(problems, launches, made, strict=True)
    ]


def _compile(launch: KernelLaunch, code: str, target: Target) -> Candidate:
    from perfcli.handwritten.compiling import compile_launch

    return compile_launch(LaunchToCompile(code, launch, target), "", cache_dir())


def table(rows: Sequence[Any]) -> Iterator[str]:
    yield (
        f"{'dtype':8} {'warps':>5} {'block':>5} {'stages':>6} {'reads':>5} {'registers':>9} "
        f"{'spilled words':>13} {'shared':>7} {'warps per SM':>12}"
    )
    for r in rows:
        yield (
            f"{r.dtype:8} {r.num_warps:>5} {r.block:>5} {r.num_stages:>6} {r.reads:>5} "
            f"{r.registers or '–':>9} {'–' if r.spilled_words is None else r.spilled_words:>13} "
            f"{'–' if r.shared_bytes is None else r.shared_bytes:>7} {r.warps_per_sm or '–':>12} "
            f"{r.error}"
        )


def summary(cliffs: Sequence[Any]) -> Iterator[str]:
    for c in cliffs:
        launch = f"{c.dtype}, {c.num_warps} warps, rows at a time {c.block}, stages {c.num_stages}"
        spills = (
            f"spills from {c.spills_from} reads on ({c.spilled_words} words)"
            if c.spills_from
            else f"no spills up to {c.most_clean_reads} reads"
        )
        yield f"{launch}: {spills}"


if __name__ == "__main__":
    sys.exit(main())
