"""The launch table of RMSNorm: which variant with which blocks, by the bytes of a row. Pure.

Measured on an H200 (torch 2.11.0, triton 3.6.0, 2026-11-22): percent of a copy of the same bytes,
L2 flushed before each launch, median of 15. What the sweep has shown:

* A row that stays in registers and is read once beats all else to 128 KiB; above, blocks that share
  a row do. TMA loses 6 % or more to plain loads at every length.
* Loads marked evict_first lose 2 % (rows of 8 KiB) to 7 % (100 KiB) against unmarked ones.
* Half precision kept as such, not as fp32: 73 → 98 % at 16384 columns, 58 → 97 % at 32768.
* Rows of 50257 elements, 16-byte loads by peeling: 92 %; Inductor's narrow ones 36 %.
* The fused backward needs its loads a row or two ahead (three stages), and few programs per
  multiprocessor; unfused, which reads all twice, gets 55 to 58 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._rmsnorm_blocks import Blocks

KIB = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of up to ``row_bytes`` are computed with these blocks."""

    row_bytes: int
    blocks: Blocks
    source: str


FORWARD: tuple[Entry, ...] = (
    Entry(1 * KIB, Blocks("full-tile", threads=128, rows=4), "32768 × 512 bf16: 98.9 %"),
    Entry(2 * KIB, Blocks("full-tile", threads=64), "32768 × 1024 bf16: 99.1 %"),
    Entry(4 * KIB, Blocks("full-tile", threads=128), "32768 × 2048 bf16: 99.1 %"),
    Entry(8 * KIB, Blocks("full-tile", threads=128), "32768 × 4096 bf16: 97.1 %"),
    Entry(16 * KIB, Blocks("full-tile", threads=256), "32768 × 8192 bf16: 98.3 %"),
    Entry(32 * KIB, Blocks("register-tiled", threads=512), "32768 × 16384 bf16: 98.4 %"),
    Entry(64 * KIB, Blocks("register-tiled", threads=512), "16384 × 32768 bf16: 97.4 %"),
    Entry(128 * KIB, Blocks("register-tiled", threads=1024), "8192 × 65536 bf16: 96.1 %"),
)
PEELED: tuple[Entry, ...] = (
    Entry(8 * KIB, Blocks("peeled", threads=256), "derived from aligned rows"),
    Entry(64 * KIB, Blocks("peeled", threads=512), "derived from aligned rows"),
    Entry(
        128 * KIB,
        Blocks("peeled", threads=1024, write="evict_first"),
        "32768 × 50257 bf16: 92.2 %",
    ),
)
PEELED_FROM = 4 * KIB
"""Shorter rows go through full-tile: their few narrow loads cost less than shifted weights."""

PART = Entry(32 * KIB, Blocks("cooperative", threads=256), "4096 × 131072 bf16: 85.9 %")
"""Longer rows, or few of them: blocks that keep up to so much of a row each."""
LEAST_PART_BYTES = 16 * KIB

FUSED: tuple[Entry, ...] = (
    Entry(
        2 * KIB,
        Blocks("fused", threads=128, rows=2, per_sm=4, stages=3),
        "32768 × 1024 bf16: 94.8 %",
    ),
    Entry(4 * KIB, Blocks("fused", threads=64, per_sm=4, stages=3), "32768 × 2048 bf16: 91.8 %"),
    Entry(8 * KIB, Blocks("fused", threads=128, per_sm=2, stages=3), "32768 × 4096 bf16: 95.3 %"),
    Entry(16 * KIB, Blocks("fused", threads=256, per_sm=1, stages=3), "32768 × 8192 bf16: 95.7 %"),
)
