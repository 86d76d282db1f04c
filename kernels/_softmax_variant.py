"""Which variant computes a problem the fastest, which ones can compute it at all."""

from __future__ import annotations

from perfcli.errors import PerfcliError
from perfcli.model import Problem, Target

from ._softmax_choice import (
    BACKWARD,
    ITEM_BYTES,
    LOSS,
    LOSS_GRADIENT,
    aligned,
    congruent,
    padded_bytes,
    vectors_only,
)
from ._softmax_table import FORWARD, KIB, Rule, rules_of

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
"""Of a row: so many words a block of the cooperative variant looks at."""
MOST_COOPERATIVE_BYTES = MOST_PARTS * 16 * KIB
CACHED_BYTES_PER_THREAD = {False: 128, True: 32}
"""Of one input, by a block of as many threads as there can be; forward (one input), backward (two).
Compiled for sm_90 by Triton 3.6: 32 warps have 64 registers per thread, and 128 bytes of a row in
half precision take all of them where the exponentials are computed twice; more spills."""


def rule_for(problem: Problem, target: Target, variant: str | None) -> Rule:
    """The rule of the variant, or of the one that is the fastest for this problem."""
    rules = rules_of(problem)[variant or fastest(problem, target)]
    row, item = padded_bytes(problem), ITEM_BYTES[problem.dtype]
    return next(r for r in rules if row <= r.row_bytes and r.item_bytes in (0, item))


def fastest(problem: Problem, target: Target) -> str:
    """The variant for a problem of this shape."""
    size = padded_bytes(problem)
    if problem.operation == LOSS_GRADIENT:  # no reduction: as many blocks as there can be
        return "split"
    if size >= SPLIT_FROM and problem.rows <= target.sm_count // 2:
        return few_rows(problem)
    if is_cooperative(problem):
        return "cooperative" if not_streamed(problem, target) else "streamed"
    if size >= PEELED_FROM and congruent(problem) and not aligned(problem):
        return "peeled"
    kind = "backward" if problem.operation in BACKWARD else "forward"
    if size <= CACHED_UP_TO["loss" if problem.operation == LOSS else kind]:
        return "cached"
    return "online"


def is_cooperative(problem: Problem) -> bool:
    """Rows too long for one block's registers, not too long for those of many."""
    return writes(problem) and COOPERATIVE_FROM < padded_bytes(problem) <= MOST_COOPERATIVE_BYTES


def writes(problem: Problem) -> bool:
    """Softmax or its logarithm: a row is read for its statistics, and then written."""
    return problem.operation != LOSS and problem.operation not in BACKWARD


def few_rows(problem: Problem) -> str:
    """The variant for fewer rows than half the SMs."""
    many_bytes = problem.elements * ITEM_BYTES[problem.dtype] >= FEW_COOPERATIVE_FROM
    return "cooperative" if many_bytes and is_cooperative(problem) else "split"


def not_streamed(problem: Problem, target: Target) -> str:
    """Why not: what its pairs, or its programs, cannot do."""
    if target.vendor != "nvidia":
        return "its pairs are made by an instruction of NVIDIA's"
    if ITEM_BYTES[problem.dtype] != 2:
        return f"it keeps pairs of halves, the rows are {problem.dtype}"
    if not (aligned(problem) and vectors_only(problem)):
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
    """The variant to use, and why it is not the one asked for.

    Raises:
        PerfcliError: the rows do not fit into a block's registers.
    """
    most = target.max_threads_per_block * CACHED_BYTES_PER_THREAD[problem.operation in BACKWARD]
    if variant == "cached" and padded_bytes(problem) > most:
        raise PerfcliError(
            f"cached holds rows of up to {most // ITEM_BYTES[problem.dtype]} {problem.dtype} in "
            f"registers, found {problem.columns}: use online, or split"
        )
    if variant == "peeled" and not congruent(problem):
        return "online", (
            f"peeled: rows {problem.stride} apart are not aligned as those of the output, which "
            f"are {problem.columns} apart"
        )
    if variant == "streamed" and (reason := not_streamed(problem, target)):
        other, further = possible(problem, target, "cooperative")
        return other, f"streamed: {reason}{further and '; '}{further}"
    if variant == "cooperative" and (row := padded_bytes(problem)) > MOST_COOPERATIVE_BYTES:
        return "split", (
            f"cooperative: a row of {problem.columns} {problem.dtype}, padded {row} bytes, takes "
            f"more than {MOST_PARTS} blocks"
        )
    return variant, ""
