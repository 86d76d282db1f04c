"""Computes an inner (over a row) and an outer reduction (over rows) in one kernel, as Inductor
fuses an RMSNorm's input gradient with its weight gradient: a mix-order reduction. It is a probe:
``reads`` says how many full-size inputs the loop has, and the launch can be chosen, so that
registers, spills and time can be seen as functions of both (``probe``).

Bytes, M × N with r reads and s norms, b bytes per element: ``(r + 1) · M · N · b`` for the reads
and ``dx``, ``4 · s · (M + 2 · N)`` for ``rstd``, weights and their gradients. The partial sums of
the weight gradients (``4 · s · N`` per block) are written and read once more and do not count.
Flops: ``8 · s · M · N`` for the norms, ``(r − 1 − s) · M · N`` for the residuals.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcli.errors import PerfcliError
from perfcli.model import Case, KernelFamily, KernelVariant, LaunchPlan, Problem, Target, Tolerance

from .._elements import ITEM_BYTES, matrix_bytes
from .plan import (
    MOST_COLUMNS,
    _asked_for,
    _fits_in_registers,
    _fused_plan,
    _inductor_setting,
    _read_count,
    _spill_free_setting,
)
from .source import MOST_READS, _reads_of


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


OPERATION = "rmsnorm-chain-backward"
VARIANTS = (
    KernelVariant(
        "spill-free", "warps by the row's vectors, rows at a time by registers", (OPERATION,)
    ),
    KernelVariant("inductor", "the launch that torch 2.11 chooses", (OPERATION,)),
)
_ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return the launch of a variant, with what the problem's settings fix (``warps``, ``block``,
    ``stages``, ``rows_per_block``).

    Raises:
        PerfcliError: another operation, or no such variant, dtype, number of reads or row length.
    """
    variant = variant or "spill-free"
    _check(problem, variant)
    if problem.rows == 0 or problem.columns == 0:
        return LaunchPlan(variant, (), "nothing to reduce")
    if variant == "inductor":
        setting = _inductor_setting(problem.rows, problem.columns, target)
        why = "torch 2.11's rule for mix-order kernels"
    else:
        rows, columns, reads = problem.rows, problem.columns, _read_count(problem)
        setting = _spill_free_setting(rows, columns, reads, problem.dtype, target)
        why = "a row's vectors decide the warps, registers the rows at a time"
        if not _fits_in_registers(setting, columns, reads, target):
            why += f"; {reads} reads of {columns} columns are too many not to spill"
    return _fused_plan(problem, target, _asked_for(setting, problem.settings), variant, why)


def _check(problem: Problem, variant: str) -> None:
    if problem.operation != OPERATION:
        raise PerfcliError(f"expected the operation {OPERATION!r}, found {problem.operation!r}")
    if variant not in {v.name for v in VARIANTS}:
        known = ", ".join(v.name for v in VARIANTS)
        raise PerfcliError(f"no variant {variant!r} of the mix-order reduction; known: {known}")
    if problem.dtype not in ITEM_BYTES:
        raise PerfcliError(
            f"expected a dtype of {', '.join(ITEM_BYTES)}, found {problem.dtype}: "
            "convert the inputs"
        )
    if not 2 <= _read_count(problem) <= MOST_READS:
        raise PerfcliError(f"expected 2 to {MOST_READS} reads, found {_read_count(problem)}")
    if problem.columns > MOST_COLUMNS:
        raise PerfcliError(
            f"expected at most {MOST_COLUMNS} columns, as Inductor does, found {problem.columns}: "
            "a longer row does not fit into one block's registers"
        )
    if problem.stride != problem.columns:
        raise PerfcliError(
            f"expected contiguous rows of {problem.columns} elements, found them "
            f"{problem.stride} apart: call contiguous() first"
        )


def _moved_bytes(problem: Problem) -> int:
    norms = len(_reads_of(_read_count(problem)).norms)
    full = (_read_count(problem) + 1) * matrix_bytes(problem)
    return full + 4 * norms * (problem.rows + 2 * problem.columns)


def flops(problem: Problem) -> int:
    reads = _read_count(problem)
    norms = len(_reads_of(reads).norms)
    return (8 * norms + reads - 1 - norms) * problem.elements


def _tolerances(problem: Problem) -> Mapping[str, Tolerance]:
    """Return the tolerances: ``dx`` is a few operations in fp32 on values of order 1 and one
    rounding. A weight gradient adds M products of order 1 (a random walk: rms of the rounding
    errors 2^-24 · M / √2)."""
    norms = len(_reads_of(_read_count(problem)).norms)
    dx = Tolerance(
        absolute=2.0**-17,
        relative=max(_ROUNDING[problem.dtype], 2.0**-22),
        reason=f"{norms} norms in fp32 on values of order 1, one rounding to {problem.dtype}",
    )
    weight = Tolerance(
        absolute=2.0**-24 * max(problem.rows, 256) * _read_count(problem),
        relative=2.0**-20,
        reason=f"{problem.rows} additions in fp32 of products of order √reads",
    )
    return {"dx": dx} | {f"dweight{norm}": weight for norm in range(norms)}


FAMILY = KernelFamily(
    name="mix-order",
    summary="inner and outer reduction in one kernel, with a chosen number of full-size reads",
    operations={
        OPERATION: "for each norm, h = x·rstd: dw = Σ_rows d·h, "
        "d ← rstd·(d·w − h·mean(d·w·h)) + residuals"
    },
    variants=VARIANTS,
    plan=plan,
    moved_bytes=_moved_bytes,
    flops=flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels.mix_order.code",
    origin="https://github.com/pytorch/pytorch/pull/179494",
    probe="perfcli.kernels.mix_order.probe",
)
