"""Which variant, tile and warps a problem gets: rules, each with where it comes from.

Sizes are in bytes, so that one rule serves all dtypes: what limits these kernels is bytes in flight
and registers, and both count bytes.

Measured on one NVIDIA H200 (torch 2.11.0, Triton 3.6.0, 2026-11-22), L2 flushed before each
launch; a percentage is the time of a copy of as many bytes over the kernel's. Other targets use the
same rules until they are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcli.model import Problem, Target

from ._softmax_choice import (
    BACKWARD,
    ITEM_BYTES,
    LOSS,
    LOSS_GRADIENT,
    aligned,
    congruent,
    padded_bytes,
)

KIB = 1024
ANY = 1 << 62
LAST, FIRST = "evict_last", "evict_first"


@dataclass(frozen=True, slots=True)
class Rule:
    """For rows of up to ``row_bytes``, padded to a power of two."""

    row_bytes: int
    variant: str
    warps: int
    """Of 32 threads."""
    vectors: int
    """16-byte loads of one thread and tile."""
    source: str
    chunk_tiles: int = 1
    """Of variants that cut rows into chunks."""
    lag: int = 0
    held: int = 0
    recompute: str = "no"
    keep: str = ""
    drop: str = ""

    @property
    def tile_bytes(self) -> int:
        return self.warps * 32 * 16 * self.vectors


Rules = Mapping[str, tuple[Rule, ...]]
FORWARD: Rules = {
    "cached": (
        Rule(1 * KIB, "cached", 2, 2, "100 % at 32768 × 512 bf16"),
        Rule(2 * KIB, "cached", 2, 4, "101 % at 32768 × 1024 bf16"),
        Rule(4 * KIB, "cached", 4, 2, "100 % at 32768 × 2048 bf16"),
        Rule(8 * KIB, "cached", 16, 2, "99 % at 32768 × 4096 bf16"),
        Rule(16 * KIB, "cached", 16, 2, "100 % at 32768 × 8192 bf16"),
        Rule(32 * KIB, "cached", 8, 8, "98 % at 32768 × 16384 bf16"),
        Rule(64 * KIB, "cached", 16, 8, "82 % at 16384 × 32768 bf16: one block per SM"),
        Rule(ANY, "cached", 32, 8, "not measured", recompute="opaque"),
    ),
    "online": (
        Rule(64 * KIB, "online", 16, 4, "99 % at 16384 × 32768 bf16", keep=LAST, drop=FIRST),
        Rule(128 * KIB, "online", 32, 4, "97 % at 8192 × 65536 bf16", keep=LAST, drop=FIRST),
        Rule(ANY, "online", 32, 8, "84 % at 4096 × 131072 bf16", keep=LAST, drop=FIRST),
    ),
    "held": (
        Rule(64 * KIB, "held", 16, 1, "82 % at 32768 × 50257 bf16", held=8, recompute="opaque"),
        Rule(ANY, "held", 32, 1, "76 % at 4096 × 131072", held=8, recompute="opaque", drop=FIRST),
    ),
    "peeled": (Rule(ANY, "peeled", 16, 4, "89 % at 32768 × 50257 bf16", keep=LAST, drop=FIRST),),
    "split": (
        Rule(
            ANY, "split", 16, 1, "68 % at 4 × 1048576 bf16, 73 % at 1 × 1048589 bf16",
            chunk_tiles=2, keep=LAST, drop=FIRST,
        ),
    ),
    "lagged": (
        Rule(
            ANY, "lagged", 16, 4, "73 % at 8 × 1048576 fp32, 74 % at 64 × 131072 bf16, 78 % at "
            "2048 × 262144 bf16", lag=400, keep=LAST, drop=FIRST,
        ),
    ),
    "cooperative": (
        Rule(ANY, "cooperative", 4, 1, "not measured", chunk_tiles=8, recompute="opaque"),
    ),
    "three-pass": (Rule(ANY, "three-pass", 16, 1, "baseline"),),
}  # fmt: skip
LOSSES: Rules = {
    **FORWARD,
    "online": (
        Rule(8 * KIB, "online", 2, 4, "91 % at 32768 × 4096 bf16"),
        Rule(32 * KIB, "online", 4, 4, "103 % at 32768 × 16384 bf16"),
        Rule(ANY, "online", 8, 2, "104 % at 32768 × 32768 bf16"),
    ),
    "peeled": (Rule(ANY, "peeled", 8, 2, "103 % at 32768 × 50257 bf16"),),
}
GRADIENTS: Rules = {
    "cached": (
        Rule(1 * KIB, "cached", 8, 1, "100 % at 32768 × 512 bf16"),
        Rule(2 * KIB, "cached", 4, 1, "99 % at 32768 × 1024 bf16"),
        Rule(4 * KIB, "cached", 4, 2, "101 % at 32768 × 2048 bf16"),
        Rule(8 * KIB, "cached", 16, 1, "102 % at 32768 × 4096 bf16"),
        Rule(16 * KIB, "cached", 8, 4, "101 % at 32768 × 8192 bf16"),
        Rule(ANY, "cached", 16, 4, "99 % at 32768 × 16384 bf16"),
    ),
    "online": (
        Rule(64 * KIB, "online", 32, 2, "102 % at 32768 × 16384 bf16", keep=LAST, drop=FIRST),
        Rule(ANY, "online", 32, 4, "97 % at 8192 × 65536 bf16", keep=LAST, drop=FIRST),
    ),
    "peeled": (Rule(ANY, "peeled", 32, 1, "90 % at 32768 × 50257 bf16", keep=LAST, drop=FIRST),),
    "split": (
        Rule(ANY, "split", 8, 2, "not measured", chunk_tiles=2, keep=LAST, drop=FIRST),
    ),
}  # fmt: skip
LOSS_GRADIENTS: Rules = {
    **GRADIENTS,
    "split": (
        Rule(1 * KIB, "split", 2, 1, "88 % at 32768 × 512 bf16"),
        Rule(
            ANY, "split", 4, 2, "98 % at 32768 × 4096 bf16, 92 % at 4096 × 128256 bf16",
            chunk_tiles=2,
        ),
    ),
}  # fmt: skip
CACHED_UP_TO = {"forward": 32 * KIB, "loss": 2 * KIB, "backward": 16 * KIB}
"""Row bytes up to which the cached variant is the fastest."""
PEELED_FROM = 8 * KIB
"""Row bytes from which rows without alignment are better peeled than held in registers."""
SPLIT_FROM = 32 * KIB
"""Row bytes from which few rows are shared by many blocks."""
LAGGED_FROM = 16_000_000
"""Bytes of input from which one launch with a lag is faster than two: 28 against 32 µs at
8 × 1048576 fp32 (34 MB), 17.4 against 17.9 at 64 × 131072 bf16 (17 MB), but 13.2 against 11.9 at
4 × 1048576 bf16 (8 MB)."""


COOPERATIVE_FROM = 128 * KIB
"""Row bytes beyond which blocks that keep a part of a row each read it once."""
MOST_PARTS = 1024
"""Of a row: so many words a block of the cooperative variant looks at."""
MOST_COOPERATIVE_BYTES = MOST_PARTS * 16 * KIB


def rule_for(problem: Problem, target: Target, variant: str | None) -> Rule:
    """The rule of the variant, or of the one that is the fastest for this problem."""
    rules = rules_of(problem)[variant or fastest(problem, target)]
    return next(rule for rule in rules if padded_bytes(problem) <= rule.row_bytes)


def rules_of(problem: Problem) -> Rules:
    if problem.operation == LOSS:
        return LOSSES
    if problem.operation == LOSS_GRADIENT:
        return LOSS_GRADIENTS
    return GRADIENTS if problem.operation in BACKWARD else FORWARD


def fastest(problem: Problem, target: Target) -> str:
    """The variant for a problem of this shape."""
    size = padded_bytes(problem)
    if problem.operation == LOSS_GRADIENT:  # no reduction: as many blocks as there can be
        return "split"
    if is_cooperative(problem):
        return "cooperative"
    if size >= SPLIT_FROM and problem.rows <= target.sm_count // 2:
        return few_rows(problem)
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
    read = problem.elements * ITEM_BYTES[problem.dtype]
    return "lagged" if writes(problem) and read >= LAGGED_FROM else "split"
