"""Times softmax's family or norms at widths drawn at random, and linear-cross-entropy, on a GPU.

    python bench/widths.py OUT.json [--family softmax|norms] [--part widths|ways|linear]
                                    [--seconds 220] [--draws 60] [--seed 7] [--workers 12]
                                    [--peers 10] [--against NAME]… [--operation backward] [--small]
                                    [--ways PATTERN] [--list]
                                    [--problem OPERATION,ROWS,COLUMNS,DTYPE]…

Widths are log-uniform from 512 to 262144, every second one a multiple of 8, with rows that make 256
MiB; the shapes that are known to matter are among them. ``--small``: with rows that make between 64
KiB and 8 MiB, log-uniform too. ``widths`` times the planned launches and a copy of as many bytes,
and at every tenth draw (``--peers``; 0: at none) also Inductor with and without max-autotune, Liger
and QuACK, or those that ``--against`` names; ``ways`` also all other variants, and what else the
planner could have chosen (other numbers of threads, other settings), as far as the labels have a
match of ``--ways``. First, processes at the same time compile everything and hold it against
float64; then it is timed alone, and summed up. ``linear`` times linear-cross-entropy and its peers.
``--operation`` takes those whose names end so (``forward``: all that are no gradients),
``--problem`` these instead of what is drawn. ``--list`` prints the problems and their plans, and
needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from perfcli.errors import PerfcliError  # noqa: E402
from perfcli.handwritten import benching, contenders, peers  # noqa: E402
from perfcli.loading import registry  # noqa: E402
from perfcli.machine import targets  # noqa: E402
from perfcli.model import KernelFamily, LaunchPlan, Problem, Target  # noqa: E402
from perfcli.model.kernel_work import BenchAsk, BenchRequest, Contender  # noqa: E402

ITEM_BYTES = import_module("perfcli.kernels._elements").ITEM_BYTES
planner: Any = import_module("perfcli.kernels.softmax.plan")
FAMILIES = {
    name: tuple(map(registry.family, names))
    for name, names in {"softmax": ("softmax",), "norms": ("rmsnorm", "layernorm")}.items()
}
BYTES = 256 << 20
SMALL_BYTES = 64 << 10, 8 << 20
SMALLEST, LARGEST = 512, 262144
DTYPES = ("bfloat16", "float32", "bfloat16", "float16")
"""Of one draw after another."""
NORM_SHAPES = (
    (16384, 14336), (16, 7168), (32768, 2880), (1024, 128256), (512, 8192), (8192, 28672)
)  # fmt: skip
"""Rows and columns of all operations of norms."""
SHAPES = (
    ("softmax", 65536, 5120, "float16"),
    ("softmax", 8192, 151936, "bfloat16"),
    ("softmax", 300, 201088, "bfloat16"),
    ("softmax-backward", 8192, 151936, "bfloat16"),
    ("softmax-backward", 4096, 128256, "bfloat16"),
    ("softmax-backward", 300, 201088, "bfloat16"),
    ("log-softmax-backward", 4096, 128256, "bfloat16"),
    ("log-softmax-backward", 300, 201088, "bfloat16"),
    ("cross-entropy", 300, 201088, "bfloat16"),
    ("softmax", 32768, 50257, "bfloat16"),
    ("softmax", 32768, 4096, "bfloat16"),
    ("softmax", 32768, 16384, "bfloat16"),
    ("softmax", 16384, 32768, "bfloat16"),
    ("softmax", 8192, 65536, "bfloat16"),
    ("softmax-backward", 32768, 4096, "bfloat16"),
    ("softmax-backward", 16384, 14336, "bfloat16"),
    ("cross-entropy", 32768, 4096, "bfloat16"),
    ("cross-entropy-backward", 8192, 128256, "bfloat16"),
)
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "2 streamed blocks": {"STREAM_BLOCKS": 2},
    "4 streamed blocks": {"STREAM_BLOCKS": 4},
    "parts as long as can be": {"STEP_TILES": 1e6},
    "one row a block": {"SHARING_THREADS": 32},
    "256 threads a block": {"SHARING_THREADS": 256},
    "2 vectors a part": {"LOSS_TILES": 2},
    "8 vectors a part": {"LOSS_TILES": 8},
}
POLICIES = (("", ""), ("evict_last", "evict_first"), ("evict_first", ""), ("", "evict_first"))
"""Where inputs and outputs go in the order of eviction."""
THREADS = (32, 64, 128, 256, 512, 1024)
REGISTERS = (0, 64, 72, 80, 96, 128)
"""Of a thread, at most; 0: any number."""
MOST_TILES = 16
OTHERS = ("liger", "quack", *contenders.MODES)
"""The contenders that are not ours."""


def family_of(problem: Problem) -> KernelFamily:
    every = (family for some in FAMILIES.values() for family in some)
    return next(family for family in every if problem.operation in family.operations)


def draw_small_problems(families: str, draws: int, seed: int) -> list[list[Problem]]:
    """Return draws of matrices that L2 holds, each of them all operations."""
    draw = random.Random(seed)
    found = []
    for number in range(draws):
        dtype = DTYPES[number % len(DTYPES)]
        elements = _draw(draw, *SMALL_BYTES) // ITEM_BYTES[dtype]
        columns = min(_draw_columns(draw, number), elements)
        found.append(
            [Problem(name, elements // columns, columns, dtype) for name in _operations(families)]
        )
    return found


def _draw(draw: random.Random, least: int, most: int) -> int:
    """Return a whole number, log-uniform."""
    return int(math.exp(draw.uniform(math.log(least), math.log(most))))


def _draw_columns(draw: random.Random, number: int) -> int:
    """Return a width, a multiple of 8 in every second draw."""
    columns = _draw(draw, SMALLEST, LARGEST)
    return columns // 8 * 8 if number % 2 else columns


def _operations(families: str) -> list[str]:
    return [name for family in FAMILIES[families] for name in family.operations]


def draw_problems(families: str, draws: int, seed: int) -> list[list[Problem]]:
    """Return draws, each of them all operations, so that the first so many are a fair sample; one
    of the shapes that are known to matter after each."""
    draw = random.Random(seed)
    operations = _operations(families)
    if families == "softmax":
        known = [[Problem(*shape)] for shape in SHAPES]
    else:
        known = [[Problem(name, *shape) for name in operations] for shape in NORM_SHAPES]
    found: list[list[Problem]] = []
    for number in range(draws):
        columns = _draw_columns(draw, number)
        dtype = DTYPES[number % len(DTYPES)]
        rows = -(-BYTES // (columns * ITEM_BYTES[dtype]))
        found.append([Problem(operation, rows, columns, dtype) for operation in operations])
        found += known[number : number + 1]
    return found + known[draws:]


def plan_ways(problem: Problem, target: Target, pattern: str | None) -> dict[str, LaunchPlan]:
    """Return the planned launches, and all others that differ from them whose label has a match of
    the pattern; None: no others."""
    family = family_of(problem)
    found = {"ours": family.plan(problem, target, None)}
    if pattern is None:
        return found
    cut = _cuts_of_softmax
    if family.name in ("rmsnorm", "layernorm"):
        backward = problem.operation.endswith("backward")
        cut = _cuts_of_norms_backward if backward else _cuts_of_norms_forward
    asked: dict[str, Callable[[], LaunchPlan]] = dict(cut(problem, target))
    for variant in family.variants:
        if variant.name not in ("three-pass", "tma") and problem.operation in variant.operations:
            asked[variant.name] = partial(family.plan, problem, target, variant.name)
    for name, plan_it in asked.items():
        if not re.search(pattern, name):
            continue
        try:
            plan = plan_it()
        except PerfcliError:
            continue
        if not plan.instead_of and all(plan.launches != each.launches for each in found.values()):
            found[name] = plan
    return found


def _is_small(problem: Problem) -> bool:
    """Return whether it is as small as those of ``--small``. L2 holds such, so that what it is told
    does not matter."""
    return problem.elements * int(ITEM_BYTES[problem.dtype]) <= SMALL_BYTES[1]


def _cuts_of_softmax(
    problem: Problem, target: Target
) -> Iterator[tuple[str, Callable[[], LaunchPlan]]]:
    small = _is_small(problem)
    for threads in THREADS:
        yield f"{threads} threads", partial(_kept_by, problem, target, threads)
    for name, changed in ({} if small else SETTINGS).items():
        yield name, partial(_with_settings, problem, target, changed)
    planned = planner.choose(problem, target, planner.fastest(problem, target))
    for keep, drop in () if small else POLICIES:
        told = replace(planned, keep=keep, drop=drop)
        yield f"reads {keep}, writes {drop}", partial(planner.plan_of, problem, told)
    clusters = import_module("perfcli.kernels.softmax.cluster_plan")
    if not clusters.why_not(problem, target):
        for choice, _ in clusters.ways(problem, target):
            label = f"{choice.blocks} blocks of {choice.warps} warps, {choice.tiles} tiles"
            label += ", exponentials twice" * (choice.recompute != "no")
            yield label, partial(planner.plan_of, problem, choice)


def _cuts_of_norms_forward(
    problem: Problem, target: Target
) -> Iterator[tuple[str, Callable[[], LaunchPlan]]]:
    """Yield all kinds of parts of a row, whole rows by each number of threads, and other policies
    for caches."""
    plan = import_module("perfcli.kernels._norms.plan")
    choice = import_module("perfcli.kernels._norms.choice")
    small = _is_small(problem)
    for kept in () if small else choice.parts_of(problem):
        blocks = choice.fill(problem, kept)
        label = f"{kept.threads} threads, {blocks.tiles} of {kept.tiles} tiles"
        yield label, partial(plan.launches, problem, target, blocks, "")
    planned, _ = choice._forward_choice(problem, target)
    for read, write in () if small else POLICIES:
        told = replace(planned, read=read, write=write)
        label = f"reads {read}, writes {write}"
        yield label, partial(plan.launches, problem, target, told, "")
    padded = import_module("perfcli.kernels._norms.blocks").padded_columns(problem)
    for threads, rows in product((32, 64, 128, 256, 512), (1, 2, 4, 8)):
        if 4 * threads <= rows * padded <= 64 * threads:
            blocks = choice.Blocks("full-tile", threads=threads, rows=rows)
            label = f"{rows} rows of {threads} threads"
            yield label, partial(plan.launches, problem, target, blocks, "")
    yield from _rows_in_one_block(problem, target)
    clusters = import_module("perfcli.kernels._norms.cluster_plan")
    if not clusters.why_not(problem, target):
        for kept, _ in clusters.ways(problem, target):
            label = f"{kept.parts} blocks of {kept.threads} threads, {kept.tiles} tiles"
            label += f", {kept.per_sm} a multiprocessor, {kept.stages} ahead"
            told = choice._with_policies(problem, target, kept)
            yield label, partial(plan.launches, problem, target, told, "")
        others = choice._forward_choice(problem, target, clusters=False)
        yield "no clusters", partial(plan.launches, problem, target, *others)


def _rows_in_one_block(
    problem: Problem, target: Target
) -> Iterator[tuple[str, Callable[[], LaunchPlan]]]:
    """Yield whole rows by each number of threads: small ones as all variants that keep a row, with
    weights from the start or not; others with each number of registers that they may have."""
    plan = import_module("perfcli.kernels._norms.plan")
    choice = import_module("perfcli.kernels._norms.choice")
    estimate = import_module("perfcli.kernels._norms.blocks").registers
    small, peels = _is_small(problem), choice._peels(problem)
    variants = ["peeled"] if peels else ["register-tiled"]
    if peels and small:
        variants.append("register-tiled")
    limits = [(False, 0), (True, 0)] if small else [(False, most) for most in REGISTERS]
    for threads, variant in product(THREADS, variants):
        tile = threads * choice.vector(problem)
        tiles = -(-problem.columns // tile)
        kept = choice.Blocks(variant, threads, tile=tile, tiles=tiles)
        if tiles > MOST_TILES:
            continue
        needed, room = estimate(problem, kept) - 8, target.registers_per_sm // threads
        for early, most in limits:
            if most and not needed <= most <= room:
                continue
            made = replace(kept, early=early, most_registers=most)
            made = choice._with_policies(problem, target, made)
            label = f"{variant}, {threads} threads, {tiles} tiles"
            label += f", {most} registers" * (most > 0) + ", early" * early
            yield label, partial(plan.launches, problem, target, made, "")


def _cuts_of_norms_backward(
    problem: Problem, target: Target
) -> Iterator[tuple[str, Callable[[], LaunchPlan]]]:
    """Yield the best cut into persistent programs for each variant and number of threads (of rings
    also of programs on a multiprocessor), whatever the planner thinks of the others."""
    plan = import_module("perfcli.kernels._norms.plan")
    best: dict[str, tuple[float, Any]] = {}
    cuts, rings = (import_module(f"perfcli.kernels._norms.{n}") for n in ("cuts", "ring_plan"))
    twice = tuple((threads, 2 * per_sm) for threads, per_sm in rings.SHAPES)
    asked = (
        (cuts, cuts.candidates(problem, target)),
        (rings, rings.candidates(problem, target)),
        (rings, rings.candidates(problem, target, twice)),
        (rings, rings.clusters(problem, target)),
    )
    for planned_by, found in asked:
        for blocks in found:
            reached = planned_by.estimate_efficiency(problem, target, blocks)
            label = f"{blocks.variant}, {blocks.threads} threads from multiples of {blocks.align}"
            if planned_by is rings:
                label += f", {blocks.per_sm} a multiprocessor"
                label += ", rows of several kinds" * rings.is_mixed(problem, blocks)
            if reached > best.get(label, (0.0, None))[0]:
                best[label] = (reached, blocks)
    for label, (reached, blocks) in best.items():
        yield label, partial(plan.launches, problem, target, blocks, f"{reached:.2f}")


def _kept_by(problem: Problem, target: Target, threads: int) -> LaunchPlan:
    choice = planner.keep_rows(problem, target, threads)
    if not 2 <= choice.tiles <= 16 or problem.operation == "cross-entropy-backward":
        raise PerfcliError("too few vectors of each thread, or too many")
    plan: LaunchPlan = planner.plan_of(problem, choice)
    return plan


def _with_settings(problem: Problem, target: Target, changed: Mapping[str, Any]) -> LaunchPlan:
    before = {key: getattr(planner, key) for key in changed}
    try:
        for key, value in changed.items():
            setattr(planner, key, value)
        return family_of(problem).plan(problem, target, None)
    finally:
        for key, value in before.items():
            setattr(planner, key, value)


def time_one(
    problem: Problem, pattern: str | None, against: Sequence[str], rounds: int, seed: int
) -> dict[str, Any]:
    """Return the seconds of every way, and what is wrong with it."""
    ways = plan_ways(problem, targets.this_gpu(), pattern)
    able = [n for n in against if n not in peers.NAMES or peers.has_operation(n, problem.operation)]
    timed = [Contender("copy"), *(Contender(name, plan) for name, plan in ways.items())]
    family = family_of(problem)
    moved = family.moved_bytes(problem)
    ask = BenchAsk(problem, moved, (*timed, *map(Contender, able)), rounds, 2.0)
    found = _bench(family.name, seed).bench(ask, lambda _: None)
    return {
        "operation": problem.operation,
        "rows": problem.rows,
        "columns": problem.columns,
        "dtype": problem.dtype,
        "bytes": found.moved_bytes,
        "lost": found.device_lost,
        "planned": ways["ours"].variant,
        "ways": {
            each.name: {
                "seconds": list(each.seconds),
                "error": each.error,
                "wrong": each.wrong,
                "why": ways[each.name].why if each.name in ways else "",
                "launches": describe_launches(ways[each.name]) if each.name in ways else [],
            }
            for each in found.timed
        },
    }


def describe_launches(plan: LaunchPlan) -> list[dict[str, Any]]:
    return [
        {"function": s.function, "grid": s.grid, "warps": s.num_warps, "maxnreg": s.maxnreg}
        | dict(s.constants)
        for s in plan.launches
    ]


@cache
def _bench(family: str, seed: int) -> Any:
    return benching.prepare_bench(BenchRequest(family, seed))


def prepare_one(
    number: int, problem: Problem, pattern: str | None, against: Sequence[str], seed: int
) -> int:
    import torch

    time_one(problem, pattern, against, 1, seed)
    torch.cuda.empty_cache()  # for the other processes
    return number


def prepare_all(
    problems: Sequence[Problem],
    pattern: str | None,
    rivals: Sequence[Sequence[str]],
    seed: int,
    workers: int,
    until: float,
) -> set[int]:
    """Return the numbers of the problems that were launched once: all of it is compiled then."""
    context = multiprocessing.get_context("spawn")
    found = set()
    with ProcessPoolExecutor(workers, context) as pool:
        waiting = [
            pool.submit(prepare_one, number, each, pattern, rivals[number], seed)
            for number, each in enumerate(problems)
        ]
        try:
            for done in as_completed(waiting, max(until - time.monotonic(), 1.0)):
                try:
                    found.add(done.result())
                except Exception as error:
                    sys.stdout.write(f"prepare: {type(error).__name__}: {str(error)[:200]}\n")
        except TimeoutError:
            sys.stdout.write(f"prepared {len(found)} of {len(problems)} in time\n")
        pool.shutdown(wait=False, cancel_futures=True)
        if time.monotonic() > until:
            for process in multiprocessing.active_children():
                process.kill()
    return found


def describe(found: Mapping[str, Any]) -> str:
    """Return a line: percent of the copy of the planned way, and of the best."""
    times = {n: statistics.median(w["seconds"]) for n, w in found["ways"].items() if w["seconds"]}
    where = f"{found['operation']:22} {found['rows']:7} × {found['columns']:6} {found['dtype']:8}"
    wrong = "; ".join(
        f"{n} {w['wrong']}{w['error']}" for n, w in found["ways"].items() if w["wrong"]
    )
    if "ours" not in times or "copy" not in times:
        return f"{where} not timed: {found['ways'].get('ours', {}).get('error')}"
    copy = times["copy"]
    best = min((n for n in times if n != "copy"), key=lambda n: times[n])
    text = f"{where} {100 * copy / times['ours']:5.1f} % {found['planned']:11}"
    if best != "ours":
        text += f" best {100 * copy / times[best]:5.1f} % {best}"
    for name in OTHERS:
        if name in times:
            text += f" · {name} {100 * copy / times[name]:5.1f} %"
    return text + (f" · WRONG {wrong}" if wrong else "")


def sum_up(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines: percent of the copy of each operation, median and worst, and how often no other
    is faster."""
    for name in (*dict.fromkeys(each["operation"] for each in found), "forward", "backward"):
        percents, even = [], []
        for each in found:
            backward = each["operation"].endswith("backward")
            if name not in (each["operation"], "backward" if backward else "forward"):
                continue
            seconds = {n: w["seconds"] for n, w in each["ways"].items() if w["seconds"]}
            times = {n: statistics.median(taken) for n, taken in seconds.items()}
            if "ours" in times and "copy" in times:
                percents.append(100 * times["copy"] / times["ours"])
                rivals = [times[n] for n in OTHERS if n in times]
                even += [times["ours"] <= 1.01 * min(rivals)] if rivals else []
        if percents:
            yield (
                f"{name:22} {len(percents):4} problems, median {statistics.median(percents):5.1f} "
                f"%, worst {min(percents):5.1f} %; as fast as all others within 1 % in "
                f"{sum(even)} of {len(even)}"
            )


