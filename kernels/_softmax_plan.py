"""Which kernels compute a problem: checks it, picks a rule of the launch table, makes it fit."""

from __future__ import annotations

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem, Target

from ._softmax_choice import (
    BACKWARD,
    ITEM_BYTES,
    LOSS,
    LOSS_GRADIENT,
    STATISTIC_BYTES,
    TELLING,
    WORD_BYTES,
    Choice,
    chunks_of,
    padded_bytes,
    padded_count,
    vector,
)
from ._softmax_launch import FORWARD
from ._softmax_launch_backward import BACKWARD_LAUNCHES
from ._softmax_table import Rule
from ._softmax_variant import MOST_PARTS, possible, rule_for

OPERATIONS = {
    "softmax": "y = exp(x − max x) / Σ exp(x − max x)",
    "log-softmax": "y = x − max x − log Σ exp(x − max x)",
    "cross-entropy": "lse = log Σ exp(x); loss = lse − x[target]; loss = 0 where target = −100",
    "softmax-backward": "dx = y × (dy − Σ y × dy)",
    "log-softmax-backward": "dx = dy − exp(y) × Σ dy",
    "cross-entropy-backward": "dx = (exp(x − lse) − [column = target]) × dloss",
}
ALL = tuple(OPERATIONS)
VARIANT_OPERATIONS = {
    "three-pass": ("softmax", "log-softmax", "cross-entropy"),
    "online": ALL,
    "cached": tuple(name for name in ALL if name != LOSS_GRADIENT),
    "held": ("softmax", "log-softmax"),
    "cooperative": ("softmax", "log-softmax"),
    "streamed": ("softmax", "log-softmax"),
    "split": ALL,
    "peeled": ALL,
}
CHUNKED = ("split", *TELLING)
MOST_COLUMNS = 2**31 - 2**18
"""Columns are counted in 32 bits, and a loop goes at most one tile beyond them."""
MOST_CHUNKS = 65535
"""Blocks along the second dimension of a grid (CUDA C++ Programming Guide)."""
BLOCKS_PER_SM = 2
"""Of the cooperative variant: with fewer, less of the memory's bandwidth is used."""
REGISTER_STEP, MOST_REGISTERS = 8, 255
"""Of a thread: they are given out in such steps (CUDA occupancy calculator)."""


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """How this problem is computed on this target.

    Raises:
        PerfcliError: no variant can do it, or not the one asked for.
    """
    check(problem, variant)
    if problem.rows == 0 or problem.columns == 0:
        return LaunchPlan(variant or "cached", (), "nothing to compute")
    wanted, instead_of = possible(problem, target, variant)
    rule = rule_for(problem, target, wanted)
    choice = fitted(problem, target, rule)
    table = BACKWARD_LAUNCHES if problem.operation in BACKWARD else FORWARD
    return LaunchPlan(
        variant=choice.variant,
        launches=table[choice.variant](problem, choice),
        why=f"{choice.variant}, {choice.warps} warps, tiles of {choice.tile}: {rule.source}",
        workspace_bytes=workspace(problem, choice),
        instead_of=instead_of,
    )


def check(problem: Problem, variant: str | None) -> None:
    """Whether the request makes sense at all."""
    if problem.operation not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise PerfcliError(f"no operation {problem.operation!r} of softmax; known: {known}")
    if problem.dtype not in ITEM_BYTES:
        known = ", ".join(ITEM_BYTES)
        raise PerfcliError(f"expected a dtype of {known}, found {problem.dtype}: convert the input")
    if not 0 <= problem.columns <= MOST_COLUMNS:
        raise PerfcliError(
            f"expected 0 to {MOST_COLUMNS} columns, found {problem.columns}: reshape to more rows"
        )
    if problem.rows > 1 and not problem.columns <= problem.stride < 2**31:
        raise PerfcliError(
            f"expected rows {problem.columns} or more elements apart, found {problem.stride}: "
            "call contiguous() first"
        )
    if problem.columns == 0 and problem.rows > 0 and problem.operation.startswith(LOSS):
        raise PerfcliError("cross-entropy expected one class or more, found none: no target is one")
    if variant is not None:
        check_variant(problem, variant)


