"""Computes softmax over rows, its logarithm, cross-entropy, and their gradients.

Bytes, for M rows of N elements of b bytes, every input read once and every output written once, as
QuACK counts them (Dao-AILab/quack, benchmarks), so that percentages can be held together:

    softmax, log-softmax               2 M N b
    their gradients                    3 M N b          (y, dy → dx)
    cross-entropy                        M N b + 12 M   (x, int64 target → float32 loss)
    its gradient                       2 M N b + 16 M   (x, target, lse, dloss → dx)

The float32 ``lse`` of cross-entropy (4 M bytes, less than a thousandth from N = 2048 on in half
precision) is not counted.

Flops per element: softmax 5 (maximum, subtraction, exponential, sum, division), its logarithm 5,
cross-entropy 4, the gradients 4, 4 and 3. None of these kernels is bound by them, with one
exception: exponentials. A pass with one exponential per element takes 28 % of the time that copying
a bfloat16 element takes on an H200 (132 SMs × 16 per cycle × 1.75 GHz against 4.2 TB/s), and an
online pass that corrects its sum for every element needs two.

Variants, by how often a row is read:

    three-pass   three times, masked loads: the baseline
    online       twice: maximum and sum together (https://arxiv.org/abs/1805.02867), then the result
    peeled       twice, and all but the first and last few elements in 16-byte loads, wherever rows
                 begin: a row of 50257 halves starts at any multiple of 2 bytes, and a compiler that
                 does not know better loads such rows 2 bytes at a time
    cached       once: the row, or several short ones, stay in registers
    tiled        once: the same of rows of any width, in tiles of which the last is masked
    cooperative  once: each of a row's blocks keeps a part in registers, and they tell one another
                 the statistics
    streamed     once: the same, by blocks that load their next part while they wait for the others
    cluster      once: the same, by blocks of a cluster, which write to each other's shared memory
    split        twice, by many blocks: partial (maximum, sum) per chunk, combined in a fixed order;
                 once of cross-entropy, which writes no row

Rows of −∞ give NaN, as in torch. Nothing is added with atomics: the same inputs give the same bits.
The kernels are in ``looped``, ``cached``, ``tiled``, ``shared``, ``cluster``, ``split`` and
``backward``; ``plan`` says which one is taken, and with how many warps.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcli.model import KernelFamily, KernelVariant, Problem, Tolerance

from .._elements import matrix_bytes
from .cases import BENCHMARKS, CASES
from .choice import (
    BACKWARD,
    LOSS,
    LOSS_GRADIENT,
)
from .plan import OPERATIONS, VARIANT_OPERATIONS, plan

_SUMMARIES = {
    "three-pass": "three masked passes over a row: maximum, sum, result",
    "online": "two passes: maximum and sum together, then the result",
    "cached": "one pass: the row, or several short ones, stay in registers",
    "tiled": "one pass: rows of any width stay in registers, tile by tile",
    "cooperative": "one pass: a row in the registers of several blocks, which share statistics",
    "streamed": "one pass: the same, with the next part's loads under way while a block waits",
    "cluster": "one pass: a row in the registers of a cluster's blocks, which share statistics",
    "split": "two passes by many blocks per row, partial results combined in order",
    "peeled": "two passes in 16-byte loads from the first aligned address of each row",
}
_FLOPS = {
    "softmax": 5,
    "log-softmax": 5,
    "cross-entropy": 4,
    "softmax-backward": 4,
    "log-softmax-backward": 4,
    "cross-entropy-backward": 3,
}
_LOSS_BYTES_PER_ROW = 8 + 4  # int64 target, float32 loss
_LOSS_GRADIENT_BYTES_PER_ROW = 8 + 4 + 4  # target, lse, dloss


def _moved_bytes(problem: Problem) -> int:
    matrix = matrix_bytes(problem)
    if problem.operation == LOSS:
        return matrix + _LOSS_BYTES_PER_ROW * problem.rows
    if problem.operation == LOSS_GRADIENT:
        return 2 * matrix + _LOSS_GRADIENT_BYTES_PER_ROW * problem.rows
    return (3 if problem.operation in BACKWARD else 2) * matrix


def flops(problem: Problem) -> int:
    return _FLOPS[problem.operation] * problem.elements


_STEP = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
_SUBNORMAL_STEP = {"bfloat16": 0.0, "float16": 2.0**-24, "float32": 0.0}


def _tolerances(problem: Problem) -> Mapping[str, Tolerance]:
    """Return the tolerances of results computed in float32 and brought to the output's dtype once:
    half a step on GPUs, which round, a whole one in Triton's interpreter, which cuts bfloat16
    off."""
    if problem.operation == LOSS:
        same = Tolerance(
            2.0**-18, 2.0**-20, "float32: a logarithm of a sum whose relative error is below 2^-18"
        )
        return {"loss": same, "lse": same}
    name = "dx" if problem.operation in BACKWARD else "y"
    absolute = _ABSOLUTE[problem.operation] / max(
        problem.columns if problem.operation in _PER_COLUMN else 1, 1
    )
    return {
        name: Tolerance(
            absolute + _SUBNORMAL_STEP[problem.dtype],
            _STEP[problem.dtype] + _RELATIVE,
            f"float32, then one step of {problem.dtype}; exponents of up to ±88 are products whose "
            "rounding (2^-24) becomes a relative error 2^-17 of the exponential",
        )
    }


_RELATIVE = 2.0**-17
_PER_COLUMN = ("softmax", "softmax-backward")
_ABSOLUTE = {
    "softmax": 2.0**-20,
    "log-softmax": 2.0**-19,
    "softmax-backward": 2.0**-16,
    "log-softmax-backward": 2.0**-16,
    "cross-entropy-backward": 2.0**-18,
}
"""Absolute tolerances where terms cancel: of the order of the output's largest value times
2^-20."""

FAMILY = KernelFamily(
    name="softmax",
    summary="softmax, log-softmax and cross-entropy over rows, forward and backward",
    operations=OPERATIONS,
    variants=tuple(
        KernelVariant(name, _SUMMARIES[name], operations)
        for name, operations in VARIANT_OPERATIONS.items()
    ),
    plan=plan,
    moved_bytes=_moved_bytes,
    flops=flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels.softmax.code",
    origin="https://arxiv.org/abs/1805.02867; https://github.com/pytorch/pytorch/issues/153241; "
    "https://github.com/pytorch/pytorch/pull/179941",
)
