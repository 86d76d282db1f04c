"""Holds a choice of variant, tile and warps, and makes one launch of it as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcli.model import KernelLaunch, Problem, Scalar, Target

from .. import _eviction
from .._elements import ITEM_BYTES, TRITON_TYPE, VECTOR_BYTES, rows_lie_alike, vector

DIVISOR = 16
"""Triton's launcher specialises integers that are multiples of it."""
INDEX_BYTES, STATISTIC_BYTES, WORD_BYTES = 8, 4, 8
KIB = 1024
TELLING = ("cooperative", "streamed")
"""Variants whose programs tell one another the statistics of their parts in words."""
BACKWARD = ("softmax-backward", "log-softmax-backward", "cross-entropy-backward")
LOSS, LOSS_GRADIENT = "cross-entropy", "cross-entropy-backward"


@dataclass(frozen=True, slots=True)
class Choice:
    """Says how a problem is computed. Tiles and chunks are numbers of elements."""

    variant: str
    warps: int
    tile: int
    """Elements of one load by the whole block; cached: the padded row times the rows of a block."""
    rows: int = 1
    """Rows of a block of the cached and tiled variants."""
    chunk: int = 0
    """What a block of the split variant reads of a row."""
    tiles: int = 1
    """Tiles of a row, or of a part of it, of the tiled variant."""
    assembly: bool = True
    """Instructions of NVIDIA's may be used."""
    stages: int = 1
    programs: int = 0
    """Blocks of a persistent grid; 0: one block per tile."""
    blocks: int = 1
    """Blocks of a cluster, which share a row."""
    align: int = 1
    """From multiples of how many elements a cluster counts a row's lanes."""
    maxnreg: int | None = None
    overlap: bool = False
    """Of two launches, the second may start before the first has ended; a cluster before the kernel
    before it has, whatever that is. It waits before it reads."""
    recompute: str = "no"
    backwards: bool = True
    keep: str = ""
    drop: str = ""
    why: str = ""


def inputs_of(problem: Problem) -> int:
    """Return how many matrices are read."""
    return 2 if problem.operation in BACKWARD and problem.operation != LOSS_GRADIENT else 1


def matrices_of(problem: Problem) -> int:
    """Return how many are read and written."""
    return inputs_of(problem) + (problem.operation != LOSS)


def policies(problem: Problem, target: Target) -> tuple[str, str]:
    """Return where what is read and what is written goes in the order of eviction.

    Large inputs are read as if they were needed again, and outputs written as if they were not
    (H200, 2026-11-29, bfloat16, percent of a copy: softmax 32768 × 4096 98 and 101, log-softmax
    22854 × 5873 101 and 103, softmax-backward 20349 × 6596 102.5 and 104; no other of the nine ways
    was more than 0.8 points faster anywhere).
    """
    if problem.operation == LOSS:
        return _eviction.read_policy(problem, target), ""
    return _eviction.policies(problem, target, matrices_of(problem))


def _vectors_only(problem: Problem) -> bool:
    return problem.columns % vector(problem) == 0


def is_aligned(problem: Problem) -> bool:
    """Return whether every row starts at a multiple of 16 bytes when the first one does."""
    strides = (problem.stride, problem.columns)  # of the input and of the output
    return problem.rows == 1 or all(stride % vector(problem) == 0 for stride in strides)


def is_congruent(problem: Problem) -> bool:
    """Return whether input and output (which has no gaps) lie alike, row by row, with regard to 16
    bytes; losses are no output that has to."""
    return problem.operation == LOSS or rows_lie_alike(problem, vector(problem))


def _padded_bytes(problem: Problem) -> int:
    """Return the bytes of a row, up to the next power of two; a vector at least."""
    padded = 1 << max(problem.columns - 1, 0).bit_length()
    return max(padded * ITEM_BYTES[problem.dtype], VECTOR_BYTES)


