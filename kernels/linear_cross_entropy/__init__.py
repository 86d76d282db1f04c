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

Bytes: every input read once, every output written once. Flops: 2 M H V forward, three times as many
backward, of M rows, H columns and V classes. They are what takes the time.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcli.errors import PerfcliError
from perfcli.model import (
    Case,
    KernelFamily,
    KernelLaunch,
    KernelVariant,
    LaunchPlan,
    Problem,
    Scalar,
    Target,
    Tolerance,
)

from .._elements import ITEM_BYTES, TRITON_TYPE

FORWARD, BACKWARD = "linear-cross-entropy", "linear-cross-entropy-backward"
OPERATIONS = {
    FORWARD: "z = x · weightᵀ; lse = log Σ exp(z); loss = lse − z[target]",
    BACKWARD: "g = (exp(z − lse) − [class = target]) × dloss; dx = g · weight; dweight = gᵀ · x",
}
_ROUNDING = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-21}
GRADIENTS_PER_CHUNK = 24
LEAST_BYTES = 32 << 20
LEAST_CLASSES = 1024
CLASSES_STEP = 256
"""Chunks are multiples of it, as tiles of products are."""
TILE_ROWS, TILE_COLUMNS = 128, 256
"""What one multiprocessor multiplies at a time in a large product of 16-bit numbers: on an H200,
8192 × 4096 by 128256 classes took 55.8 ms in chunks of 2048 classes, 3.9 waves of such tiles, and
57.1 ms in chunks of 2816, 5.3 waves (torch 2.11.0, 2026-11-23)."""
BLOCK, WARPS, DIVISOR = 2048, 4, 16
SETTINGS: Mapping[str, Scalar] = {"classes": 32000, "softcap": 0.0, "smoothing": 0.0, "chunk": 0}


def setting(problem: Problem, name: str) -> float:
    return float(str(problem.settings.get(name, SETTINGS[name])))


def classes_of(problem: Problem) -> int:
    return int(setting(problem, "classes"))