def measure_widths(
    draws: Sequence[Sequence[Problem]], given: argparse.Namespace, end: float
) -> Iterator[dict[str, Any]]:
    """Yield what was timed. Every so many draws have all rivals beside them."""
    started = time.monotonic()
    problems = [problem for draw in draws for problem in draw]
    every, pattern = given.peers, given.ways if given.part == "ways" else None
    rivals = [
        tuple(given.against or OTHERS) if every and number % every == 0 else ()
        for number, draw in enumerate(draws)
        for _ in draw
    ]
    until = started + 0.6 * (end - started)
    prepared = prepare_all(problems, pattern, rivals, given.seed, given.workers, until)
    for number, problem in enumerate(problems):
        if number not in prepared:
            continue
        if time.monotonic() > end:
            break
        try:
            yield time_one(problem, pattern, rivals[number], 12, given.seed)
        except Exception as error:
            sys.stdout.write(f"{problem}: {type(error).__name__}: {str(error)[:200]}\n")


# --- linear-cross-entropy -------------------------------------------------------------------------

LINEAR = (8192, 4096, 128256)


def linear_ways() -> dict[str, Callable[[Any, Any, Any], Any]]:
    """Return functions from x, weight and target to the mean loss."""
    import torch.nn.functional as F

    import perfcli.operators

    kernels = perfcli.operators.register()

    def cut(**more: Any) -> Callable[[Any, Any, Any], Any]:
        def call(x: Any, weight: Any, target: Any) -> Any:
            peer: Any = import_module("cut_cross_entropy")
            return peer.linear_cross_entropy(x, weight, target, **more)

        return call

    def liger(x: Any, weight: Any, target: Any) -> Any:
        peer: Any = import_module("liger_kernel.transformers.fused_linear_cross_entropy")
        return peer.LigerFusedLinearCrossEntropyLoss()(weight, x, target)

    def chunked(x: Any, weight: Any, target: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        def piece(rows: Any, targets: Any) -> Any:
            return F.cross_entropy((rows @ weight.T).float(), targets, reduction="sum")

        pairs = zip(x.chunk(16), target.chunk(16), strict=True)
        total = sum(checkpoint(piece, rows, of, use_reentrant=False) for rows, of in pairs)
        return total / (target != -100).sum()

    def ours(chunk: int) -> Callable[[Any, Any, Any], Any]:
        def call(x: Any, weight: Any, target: Any) -> Any:
            family: Any = import_module("perfcli.kernels.linear_cross_entropy.plan")
            family.SETTINGS = {**family.SETTINGS, "chunk": chunk}
            return kernels.linear_cross_entropy(x, weight, target)

        return call

    return {
        "ours": ours(0),
        "liger": liger,
        "cut-cross-entropy": cut(),
        "cut-cross-entropy, no filter": cut(filter_eps=None),
        "eager": lambda x, w, t: F.cross_entropy((x @ w.T).float(), t),
        "eager in 16 chunks": chunked,
        **{f"ours, chunks of {chunk}": ours(chunk) for chunk in (1024, 2048, 4096, 8192)},
    }


def measure_linear(name: str, results: Any) -> None:
    """Put the seconds of forward and backward, peak memory, and the gradients' distance from those
    of float32 sums."""
    import torch

    rows, hidden, classes = LINEAR
    generator = torch.Generator("cuda").manual_seed(3)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16, "generator": generator}
    x = torch.randn(rows, hidden, **options).requires_grad_()
    weight = (torch.randn(classes, hidden, **options) / hidden**0.5).requires_grad_()
    target = torch.randint(classes, (rows,), generator=generator, device="cuda")
    target[3::7] = -100
    call = linear_ways()[name]
    found: dict[str, Any] = {"name": name, "forward": [], "both": []}
    try:
        for _ in range(7):
            x.grad = weight.grad = None
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            base = torch.cuda.memory_allocated()
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            marks[0].record()
            loss = call(x, weight, target)
            marks[1].record()
            loss.backward()
            marks[2].record()
            torch.cuda.synchronize()
            found["forward"].append(marks[0].elapsed_time(marks[1]) / 1e3)
            found["both"].append(marks[0].elapsed_time(marks[2]) / 1e3)
            found["peak"] = torch.cuda.max_memory_allocated()
            found["peak_beyond_inputs"] = found["peak"] - base
        found["loss"] = float(loss)
        some = slice(0, 512)  # rows of which the exact gradient of x is computed
        with torch.no_grad():
            logits = x[some].float() @ weight.float().T
            chances = torch.softmax(logits, -1)
            counts = target[some] != -100
            chances[torch.arange(512, device="cuda"), target[some].clamp(0)] -= 1.0
            chances *= counts[:, None] / (target != -100).sum()
            exact = chances @ weight.float()
            error = (x.grad[some].float() - exact).norm() / exact.norm()
        found["relative_error_dx"] = float(error)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    results.put(found)


