"""Computes the cross-entropy of logits that are never stored: of ``x @ weight.T``, forward and
backward, as Liger and Apple's cut-cross-entropy do (https://arxiv.org/abs/2411.09009).

The logits of some classes at a time are made by the library's product. Forward, they are folded
into each row's maximum and sum of exponentials; backward, they are made again, turned into their
gradient in place, and multiplied by ``weight`` and ``x``. The classes are cut, not the rows: each
gradient of ``weight`` is one product, rounded once, and products of many rows are the fast ones.
The gradient of ``x`` is added up in float32, in memory that the last gradients of ``weight`` take
afterwards; those few are added in ``x``'s own dtype.

Memory beyond the gradients: a chunk of the logits, which takes at most a 24th of the gradients, or
32 MiB, or 1024 classes, whichever is more, and is as long as fills waves of tiles; and a float32
copy of ``x`` if ``weight`` has fewer than 4 times its rows.

Where the logits of a forward are few, the calls of the library would take longer than their
products: two kernels of our own make them tile by tile and join the tiles' statistics.

Bytes: every input read once, every output written once. Flops: 2 M H V forward, three times as many
backward, of M rows, H columns and V classes. They are what takes the time.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcli.model import Case, KernelFamily, KernelVariant, Problem, Scalar, Tolerance

from .._elements import ITEM_BYTES
from .plan import FORWARD, OPERATIONS, classes_of, plan_launches

_ROUNDING = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-21}


def _moved_bytes(problem: Problem) -> int:
    inputs = (problem.rows + classes_of(problem)) * problem.columns * ITEM_BYTES[problem.dtype]
    if problem.operation == FORWARD:
        return inputs + problem.rows * (8 + 4)
    return 2 * inputs + problem.rows * (8 + 4 + 4)


def _flops(problem: Problem) -> int:
    products = 1 if problem.operation == FORWARD else 3
    return 2 * problem.rows * problem.columns * classes_of(problem) * products


def _tolerances(problem: Problem) -> Mapping[str, Tolerance]:
    """Return tolerances for the inputs that are made here: logits about as large as 1."""
    rounding = _ROUNDING[problem.dtype]
    reason = f"logits and their gradients are rounded to {problem.dtype}, and so are sums of them"
    if problem.operation == FORWARD:
        same = Tolerance(6 * rounding, 2 * rounding, reason)
        return {"loss": same, "lse": same}
    per_weight = 8 * rounding / max(problem.columns, 1) ** 0.5
    return {
        "dx": Tolerance(4 * per_weight, 8 * rounding, reason),
        "dweight": Tolerance(24 * rounding, 8 * rounding, reason),
    }


def _problem(
    operation: str, rows: int, columns: int, dtype: str = "bfloat16", **settings: Scalar
) -> Problem:
    return Problem(operation, rows, columns, dtype, settings=settings)


CASES = (
    tuple(
        Case(_problem(operation, rows, columns, dtype, classes=classes, **more), variant)
        for operation in OPERATIONS
        for dtype in ITEM_BYTES
        for rows, columns, classes, more in (
            (1, 8, 1, {}),
            (33, 64, 1000, {}),
            (37, 48, 2600, {"softcap": 5.0}),
            (40, 40, 5003, {"smoothing": 0.1}),
            (64, 32, 2048, {"softcap": 30.0, "smoothing": 0.25}),
            (33, 16, 3000, {"chunk": 512}),
            (0, 64, 100, {}),
        )
        for variant in (("chunked", "fused") if operation == FORWARD else ("chunked",))
        if variant == "chunked" or (ITEM_BYTES[dtype] == 2 and "chunk" not in more)
    )
    + tuple(
        Case(_problem(FORWARD, rows, columns, dtype, classes=classes), "fused")
        for rows, columns, classes, dtype in (
            (130, 200, 517, "float16"),
            (300, 33, 129, "bfloat16"),
            (8, 1024, 40, "bfloat16"),
            (5, 0, 7, "bfloat16"),
            (65, 127, 17, "float16"),
        )
    )
    + (Case(_problem(FORWARD, 9, 32, classes=50, smoothing=1.0), "fused"),)
)
BENCHMARKS = tuple(
    _problem(operation, rows, columns, classes=classes)
    for operation in OPERATIONS
    for rows, columns, classes in ((8192, 4096, 128256), (4096, 2048, 151936), (64, 1024, 1000))
)

FAMILY = KernelFamily(
    name="linear-cross-entropy",
    summary="cross-entropy of a product with a matrix of classes, whose logits are never stored",
    operations=OPERATIONS,
    variants=(
        KernelVariant("chunked", "some classes at a time, in one buffer", tuple(OPERATIONS)),
        KernelVariant("fused", "tiles of the product, whose statistics are joined", (FORWARD,)),
    ),
    plan=plan_launches,
    moved_bytes=_moved_bytes,
    flops=_flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels.linear_cross_entropy.code",
    origin="https://arxiv.org/abs/2411.09009; https://github.com/linkedin/Liger-Kernel",
)