def check_variant(problem: Problem, variant: str) -> None:
    if variant not in VARIANT_OPERATIONS:
        known = ", ".join(VARIANT_OPERATIONS)
        raise PerfcliError(f"no variant {variant!r} of softmax; known: {known}")
    if problem.operation not in VARIANT_OPERATIONS[variant]:
        able = ", ".join(v for v, can in VARIANT_OPERATIONS.items() if problem.operation in can)
        raise PerfcliError(f"{variant} cannot do {problem.operation}: use one of {able}")


def fitted(problem: Problem, target: Target, rule: Rule) -> Choice:
    """The rule for this problem, on a device with these warps and limits."""
    item = ITEM_BYTES[problem.dtype]
    row = padded_bytes(problem)
    tile_bytes = rule.tile_bytes
    if rule.variant == "cached":
        tile_bytes = max(tile_bytes, row)
    else:
        tile_bytes = min(tile_bytes, max(row, 32 * 16))
    threads = min(rule.warps * 32, max(tile_bytes // 16, 32))
    tile = tile_bytes // item
    held = min(rule.held, (problem.columns - vector(problem)) // tile)
    return Choice(
        variant="online" if rule.variant == "held" and held < 1 else rule.variant,
        warps=max(1, threads // target.warp_size),
        tile=tile,
        rows=tile_bytes // row if rule.variant == "cached" else 1,
        chunk=chunk(problem, target, rule, tile) if rule.variant in CHUNKED else 0,
        programs=rule.blocks_per_sm * target.sm_count,
        maxnreg=registers(target, rule, threads),
        held=max(held, 0),
        recompute=recomputed(rule, problem, target),
        keep=rule.keep,
        drop=rule.drop,
    )


def registers(target: Target, rule: Rule, threads: int) -> int | None:
    """Of a thread, so that as many blocks of the rule's as are wanted fit on a multiprocessor."""
    if not rule.blocks_per_sm:
        return None
    share = target.registers_per_sm // (rule.blocks_per_sm * threads)
    return min(share // REGISTER_STEP * REGISTER_STEP, MOST_REGISTERS)


def recomputed(rule: Rule, problem: Problem, target: Target) -> str:
    """Float32 is held as it came; what hides it from the compiler is NVIDIA's assembly."""
    if rule.recompute == "no" or problem.dtype == "float32":
        return "no"
    return rule.recompute if target.vendor == "nvidia" else "yes"


def chunk(problem: Problem, target: Target, rule: Rule, tile: int) -> int:
    """Elements of a chunk: the rule's, or more where a row would have too many of them; what stays
    in registers, the rule's or less where there are few rows."""
    if rule.variant == "streamed":
        return tile * min(rule.chunk_tiles, -(-problem.columns // tile))
    if rule.variant == "cooperative":
        tiles = min(rule.chunk_tiles, -(-problem.columns // tile))
        wanted = BLOCKS_PER_SM * target.sm_count
        while tiles > 1 and problem.rows * -(-problem.columns // (tile * tiles)) < wanted:
            tiles = -(-tiles // 2)
        while tiles < rule.chunk_tiles and -(-problem.columns // (tile * tiles)) > MOST_PARTS:
            tiles += 1
        return tile * tiles
    fewest = -(-problem.columns // (tile * MOST_CHUNKS))
    return tile * max(min(rule.chunk_tiles, -(-problem.columns // tile)), fewest)


def workspace(problem: Problem, choice: Choice) -> int:
    """Bytes of the statistics of chunks and of whole rows; the gradient has one of them, the
    forward two, the gradient of cross-entropy none. In one launch: of words, a chunk's statistics
    each."""
    if not choice.chunk or problem.operation == LOSS_GRADIENT:
        return 0
    if choice.variant in TELLING:
        return problem.rows * chunks_of(problem, choice) * WORD_BYTES
    arrays = 1 if problem.operation in BACKWARD else 2
    count = padded_count(problem.rows * (chunks_of(problem, choice) + 1))
    return arrays * count * STATISTIC_BYTES
