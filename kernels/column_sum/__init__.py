"""Computes a column sum over n inputs: ``out[j] = Σ_i Σ_k x_k[i, j]``, an outer reduction.

Bytes: every input once and the result once, ``n · M · N · b + N · b`` (b bytes per element). The
partial sums of a split reduction (``splits · N · 4``, written and read once) stay in L2 and do not
count. Flops: ``n · M · N`` additions.

Two kernels for the first pass, written for n (``source``): plain loads through
pointers, and tiles moved by TMA (``plan`` says which tile fits). Both add in fp32 and
in an order that only the plan decides: the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from perfcli.errors import PerfcliError
from perfcli.model import Case, KernelFamily, KernelVariant, LaunchPlan, Problem, Target, Tolerance

from .._elements import ITEM_BYTES, VECTOR_BYTES
from .plan import (
    MOST_INPUTS,
    _input_count,
    _pointer_plan,
    _pointers_of,
    _shared_limit,
    _tma_of,
    _tma_tile,
    tma_plan,
)


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


OPERATION = "column-sum"
VARIANTS = (
    KernelVariant("pointers", "plain loads: any stride, alignment and device", (OPERATION,)),
    KernelVariant("tma", "tiles moved by TMA into shared memory, from sm_90 on", (OPERATION,)),
)
_ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return how this column sum is computed on this target. ``tma`` falls back to ``pointers``,
    and says why, where the device, the rows' alignment or the number of inputs forbid it.

    Raises:
        PerfcliError: another operation, or no such variant, dtype or number of inputs.
    """
    _check(problem, variant)
    if problem.rows == 0 or problem.columns == 0:
        return LaunchPlan(variant or "pointers", (), "nothing to add")
    instead_of = ""
    if variant == "tma":
        planned = _tma_plan(problem, target)
        if isinstance(planned, LaunchPlan):
            return planned
        instead_of = f"tma: {planned}"
    config, why = _pointers_of(problem, target)
    return _pointer_plan(problem, target, config, why, instead_of)


def _tma_plan(problem: Problem, target: Target) -> LaunchPlan | str:
    """Return the plan, or why there is none."""
    inputs, item_bytes = _input_count(problem), ITEM_BYTES[problem.dtype]
    if target.vendor != "nvidia" or target.capability < (9, 0):
        return f"needs compute capability 9.0 or later, {target.name} has none"
    if problem.stride * item_bytes % VECTOR_BYTES:
        return (
            f"needs rows that start at multiples of {VECTOR_BYTES} bytes, these are "
            f"{problem.stride * item_bytes} bytes apart; pad them"
        )
    config, why = _tma_of(problem, target)
    limit = _shared_limit(target, config.blocks_per_sm)
    tile = _tma_tile(inputs, item_bytes, limit, config)
    if tile is None:
        return f"{inputs} inputs do not fit in {limit} bytes of shared memory"
    fits = f"{tile.rows} × {tile.columns} of {inputs} inputs fit in {limit} bytes"
    return tma_plan(problem, target, tile, config, f"{why}; {fits}")


def _check(problem: Problem, variant: str | None) -> None:
    if problem.operation != OPERATION:
        raise PerfcliError(f"expected the operation {OPERATION!r}, found {problem.operation!r}")
    if variant is not None and variant not in {v.name for v in VARIANTS}:
        known = ", ".join(v.name for v in VARIANTS)
        raise PerfcliError(f"no variant {variant!r} of the column sum; known: {known}")
    if problem.dtype not in ITEM_BYTES:
        raise PerfcliError(
            f"expected a dtype of {', '.join(ITEM_BYTES)}, found {problem.dtype}: "
            "convert the inputs"
        )
    if not 1 <= _input_count(problem) <= MOST_INPUTS:
        raise PerfcliError(
            f"expected 1 to {MOST_INPUTS} inputs, found {_input_count(problem)}: add them in groups"
        )
    if not problem.columns <= problem.stride < 2**31:
        raise PerfcliError(
            f"expected rows at least {problem.columns} elements apart, and less than 2^31, found "
            f"{problem.stride}"
        )


def _moved_bytes(problem: Problem) -> int:
    item_bytes = ITEM_BYTES[problem.dtype]
    return (_input_count(problem) * problem.elements + problem.columns) * item_bytes


def flops(problem: Problem) -> int:
    return _input_count(problem) * problem.elements


def _tolerances(problem: Problem) -> Mapping[str, Tolerance]:
    """Return the tolerance of K = n · M standard normals added one after the other in fp32: the
    k-th partial sum is about √k, a rounding is off by 2^-24 / √3 of it, and together they are a
    random walk with a deviation of 2^-24 · K / √6 at most. Six of these are allowed: there are up
    to 10^5 columns. Long sums are cut into shorter chains; + 32 is for sums of so few terms that
    they are not yet a random walk."""
    added = max(_input_count(problem) * problem.rows, 1)
    return {
        "out": Tolerance(
            absolute=2.0**-24 * (sqrt(6) * added + 32),
            relative=_ROUNDING[problem.dtype],
            reason=f"{added} additions in fp32, then one rounding to {problem.dtype}",
        )
    }


FAMILY = KernelFamily(
    name="column-sum",
    summary="sums of 1 to 112 arrays, reduced over their rows",
    operations={OPERATION: "out[j] = Σ_i Σ_k x_k[i, j], k = 1 … inputs"},
    variants=VARIANTS,
    plan=plan,
    moved_bytes=_moved_bytes,
    flops=flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels.column_sum.code",
    origin="https://github.com/NVIDIA/Fuser/pull/6036",
)
