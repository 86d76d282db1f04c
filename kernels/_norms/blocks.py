"""Cuts norms into blocks, and checks what of that fits a device. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, Problem, Scalar, Target

from .._elements import ITEM_BYTES, TRITON_TYPE, next_power_of_2, rows_lie_alike, vector

TILED = ("register-tiled", "peeled", "cooperative")
"""Variants that keep a row in its own dtype, in several tiles."""
PAST_L1 = "past L1"
"""Of a load: L1 does not keep what nobody reads again, but weights instead."""
MISSING = -1
"""The word of a program that has not told its sums."""
POLLS = 4096
"""Polls of a program before it computes what others of its row owe it: some milliseconds, when all
programs of a row start within microseconds of each other."""
OWN_REGISTERS = 32
"""Addresses, masks, sums: registers per thread beside the row's own, as compiled for sm_90."""
OWN_TILED, OWN_EARLY = 28, 36
"""Registers per thread beside the row's own, in the tiled kernel; where it loads weights early,
beside those of the row, its residual and the weights."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Holds a choice for one problem: the variant, and how large its blocks are."""

    variant: str
    threads: int
    """Threads per block, whatever the warp size is."""
    rows: int = 1
    """Rows per block at a time."""
    tile: int = 0
    """Columns that are loaded at a time; 0: the whole row, padded to a power of two."""
    align: int = 0
    """Elements from one place where lanes of a gradient's row, or of a cluster's, may begin to the
    next; 0: all others."""
    tiles: int = 1
    """Such tiles per program that are kept in registers."""
    parts: int = 1
    """Programs per row, or blocks of the cluster that has it."""
    groups: int = 0
    """Of a ring or of clusters: how many groups take rows at the same time."""
    stages: int = 1
    """Pipeline stages of the loop over rows; of a cluster, its rows on their way."""
    per_sm: int = 0
    """Programs per multiprocessor that share all rows; 0: one program for each tile of rows."""
    narrow: bool = False
    """Rows that start between multiples of 16 bytes are read as wide as that allows, and no weights
    are shifted for them."""
    early: bool = False
    """Weights are loaded before the reduction."""
    read: str = ""
    """Where a load goes in the order of eviction, or ``PAST_L1``; empty: as usual."""
    again: str = "evict_first"
    """Where a load goes the second time that a row is read."""
    write: str = ""
    most_registers: int = 0
    """The registers that a thread may have, so that another block fits beside this one; 0: any."""


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def padded_columns(problem: Problem) -> int:
    return next_power_of_2(max(problem.columns, 2 * vector(problem)))


def _rows_are_aligned(problem: Problem) -> bool:
    """Return whether all rows, read and written, start at multiples of 16 bytes."""
    return problem.stride % vector(problem) == 0 and problem.columns % vector(problem) == 0


