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

from perfcli.model import Problem

from ._softmax_choice import BACKWARD, LOSS, LOSS_GRADIENT

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
    item_bytes: int = 0
    """Of the elements it is for; 0: of any."""
    blocks_per_sm: int = 0
    """Of a persistent grid, and what the registers of a multiprocessor are divided by."""
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
        Rule(1 * KIB, "cached", 2, 2, "101 % at 32768 × 512 bf16"),
        Rule(2 * KIB, "cached", 2, 4, "100 % at 32768 × 1024 bf16"),
        Rule(4 * KIB, "cached", 4, 2, "100 % at 32768 × 2048 bf16"),
        Rule(8 * KIB, "cached", 16, 2, "100 % at 32768 × 4096 bf16"),
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
            ANY, "split", 16, 1, "64.5 % at 4 × 1048576 bf16, 77.5 % at 1 × 1048589 bf16",
            chunk_tiles=2, keep=LAST, drop=FIRST,
        ),
    ),
    "cooperative": (
        Rule(
            ANY, "cooperative", 4, 1, "72.8 % at 8 × 1048576 fp32", item_bytes=4,
            chunk_tiles=8, drop=FIRST,
        ),
        Rule(
            ANY, "cooperative", 4, 1, "71.8 % at 64 × 131072 bf16", chunk_tiles=16,
            recompute="opaque",
        ),
    ),
    "streamed": (
        Rule(
            ANY, "streamed", 4, 1, "95 % at 4096 × 131072 bf16, 94 % at 2048 × 262144 bf16",
            chunk_tiles=16, blocks_per_sm=3, keep=LAST, drop=FIRST,
        ),
    ),
    "three-pass": (Rule(ANY, "three-pass", 16, 1, "baseline"),),
}  # fmt: skip
LOSSES: Rules = {
    **FORWARD,
    "online": (
        Rule(8 * KIB, "online", 2, 4, "92 % at 32768 × 4096 bf16"),
        Rule(32 * KIB, "online", 4, 4, "103 % at 32768 × 16384 bf16"),
        Rule(ANY, "online", 8, 2, "104 % at 32768 × 32768 bf16"),
    ),
    "peeled": (Rule(ANY, "peeled", 8, 2, "103 % at 32768 × 50257 bf16"),),
}
GRADIENTS: Rules = {
    "cached": (
        Rule(1 * KIB, "cached", 8, 1, "100 % at 32768 × 512 bf16"),
        Rule(2 * KIB, "cached", 4, 1, "99 % at 32768 × 1024 bf16"),
        Rule(4 * KIB, "cached", 4, 2, "103 % at 32768 × 2048 bf16"),
        Rule(8 * KIB, "cached", 16, 1, "102 % at 32768 × 4096 bf16"),
        Rule(16 * KIB, "cached", 8, 4, "102 % at 32768 × 8192 bf16"),
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
            ANY, "split", 4, 2, "98 % at 32768 × 4096 bf16, 92 % at 8192 × 128256 bf16",
            chunk_tiles=2,
        ),
    ),
}  # fmt: skip


def rules_of(problem: Problem) -> Rules:
    if problem.operation == LOSS:
        return LOSSES
    if problem.operation == LOSS_GRADIENT:
        return LOSS_GRADIENTS
    return GRADIENTS if problem.operation in BACKWARD else FORWARD
