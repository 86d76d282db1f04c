"""Times norms, forward and backward, at widths drawn at random (log-uniform in 512 to 262144, rows
to make 256 MB) on this machine's GPU: the planned launch of all of them, at every tenth beside
Inductor's; then, while time is left, the same beside other candidates. All against a copy of the
same bytes. Kernels are compiled first, on all cores, for at most half of the time.

    python bench/norm_widths.py OUT.json [--seconds 540] [--draws 60] [--seed 20] [--peers 10]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import (
    BenchAsk,
    Benched,
    BenchRequest,
    CheckRequest,
    Contender,
    PlannedCase,
)

FAMILIES = ("rmsnorm", "layernorm")
ITEM = {"bfloat16": 2, "float16": 2, "float32": 4}
FIXED = ((16384, 14336), (16, 7168), (32768, 2880), (1024, 128256), (512, 8192), (8192, 28672))
"""Rows and columns that are timed before those drawn."""


def draw_problems(draws: int, seed: int) -> list[Problem]:
    """Return problems of all operations; the first half of the widths are multiples of 8, as
    models have them."""
    chance = random.Random(seed)
    shapes = [(rows, columns, "bfloat16") for rows, columns in FIXED]
    for number in range(draws):
        columns = round(2 ** chance.uniform(9, 18))
        columns = columns // 8 * 8 if number % 2 == 0 else columns
        dtype = chance.choice(("bfloat16", "bfloat16", "float16", "float32"))
        shapes.append(((256 << 20) // (columns * ITEM[dtype]), columns, dtype))
    return [
        Problem(f"{family}{suffix}", max(rows, 1), columns, dtype)
        for rows, columns, dtype in shapes
        for family in FAMILIES
        for suffix in ("-backward", "")
    ]


def list_plans(problem: Problem, target: Target) -> dict[str, LaunchPlan]:
    """Return what is planned, other variants, and other cuts into persistent programs."""
    family = registry.family(problem.operation.split("-")[0])
    plans = {"ours": family.plan(problem, target, None)}
    for variant in family.variants:
        if problem.operation in variant.operations and variant.name != "tma":
            try:
                plan = family.plan(problem, target, variant.name)
            except PerfcliError:
                continue
            plans[f"variant {variant.name}"] = plan
    plans |= _list_cuts(problem, target)
    seen: list[Any] = []
    distinct = {}
    for name, plan in plans.items():
        if plan.launches not in seen:
            seen.append(plan.launches)
            distinct[name] = plan
    return distinct


def _list_cuts(problem: Problem, target: Target) -> dict[str, LaunchPlan]:
    """Return the best cut for each number of threads, whatever the planner thinks of the others."""
    cuts = import_module("perfcli.kernels._norms.cuts")
    plan = import_module("perfcli.kernels._norms.plan")
    best: dict[int, tuple[float, Any]] = {}
    for blocks in cuts.candidates(problem, target):
        reached = cuts.estimate_efficiency(problem, target, blocks)
        if reached > best.get(blocks.threads, (0.0, None))[0]:
            best[blocks.threads] = (reached, blocks)
    return {
        f"{threads} threads": plan.launches(problem, target, blocks, f"{reached:.2f}")
        for threads, (reached, blocks) in best.items()
    }


def compile_plans(problems: list[tuple[Problem, dict[str, LaunchPlan]]], end: float) -> None:
    """Compile in parallel until the time is over; what is missing is compiled when it is timed."""
    ahead = import_module("perfcli.handwritten.ahead")
    target = targets.this_gpu()
    cases = tuple(
        PlannedCase(Case(problem), plan) for problem, plans in problems for plan in plans.values()
    )
    request = CheckRequest(FAMILIES[0], cases, "gpu", os.cpu_count() or 1, 0, target)
    for done, count in ahead.compile_ahead(request):
        if done % 50 == 0:
            sys.stdout.write(f"{done} of {count} launches compiled\n")
            sys.stdout.flush()
        if time.monotonic() > end:
            return


def describe(benched: Benched, plans: dict[str, LaunchPlan]) -> dict[str, Any]:
    problem = benched.problem
    copy = next((t.seconds for t in benched.timed if t.name == "copy"), ())
    found: dict[str, Any] = {
        "operation": problem.operation,
        "rows": problem.rows,
        "columns": problem.columns,
        "dtype": problem.dtype,
        "bytes": benched.moved_bytes,
        "copy_us": median(copy) * 1e6 if copy else None,
        "contenders": {},
    }
    for each in benched.timed:
        plan = plans.get(each.name)
        ratios = [c / s for c, s in zip(copy, each.seconds, strict=False)]
        found["contenders"][each.name] = {
            "us": median(each.seconds) * 1e6 if each.seconds else None,
            "percent": 100 * median(ratios) if ratios else None,
            "error": each.error,
            "wrong": each.wrong,
            "plan": plan and [
                {"function": s.function, "grid": s.grid, "warps": s.num_warps, "maxnreg": s.maxnreg}
                | dict(s.constants)
                for s in plan.launches
            ],
            "why": plan and f"{plan.variant}: {plan.why}",
        }  # fmt: skip
    return found


def sum_up(rows: list[dict[str, Any]]) -> Iterator[str]:
    operations = sorted({row["operation"] for row in rows})
    for operation in operations:
        of = [row["contenders"] for row in rows if row["operation"] == operation]
        ours = sorted(p for c in of if (p := c.get("ours", {}).get("percent")))
        best = sorted(
            max((x["percent"] or 0) for n, x in c.items() if n not in ("copy", "inductor"))
            for c in of
        )
        wrong = sum(bool(x["wrong"]) for c in of for n, x in c.items() if n != "inductor")
        if ours:
            yield (
                f"{operation:20} {len(ours):3} problems  ours median {median(ours):5.1f} worst "
                f"{ours[0]:5.1f}  best candidate median {median(best):5.1f} worst {best[0]:5.1f}  "
                f"wrong {wrong}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--peers", type=int, default=10)
    parser.add_argument("--operation", help="only operations whose name ends so, as -backward")
    given = parser.parse_args()
    begun = time.monotonic()
    target = targets.this_gpu()
    every = [
        (problem, list_plans(problem, target))
        for problem in draw_problems(given.draws, given.seed)
        if given.operation is None or problem.operation.endswith(given.operation)
    ]
    # What is planned first, for all; then again beside the others, gradients before the rest.
    problems = [(problem, {"ours": plans["ours"]}) for problem, plans in every]
    problems += sorted(every, key=lambda each: not each[0].operation.endswith("backward"))
    compile_plans(problems, begun + given.seconds / 2)
    from perfcli.handwritten import benching

    benches = {name: benching.prepare_bench(BenchRequest(name, given.seed)) for name in FAMILIES}
    rows: list[dict[str, Any]] = []
    for number, (problem, plans) in enumerate(problems):
        if time.monotonic() - begun > given.seconds:
            break
        name = problem.operation.split("-")[0]
        contenders = [Contender("copy"), *(Contender(n, plan) for n, plan in plans.items())]
        if number < len(every) and number // 4 % given.peers == 0:
            contenders.append(Contender("inductor"))
        family = registry.family(name)
        ask = BenchAsk(problem, family.moved_bytes(problem), tuple(contenders), 15, 1.0)
        benched = benches[name].bench(ask, lambda _name: None)
        rows.append(describe(benched, plans))
        shown = {n: c["percent"] for n, c in rows[-1]["contenders"].items() if c["percent"]}
        text = "  ".join(f"{n} {p:.1f}" for n, p in shown.items() if n != "copy")
        sys.stdout.write(
            f"{problem.operation} {problem.rows} x {problem.columns} {problem.dtype}: {text}\n"
        )
        sys.stdout.flush()
        given.out.write_text(json.dumps({"seed": given.seed, "problems": rows}))
        if benched.device_lost:
            return 2
    sys.stdout.writelines(f"{line}\n" for line in sum_up(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