def _chunk_columns(problem: Problem, parts: int) -> int:
    """Return columns per program, in whole lines of 128 bytes: masks that end there stay wide."""
    return _round_up(-(-problem.columns // parts), 128 // ITEM_BYTES[problem.dtype])


def _tile_columns(problem: Problem, blocks: Blocks) -> int:
    """Return columns of one tile; where the choice leaves it open, what holds a program's share."""
    if blocks.tile or blocks.variant not in TILED:
        return blocks.tile or padded_columns(problem)
    share = -(-_chunk_columns(problem, blocks.parts) // blocks.tiles)
    return next_power_of_2(max(share, 2 * vector(problem)))


def warps(blocks: Blocks, target: Target) -> int:
    return max(1, blocks.threads // target.warp_size)


def _elements_per_thread(problem: Problem, blocks: Blocks) -> int:
    """Return the elements of one row or tile of rows that stay in a thread's registers over the
    reduction."""
    width = _tile_columns(problem, blocks)
    return -(-blocks.rows * width * blocks.tiles // blocks.threads)


def registers(problem: Problem, blocks: Blocks) -> int:
    """Return about how many registers a thread needs.

    A tiled row stays in its own dtype, so half precision takes half a register per element; all
    other kernels keep what they widened to fp32, and the weights of one tile. A tiled row's
    residual is added before anything else takes registers, but for weights that are loaded early.
    """
    if blocks.variant == "cluster":  # as its planner has counted
        return blocks.most_registers
    kept = _elements_per_thread(problem, blocks)
    half = ITEM_BYTES[problem.dtype] == 2
    if blocks.variant in TILED:
        words = kept // 2 if half else kept
        if blocks.early:
            return OWN_EARLY + words * (2 + has_residual(problem))
        return OWN_TILED + words
    if blocks.variant in ("two-read", "split"):
        return OWN_REGISTERS + 2 * kept
    return OWN_REGISTERS + kept + (kept // 2 if half else kept)


def _shared_bytes(problem: Problem, blocks: Blocks, inputs: int) -> int:
    """Return the shared memory of a block: ``(stages − 1)`` tiles of each input that the loop over
    rows prefetches."""
    tile = blocks.rows * padded_columns(problem) * ITEM_BYTES[problem.dtype]
    return max(blocks.stages - 1, 0) * inputs * tile


def _misfit(problem: Problem, target: Target, blocks: Blocks, inputs: int) -> str:
    """Return why the blocks do not fit the target; empty where they do."""
    if blocks.threads > target.max_threads_per_block:
        return (
            f"{blocks.threads} threads per block, and {target.name} has "
            f"{target.max_threads_per_block}"
        )
    most = min(255, target.registers_per_sm // blocks.threads)
    if (needed := registers(problem, blocks)) > most:
        return f"about {needed} registers per thread, and {target.name} has {most} for that block"
    if blocks.variant != "tma":
        return ""
    needed, most = _shared_bytes(problem, blocks, inputs), target.shared_bytes_per_block_optin
    if needed > most - 1024:  # sums between warps, barriers
        return f"{needed} bytes of shared memory per block, and {target.name} has {most}"
    return ""


def check_problem(problem: Problem) -> None:
    """Raise PerfcliError for a problem that no kernel of the family can do."""
    if problem.dtype not in ITEM_BYTES:
        raise PerfcliError(
            f"{family(problem)}: dtype {problem.dtype!r}: expected one of {', '.join(ITEM_BYTES)}"
        )
    if problem.rows < 0 or problem.columns < 0:
        raise PerfcliError(
            f"{family(problem)}: {problem.rows} × {problem.columns}: sizes are zero or more"
        )
    if problem.rows > 1 and problem.stride < problem.columns:
        raise PerfcliError(
            f"{family(problem)}: rows {problem.stride} elements apart overlap, as they are "
            f"{problem.columns} long: make the input contiguous"
        )


def has_residual(problem: Problem) -> bool:
    return "residual" in problem.operation


def is_backward(problem: Problem) -> bool:
    return problem.operation.endswith("backward")


def has_mean(problem: Problem) -> bool:
    """Return whether it is layer norm, which subtracts a mean and adds a bias."""
    return problem.operation.startswith("layernorm")


def family(problem: Problem) -> str:
    return "layernorm" if has_mean(problem) else "rmsnorm"


def _peels(problem: Problem) -> bool:
    """Return whether rows are longer than their unaligned ends, and input and output rows start at
    the same distance from a multiple of 16 bytes, so that one aligned part serves both."""
    wide = vector(problem)
    same = rows_lie_alike(problem, wide)
    return not _rows_are_aligned(problem) and problem.columns >= 4 * wide and same


def _weight_width(problem: Problem) -> int:
    """Return elements from one shifted copy of the weights to the next."""
    return _round_up(problem.columns, 64)


_SPECIAL = {
    "eps": "fp32",
    **dict.fromkeys(("rows", "count", "word_count", "tiles"), "i32"),
    **dict.fromkeys(("partial", "mean", "rstd"), "*fp32"),
    "words": "*i64",
}
"""Arguments that are no tensors of the problem's dtype."""


def _arguments(problem: Problem, names: str) -> dict[str, str]:
    element = TRITON_TYPE[problem.dtype]
    return {name: _SPECIAL.get(name, f"*{element}") for name in names.split()}


def step(
    problem: Problem,
    target: Target,
    blocks: Blocks,
    function: str,
    grid: tuple[int, int, int],
    names: str,
    absent: str = "",
    **constants: Scalar,
) -> KernelLaunch:
    arguments = _arguments(problem, names)
    missing: dict[str, Scalar] = dict.fromkeys(absent.split())
    return KernelLaunch(
        function=function,
        grid=grid,
        arguments=arguments,
        constants={**missing, **constants},
        num_warps=warps(blocks, target),
        divisible_by_16=tuple(n for n, kind in arguments.items() if kind.startswith("*")),
    )


def names(given: Mapping[str, bool]) -> tuple[str, str]:
    """Return the arguments that are there, and those that are not."""
    there = " ".join(name for name, is_there in given.items() if is_there)
    return there, " ".join(name for name, is_there in given.items() if not is_there)


def overlapping(steps: Sequence[KernelLaunch]) -> tuple[KernelLaunch, ...]:
    """Return launches of which each starts before the one before it has ended, where the target can
    do that and all of them know it: each waits for the one before it, and so for all."""
    if not all(step.constants.get("OVERLAP") for step in steps):
        return tuple(steps)
    return (*steps[:1], *(replace(step, overlaps=True) for step in steps[1:]))


WORDS_OF_LINE = 16
"""Words of 64 bits in a line of the L2 cache."""


def words_apart(parts: int) -> int:
    """Return the words from those of one row to those of the next. While programs of one row poll a
    line, those of another would write to it: rows of 16, 32 and 64 parts, which fill their lines,
    were 5 percent faster than others (H200, 2026-11-28; what this layout alone is worth was not
    timed)."""
    return _round_up(parts, WORDS_OF_LINE)


def mark_missing(problem: Problem, target: Target, apart: int) -> KernelLaunch:
    """Return the launch that marks all words as not yet told; ``apart``: words of each row."""
    words = problem.rows * apart
    return step(
        problem, target, Blocks("", 128), "fill_words", (-(-words // 1024), 1, 1),
        "words word_count", WORD=MISSING, BLOCK=1024, AWAITS=target.overlaps_launches,
        OVERLAP=target.overlaps_launches,
    )  # fmt: skip


def pointers(problem: Problem, can_mean: bool = True) -> tuple[str, str]:
    """Return names of the tensors that are there, and of those that are not; ``can_mean``: the
    kernel has arguments for layer norm."""
    residual, mean = has_residual(problem), has_mean(problem)
    every = {
        "x": True, "residual": residual, "weight": True, "bias": mean, "y": True,
        "total": residual, "mean": mean, "rstd": mean,
    }  # fmt: skip
    if not can_mean:
        every = {name: every[name] for name in ("x", "residual", "weight", "y", "total")}
    return names(every)


def grid(problem: Problem, target: Target, blocks: Blocks) -> tuple[int, int, int]:
    tiles = -(-problem.rows // blocks.rows)
    resident = blocks.per_sm * target.sm_count
    return (min(tiles, resident) if resident else tiles, 1, 1)
