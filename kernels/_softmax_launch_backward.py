"""The launches of the three gradients, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfcli.model import KernelLaunch, Problem, Scalar

from ._softmax_choice import (
    LOSS_GRADIENT,
    PARTS_PER_BLOCK,
    Choice,
    chunks_of,
    launch,
    parts,
    pointer,
    tile_constants,
    walk_constants,
)

STRIDES = {"saved_stride": "i32", "dy_stride": "i32", "dx_stride": "i32"}


def pointers(problem: Problem) -> dict[str, str]:
    return dict.fromkeys(("y_ptr", "dy_ptr", "dx_ptr"), pointer(problem))


def log_constant(problem: Problem) -> dict[str, Scalar]:
    return {"LOG": problem.operation == "log-softmax-backward"}


def cached(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    arguments = {**pointers(problem), "rows": "i32", "columns": "i32", **STRIDES}
    constants = {**log_constant(problem), **tile_constants(problem, choice)}
    grid = (-(-problem.rows // choice.rows), 1, 1)
    return (launch(problem, choice, "cached_backward", grid, arguments, constants),)


def online(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    if problem.operation == LOSS_GRADIENT:
        return loss_gradient(problem, choice)
    arguments = {**pointers(problem), "columns": "i32", **STRIDES}
    constants = {
        **log_constant(problem),
        **walk_constants(problem, choice),
        "BACKWARDS": choice.backwards,
        "KEEP": choice.keep,
        "DROP": choice.drop,
    }
    grid = (problem.rows, 1, 1)
    return (launch(problem, choice, "online_backward", grid, arguments, constants),)


def loss_gradient(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    """Not a reduction: rows are cut into chunks, or (online, peeled) taken whole."""
    arguments = {
        "x_ptr": pointer(problem),
        "target_ptr": "*i64",
        "lse_ptr": "*fp32",
        "dloss_ptr": "*fp32",
        "dx_ptr": pointer(problem),
        **dict.fromkeys(("columns", "saved_stride", "dx_stride", "ignored"), "i32"),
    }
    chunk = choice.chunk or 1 << (problem.columns - 1).bit_length()
    constants = {**walk_constants(problem, choice), "CHUNK": chunk, "DROP": choice.drop}
    grid = (problem.rows, chunks_of(problem, choice), 1)
    return (launch(problem, choice, "cross_entropy_gradient", grid, arguments, constants),)


def split(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    if problem.operation == LOSS_GRADIENT:
        return loss_gradient(problem, choice)
    chunks = chunks_of(problem, choice)
    combined = chunks > PARTS_PER_BLOCK
    grid = (problem.rows, chunks, 1)
    walk = {**log_constant(problem), **walk_constants(problem, choice), "CHUNK": choice.chunk}
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
    "cached": cached,
    "online": online,
    "peeled": online,
    "split": split,
}
