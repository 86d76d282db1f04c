"""Computes layer norm, y = (x − mean) · rstd · w + b by rows, with rstd = rsqrt(variance + eps), an
optional residual, and its gradients.

Statistics are fp32, the variance is that of deviations from the mean, not a difference of sums;
weights and biases have the dtype of the inputs; ``eps`` is a setting, 1e-5 by default. The kernels
are rmsnorm's, with a mean (``_norms``).

Bytes (M rows, N columns, b bytes per element), each input read and each output written once:

* ``layernorm`` 2·M·N·b + 2·N·b + 8·M: mean and rstd, in fp32, are what backward takes
* ``layernorm-residual`` 4·M·N·b + 2·N·b + 8·M: x and residual in, y and their sum out
* ``layernorm-backward`` 3·M·N·b + 3·N·b + 8·M: x and dy in, dx, dw and db out
* ``layernorm-residual-backward`` 4·M·N·b + 3·N·b + 8·M: the sum's own gradient in as well

Flops per element: 7 forward (2 for the mean and the deviation, 2 for its square, scale, weight,
bias), 8 with a residual; 14 backward (2 for x̂, 1 for the weighted gradient, 3 for two sums, 5 for
dx, 3 for dw and db), 15 with a residual.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import sqrt

from perfcli.model import KernelFamily, KernelVariant, Problem, Tolerance

from .._elements import ITEM_BYTES
from .._norms.blocks import is_backward
from .._norms.plan import list_operations, plan
from ..rmsnorm import FP32, LEAST, MATRICES, UNIT_ROUNDOFF
from .cases import BENCHMARKS, CASES

FLOPS = dict(zip(list_operations("layernorm"), (7, 8, 14, 15), strict=True))


def _moved_bytes(problem: Problem) -> int:
    """Return the bytes moved; see the module's docstring."""
    vectors = 3 if is_backward(problem) else 2
    matrices = MATRICES[problem.operation.replace("layernorm", "rmsnorm")] * problem.elements
    return (matrices + vectors * problem.columns) * ITEM_BYTES[problem.dtype] + 8 * problem.rows


def flops(problem: Problem) -> int:
    """Return the flops; see the module's docstring."""
    return FLOPS[problem.operation] * problem.elements


def _tolerances(problem: Problem) -> Mapping[str, Tolerance]:
    """Allow one rounding of the result, and what fp32 sums of N values or M products are off by;
    results are differences of larger terms, so that errors do not shrink with them.

    With a residual, y comes from the rounded sum x + r: see rmsnorm. An element of up to 6
    deviations carries that rounding's error, so that it is absolute here.
    """
    unit, least = UNIT_ROUNDOFF[problem.dtype], LEAST[problem.dtype]
    sums = FP32 * (8 + sqrt(problem.columns))
    if is_backward(problem):
        column = max(FP32 * problem.rows, 2.0**-20)
        return {
            "dx": Tolerance(
                max(16 * sums, least),
                unit + sums,
                "one rounding of dx; it is a difference of terms of up to 8, whose sums over "
                "a row are off by a random walk of √N roundings of fp32",
            ),
            "dw": Tolerance(
                8 * column,
                unit + sums,
                "one rounding of dw; M products are added in fp32, partial sums a random walk",
            ),
            "db": Tolerance(column, unit + sums, "one rounding of db; M values added in fp32"),
        }
    absolute, reason = max(4 * sums, least), "one rounding of y"
    if problem.operation == "layernorm-residual":
        absolute += 6 * unit
        reason = "a rounding of y, and that of the sum that it is computed from"
    return {
        "y": Tolerance(
            absolute,
            1.01 * unit + sums,
            f"{reason}; the sums in fp32 are off by a random walk of √N roundings",
        ),
        "sum": Tolerance(least, 1.01 * unit, "one rounding"),
        "mean": Tolerance(
            2.0**-10 if problem.operation == "layernorm" else unit,
            sums,
            "values of up to 2^16, whose sum is off by a few roundings of fp32",
        ),
        "rstd": Tolerance(
            0.0 if problem.operation == "layernorm" else unit,
            sums + (0.0 if problem.operation == "layernorm" else unit),
            "half of the error of the variance",
        ),
    }


FORWARD, BACKWARD = list_operations("layernorm")[:2], list_operations("layernorm")[2:]

FAMILY = KernelFamily(
    name="layernorm",
    summary="LayerNorm over rows, with an optional residual, forward and backward",
    operations={
        "layernorm": "y = (x − mean(x)) · rsqrt(variance(x) + eps) · w + b",
        "layernorm-residual": "sum = x + residual; y = layernorm of the sum",
        "layernorm-backward": (
            "g = dy · w, n = (x − mean) · rstd: dx = rstd · (g − mean(g) − n · mean(g · n)), "
            "dw = Σ_rows dy · n, db = Σ_rows dy"
        ),
        "layernorm-residual-backward": "as layernorm-backward of the sum, and dx += dsum",
    },
    variants=(
        KernelVariant("full-tile", "a whole row, or several, in one tile of registers", FORWARD),
        KernelVariant("register-tiled", "a row in 1 to 16 tiles, kept as half precision", FORWARD),
        KernelVariant(
            "peeled", "register-tiled for rows that start anywhere: 16-byte loads between", FORWARD
        ),
        KernelVariant(
            "cooperative",
            "a row over several blocks that exchange their sums, read once",
            FORWARD,
        ),
        KernelVariant(
            "cluster",
            "a row over a cluster of blocks, which keep the weights for further rows",
            (*FORWARD, *BACKWARD),
        ),
        KernelVariant(
            "fused", "dx and dw in one persistent pass; partial sums added afterwards", BACKWARD
        ),
        KernelVariant(
            "ring",
            "a row over several blocks, which keep their parts of several rows in shared memory",
            BACKWARD,
        ),
        KernelVariant("split", "a row over many blocks, in two launches", BACKWARD),
    ),
    plan=partial(plan, "layernorm"),
    moved_bytes=_moved_bytes,
    flops=flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels._norms.code",
    origin="Ba, Kiros and Hinton 2016; torch.nn.LayerNorm; QuACK and Liger have both passes",
)
