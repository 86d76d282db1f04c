"""Holds a choice of variant, tile and warps, and makes one launch of it as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcli.model import KernelLaunch, Problem, Scalar

TRITON_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
VECTOR_BYTES = 16
"""The bytes that one thread loads with one instruction."""
DIVISOR = 16
"""Triton's launcher specialises integers that are multiples of it."""
INDEX_BYTES, STATISTIC_BYTES, WORD_BYTES = 8, 4, 8
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
    """Rows of a block of the cached variant."""
    chunk: int = 0
    """What a block of the split variant reads of a row."""
    stages: int = 1
    programs: int = 0
    """Blocks of a persistent grid; 0: one block per tile."""
    maxnreg: int | None = None
    recompute: str = "no"
    held: int = 0
    """Tiles of the held variant that stay in registers."""
    backwards: bool = True
    keep: str = ""
    drop: str = ""


def vector(problem: Problem) -> int:
    """Return elements in 16 bytes."""
    return VECTOR_BYTES // ITEM_BYTES[problem.dtype]


def _vectors_only(problem: Problem) -> bool:
    return problem.columns % vector(problem) == 0


def is_aligned(problem: Problem) -> bool:
    """Return whether every row starts at a multiple of 16 bytes when the first one does."""
    strides = (problem.stride, problem.columns)  # of the input and of the output
    return problem.rows == 1 or all(stride % vector(problem) == 0 for stride in strides)


def is_congruent(problem: Problem) -> bool:
    """Return whether input and output (which has no gaps) lie alike, row by row, with regard to 16
    bytes."""
    return problem.rows == 1 or (problem.stride - problem.columns) % vector(problem) == 0


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
    )


def pointer(problem: Problem) -> str:
    return f"*{TRITON_TYPES[problem.dtype]}"


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
    peelable = choice.variant in ("split", "cooperative", "held") and is_congruent(problem)
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


PARTS_PER_BLOCK = 1024
"""The most chunks' statistics that every block of the second kernel combines; more of them are
combined by a kernel of their own."""


def parts(chunks: int) -> int:
    """Return the next power of two, two at least."""
    return max(2, 1 << (chunks - 1).bit_length())


KIB = 1024
ANY = 1 << 62
LAST, FIRST = "evict_last", "evict_first"


@dataclass(frozen=True, slots=True)
class RowRule:
    """Says how rows of up to ``row_bytes``, padded to a power of two, are computed."""

    row_bytes: int
    variant: str
    warps: int
    """Warps of 32 threads."""
    vectors: int
    """16-byte loads of one thread and tile."""
    source: str
    chunk_tiles: int = 1
    """Tiles of a chunk, for variants that cut rows into chunks."""
    item_bytes: int = 0
    """Bytes of the elements it is for; 0: of any."""
    blocks_per_sm: int = 0
    """Blocks per multiprocessor of a persistent grid, and what the registers of a multiprocessor
    are divided by."""
    held: int = 0
    recompute: str = "no"
    keep: str = ""
    drop: str = ""

    @property
    def tile_bytes(self) -> int:
        return self.warps * 32 * 16 * self.vectors


