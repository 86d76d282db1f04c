"""Which variant with which blocks, by the bytes of a row: the launch table of RMSNorm. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcli.model import Problem, Target

from ._rmsnorm_blocks import ITEM_BYTES, Blocks, padded, power_of_two, vector
from ._rmsnorm_forward_plan import peels

KIB = 1024
FEW_ROWS_PER_SM = 2
"""Fewer rows than this per multiprocessor, and one program per row leaves some of them idle."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of up to ``row_bytes`` are computed with these blocks."""

    row_bytes: int
    blocks: Blocks
    source: str


FORWARD: tuple[Entry, ...] = (
    Entry(1 * KIB, Blocks("full-tile", threads=128, rows=8), "derived"),
    Entry(2 * KIB, Blocks("full-tile", threads=128, rows=4), "derived"),
    Entry(4 * KIB, Blocks("full-tile", threads=128), "derived"),
    Entry(16 * KIB, Blocks("full-tile", threads=256), "derived"),
    Entry(64 * KIB, Blocks("register-tiled", threads=512, tiles=4), "derived"),
)
LONG = Blocks("cooperative", threads=512, tiles=4)
"""Longer rows: programs of 512 threads that keep up to 64 KiB of the row each."""
LONG_PART_BYTES = 64 * KIB

PEELED: tuple[Entry, ...] = (
    Entry(16 * KIB, Blocks("peeled", threads=256, tiles=2), "derived"),
    Entry(64 * KIB, Blocks("peeled", threads=512, tiles=4), "derived"),
)
FUSED: tuple[Entry, ...] = (
    Entry(1 * KIB, Blocks("fused", threads=128, rows=4, per_sm=8), "derived"),
    Entry(4 * KIB, Blocks("fused", threads=128, per_sm=8), "derived"),
    Entry(8 * KIB, Blocks("fused", threads=256, per_sm=4), "derived"),
    Entry(16 * KIB, Blocks("fused", threads=512, per_sm=2), "derived"),
)


def row_bytes(problem: Problem) -> int:
    return problem.columns * ITEM_BYTES[problem.dtype]


def entry(table: tuple[Entry, ...], problem: Problem) -> Entry | None:
    """The first whose rows are long enough; None past the last."""
    return next((e for e in table if row_bytes(problem) <= e.row_bytes), None)


def parts_of(problem: Problem, target: Target, part_bytes: int) -> int:
    """Programs per row: what its length needs, and more where there are few rows."""
    parts = power_of_two(-(-row_bytes(problem) // part_bytes))
    wanted = FEW_ROWS_PER_SM * target.sm_count
    while problem.rows * parts < wanted and row_bytes(problem) // parts > 16 * KIB:
        parts *= 2
    return parts


def cooperative(problem: Problem, target: Target) -> Blocks:
    parts = parts_of(problem, target, LONG_PART_BYTES)
    per_part = row_bytes(problem) // parts
    threads = 512 if per_part > 16 * KIB else 256
    return replace(LONG, parts=parts, threads=threads)


def forward_choice(problem: Problem, target: Target) -> tuple[Blocks, str]:
    """The table's blocks for a problem, and the row that says so."""
    peel = peels(problem) and row_bytes(problem) >= 4 * KIB
    found = entry(PEELED if peel else FORWARD, problem)
    few = problem.rows < target.sm_count and row_bytes(problem) > 32 * KIB
    if found is None or few:
        return cooperative(problem, target), "rows over 64 KiB, or few rows: several blocks each"
    return _narrowed(
        problem, found.blocks
    ), f"rows up to {found.row_bytes // KIB} KiB: {found.source}"


def _narrowed(problem: Problem, blocks: Blocks) -> Blocks:
    """No more threads than vectors: a short row takes fewer warps than the table's."""
    most = max(32, blocks.rows * padded(problem) // vector(problem))
    return replace(blocks, threads=min(blocks.threads, most)) if most < blocks.threads else blocks


def forward_of(problem: Problem, target: Target, variant: str) -> Blocks:
    """The blocks of a variant that was asked for by name."""
    size = row_bytes(problem)
    threads = (
        128 if size <= 4 * KIB else 256 if size <= 16 * KIB else 512 if size <= 64 * KIB else 1024
    )
    if variant in ("full-tile", "tma"):
        found = entry(FORWARD, problem)
        if found and found.blocks.variant == "full-tile":
            blocks = replace(found.blocks, variant=variant)
        else:
            blocks = Blocks(variant, threads)
        if variant == "tma":
            blocks = replace(blocks, stages=2 if size > 32 * KIB else 3, per_sm=2)
        return _narrowed(problem, blocks)
    if variant in ("register-tiled", "peeled"):
        tiles = 1 if size <= 4 * KIB else 2 if size <= 8 * KIB else 4 if size <= 32 * KIB else 8
        return _narrowed(problem, Blocks(variant, threads, tiles=tiles))
    if variant == "cooperative":
        blocks = cooperative(problem, target)
        return replace(blocks, parts=max(2, blocks.parts))
    tile = min(power_of_two(max(problem.columns, 2 * vector(problem))), 8 * threads)
    if variant == "two-read":
        return Blocks(variant, min(threads, 512), tile=tile, read="")
    return Blocks("split", 256, tile=min(tile, 2048), parts=split_parts(problem, target), read="")


def split_parts(problem: Problem, target: Target) -> int:
    """Chunks of a split row: enough for eight blocks per multiprocessor, none under 4 KiB."""
    wanted = -(-8 * target.sm_count // max(problem.rows, 1))
    most = max(1, -(-row_bytes(problem) // (4 * KIB)))
    return max(min(2, most), min(wanted, most, 1024))


def fused_choice(problem: Problem) -> tuple[Blocks, str] | None:
    found = entry(FUSED, problem)
    if found is None:
        return None
    return _narrowed(
        problem, found.blocks
    ), f"rows up to {found.row_bytes // KIB} KiB: {found.source}"


def unfused_choice(problem: Problem) -> Blocks:
    """Whole rows while they fit, then a loop."""
    found = entry(FUSED, problem)
    if found:
        return _narrowed(problem, replace(found.blocks, variant="unfused", per_sm=0, stages=1))
    return Blocks("unfused", threads=512, tile=4096, read="")
