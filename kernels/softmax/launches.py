"""Makes launches of a choice, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from perfcli.model import KernelLaunch, Problem, Scalar

from .._elements import matrix_bytes
from . import cluster_plan
from .choice import (
    BACKWARD,
    LOSS,
    LOSS_GRADIENT,
    PARTS_PER_BLOCK,
    Choice,
    _chunks_of,
    _tile_constants,
    _walk_constants,
    kept_constants,
    launch,
    parts,
    pointer,
    pointers,
)


def _forward_arguments(problem: Problem, rows: bool) -> dict[str, str]:
    sizes: tuple[str, ...] = ("rows", "columns", "x_stride") if rows else ("columns", "x_stride")
    sizes += ("ignored",) if problem.operation == LOSS else ("y_stride",)
    return {**pointers(problem), **dict.fromkeys(sizes, "i32")}


def _forward_constants(problem: Problem) -> dict[str, Scalar]:
    return {} if problem.operation == LOSS else {"LOG": problem.operation == "log-softmax"}


def cached(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    tiles = -(-problem.rows // choice.rows)
    constants = {**_forward_constants(problem), **_tile_constants(problem, choice)}
    arguments = _forward_arguments(problem, rows=True)
    if problem.operation == LOSS:
        return (launch(problem, choice, "cached_loss", (tiles, 1, 1), arguments, constants),)
    constants |= {
        "RECOMPUTE": choice.recompute,
        "PERSISTENT": choice.programs > 0,
        "STAGES": choice.stages,
    }
    programs = min(choice.programs, tiles) or tiles
    return (launch(problem, choice, "cached_forward", (programs, 1, 1), arguments, constants),)


def online(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    constants: dict[str, Scalar] = {
        **_forward_constants(problem),
        **_walk_constants(problem, choice),
        "DROP": choice.drop,
    }
    name = "online_loss"
    if problem.operation != LOSS:
        name = "online_forward"
        constants |= {"BACKWARDS": choice.backwards, "KEEP": choice.keep}
    arguments = _forward_arguments(problem, rows=False)
    return (launch(problem, choice, name, (problem.rows, 1, 1), arguments, constants),)


def _three_pass(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    name = "three_pass_loss" if problem.operation == LOSS else "three_pass_forward"
    constants: dict[str, Scalar] = {**_forward_constants(problem), "TILE": choice.tile}
    arguments = _forward_arguments(problem, rows=False)
    return (launch(problem, choice, name, (problem.rows, 1, 1), arguments, constants),)


def split(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    if problem.operation == LOSS:
        return _split_loss(problem, choice)
    chunks = _chunks_of(problem, choice)
    grid = (problem.rows, chunks, 1)
    walk = {**_walk_constants(problem, choice), "CHUNK": choice.chunk}
    partial = {"peaks_ptr": "*fp32", "totals_ptr": "*fp32"}
    element = {"x_ptr": pointer(problem)}
    first = launch(
        problem,
        choice,
        "split_statistics",
        grid,
        {**element, **partial, "columns": "i32", "x_stride": "i32"},
        {**walk, "KEEP": choice.keep},
    )
    combined = chunks > PARTS_PER_BLOCK
    sizes = {"columns": "i32", "chunks": "i32", "x_stride": "i32", "y_stride": "i32"}
    arguments = {**element, "y_ptr": pointer(problem), **partial, **sizes}
    constants = {**_forward_constants(problem), **walk, "DROP": choice.drop, "COMBINED": combined}
    constants["PARTS"] = parts(chunks)
    last = launch(problem, choice, "split_write", grid, arguments, constants)
    return (first, *_combine(problem, choice, combined), last)


def _combine(problem: Problem, choice: Choice, wanted: bool) -> tuple[KernelLaunch, ...]:
    """Return the kernel between the two, where there are many chunks."""
    arguments = {"peaks_ptr": "*fp32", "totals_ptr": "*fp32", "chunks": "i32"}
    constants: dict[str, Scalar] = {"PARTS": parts(_chunks_of(problem, choice))}
    grid = (problem.rows, 1, 1)
    step = launch(problem, choice, "split_combine", grid, arguments, constants)
    return (step,) if wanted else ()


PARTS_PER_WARP = 128
PATIENCE = 4096
"""Looks of a block at what others owe it, some milliseconds, before it takes over their work."""


def _sizes_of_kept(problem: Problem) -> dict[str, str]:
    """Return the sizes of the kernels that read every row once."""
    if problem.operation in BACKWARD:
        return {"columns": "i32", **STRIDES}
    return dict.fromkeys(("columns", "x_stride", "y_stride"), "i32")


def _logarithm(problem: Problem) -> dict[str, Scalar]:
    return {"LOG": problem.operation.startswith("log-softmax")}


def tiled(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    if problem.operation == LOSS_GRADIENT:
        return _tiled_loss_backward(problem, choice)
    constants: dict[str, Scalar] = {**kept_constants(problem, choice), **_tiles(choice)}
    blocks = -(-problem.rows // choice.rows)
    if problem.operation == LOSS:
        del constants["DROP"]
        arguments = _forward_arguments(problem, rows=True)
        return (launch(problem, choice, "tiled_loss", (blocks, 1, 1), arguments, constants),)
    arguments = {**pointers(problem), "rows": "i32", **_sizes_of_kept(problem)}
    constants |= _logarithm(problem)
    if problem.operation in BACKWARD:
        return (launch(problem, choice, "tiled_backward", (blocks, 1, 1), arguments, constants),)
    return (launch(problem, choice, "tiled_forward", (blocks, 1, 1), arguments, constants),)


def _tiles(choice: Choice) -> dict[str, Scalar]:
    return {"TILES": choice.tiles, "ROWS": choice.rows}


SKIPPED_FROM = 8 << 20
"""Bytes of the logits beyond which ignored rows are not read. Other rows then wait for their
targets before they are read, which of a small problem's 4 µs is 0.2."""


