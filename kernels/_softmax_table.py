"""Which variant, tile and warps a problem gets: rows of a table, each with where it comes from.

Sizes are in bytes, so that one row serves all dtypes: what limits these kernels is bytes in flight
and registers, and both count bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcli.model import Problem, Target

from ._softmax_choice import BACKWARD, LOSS_GRADIENT, aligned, congruent, padded_bytes

KIB = 1024
ANY = 1 << 62


@dataclass(frozen=True, slots=True)
class Rule:
    """For rows of up to ``row_bytes``, padded to a power of two."""

    row_bytes: int
    variant: str
    warps: int
    """Of 32 threads."""
    vectors: int
    """16-byte loads of one thread and tile."""
    held: int = 0
    recompute: str = "no"
    keep: str = ""
    drop: str = ""
    source: str = "not measured"

    @property
    def tile_bytes(self) -> int:
        return self.warps * 32 * 16 * self.vectors


CACHED_FORWARD = (
    Rule(1 * KIB, "cached", 1, 4),
    Rule(2 * KIB, "cached", 1, 4),
    Rule(4 * KIB, "cached", 2, 4),
    Rule(8 * KIB, "cached", 4, 4),
    Rule(16 * KIB, "cached", 8, 4),
    Rule(32 * KIB, "cached", 8, 8),
    Rule(64 * KIB, "cached", 16, 8),
    Rule(ANY, "cached", 32, 8, recompute="opaque"),
)
CACHED_BACKWARD = (
    Rule(8 * KIB, "cached", 4, 4),
    Rule(16 * KIB, "cached", 8, 4),
    Rule(ANY, "cached", 16, 4),
)
LOOPED: Mapping[str, tuple[Rule, ...]] = {
    "three-pass": (Rule(ANY, "three-pass", 8, 2),),
    "online": (Rule(ANY, "online", 16, 4),),
    "held": (Rule(ANY, "held", 16, 1, held=8, recompute="opaque"),),
    "peeled": (Rule(8 * KIB, "peeled", 4, 1), Rule(ANY, "peeled", 16, 4)),
    "split": (Rule(4 * KIB, "split", 4, 1), Rule(ANY, "split", 8, 2)),
}
CACHED_UP_TO = {False: 64 * KIB, True: 32 * KIB}
"""Row bytes up to which the cached variant is the fastest; forward, backward."""
PEELED_FROM = 8 * KIB
"""Row bytes from which rows without alignment are better peeled than held in registers."""
SPLIT_FROM = 32 * KIB
"""Row bytes from which few rows are split."""


def rule_for(problem: Problem, target: Target, variant: str | None) -> Rule:
    """The rule of the variant, or of the one that is the fastest for this problem."""
    name = variant or fastest(problem, target)
    size = padded_bytes(problem)
    cached = CACHED_BACKWARD if problem.operation in BACKWARD else CACHED_FORWARD
    rules = cached if name == "cached" else LOOPED[name]
    return next(rule for rule in rules if size <= rule.row_bytes)


def fastest(problem: Problem, target: Target) -> str:
    """The variant for a problem of this shape."""
    size = padded_bytes(problem)
    if problem.operation == LOSS_GRADIENT:  # no reduction: always as many blocks as there can be
        return "split"
    if size >= SPLIT_FROM and problem.rows < 2 * target.sm_count:
        return "split"
    if size >= PEELED_FROM and congruent(problem) and not aligned(problem):
        return "peeled"
    return "cached" if size <= CACHED_UP_TO[problem.operation in BACKWARD] else "online"
