"""What the column sum is tested and timed on."""

from __future__ import annotations

from perfcli.model import Case, Problem


def column_sum(
    rows: int,
    columns: int,
    inputs: int = 1,
    dtype: str = "float32",
    row_stride: int | None = None,
) -> Problem:
    return Problem("column-sum", rows, columns, dtype, row_stride, {"inputs": inputs})


# Boundary sizes of the tile, the split and the vector, and of other people's suites (QuACK,
# PyTorch's mix-order tests, nvFuser's TmaOuterReductionTest).
_SHAPES = (
    (1, 192),
    (7, 760),
    (37, 1023),
    (199, 1128),
    (263, 4097),
    (264, 8192),
    (8192, 256),
    (4096, 33),
    (513, 50257),
    (9, 131072),
    (33791, 8),
    (1, 1),
    (0, 128),
    (128, 0),
)
_INPUTS = (2, 3, 5, 7, 14, 16, 28, 29, 56, 57, 112)
_DTYPES = ("float32", "float16", "bfloat16")
_VARIANTS = ("pointers", "tma")


def _cases() -> tuple[Case, ...]:
    shapes = [column_sum(*shape, dtype=dtype) for shape in _SHAPES for dtype in _DTYPES]
    counts = [column_sum(65, 264, n, dtype) for n in _INPUTS for dtype in ("float32", "float16")]
    padded = [column_sum(100, 1000, 2, dtype, row_stride=1024) for dtype in _DTYPES]
    plain = tuple(Case(p, v) for p in (*shapes, *counts, *padded) for v in _VARIANTS)
    odd = column_sum(70, 1128, 2, "bfloat16")
    special = tuple(
        Case(odd, v, data)
        for v in _VARIANTS
        for data in ("nan", "infinite", "signed-zero", "constant")
    )
    return (*plain, *special, Case(odd, "pointers", layout="misaligned"))


CASES = _cases()
BENCHMARKS = (
    column_sum(65536, 4096, 1),
    column_sum(65536, 4096, 3),
    column_sum(65536, 4096, 5, "bfloat16"),
    column_sum(65536, 4096, 16, "bfloat16"),
    column_sum(4096, 65536, 1),
    column_sum(262144, 1024, 3, "bfloat16"),
)