def chunk_of(problem: Problem, target: Target) -> int:
    """Return the classes of a chunk: as many as the problem's settings say, or as there is room
    for, less some where the products of fewer fill the device's last wave better."""
    if wanted := int(setting(problem, "chunk")):
        return -(-wanted // DIVISOR) * DIVISOR
    item = ITEM_BYTES[problem.dtype]
    gradients = (problem.rows + classes_of(problem)) * problem.columns * item
    room = max(gradients // GRADIENTS_PER_CHUNK, LEAST_BYTES) // (max(problem.rows, 1) * item)
    most = -(-classes_of(problem) // CLASSES_STEP) * CLASSES_STEP
    room = min(max(room // CLASSES_STEP * CLASSES_STEP, LEAST_CLASSES), most)
    if room == most:
        return room
    least = min(max(room // 2, LEAST_CLASSES), room)
    sizes = range(room, least - 1, -CLASSES_STEP)
    costs = {chunk: _cost_of_class(problem, target, chunk) for chunk in sizes}
    return max(chunk for chunk in sizes if costs[chunk] <= 1.01 * min(costs.values()))


def _cost_of_class(problem: Problem, target: Target, chunk: int) -> float:
    """Return what the three products of a chunk cost for each of its classes: waves of tiles times
    the length of the sums in a tile."""

    def waves(rows: int, columns: int) -> int:
        tiles = -(-rows // TILE_ROWS) * -(-columns // TILE_COLUMNS)
        return -(-tiles // target.sm_count)

    rows, columns = problem.rows, problem.columns
    logits = waves(rows, chunk) * columns
    return (logits + waves(chunk, columns) * rows + waves(rows, columns) * chunk) / chunk


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return the launch that each chunk of the logits gets.

    Raises:
        PerfcliError: another operation, variant or dtype, or settings that make no sense.
    """
    _check(problem, variant)
    if problem.rows == 0:
        return LaunchPlan("chunked", (), "nothing to compute")
    chunk = chunk_of(problem, target)
    block = min(BLOCK, 1 << (chunk - 1).bit_length())
    element = f"*{TRITON_TYPE[problem.dtype]}"
    arguments = {"logits_ptr": element, "target_ptr": "*i64"}
    name, integers = "chunk_gradient", ["first", "columns", "stride"]
    arrays: tuple[str, ...] = ("lse_ptr", "dloss_ptr")
    if problem.operation == FORWARD:
        name = "chunk_statistics"
        arrays = ("peaks_ptr", "totals_ptr", "picked_ptr", "sums_ptr", "loss_ptr", "lse_ptr")
        integers.append("classes")
    arguments |= dict.fromkeys(arrays, "*fp32")
    pointers = tuple(arguments)
    arguments |= dict.fromkeys(integers, "i32")
    arguments |= {"cap": "fp32", "ignored": "i32", "kept": "fp32", "share": "fp32"}
    constants: dict[str, Scalar] = {
        "CAPPED": setting(problem, "softcap") != 0,
        "SMOOTHED": setting(problem, "smoothing") != 0,
        "CHUNK": chunk,
        "BLOCK": block,
    }
    launch = KernelLaunch(
        name,
        (problem.rows, 1, 1),
        arguments,
        constants,
        max(1, WARPS * 32 // target.warp_size),
        divisible_by_16=(*pointers, "columns", "stride"),
    )
    chunks = -(-classes_of(problem) // chunk)
    item = ITEM_BYTES[problem.dtype]
    return LaunchPlan(
        "chunked",
        (launch,),
        f"{chunks} chunks of {chunk} classes: {problem.rows * chunk * item / 1e6:.1f} MB of logits",
        workspace_bytes=problem.rows * chunk * item,
    )


def _check(problem: Problem, variant: str | None) -> None:
    if problem.operation not in OPERATIONS:
        raise PerfcliError(
            f"expected an operation of {', '.join(OPERATIONS)}, found {problem.operation!r}"
        )
    if variant not in (None, "chunked"):
        raise PerfcliError(f"no variant {variant!r} of linear-cross-entropy; known: chunked")
    if problem.dtype not in ITEM_BYTES:
        known = ", ".join(ITEM_BYTES)
        raise PerfcliError(f"expected a dtype of {known}, found {problem.dtype}: convert the input")
    if problem.rows > 1 and problem.stride != problem.columns:
        raise PerfcliError(
            f"expected rows without gaps, found {problem.columns} that are {problem.stride} apart: "
            "call contiguous() first"
        )
    if classes_of(problem) < 1:
        raise PerfcliError(f"expected one class or more, found {classes_of(problem)}")
    if setting(problem, "softcap") < 0 or not 0 <= setting(problem, "smoothing") <= 1:
        raise PerfcliError(
            "expected a softcap of 0 (none) or more and a smoothing of 0 to 1, found "
            f"{setting(problem, 'softcap'):g} and {setting(problem, 'smoothing'):g}"
        )


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


CASES = tuple(
    Case(_problem(operation, rows, columns, dtype, classes=classes, **more))
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
)
BENCHMARKS = tuple(
    _problem(operation, rows, columns, classes=classes)
    for operation in OPERATIONS
    for rows, columns, classes in ((8192, 4096, 128256), (4096, 2048, 151936))
)

FAMILY = KernelFamily(
    name="linear-cross-entropy",
    summary="cross-entropy of a product with a matrix of classes, whose logits are never stored",
    operations=OPERATIONS,
    variants=(
        KernelVariant("chunked", "some classes at a time, in one buffer", tuple(OPERATIONS)),
    ),
    plan=plan,
    moved_bytes=_moved_bytes,
    flops=_flops,
    tolerances=_tolerances,
    cases=CASES,
    benchmarks=BENCHMARKS,
    code="perfcli.kernels.linear_cross_entropy.code",
    origin="https://arxiv.org/abs/2411.09009; https://github.com/linkedin/Liger-Kernel",
)