def _padded_count(statistics: int) -> int:
    """Return the length of an array of statistics after which another one begins, at a multiple of
    16 bytes."""
    whole = VECTOR_BYTES // STATISTIC_BYTES
    return -(-statistics // whole) * whole


def _chunks_of(problem: Problem, choice: Choice) -> int:
    return -(-problem.columns // choice.chunk) if choice.chunk else 1


def launch(
    problem: Problem,
    choice: Choice,
    function: str,
    grid: tuple[int, int, int],
    arguments: Mapping[str, str],
    constants: Mapping[str, Scalar],
    *,
    overlaps: bool = False,
) -> KernelLaunch:
    """Return one launch; pointers come from torch's allocator, whose blocks are aligned."""
    sizes = {
        "columns": problem.columns,
        "x_stride": problem.stride,
        "saved_stride": problem.stride,
        "dy_stride": problem.stride,
        "dx_stride": problem.columns,
        "y_stride": problem.columns,
    }
    divisible = tuple(
        name
        for name, kind in arguments.items()
        if kind.startswith("*") or sizes.get(name, 1) % DIVISOR == 0
    )
    return KernelLaunch(
        function,
        grid,
        arguments,
        constants,
        choice.warps,
        1,
        divisible_by_16=divisible,
        maxnreg=choice.maxnreg,
        overlaps=overlaps,
    )


def pointer(problem: Problem) -> str:
    return f"*{TRITON_TYPE[problem.dtype]}"


def pointers(problem: Problem) -> dict[str, str]:
    """Return the tensors of a problem, but for the gradient of cross-entropy (see ``launches``)."""
    if problem.operation == LOSS:
        outputs = {"target_ptr": "*i64", "loss_ptr": "*fp32", "lse_ptr": "*fp32"}
        return {"x_ptr": pointer(problem), **outputs}
    names = ("y_ptr", "dy_ptr", "dx_ptr") if problem.operation in BACKWARD else ("x_ptr", "y_ptr")
    return dict.fromkeys(names, pointer(problem))


def _tile_constants(problem: Problem, choice: Choice) -> dict[str, Scalar]:
    """Return the constants of whole rows that one block holds (see cached)."""
    block = choice.tile // choice.rows
    return {
        "ROWS": choice.rows,
        "BLOCK": block,
        "VECTOR": vector(problem),
        "ALIGNED": is_aligned(problem),
        "VECTORS_ONLY": _vectors_only(problem),
        "FULL": problem.columns == block and problem.rows % choice.rows == 0,
        "DROP": choice.drop,
    }


def _walk_constants(problem: Problem, choice: Choice) -> dict[str, Scalar]:
    """Return the constants of a row, or a chunk of it, that is read tile by tile (see rows)."""
    peelable = choice.variant not in ("online", "peeled") and is_congruent(problem)
    peel = choice.variant == "peeled" or (peelable and not is_aligned(problem))
    step = choice.chunk or choice.tile
    return {
        "LANES": choice.tile // vector(problem),
        "VECTOR": vector(problem),
        "ITEM": ITEM_BYTES[problem.dtype],
        "ALIGNED": is_aligned(problem),
        "PEEL": peel,
        "STRIPE": min(choice.tile // vector(problem), choice.warps * 32),
        "TAIL": peel or problem.columns % step != 0 or step % choice.tile != 0,
        "EDGE": peel or not _vectors_only(problem),
        "STAGES": choice.stages,
    }


def kept_constants(problem: Problem, choice: Choice) -> dict[str, Scalar]:
    """Return the constants of a row, or a part of it, that is kept in tiles (see tiles)."""
    walk = _walk_constants(problem, choice)
    return {
        **{name: walk[name] for name in ("LANES", "VECTOR", "ITEM", "ALIGNED", "PEEL", "EDGE")},
        "FULL": _full_tiles(problem, choice, bool(walk["PEEL"])),
        "ASSEMBLY": choice.assembly,
        "KEEP": choice.keep,
        "DROP": choice.drop,
    }


def _full_tiles(problem: Problem, choice: Choice, peel: bool) -> int:
    """Return how many tiles of every row, or of every part, are full."""
    tile = choice.tile // choice.rows
    if choice.chunk:
        return 0 if peel or problem.columns % choice.chunk else choice.chunk // tile
    if problem.rows % choice.rows:
        return 0
    beyond = vector(problem) - 1 if peel else 0
    return max(0, problem.columns - beyond) // vector(problem) * vector(problem) // tile


PARTS_PER_BLOCK = 1024
"""The most chunks' statistics that every block of the second kernel combines; more of them are
combined by a kernel of their own."""


def parts(chunks: int) -> int:
    """Return the next power of two, two at least."""
    return max(2, 1 << (chunks - 1).bit_length())
