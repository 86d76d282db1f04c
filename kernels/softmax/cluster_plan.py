"""Cuts long rows among the blocks of clusters (see ``cluster``). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil, pow

from perfcli.model import KernelLaunch, Problem, Scalar, Target

from .._clusters import (
    ISSUE_SECONDS,
    MOST_REGISTERS,
    REGISTER_STEP,
    mailbox_bytes,
    share_registers,
    sizes,
    why_none,
)
from .._elements import ITEM_BYTES, lanes_of, row_bytes, vector, widest_alignment, without_gap
from .choice import (
    BACKWARD,
    LOSS,
    LOSS_GRADIENT,
    Choice,
    inputs_of,
    is_congruent,
    matrices_of,
    pointers,
    policies,
)

WARPS = (4, 8)
"""Of a block. The blocks of a cluster start when there is room for all of them, so many small ones
leave less of a multiprocessor empty."""
MOST_ELEMENTS = 128
"""Of a thread and an input."""
EXPONENTIALS, WORDS, LOSS_WORDS = 16, 40, 16
"""Registers of a thread apart from what it keeps: the exponentials of softmax, or words, which are
used once by cross-entropy. Of words, ptxas spills 2 to 12 of some widths, which are loaded once for
a row: a block less on a multiprocessor would cost more (softmax 823 × 163272 bfloat16 with 8 of
them 100.5 percent of a copy, 97.6 with none and exponentials kept)."""
BLOCK_SECONDS, ELEMENT_SECONDS = 1.9e-6, 15e-9
"""How long a block takes besides its transfers, and for each element of a thread: it starts, waits
for its row and for the other blocks, and ends."""
INSTRUCTIONS, PEELING, EACH, AGAIN = 450, 50, 3.7, 4.0
"""Instructions of a thread, where rows start anywhere, for each element, and for an exponential
that is computed twice: with as many, they are where that was faster (823 × 163272 bfloat16 100.5
percent of a copy, and 97.6 with exponentials kept) and not where it was slower (1000 × 131072 98.9
and 100.4; 2048 × 65536 100.3 and 101.2; H200, 2026-11-29)."""
SMOOTHNESS = 6.7
"""How sharply the longest of these decides, and the transfers."""
ALONE = 0.045
"""What it costs that a multiprocessor has one such block, and idles between two; of several, their
share of it. The constants fit 82 launches of 12 problems: those that they put first reach 0.4
percent of a copy less than the best on average, and 2.6 at most (H200, triton 3.6, 2026-11-29)."""
TELLING_SECONDS = 7e-9
"""For each warp of a cluster, which tells all others what it found, where all blocks run at the
same time, so that no other uses what one waits for: of 70 problems of 4 to 300 rows, what is put
first is 1.0 percent slower than the best cluster on average, and 7 at most (the same day)."""
SPREAD = 0.0018
"""What each block of a cluster costs cross-entropy, which waits for memory alone: the more of them
have to find room at the same time, the longer multiprocessors are empty. With it, what is put first
of 51 launches of 10 problems is 0.2 percent slower than the best on average, and 1.2 at most;
without it 1.4 and 10 (the same day)."""


def why_not(problem: Problem, target: Target) -> str:
    """Return why clusters cannot do it; "" if they can."""
    if reason := why_none(target):
        return reason
    if problem.operation == LOSS_GRADIENT:
        return f"clusters do not compute {problem.operation}"
    if not is_congruent(problem):
        return "rows of input and output do not lie alike"
    if not any(ways(problem, target)):
        return f"a row of {problem.columns} {problem.dtype} is too long for a cluster"
    return ""


def choose(problem: Problem, target: Target) -> Choice:
    """Return the best way to cut rows among clusters, of those that keep them in registers."""
    return max(ways(problem, target), key=lambda each: each[1])[0]


def ways(problem: Problem, target: Target) -> Iterator[tuple[Choice, float]]:
    """Yield ways to cut rows, each with about which share of the bandwidth it reaches."""
    problem = without_gap(problem)
    wide, inputs = vector(problem), inputs_of(problem)
    align = widest_alignment(problem)
    keep, drop = policies(problem, target)
    again = ("no", "opaque") if problem.operation == "softmax" and wide == 8 else ("no",)
    for blocks, warps, recompute in product(sizes(target), WARPS, again):
        threads = warps * target.warp_size
        tiles = -(-lanes_of(problem, align) // (threads * blocks * wide))
        needed = _registers(problem, tiles, recompute != "no")
        allowed = needed + -needed % REGISTER_STEP
        resident = min(
            target.registers_per_sm // (threads * allowed),
            target.max_threads_per_sm // threads,
            target.max_blocks_per_sm,
        )
        if tiles * wide > MOST_ELEMENTS or needed > MOST_REGISTERS or not resident:
            continue
        moved = matrices_of(problem) * row_bytes(problem) / blocks
        transfers = moved * target.sm_count / target.bandwidth
        elements = inputs * tiles * wide
        instructions = INSTRUCTIONS + (EACH + AGAIN * (recompute != "no")) * elements
        instructions += PEELING * _peels(problem, align)
        waits = BLOCK_SECONDS + ELEMENT_SECONDS * elements
        per_sm = problem.rows * blocks / target.sm_count
        few = per_sm <= resident
        if few:
            waits += TELLING_SECONDS * blocks * warps
        at_once = max(1, ceil(per_sm)) if few else resident
        longest = transfers, waits / at_once, instructions * warps / 4 * ISSUE_SECONDS
        took = pow(sum(pow(each, SMOOTHNESS) for each in longest), 1 / SMOOTHNESS)
        reached = transfers / took * (per_sm / at_once if few else 1 - ALONE / resident)
        if problem.operation == LOSS:
            reached *= 1 - SPREAD * blocks
        found = Choice(
            "cluster",
            warps,
            threads * blocks * wide,
            tiles=tiles,
            blocks=blocks,
            align=align,
            recompute=recompute,
            maxnreg=share_registers(target, threads * resident),
            keep=keep,
            drop=drop,
            overlap=target.overlaps_launches,
            why=f"a row in {blocks} blocks of {threads} threads, {at_once} of them on a "
            f"multiprocessor{', exponentials twice' * (recompute != 'no')}: about {reached:.0%} of "
            "the bandwidth",
        )
        yield found, reached


def _registers(problem: Problem, tiles: int, recompute: bool) -> int:
    """Return about how many registers a thread needs without spills: of softmax for its
    exponentials, else for its words (ptxas 12.8, sm_90)."""
    elements = tiles * vector(problem)
    if problem.operation == "softmax" and not recompute:
        return elements + EXPONENTIALS
    words = inputs_of(problem) * elements // _halves(problem)
    return words + (LOSS_WORDS if problem.operation == LOSS else WORDS)


def _peels(problem: Problem, align: int) -> bool:
    """Return whether rows begin or end within a vector. Rows of cross-entropy may begin at vectors
    and end within them, since nothing is written that lies as they do."""
    return problem.stride % align != 0 or problem.columns % vector(problem) != 0


def _halves(problem: Problem) -> int:
    """Return the elements of a word."""
    return 4 // ITEM_BYTES[problem.dtype]


def launches(problem: Problem, choice: Choice) -> tuple[KernelLaunch, ...]:
    """Return the launch: a cluster for each row."""
    problem = without_gap(problem)
    arguments = pointers(problem)
    divisible = tuple(arguments)
    if problem.operation == LOSS:
        arguments["ignored"] = "i32"
    constants: dict[str, Scalar] = {
        "COLUMNS": problem.columns,
        "STRIDE": problem.stride,
        "TILES": choice.tiles,
        "WARPS": choice.warps,
        "BLOCKS": choice.blocks,
        "VECTOR": vector(problem),
        "ALIGN": choice.align,
        "PEEL": _peels(problem, choice.align),
        "HALVES": _halves(problem),
        "KEEP": choice.keep,
        "OVERLAP": choice.overlap,
    }
    if problem.operation != LOSS:
        constants["DROP"] = choice.drop
        constants["LOG"] = problem.operation.startswith("log")
    if problem.operation in ("softmax", "log-softmax"):
        constants["RECOMPUTE"] = choice.recompute != "no"
    made = KernelLaunch(
        _function(problem),
        (problem.rows, 1, 1),
        arguments,
        constants,
        choice.warps,
        divisible_by_16=divisible,
        maxnreg=choice.maxnreg,
        overlaps=choice.overlap,
        cluster=choice.blocks,
        shared_bytes=-(-mailbox_bytes(choice.warps, choice.blocks) // 128) * 128,
    )
    return (made,)


def _function(problem: Problem) -> str:
    if problem.operation == LOSS:
        return "loss_cluster"
    return "gradient_cluster" if problem.operation in BACKWARD else "forward_cluster"