Rules = Mapping[str, tuple[RowRule, ...]]
FORWARD: Rules = {
    "cached": (
        RowRule(1 * KIB, "cached", 2, 2, "101 % at 32768 × 512 bf16"),
        RowRule(2 * KIB, "cached", 2, 4, "100 % at 32768 × 1024 bf16"),
        RowRule(4 * KIB, "cached", 4, 2, "100 % at 32768 × 2048 bf16"),
        RowRule(8 * KIB, "cached", 16, 2, "100 % at 32768 × 4096 bf16"),
        RowRule(16 * KIB, "cached", 16, 2, "100 % at 32768 × 8192 bf16"),
        RowRule(32 * KIB, "cached", 8, 8, "98 % at 32768 × 16384 bf16"),
        RowRule(64 * KIB, "cached", 16, 8, "82 % at 16384 × 32768 bf16: one block per SM"),
        RowRule(ANY, "cached", 32, 8, "not measured", recompute="opaque"),
    ),
    "online": (
        RowRule(64 * KIB, "online", 16, 4, "99 % at 16384 × 32768 bf16", keep=LAST, drop=FIRST),
        RowRule(128 * KIB, "online", 32, 4, "97 % at 8192 × 65536 bf16", keep=LAST, drop=FIRST),
        RowRule(ANY, "online", 32, 8, "84 % at 4096 × 131072 bf16", keep=LAST, drop=FIRST),
    ),
    "held": (
        RowRule(64 * KIB, "held", 16, 1, "82 % at 32768 × 50257 bf16", held=8, recompute="opaque"),
        RowRule(ANY, "held", 32, 1, "76 % at 4096 × 128K", held=8, drop=FIRST, recompute="opaque"),
    ),
    "peeled": (RowRule(ANY, "peeled", 16, 4, "89 % at 32768 × 50257 bf16", keep=LAST, drop=FIRST),),
    "split": (
        RowRule(
            ANY, "split", 16, 1, "64.5 % at 4 × 1048576 bf16, 77.5 % at 1 × 1048589 bf16",
            chunk_tiles=2, keep=LAST, drop=FIRST,
        ),
    ),
    "cooperative": (
        RowRule(
            ANY, "cooperative", 4, 1, "72.8 % at 8 × 1048576 fp32", item_bytes=4,
            chunk_tiles=8, drop=FIRST,
        ),
        RowRule(
            ANY, "cooperative", 4, 1, "71.8 % at 64 × 131072 bf16", chunk_tiles=16,
            recompute="opaque",
        ),
    ),
    "streamed": (
        RowRule(
            ANY, "streamed", 4, 1, "95 % at 4096 × 131072 bf16, 94 % at 2048 × 262144 bf16",
            chunk_tiles=16, blocks_per_sm=3, keep=LAST, drop=FIRST,
        ),
    ),
    "three-pass": (RowRule(ANY, "three-pass", 16, 1, "baseline"),),
}  # fmt: skip
LOSSES: Rules = {
    **FORWARD,
    "online": (
        RowRule(8 * KIB, "online", 2, 4, "92 % at 32768 × 4096 bf16"),
        RowRule(32 * KIB, "online", 4, 4, "103 % at 32768 × 16384 bf16"),
        RowRule(ANY, "online", 8, 2, "104 % at 32768 × 32768 bf16"),
    ),
    "peeled": (RowRule(ANY, "peeled", 8, 2, "103 % at 32768 × 50257 bf16"),),
}
GRADIENTS: Rules = {
    "cached": (
        RowRule(1 * KIB, "cached", 8, 1, "100 % at 32768 × 512 bf16"),
        RowRule(2 * KIB, "cached", 4, 1, "99 % at 32768 × 1024 bf16"),
        RowRule(4 * KIB, "cached", 4, 2, "103 % at 32768 × 2048 bf16"),
        RowRule(8 * KIB, "cached", 16, 1, "102 % at 32768 × 4096 bf16"),
        RowRule(16 * KIB, "cached", 8, 4, "102 % at 32768 × 8192 bf16"),
        RowRule(ANY, "cached", 16, 4, "99 % at 32768 × 16384 bf16"),
    ),
    "online": (
        RowRule(64 * KIB, "online", 32, 2, "102 % at 32768 × 16384 bf16", keep=LAST, drop=FIRST),
        RowRule(ANY, "online", 32, 4, "97 % at 8192 × 65536 bf16", keep=LAST, drop=FIRST),
    ),
    "peeled": (RowRule(ANY, "peeled", 32, 1, "90 % at 32768 × 50257 bf16", keep=LAST, drop=FIRST),),
    "split": (
        RowRule(ANY, "split", 8, 2, "not measured", chunk_tiles=2, keep=LAST, drop=FIRST),
    ),
}  # fmt: skip
LOSS_GRADIENTS: Rules = {
    **GRADIENTS,
    "split": (
        RowRule(1 * KIB, "split", 2, 1, "88 % at 32768 × 512 bf16"),
        RowRule(
            ANY, "split", 4, 2, "98 % at 32768 × 4096 bf16, 92 % at 8192 × 128256 bf16",
            chunk_tiles=2,
        ),
    ),
}  # fmt: skip


def _rules_of(problem: Problem) -> Rules:
    if problem.operation == LOSS:
        return LOSSES
    if problem.operation == LOSS_GRADIENT:
        return LOSS_GRADIENTS
    return GRADIENTS if problem.operation in BACKWARD else FORWARD
