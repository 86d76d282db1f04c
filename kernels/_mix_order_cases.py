"""What the mix-order reduction is tested and timed on."""

from __future__ import annotations

from perfcli.model import Case, Problem


def mix_order(rows: int, columns: int, reads: int = 3, dtype: str = "bfloat16") -> Problem:
    return Problem("rmsnorm-chain-backward", rows, columns, dtype, settings={"reads": reads})


# Boundary sizes of the block, and PyTorch's test_mix_order_reduction.py scaled down.
_SHAPES = (
    (1, 192),
    (7, 760),
    (37, 1023),
    (199, 1128),
    (263, 4097),
    (264, 128),
    (8192, 32),
    (33791, 8),
    (16, 16384),
    (0, 128),
)


def _cases() -> tuple[Case, ...]:
    dtypes = ("float32", "float16", "bfloat16")
    shapes = tuple(Case(mix_order(*shape, dtype=dtype)) for shape in _SHAPES for dtype in dtypes)
    reads = tuple(
        Case(mix_order(130, 512, count, dtype), variant)
        for count in (2, 3, 4, 5, 6, 7, 9, 11, 19)
        for dtype in ("float32", "bfloat16")
        for variant in ("spill-free", "inductor")
    )
    odd = mix_order(70, 300, 5)
    special = tuple(Case(odd, None, data) for data in ("nan", "infinite", "signed-zero"))
    return (*shapes, *reads, *special)


CASES = _cases()
BENCHMARKS = (
    *(mix_order(98304, 512, reads) for reads in (3, 5, 7, 9, 11)),
    mix_order(32768, 2048, 3),
    mix_order(98304, 512, 11, "float32"),
)
