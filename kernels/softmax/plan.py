"""Plans which kernels compute a problem: checks it, picks a rule of the launch table, makes it
fit."""

from __future__ import annotations

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem, Target

from .choice import (
    BACKWARD,
    FORWARD,
    ITEM_BYTES,
    KIB,
    LOSS,
    LOSS_GRADIENT,
    STATISTIC_BYTES,
    TELLING,
    WORD_BYTES,
    Choice,
    RowRule,
    _chunks_of,
    _padded_bytes,
    _padded_count,
    _rules_of,
    _vectors_only,
    is_aligned,
    is_congruent,
    vector,
)
from .launches import BACKWARD_LAUNCHES, FORWARD_LAUNCHES

CACHED_UP_TO = {"forward": 32 * KIB, "loss": 2 * KIB, "backward": 16 * KIB}
"""Row bytes up to which the cached variant is the fastest."""
PEELED_FROM = 8 * KIB
"""Row bytes from which rows without alignment are better peeled than held in registers."""
SPLIT_FROM = 32 * KIB
"""Row bytes from which few rows are shared by many blocks."""
COOPERATIVE_FROM = 128 * KIB
"""Row bytes beyond which blocks that keep a part of a row each read it once."""
FEW_COOPERATIVE_FROM = 16_000_000
"""Bytes of a few rows from which such blocks are better than `split`, which reads twice. In one
sweep: 27.9 against 33.2 µs at 8 × 1048576 fp32 (34 MB), 17.2 against 19.6 at 64 × 131072 bf16
(17 MB), but 13.3 against 13.2 at 4 × 1048576 bf16 (8 MB) and 10.8 against 10.2 at 1 × 1048589.
What is picked took 28.5, 17.4, 12.9 and 8.9 µs in the last bench."""
MOST_PARTS = 1024
"""The most parts of a row: so many words a block of the cooperative variant looks at."""
MOST_COOPERATIVE_BYTES = MOST_PARTS * 16 * KIB
CACHED_BYTES_PER_THREAD = {False: 128, True: 32}
"""The bytes of one input that a thread can hold, in a block of as many threads as there can be;
forward (one input), backward (two). Compiled for sm_90 by Triton 3.6: 32 warps have 64 registers
per thread, and 128 bytes of a row in half precision take all of them where the exponentials are
computed twice; more spills."""


def _rule_for(problem: Problem, target: Target, variant: str | None) -> RowRule:
    """Return the rule of the variant, or of the one that is the fastest for this problem."""
    rules = _rules_of(problem)[variant or fastest(problem, target)]
    row, item = _padded_bytes(problem), ITEM_BYTES[problem.dtype]
    return next(r for r in rules if row <= r.row_bytes and r.item_bytes in (0, item))


def fastest(problem: Problem, target: Target) -> str:
    """Return the variant for a problem of this shape."""
    size = _padded_bytes(problem)
    if problem.operation == LOSS_GRADIENT:  # no reduction: as many blocks as there can be
        return "split"
    if size >= SPLIT_FROM and problem.rows <= target.sm_count // 2:
        return _few_rows(problem)
    if _is_cooperative(problem):
        return "cooperative" if _not_streamed(problem, target) else "streamed"
    if size >= PEELED_FROM and is_congruent(problem) and not is_aligned(problem):
        return "peeled"
    kind = "backward" if problem.operation in BACKWARD else "forward"
    if size <= CACHED_UP_TO["loss" if problem.operation == LOSS else kind]:
        return "cached"
    return "online"


def _is_cooperative(problem: Problem) -> bool:
    """Return whether rows are too long for one block's registers, and not too long for those of
    many."""
    return writes(problem) and COOPERATIVE_FROM < _padded_bytes(problem) <= MOST_COOPERATIVE_BYTES


def writes(problem: Problem) -> bool:
    """Return whether it is softmax or its logarithm: a row is read for its statistics, and then
    written."""
    return problem.operation != LOSS and problem.operation not in BACKWARD


def _few_rows(problem: Problem) -> str:
    """Return the variant for fewer rows than half the SMs."""
    many_bytes = problem.elements * ITEM_BYTES[problem.dtype] >= FEW_COOPERATIVE_FROM
    return "cooperative" if many_bytes and _is_cooperative(problem) else "split"


def _not_streamed(problem: Problem, target: Target) -> str:
    """Return why not: what its pairs, or its programs, cannot do."""
    if target.vendor != "nvidia":
        return "its pairs are made by an instruction of NVIDIA's"
    if ITEM_BYTES[problem.dtype] != 2:
        return f"it keeps pairs of halves, the rows are {problem.dtype}"
    if not (is_aligned(problem) and _vectors_only(problem)):
        return (
            f"rows of {problem.columns} that are {problem.stride} apart are not made of whole "
            "vectors of 16 bytes"
        )
    (rule,) = FORWARD["streamed"]
    at_once = rule.blocks_per_sm * target.sm_count
    if problem.columns * 2 > min(at_once, MOST_PARTS) * rule.chunk_tiles * rule.tile_bytes:
        return (
            f"a row of {problem.columns} takes more than the {at_once} blocks there are at a time"
        )
    return ""


