"""The launches of softmax, log-softmax and cross-entropy, forward, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfcli.model import KernelLaunch, Problem, Scalar

from ._softmax_choice import (
    LOSS,
    PARTS_PER_BLOCK,
    Choice,
    chunks_of,
    launch,
    parts,
    pointer,
    tile_constants,
    walk_constants,
)


def forward_arguments(problem: Problem, rows: bool) -> dict[str, str]:
    element = pointer(problem)
    sizes = {"rows": "i32", "columns": "i32"} if rows else {"columns": "i32"}
    if problem.operation == LOSS:
        outputs = {"target_ptr": "*i64", "loss_ptr": "*fp32", "lse_ptr": "*fp32"}
        return {"x_ptr": element, **outputs, **sizes, "x_stride": "i32", "ignored": "i32"}
    return {"x_ptr": element, "y_ptr": element, **sizes, "x_stride": "i32", "y_stride": "i32"}


def log_constant(problem: Problem) -> dict[str, Scalar]:
    return {} if problem.operation == LOSS else {"LOG": problem.operation == "log-softmax"}


def cached(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    tiles = -(-problem.rows // choice.rows)
    constants = {**log_constant(problem), **tile_constants(problem, choice)}
    arguments = forward_arguments(problem, rows=True)
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
        **log_constant(problem),
        **walk_constants(problem, choice),
        "DROP": choice.drop,
    }
    name = "online_loss"
    if problem.operation != LOSS:
        name = "online_forward"
        constants |= {"BACKWARDS": choice.backwards, "KEEP": choice.keep}
    if choice.held:
        name = "held_forward"
        constants |= {"HELD": choice.held, "OPAQUE": choice.recompute == "opaque"}
    arguments = forward_arguments(problem, rows=False)
    return (launch(problem, choice, name, (problem.rows, 1, 1), arguments, constants),)


def three_pass(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    name = "three_pass_loss" if problem.operation == LOSS else "three_pass_forward"
    constants: dict[str, Scalar] = {**log_constant(problem), "TILE": choice.tile}
    arguments = forward_arguments(problem, rows=False)
    return (launch(problem, choice, name, (problem.rows, 1, 1), arguments, constants),)


def split(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    chunks = chunks_of(problem, choice)
    grid = (problem.rows, chunks, 1)
    walk = {**walk_constants(problem, choice), "CHUNK": choice.chunk}
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
    if problem.operation == LOSS:
        outputs = {"loss_ptr": "*fp32", "lse_ptr": "*fp32"}
        arguments = {**element, "target_ptr": "*i64", **partial, **outputs}
        arguments |= {"columns": "i32", "chunks": "i32", "x_stride": "i32", "ignored": "i32"}
        last = launch(
            problem, choice, "split_loss", (problem.rows, 1, 1), arguments, {"PARTS": parts(chunks)}
        )
        return first, last
    combined = chunks > PARTS_PER_BLOCK
    sizes = {"columns": "i32", "chunks": "i32", "x_stride": "i32", "y_stride": "i32"}
    arguments = {**element, "y_ptr": pointer(problem), **partial, **sizes}
    constants = {**log_constant(problem), **walk, "DROP": choice.drop, "COMBINED": combined}
    constants["PARTS"] = parts(chunks)
    last = launch(problem, choice, "split_write", grid, arguments, constants)
    return (first, *combine(problem, choice, combined), last)


def combine(problem: Problem, choice: Choice, wanted: bool) -> tuple[KernelLaunch, ...]:
    """The kernel between the two, where there are many chunks."""
    arguments = {"peaks_ptr": "*fp32", "totals_ptr": "*fp32", "chunks": "i32"}
    constants: dict[str, Scalar] = {"PARTS": parts(chunks_of(problem, choice))}
    grid = (problem.rows, 1, 1)
    step = launch(problem, choice, "split_combine", grid, arguments, constants)
    return (step,) if wanted else ()


PATIENCE = 4096
"""Looks of a block at what others owe it, some milliseconds, before it takes over their work."""
_LOOPS = ("STAGES", "STRIPE")
"""What a kernel without a loop over tiles has no use for."""


def cooperative(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    chunks = chunks_of(problem, choice)
    arguments = {
        "x_ptr": pointer(problem),
        "y_ptr": pointer(problem),
        "words_ptr": "*i64",
        **dict.fromkeys(("chunks", "columns", "x_stride", "y_stride"), "i32"),
    }
    walk = walk_constants(problem, choice)
    constants = {
        **log_constant(problem),
        **{name: value for name, value in walk.items() if name not in _LOOPS},
        "PARTS": parts(chunks),
        "CHUNK": choice.chunk,
        "PATIENCE": PATIENCE,
        "OPAQUE": choice.recompute == "opaque",
        "KEEP": choice.keep,
        "DROP": choice.drop,
    }
    grid = (problem.rows * chunks, 1, 1)
    return (launch(problem, choice, "cooperative_forward", grid, arguments, constants),)


def streamed(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    chunks = chunks_of(problem, choice)
    arguments = {
        "x_ptr": pointer(problem),
        "y_ptr": pointer(problem),
        "words_ptr": "*i64",
        **dict.fromkeys(("items", "chunks", "columns", "x_stride", "y_stride"), "i32"),
    }
    walk = walk_constants(problem, choice)
    constants = {
        **log_constant(problem),
        **{name: walk[name] for name in ("LANES", "VECTOR")},
        # Without masks ptxas spills 4 words of the logarithm, for sm_80 and sm_90.
        "TAIL": walk["TAIL"] or problem.operation == "log-softmax",
        "PARTS": parts(chunks),
        "CHUNK": choice.chunk,
        "PATIENCE": PATIENCE,
        "KEEP": choice.keep,
        "DROP": choice.drop,
    }
    grid = (min(problem.rows * chunks, choice.programs), 1, 1)
    return (launch(problem, choice, "streamed_forward", grid, arguments, constants),)


FORWARD: Mapping[str, Callable[[Problem, Choice], tuple[KernelLaunch, ...]]] = {
    "cached": cached,
    "cooperative": cooperative,
    "held": online,
    "online": online,
    "peeled": online,
    "split": split,
    "streamed": streamed,
    "three-pass": three_pass,
}