def _tiled_loss_backward(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    chunks = _chunks_of(problem, choice)
    constants = {**kept_constants(problem, choice), **_tiles(choice), "CHUNKS": chunks}
    constants["SKIP"] = matrix_bytes(problem) > SKIPPED_FROM
    arguments = _loss_gradient_arguments(problem, rows=True)
    grid = grid_of_gradient(problem, choice)
    return (launch(problem, choice, "tiled_loss_backward", grid, arguments, constants),)


def grid_of_gradient(problem: Problem, choice: Choice) -> tuple[int, int, int]:
    """Return the blocks of a gradient of cross-entropy, which has parts of rows, or several rows,
    in a block."""
    return (-(-problem.rows // choice.rows) * _chunks_of(problem, choice), 1, 1)


def _split_loss(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    """Plan blocks that read a part of a row each, and a kernel that adds up what they found."""
    chunks = _chunks_of(problem, choice)
    partial = {"peaks_ptr": "*fp32", "totals_ptr": "*fp32"}
    element = {"x_ptr": pointer(problem)}
    constants = {
        **kept_constants(problem, choice), "CHUNK": choice.chunk, "OVERLAP": choice.overlap
    }  # fmt: skip
    del constants["DROP"]
    sizes = dict.fromkeys(("items", "chunks", "columns", "x_stride"), "i32")
    grid = (problem.rows * chunks, 1, 1)
    first = launch(
        problem, choice, "parts_statistics", grid, {**element, **partial, **sizes}, constants
    )
    outputs = {"loss_ptr": "*fp32", "lse_ptr": "*fp32"}
    arguments = {**element, "target_ptr": "*i64", **partial, **outputs}
    arguments |= dict.fromkeys(("columns", "chunks", "x_stride", "ignored"), "i32")
    last = launch(
        problem,
        replace(choice, warps=max(1, min(parts(chunks) // PARTS_PER_WARP, 32))),
        "split_loss",
        (problem.rows, 1, 1),
        arguments,
        {"PARTS": parts(chunks), "OVERLAP": choice.overlap},
        overlaps=choice.overlap,
    )
    return first, last


WORDS_PER_BLOCK = 2048
MISSING = 0
"""The word of a part that has not been told: all others have a peak whose bits are not 0."""


def in_parts(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    """Plan blocks that keep a part of a row each: one part per block, or a grid of ``programs``
    that go from part to part. A kernel before it clears the words in which they tell one another
    what they found."""
    chunks = _chunks_of(problem, choice)
    items = problem.rows * chunks
    clear = launch(
        problem,
        replace(choice, warps=4, maxnreg=None),
        "fill_words",
        (-(-items // WORDS_PER_BLOCK), 1, 1),
        {"words": "*i64", "word_count": "i32"},
        {
            "WORD": MISSING,
            "BLOCK": WORDS_PER_BLOCK,
            "AWAITS": False,
            "OVERLAP": choice.overlap,
        },
    )
    words = {"words": "*i64", "items": "i32", "chunks": "i32"}
    arguments = {**pointers(problem), **words, **_sizes_of_kept(problem)}
    constants = {
        **kept_constants(problem, choice),
        **_logarithm(problem),
        "STREAMED": choice.programs > 0,
        "PARTS": parts(chunks),
        "CHUNK": choice.chunk,
        "PATIENCE": PATIENCE,
        "OVERLAP": choice.overlap,
    }
    name = "parts_backward" if problem.operation in BACKWARD else "parts_forward"
    grid = (min(items, choice.programs or items), 1, 1)
    work = launch(problem, choice, name, grid, arguments, constants, overlaps=choice.overlap)
    return clear, work


FORWARD_LAUNCHES: Mapping[str, Callable[[Problem, Choice], tuple[KernelLaunch, ...]]] = {
    "cached": cached,
    "cluster": cluster_plan.launches,
    "cooperative": in_parts,
    "online": online,
    "peeled": online,
    "split": split,
    "streamed": in_parts,
    "three-pass": _three_pass,
    "tiled": tiled,
}


STRIDES = {"saved_stride": "i32", "dy_stride": "i32", "dx_stride": "i32"}


def _backward_constants(problem: Problem) -> dict[str, Scalar]:
    return {"LOG": problem.operation == "log-softmax-backward"}


def cached_backward(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    arguments = {**pointers(problem), "rows": "i32", "columns": "i32", **STRIDES}
    constants = {**_backward_constants(problem), **_tile_constants(problem, choice)}
    grid = (-(-problem.rows // choice.rows), 1, 1)
    return (launch(problem, choice, "cached_backward", grid, arguments, constants),)


def online_backward(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    if problem.operation == LOSS_GRADIENT:
        return _loss_gradient(problem, choice)
    arguments = {**pointers(problem), "columns": "i32", **STRIDES}
    constants = {
        **_backward_constants(problem),
        **_walk_constants(problem, choice),
        "BACKWARDS": choice.backwards,
        "KEEP": choice.keep,
        "DROP": choice.drop,
    }
    grid = (problem.rows, 1, 1)
    return (launch(problem, choice, "online_backward", grid, arguments, constants),)


def _loss_gradient_arguments(problem: Problem, rows: bool) -> dict[str, str]:
    element = pointer(problem)
    saved = {"x_ptr": element, "target_ptr": "*i64", "lse_ptr": "*fp32", "dloss_ptr": "*fp32"}
    sizes: tuple[str, ...] = ("rows",) if rows else ()
    sizes += ("columns", "saved_stride", "dx_stride", "ignored")
    return {**saved, "dx_ptr": element, **dict.fromkeys(sizes, "i32")}


def _loss_gradient(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    """Plan the gradient of cross-entropy, which is no reduction: rows are cut into chunks, or
    (online, peeled) taken whole."""
    arguments = _loss_gradient_arguments(problem, rows=False)
    chunk = choice.chunk or 1 << (problem.columns - 1).bit_length()
    constants = {**_walk_constants(problem, choice), "CHUNK": chunk, "DROP": choice.drop}
    grid = (problem.rows, _chunks_of(problem, choice), 1)
    return (launch(problem, choice, "cross_entropy_gradient", grid, arguments, constants),)


def _split_backward(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    if problem.operation == LOSS_GRADIENT:
        return _loss_gradient(problem, choice)
    chunks = _chunks_of(problem, choice)
    combined = chunks > PARTS_PER_BLOCK
    grid = (problem.rows, chunks, 1)
    walk = {
        **_backward_constants(problem),
        **_walk_constants(problem, choice),
        "CHUNK": choice.chunk,
    }
    sums = {"sums_ptr": "*fp32"}
    y, dy, dx = pointers(problem).items()
    reads = {"columns": "i32", "saved_stride": "i32", "dy_stride": "i32"}
    first = launch(
        problem,
        choice,
        "split_sums",
        grid,
        dict([y, dy]) | sums | reads,
        {**walk, "KEEP": choice.keep},
    )
    total = launch(
        problem,
        choice,
        "split_total",
        (problem.rows, 1, 1),
        {**sums, "chunks": "i32"},
        {"PARTS": parts(chunks)},
    )
    last = launch(
        problem,
        choice,
        "split_gradient",
        grid,
        dict([y, dy, dx]) | sums | {"columns": "i32", "chunks": "i32", **STRIDES},
        {**walk, "DROP": choice.drop, "PARTS": parts(chunks), "COMBINED": combined},
    )
    return (first, total, last) if combined else (first, last)


BACKWARD_LAUNCHES: Mapping[str, Callable[[Problem, Choice], tuple[KernelLaunch, ...]]] = {
    "cached": cached_backward,
    "online": online_backward,
    "peeled": online_backward,
    "split": _split_backward,
    "cooperative": in_parts,
    "streamed": in_parts,
    "cluster": cluster_plan.launches,
    "tiled": tiled,
}
