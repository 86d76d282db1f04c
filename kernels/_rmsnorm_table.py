"""The launch table of RMSNorm: which variant with which blocks, by the bytes of a row. Pure.

Measured on an H200 (torch 2.11.0, triton 3.6.0, 2026-11-22): percent of a copy of the same bytes,
L2 flushed before each launch, median of 15; bf16. What two sweeps of 1300 configurations showed:

* A row that stays in registers and is read once beats all else from 16 to 128 KiB; at 16 KiB
  rows read twice are as good (Inductor's are, too). TMA loses 6 % or more everywhere.
* Loads marked evict_last gain 2 to 4 % over unmarked ones: 97 → 102 % at 4096 columns; evict_first
  loses 2 % (rows of 8 KiB) to 7 % (100 KiB). Above 100 %: Inductor's
  kernel gets there, too (102.6 % at 8192 columns); why a copy is slower was not looked at.
* Half precision kept as such, not as fp32: 73 → 98 % at 16384 columns, 58 → 97 % at 32768.
* Rows of 50257 elements, 16-byte loads by peeling: 92.7 %; Inductor's narrow ones 35.5 %.
* Blocks that share a row: 86 % while they counted themselves in with a fence, 95 % since one word
  carries both the sum and that it is there; 128 threads beat 512 by 18 %.
* The fused backward needs its loads two rows ahead (three stages), and few programs per
  multiprocessor; unfused, which reads all twice, gets 55 to 60 %. Fused rows of 32 KiB would get
  73 %, but spill 22 words.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._rmsnorm_blocks import Blocks

KIB = 1024
LAST, FIRST = "evict_last", "evict_first"


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of up to ``row_bytes`` are computed with these blocks."""

    row_bytes: int
    blocks: Blocks
    source: str


FORWARD: tuple[Entry, ...] = (
    Entry(1 * KIB, Blocks("full-tile", threads=64, rows=4), "32768 × 512: 99.1 %"),
    Entry(2 * KIB, Blocks("full-tile", threads=64), "32768 × 1024: 99.3 %"),
    Entry(4 * KIB, Blocks("full-tile", threads=128, read=LAST), "32768 × 2048: 101.8 %"),
    Entry(8 * KIB, Blocks("full-tile", threads=256, rows=2, read=LAST), "32768 × 4096: 101.3 %"),
    Entry(16 * KIB, Blocks("two-read", threads=512, tile=4096, read=LAST), "32768 × 8192: 102.5 %"),
    Entry(32 * KIB, Blocks("register-tiled", threads=1024, read=LAST), "32768 × 16384: 101.7 %"),
    Entry(
        64 * KIB,
        Blocks("register-tiled", threads=512, tile=8192, read=LAST),
        "16384 × 32768: 100.8 %",
    ),
    Entry(
        128 * KIB,
        Blocks("register-tiled", threads=1024, tile=16384, read=LAST),
        "8192 × 65536: 100.5 %",
    ),
)
SM100_TILES = {16384: 32768}
"""Tiles of a register-tiled row by those measured on sm_90, where other ones spill on sm_100: four
words of 8192 × 65536 in tiles of 16384, none in tiles of 32768 (triton 3.7.1, not timed)."""
RESIDUAL: tuple[Entry, ...] = (
    Entry(4 * KIB, Blocks("full-tile", threads=256, read=LAST), "32768 × 2048: 100.8 %"),
    Entry(16 * KIB, Blocks("full-tile", threads=512, read=LAST), "32768 × 8192: 101.3 %"),
    *(each for each in FORWARD if 16 * KIB < each.row_bytes <= 64 * KIB),
)
"""A second input needs registers of its own: at 65536 columns 1024 threads spill 22 words."""
PEELED: tuple[Entry, ...] = (
    Entry(8 * KIB, Blocks("peeled", threads=256, read=LAST), "derived from aligned rows"),
    Entry(64 * KIB, Blocks("peeled", threads=512, read=LAST), "derived from aligned rows"),
    Entry(
        128 * KIB,
        Blocks("peeled", threads=1024, read=LAST, write=FIRST),
        "32768 × 50257: 92.7 %",
    ),
)
PEELED_FROM = 4 * KIB
"""Shorter rows go through full-tile: their few narrow loads cost less than shifted weights."""

LONG = Entry(
    16 * KIB,
    Blocks("cooperative", threads=128),
    "4096 × 131072: 95.0 %, 2048 × 262144: 94.1 %",
)
"""Longer rows: blocks that keep up to so much of a row each."""
FEW = Entry(32 * KIB, Blocks("cooperative", threads=256), "64 × 131072: 71.7 %")
"""Few rows."""
LEAST_PART_BYTES = 16 * KIB

FUSED: tuple[Entry, ...] = (
    Entry(2 * KIB, Blocks("fused", threads=64, rows=2, per_sm=4, stages=3), "32768 × 1024: 97.5 %"),
    Entry(4 * KIB, Blocks("fused", threads=64, per_sm=4, stages=3), "32768 × 2048: 93.4 %"),
    Entry(8 * KIB, Blocks("fused", threads=128, per_sm=2, stages=3), "32768 × 4096: 95.7 %"),
    Entry(16 * KIB, Blocks("fused", threads=256, per_sm=1, stages=3), "32768 × 8192: 95.8 %"),
)
