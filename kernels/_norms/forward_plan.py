"""Plans launches of the forward variants: what is chosen becomes names, grids and numbers. Pure."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from .._elements import ITEM_BYTES, TRITON_TYPE, next_power_of_2, row_bytes, vector
from . import cluster_plan
from .blocks import (
    POLLS,
    Blocks,
    _chunk_columns,
    _peels,
    _round_up,
    _tile_columns,
    _weight_width,
    family,
    grid,
    has_mean,
    has_residual,
    mark_missing,
    names,
    overlapping,
    padded_columns,
    pointers,
    step,
    words_apart,
)
from .cuts import spacing_of

LINE_ELEMENTS = 64
"""The longest line of the TMA view: 128 bytes of half precision, one swizzled line."""


def _line_width(problem: Problem) -> int:
    """Return the width of the lines of the TMA view of a row: a power of two that divides the
    row."""
    return gcd(problem.columns, LINE_ELEMENTS)


def tma(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    wide, width = vector(problem), _line_width(problem)
    if target.vendor != "nvidia" or target.capability < (9, 0):
        raise PerfcliError(
            f"rmsnorm: tma needs an NVIDIA GPU of capability 9.0 or more, {target.name} is "
            f"{target.arch}: use full-tile"
        )
    if problem.stride % wide or width < wide:
        raise PerfcliError(
            f"rmsnorm: tma needs row strides and lengths that are multiples of 16 bytes, these "
            f"are {problem.stride * ITEM_BYTES[problem.dtype]} and "
            f"{row_bytes(problem)}: pad the rows, or use peeled"
        )
    tensors, absent = pointers(problem, can_mean=False)
    made = step(
        problem, target, blocks, "tma_rows", grid(problem, target, blocks),
        f"{tensors} rows eps", absent,
        COLUMNS=problem.columns, BLOCK=padded_columns(problem), WIDTH=width, ROWS=blocks.rows,
        STAGES=blocks.stages, RESIDUAL=has_residual(problem), WRITE=blocks.write,
    )  # fmt: skip
    box = f"[{blocks.rows}, {padded_columns(problem) // width}, {width}]"
    descriptor = f"tensordesc<{TRITON_TYPE[problem.dtype]}{box}>"
    described = {n: descriptor for n in ("x", "residual") if n in made.arguments}
    aligned = tuple(n for n in made.divisible_by_16 if n not in described)
    return [
        KernelLaunch(
            made.function, made.grid, {**made.arguments, **described}, made.constants,
            made.num_warps, divisible_by_16=aligned,
        )
    ]  # fmt: skip


def full_tile(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    tensors, absent = pointers(problem)
    return [
        step(
            problem, target, blocks, "full_tile", grid(problem, target, blocks),
            f"{tensors} rows eps", absent,
            COLUMNS=problem.columns, STRIDE=problem.stride, BLOCK=padded_columns(problem),
            ROWS=blocks.rows, RESIDUAL=has_residual(problem), MEAN=has_mean(problem),
            READ=blocks.read, WRITE=blocks.write,
        )
    ]  # fmt: skip


def tiled(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    """Return the launches of the register-tiled, peeled and cooperative variants, which are one
    kernel."""
    peel = _peels(problem) and blocks.variant != "register-tiled" and not blocks.narrow
    wide = vector(problem)
    chunk = _chunk_columns(problem, blocks.parts)
    tile = _tile_columns(problem, blocks)
    if tile * blocks.tiles < chunk:
        raise PerfcliError(
            f"{family(problem)}: {blocks.tiles} tiles of {tile} columns hold less than {chunk}: "
            "take more"
        )
    tensors, absent = pointers(problem)
    shared = blocks.parts > 1
    spacing = spacing_of(problem, wide if peel else 1)
    items = _items(problem, blocks.rows, spacing)
    given, missing = names({"words": shared, "rows": blocks.rows > 1, "tiles": shared})
    made = step(
        problem, target, blocks, "tiled", (items * blocks.parts, 1, 1),
        f"{tensors} {given} eps", f"{absent} {missing}",
        COLUMNS=problem.columns, STRIDE=problem.stride, WIDTH=_weight_width(problem),
        CHUNK=chunk, PARTS=blocks.parts, PADDED=next_power_of_2(blocks.parts),
        APART=words_apart(blocks.parts), TILE=tile, TILES=blocks.tiles,
        ROWS=blocks.rows, SPACING=spacing, VECTOR=wide, PEEL=peel,
        RESIDUAL=has_residual(problem), MEAN=has_mean(problem),
        OPAQUE=target.vendor == "nvidia" and ITEM_BYTES[problem.dtype] == 2,
        EARLY=blocks.early, POLLS=POLLS, OVERLAP=target.overlaps_launches, READ=blocks.read,
        WRITE=blocks.write,
    )  # fmt: skip
    if target.vendor == "nvidia" and blocks.most_registers:
        made = replace(made, maxnreg=blocks.most_registers)
    marked = [mark_missing(problem, target, words_apart(blocks.parts))] if shared else []
    return [*_shift(problem, target, peel), *marked, made]


def _items(problem: Problem, rows: int, spacing: int) -> int:
    """Return how many programs take rows that are ``spacing`` apart, ``rows`` of them each."""
    whole, rest = divmod(problem.rows, rows * spacing)
    return whole * spacing + min(rest, spacing)


def _shift(problem: Problem, target: Target, peel: bool) -> list[KernelLaunch]:
    if not peel or problem.rows == 1:  # the first row is aligned
        return []
    width, mean, bias = _weight_width(problem), has_mean(problem), "unshifted_bias bias"
    made = step(
        problem, target, Blocks("", 128), "shift_weights",
        (-(-width // 2048), vector(problem), 1),
        f"unshifted weight {bias if mean else ''}", "" if mean else bias,
        COLUMNS=problem.columns, WIDTH=width, BLOCK=2048, MEAN=mean,
        OVERLAP=target.overlaps_launches,
    )  # fmt: skip
    return [made]


def _two_read(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    peel = _peels(problem)
    tensors, absent = pointers(problem, can_mean=False)
    made = step(
        problem, target, blocks, "two_reads", (problem.rows, 1, 1), f"{tensors} eps", absent,
        COLUMNS=problem.columns, STRIDE=problem.stride, WIDTH=_weight_width(problem),
        BLOCK=blocks.tile, VECTOR=vector(problem), PEEL=peel, RESIDUAL=has_residual(problem),
        READ=blocks.read, AGAIN=blocks.again, WRITE=blocks.write,
    )  # fmt: skip
    return [*_shift(problem, target, peel), made]


def split(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    peel, residual = _peels(problem), has_residual(problem)
    parts = blocks.parts
    chunk = _round_up(-(-problem.columns // parts), blocks.tile)
    tensors = "x residual total partial" if residual else "x partial"
    add = step(
        problem, target, blocks, "split_sum", (problem.rows * parts, 1, 1), tensors,
        "" if residual else "residual total",
        COLUMNS=problem.columns, STRIDE=problem.stride, CHUNK=chunk, PARTS=parts,
        BLOCK=blocks.tile, VECTOR=vector(problem), PEEL=peel, RESIDUAL=residual,
        READ=blocks.read,
    )  # fmt: skip
    apply = step(
        problem, target, blocks, "split_apply", (problem.rows * parts, 1, 1),
        "source weight y partial eps",
        COLUMNS=problem.columns, STRIDE=problem.columns if residual else problem.stride,
        WIDTH=_weight_width(problem), CHUNK=chunk, PARTS=parts, PARTS_PADDED=next_power_of_2(parts),
        BLOCK=blocks.tile, VECTOR=vector(problem), PEEL=peel, WRITE=blocks.write,
    )  # fmt: skip
    return [*_shift(problem, target, peel), add, apply]


BUILDERS = {
    "full-tile": full_tile,
    "tma": tma,
    "register-tiled": tiled,
    "peeled": tiled,
    "cooperative": tiled,
    "cluster": cluster_plan.launches,
    "two-read": _two_read,
    "split": split,
}
MEAN_BUILDERS = ("full-tile", "register-tiled", "peeled", "cooperative", "cluster")
"""Variants that layer norm has: a mean needs a row in registers."""


def forward(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Return the launches of a choice, and the bytes of workspace that they share."""
    steps = BUILDERS[blocks.variant](problem, target, blocks)
    used = {name for step in steps for name in step.arguments}
    workspace = 4 * problem.rows * blocks.parts if "partial" in used else 0
    if "words" in used:
        words = 1 if blocks.variant == "cluster" else problem.rows * words_apart(blocks.parts)
        workspace = 8 * words
    if "unshifted" in used:
        copies = vector(problem) * (2 if has_mean(problem) else 1)
        workspace += copies * _weight_width(problem) * ITEM_BYTES[problem.dtype]
    return LaunchPlan(blocks.variant, overlapping(steps), why, workspace)