def measure_linears(end: float) -> Iterator[dict[str, Any]]:
    """Yield every way, each in a process of its own, since some tune for minutes."""
    context = multiprocessing.get_context("spawn")
    for name in linear_ways():
        left = end - time.monotonic()
        if left < 5:
            return
        results = context.Queue()
        process = context.Process(target=measure_linear, args=(name, results))
        process.start()
        try:
            found = results.get(timeout=min(left, 75.0))
        except Exception:
            found = {"name": name, "error": "not ready in time"}
        process.join(2)
        if process.is_alive():
            process.kill()
        yield found


def describe_linear(found: Mapping[str, Any]) -> str:
    text = f"{found['name']:30}"
    if len(found.get("both", ())) > 2:
        forward, both = (1e3 * statistics.median(found[n][2:]) for n in ("forward", "both"))
        text += (
            f" forward {forward:.2f} ms, with backward {both:.2f} ms, peak "
            f"{found['peak'] / 1e9:.3f} GB, {found['peak_beyond_inputs'] / 1e9:.3f} beyond inputs, "
            f"loss {found.get('loss')}, dx off by {found.get('relative_error_dx')}"
        )
    return f"{text} {found.get('error', '')}"


def _is_asked(operation: str, asked: str) -> bool:
    forward = asked == "forward" and not operation.endswith("backward")
    return forward or operation.endswith(asked)