def possible(problem: Problem, target: Target, variant: str | None) -> tuple[str | None, str]:
    """Return the variant to use, and why it is not the one asked for.

    Raises:
        PerfcliError: the rows do not fit into a block's registers.
    """
    most = target.max_threads_per_block * CACHED_BYTES_PER_THREAD[problem.operation in BACKWARD]
    if variant == "cached" and _padded_bytes(problem) > most:
        raise PerfcliError(
            f"cached holds rows of up to {most // ITEM_BYTES[problem.dtype]} {problem.dtype} in "
            f"registers, found {problem.columns}: use online, or split"
        )
    if variant == "peeled" and not is_congruent(problem):
        return "online", (
            f"peeled: rows {problem.stride} apart are not aligned as those of the output, which "
            f"are {problem.columns} apart"
        )
    if variant == "streamed" and (reason := _not_streamed(problem, target)):
        other, further = possible(problem, target, "cooperative")
        return other, f"streamed: {reason}{further and '; '}{further}"
    if variant == "cooperative" and (row := _padded_bytes(problem)) > MOST_COOPERATIVE_BYTES:
        return "split", (
            f"cooperative: a row of {problem.columns} {problem.dtype}, padded {row} bytes, takes "
            f"more than {MOST_PARTS} blocks"
        )
    return variant, ""


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
"""Blocks per multiprocessor of the cooperative variant: with fewer, less of the memory's bandwidth
is used."""
REGISTER_STEP, MOST_REGISTERS = 8, 255
"""Of a thread: they are given out in such steps (CUDA occupancy calculator)."""


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return how this problem is computed on this target.

    Raises:
        PerfcliError: no variant can do it, or not the one asked for.
    """
    check(problem, variant)
    if problem.rows == 0 or problem.columns == 0:
        return LaunchPlan(variant or "cached", (), "nothing to compute")
    wanted, instead_of = possible(problem, target, variant)
    rule = _rule_for(problem, target, wanted)
    choice = fit(problem, target, rule)
    table = BACKWARD_LAUNCHES if problem.operation in BACKWARD else FORWARD_LAUNCHES
    return LaunchPlan(
        variant=choice.variant,
        launches=table[choice.variant](problem, choice),
        why=f"{choice.variant}, {choice.warps} warps, tiles of {choice.tile}: {rule.source}",
        workspace_bytes=workspace(problem, choice),
        instead_of=instead_of,
    )


def check(problem: Problem, variant: str | None) -> None:
    """Check whether the request makes sense at all."""
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
        _check_variant(problem, variant)


def _check_variant(problem: Problem, variant: str) -> None:
    if variant not in VARIANT_OPERATIONS:
        known = ", ".join(VARIANT_OPERATIONS)
        raise PerfcliError(f"no variant {variant!r} of softmax; known: {known}")
    if problem.operation not in VARIANT_OPERATIONS[variant]:
        able = ", ".join(v for v, can in VARIANT_OPERATIONS.items() if problem.operation in can)
        raise PerfcliError(f"{variant} cannot do {problem.operation}: use one of {able}")


def fit(problem: Problem, target: Target, rule: RowRule) -> Choice:
    """Return the rule for this problem, on a device with these warps and limits."""
    item = ITEM_BYTES[problem.dtype]
    row = _padded_bytes(problem)
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
        recompute=_recomputed(rule, problem, target),
        keep=rule.keep,
        drop=rule.drop,
    )


def registers(target: Target, rule: RowRule, threads: int) -> int | None:
    """Return the registers of a thread, so that as many blocks of the rule's as are wanted fit on a
    multiprocessor."""
    if not rule.blocks_per_sm:
        return None
    share = target.registers_per_sm // (rule.blocks_per_sm * threads)
    return min(share // REGISTER_STEP * REGISTER_STEP, MOST_REGISTERS)


def _recomputed(rule: RowRule, problem: Problem, target: Target) -> str:
    """Return how exponentials are computed twice: float32 is held as it came; what hides it from
    the compiler is NVIDIA's assembly."""
    if rule.recompute == "no" or problem.dtype == "float32":
        return "no"
    return rule.recompute if target.vendor == "nvidia" else "yes"


def chunk(problem: Problem, target: Target, rule: RowRule, tile: int) -> int:
    """Return elements of a chunk: the rule's, or more where a row would have too many of them; what
    stays in registers, the rule's or less where there are few rows."""
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
    """Return bytes of the statistics of chunks and of whole rows; the gradient has one of them, the
    forward two, the gradient of cross-entropy none. In one launch: of words, a chunk's statistics
    each."""
    if not choice.chunk or problem.operation == LOSS_GRADIENT:
        return 0
    if choice.variant in TELLING:
        return problem.rows * _chunks_of(problem, choice) * WORD_BYTES
    arrays = 1 if problem.operation in BACKWARD else 2
    count = _padded_count(problem.rows * (_chunks_of(problem, choice) + 1))
    return arrays * count * STATISTIC_BYTES
