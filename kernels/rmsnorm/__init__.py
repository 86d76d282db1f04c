"""Computes RMSNorm, y = x · rsqrt(mean(x²) + eps) · w by rows, with an optional residual, and its
gradients.

Statistics are fp32; weights have the dtype of the inputs; ``eps`` is a setting, 1e-6 by default.

Bytes (M rows, N columns, b bytes per element), each input read and each output written once, as
QuACK counts them, with weights of b instead of 4 bytes:

* ``rmsnorm`` 2·M·N·b + N·b
* ``rmsnorm-residual`` 4·M·N·b + N·b: x and residual in, y and their sum out
* ``rmsnorm-backward`` 3·M·N·b + 2·N·b: x and dy in, dx and dw out. Each row's scale is computed
  again from the row, which has to be read anyway, so nothing is saved by the forward pass
* ``rmsnorm-residual-backward`` 4·M·N·b + 2·N·b: the sum's own gradient in as well

Flops per element: 4 forward (square, add, scale, weight), 5 with a residual; 12 backward (3 for the
weighted gradient and its product with x, 2 for each of two sums' additions and the square, 4 for
dx, 3 for dw), 13 with a residual.

All of it is far below any device's ratio of flops to bytes: a copy of the same bytes is the limit.
What keeps a kernel from it is a row that is read twice, loads narrower than 16 bytes, and too few
bytes in flight; each variant is an answer to one of these. ``choice`` says which one is
taken where, and what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import sqrt

from perfcli.model import KernelFamily, KernelVariant, Problem, Tolerance

from .._elements import ITEM_BYTES
from .._norms.blocks import is_backward
from .._norms.plan import list_operations, plan
from .cases import BENCHMARKS, CASES

MATRICES = {
    "rmsnorm": 2,
    "rmsnorm-residual": 4,
    "rmsnorm-backward": 3,
    "rmsnorm-residual-backward": 4,
}
FLOPS = {
    "rmsnorm": 4,
    "rmsnorm-residual": 5,
    "rmsnorm-backward": 12,
    "rmsnorm-residual-backward": 13,
}
UNIT_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}
"""The unit roundoff of a result that is rounded to the nearest."""
FP32 = UNIT_ROUNDOFF["float32"]
LEAST = {"bfloat16": 2.0**-126, "float16": 2.0**-24, "float32": 2.0**-126}
"""The least normal number: below it a result has lost bits, or is zero."""


def _moved_bytes(problem: Problem) -> int:
    """Return the bytes moved; see the module's docstring."""
    vectors = 2 if is_backward(problem) else 1
    matrices = MATRICES[problem.operation] * problem.elements
    return (matrices + vectors * problem.columns) * ITEM_BYTES[problem.dtype]


def flops(problem: Problem) -> int:
    """Return the flops; see the module's docstring."""
    return FLOPS[problem.operation] * problem.elements


def _tolerances(problem: Problem) -> Mapping[str, Tolerance]:
    """Allow one rounding of the result, and what fp32 sums of N squares or M products are off by.

    With a residual, y comes from the rounded sum x + r, as it is stored and as the next layer sees
    it. A tie in that rounding moves y by a unit roundoff before y is rounded itself, and the N
    roundings of a row move its scale: by a random walk whose deviation is below unit / √N for
    normally distributed rows, below one unit roundoff for any. Of many elements some get both
    roundings and a scale far out: 6 deviations are allowed. (Simulated, 50 million elements each:
    the scale is off by 3.8, 4.0, 3.5 and 3.1 units / √N at most for N = 64, 256, 2048 and 8192.
    Without this term 649, 48, 0 and 0 elements of y were outside.)
    """
    unit, least = UNIT_ROUNDOFF[problem.dtype], LEAST[problem.dtype]
    sums = FP32 * (8 + sqrt(problem.columns))
    if is_backward(problem):
        return {
            "dx": Tolerance(
                max(8 * sums, least),
                unit + sums,
                "one rounding of dx; it is a difference of terms of up to 8, whose sums over "
                "a row are off by a random walk of √N roundings of fp32",
            ),
            "dw": Tolerance(
                max(FP32 * problem.rows, 2.0**-20),
                unit + sums,
                "one rounding of dw; M products are added in fp32, partial sums a random walk",
            ),
        }
    relative, reason = 1.01 * unit, "one rounding of y"
    if problem.operation == "rmsnorm-residual":
        relative *= 2
        relative += unit * min(1.0, 6 / sqrt(max(problem.columns, 1)))
        reason = "a rounding of y, one of the sum that it is computed from, and those of its row"
    return {
        "y": Tolerance(
            least,
            relative + sums,
            f"{reason}; the squares' sum in fp32 is off by a random walk of √N roundings",
        ),
        "sum": Tolerance(least, 1.01 * unit, "one rounding"),
    }


FORWARD, BACKWARD = list_operations("rmsnorm")[:2], list_operations("rmsnorm")[2:]

FAMILY = KernelFamily(
    name="rmsnorm",
    summary="RMSNorm over rows, with an optional residual, forward and backward",
    operations={
        "rmsnorm": "y = x · rsqrt(mean(x²) + eps) · w",
        "rmsnorm-residual": "sum = x + residual; y = sum · rsqrt(mean(sum²) + eps) · w",
        "rmsnorm-backward": (
            "s = rsqrt(mean(x²) + eps), g = dy · w, n = x · s: "
            "dx = s · (g − n · mean(g · n)), dw = Σ_rows dy · n"
        ),
        "rmsnorm-residual-backward": "as rmsnorm-backward of the sum, and dx += dsum",
    },
    variants=(
        KernelVariant("two-read", "a loop that sums, a loop that reads again", FORWARD),
        KernelVariant("full-tile", "a whole row, or several, in one tile of registers", FORWARD),
        KernelVariant("register-tiled", "a row in 1 to 16 tiles, kept as half precision", FORWARD),
        KernelVariant(
            "peeled", "register-tiled for rows that start anywhere: 16-byte loads between", FORWARD
        ),
        KernelVariant("tma", "rows that TMA fetches into shared memory ahead of time", FORWARD),
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
        KernelVariant("split", "a row over many blocks, in two launches", (*FORWARD, *BACKWARD)),
    ),
    plan=partial(plan, "rmsnorm"),
    moved_bytes=_moved_bytes,
    flops=flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels._norms.code",
    origin="pytorch issue 179711, pull request 179941; QuACK; pull request 167161 (mix-order)",
)