def read_problem(text: str) -> Problem:
    try:
        operation, rows, columns, dtype = text.split(",")
        return Problem(operation, int(rows), int(columns), dtype)
    except ValueError:
        raise SystemExit(f"--problem takes OPERATION,ROWS,COLUMNS,DTYPE, not {text!r}") from None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--family", choices=tuple(FAMILIES), default="softmax")
    parser.add_argument("--seconds", type=float, default=220)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--part", choices=("widths", "ways", "linear"), default="widths")
    parser.add_argument("--peers", type=int, default=10)
    parser.add_argument("--against", action="append", default=[], choices=OTHERS)
    parser.add_argument("--ways", default="", metavar="PATTERN", help="of the labels of ways")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--operation", default="", help="those whose names end so")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--problem", action="append", default=[])
    given = parser.parse_args()
    drawn = (draw_small_problems if given.small else draw_problems)(
        given.family, given.draws, given.seed
    )
    draws = [[read_problem(each)] for each in given.problem] or [
        [problem for problem in draw if _is_asked(problem.operation, given.operation)]
        for draw in drawn
    ]
    if given.list:
        for problem in (each for draw in draws for each in draw):
            pattern = given.ways if given.part == "ways" else None
            ways = plan_ways(problem, targets.get("h200"), pattern)
            shape = f"{problem.operation} {problem.rows} × {problem.columns} {problem.dtype}"
            sys.stdout.write(f"{shape}: {ways['ours'].why}; {', '.join([*ways][1:])}\n")
        return 0
    end = time.monotonic() + given.seconds
    timed = measure_linears(end) if given.part == "linear" else measure_widths(draws, given, end)
    found = []
    for each in timed:
        found.append(each)
        sys.stdout.write(f"{describe(each) if 'ways' in each else describe_linear(each)}\n")
        sys.stdout.flush()
        given.out.write_text(json.dumps(found))
    if given.part != "linear":
        sys.stdout.writelines(f"{line}\n" for line in sum_up(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
