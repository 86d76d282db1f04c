"""The column sum's TMA plan for every number of inputs, 1 to 112, in float and half, held against
what Triton compiles: the tile fits in shared memory, the prediction equals the binary's metadata,
no thread's vector is a single element, nothing is spilled. No GPU is needed.

    python bench/column_sum_plan.py [--target h200] [--jobs 2] [--all] [--inputs 7,14,28]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.machine.environment import cache_dir
from perfcli.model import Candidate, KernelFamily, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import LaunchToCompile

DTYPES = ("float32", "float16")
MOST_INPUTS = 112


@dataclass(frozen=True, slots=True)
class Row:
    """One number of inputs in one dtype: what was planned, and what was compiled."""

    inputs: int
    dtype: str
    plan: LaunchPlan
    compiled: Candidate
    limit: int

    @property
    def predicted(self) -> int | None:
        return self.plan.launches[0].shared_bytes

    @property
    def tile(self) -> tuple[int, int]:
        constants = self.plan.launches[0].constants
        return int(str(constants["TILE_R"])), int(str(constants["TILE_I"]))

    @property
    def stages(self) -> int:
        return int(str(self.plan.launches[0].constants["STAGES"]))

    @property
    def vector(self) -> int:
        """Elements of a tile per thread, up to 16 bytes: what one access can take."""
        threads = self.plan.launches[0].num_warps * 32
        item_bytes = 4 if self.dtype == "float32" else 2
        return min(self.tile[0] * self.tile[1] // threads, 16 // item_bytes)

    def faults(self) -> Iterator[str]:
        shared = self.compiled.shared_bytes
        if self.compiled.error:
            yield self.compiled.error
            return
        if self.plan.variant != "tma":
            yield f"planned as {self.plan.variant}: {self.plan.instead_of}"
        if shared != self.predicted:
            yield f"{shared} bytes of shared memory compiled, {self.predicted} predicted"
        if shared is None or shared > self.limit:
            yield f"{shared} bytes of shared memory, {self.limit} are there"
        if self.vector * (4 if self.dtype == "float32" else 2) < 16:
            yield f"a thread's vector is {self.vector} elements"
        if self.compiled.stack_bytes:
            yield f"{self.compiled.stack_bytes // 4} words spilled"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="a line for each number of inputs")
    parser.add_argument("--inputs", default="", help="these numbers of inputs only")
    given = parser.parse_args()
    counts = [int(n) for n in given.inputs.split(",") if n] or range(1, MOST_INPUTS + 1)
    target = targets.get(given.target)
    rows = compiled(counts, target, given.jobs)
    sys.stdout.writelines(f"{line}\n" for line in table(rows, whole=given.all))
    faults = [(row, fault) for row in rows for fault in row.faults()]
    for row, fault in faults:
        sys.stdout.write(f"{row.inputs} inputs, {row.dtype}: {fault}\n")
    sys.stdout.write(
        f"{len(rows)} plans for {target.name}: {'all as planned' if not faults else 'MISSED'}\n"
    )
    return 1 if faults else 0


def compiled(counts: Iterable[int], target: Target, jobs: int) -> list[Row]:
    family = registry.load_declared("kernels", "column-sum", KernelFamily)
    asked = [
        (n, dtype, family.plan(problem(n, dtype), target, "tma"))
        for dtype in DTYPES
        for n in counts
    ]
    compile_one = partial(_compile, code=family.code, target=target)
    with ProcessPoolExecutor(jobs) as pool:
        candidates = pool.map(compile_one, [plan for _, _, plan in asked])
        limit = target.shared_bytes_per_block_optin
        return [
            Row(n, dtype, plan, candidate, limit)
            for (n, dtype, plan), candidate in zip(asked, candidates, strict=True)
        ]


def problem(inputs: int, dtype: str) -> Problem:
    return Problem("column-sum", 65536, 4096, dtype, settings={"inputs": inputs})


def _compile(plan: LaunchPlan, code: str, target: Target) -> Candidate:
    from perfcli.handwritten.compiling import compile_launch

    folder = Path(cache_dir())
    return compile_launch(LaunchToCompile(code, plan.launches[0], target), "", folder)


def table(rows: Sequence[Row], whole: bool) -> Iterator[str]:
    """A line for each run of numbers of inputs with the same tile; its largest number's bytes."""
    yield (
        f"{'dtype':8} {'inputs':>8} {'tile':>9} {'stages':>6} {'warps':>5} {'vector':>6} "
        f"{'predicted':>9} {'compiled':>9} {'of limit':>8} {'registers':>9}"
    )
    for _, group in groupby(rows, lambda r: (r.dtype, r.tile, r.stages, r.inputs if whole else 0)):
        members = list(group)
        first, last = members[0], members[-1]
        numbers = f"{first.inputs}" if first is last else f"{first.inputs}–{last.inputs}"
        shared = last.compiled.shared_bytes or 0
        yield (
            f"{last.dtype:8} {numbers:>8} {last.tile[0]:>4}×{last.tile[1]:<4} {last.stages:>6} "
            f"{last.plan.launches[0].num_warps:>5} {last.vector:>6} {last.predicted:>9} "
            f"{shared:>9} {shared / last.limit:>8.1%} "
            f"{max(m.compiled.registers or 0 for m in members):>9}"
        )


if __name__ == "__main__":
    sys.exit(main())
