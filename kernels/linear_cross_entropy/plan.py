"""Plans linear-cross-entropy: chunks of the logits, or tiles of them where they are few. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, LaunchPlan, Problem, Scalar, Target

from .._elements import ITEM_BYTES, TRITON_TYPE, next_power_of_2

FORWARD, BACKWARD = "linear-cross-entropy", "linear-cross-entropy-backward"
OPERATIONS = {
    FORWARD: "z = x · weightᵀ; lse = log Σ exp(z); loss = lse − z[target]",
    BACKWARD: "g = (exp(z − lse) − [class = target]) × dloss; dx = g · weight; dweight = gᵀ · x",
}
REDUCTIONS = ("none", "mean", "sum")
"""What tiles may do with the losses as well; chunks leave it to whoever asked."""
SETTINGS: Mapping[str, Scalar] = {
    "classes": 32000,
    "softcap": 0.0,
    "smoothing": 0.0,
    "chunk": 0,
    "reduction": "none",
}


def setting(problem: Problem, name: str) -> float:
    return float(str(problem.settings.get(name, SETTINGS[name])))


def classes_of(problem: Problem) -> int:
    return int(setting(problem, "classes"))


def reduction_of(problem: Problem) -> str:
    return str(problem.settings.get("reduction", SETTINGS["reduction"]))


def plan_launches(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return the launch that each chunk of the logits gets, or the two that compute all of them.

    Raises:
        PerfcliError: another operation, variant or dtype, or settings that make no sense.
    """
    _check(problem, variant)
    if problem.rows == 0:
        return LaunchPlan("chunked", (), "nothing to compute")
    reason = _why_not_fused(problem)
    if variant == "fused" and reason:
        return replace(_plan_chunks(problem, target), instead_of=f"fused: {reason}")
    if reason or variant == "chunked":
        return _plan_chunks(problem, target)
    tile = _tile_of(problem, target)
    wants_chunks = setting(problem, "chunk") or not _is_fused_faster(problem, target, *tile)
    if variant is None and wants_chunks:
        return _plan_chunks(problem, target)
    return _plan_tiles(problem, target, *tile)


def _check(problem: Problem, variant: str | None) -> None:
    if problem.operation not in OPERATIONS:
        raise PerfcliError(
            f"expected an operation of {', '.join(OPERATIONS)}, found {problem.operation!r}"
        )
    if variant not in (None, "chunked", "fused"):
        raise PerfcliError(f"no variant {variant!r} of linear-cross-entropy; known: chunked, fused")
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
    if reduction_of(problem) not in REDUCTIONS:
        raise PerfcliError(
            f"expected a reduction of {', '.join(REDUCTIONS)}, found {reduction_of(problem)!r}"
        )
    if setting(problem, "softcap") < 0 or not 0 <= setting(problem, "smoothing") <= 1:
        raise PerfcliError(
            "expected a softcap of 0 (none) or more and a smoothing of 0 to 1, found "
            f"{setting(problem, 'softcap'):g} and {setting(problem, 'smoothing'):g}"
        )


# --- chunks ---------------------------------------------------------------------------------------

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


def _plan_chunks(problem: Problem, target: Target) -> LaunchPlan:
    chunk = chunk_of(problem, target)
    block = min(BLOCK, next_power_of_2(chunk))
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


# --- tiles ----------------------------------------------------------------------------------------

TILE_CLASSES = (16, 32, 64, 128)
"""The classes that a tile of the product that is our own may have."""
LEAST_TILE_ROWS, MOST_TILE_ROWS = 16, 64
MOST_TILE_ELEMENTS = 64 * 64
"""Of more, ptxas 12.8 spills registers for sm_80."""
TILE_STEP, TILE_STAGES = 128, 3
"""Columns that a tile multiplies at a time, and how many times it loads ahead."""
STEP_SECONDS = 0.22e-6
"""What a step of a tile takes, however few bytes it loads: 16 × 1024 by 512 classes took 6.6 µs,
16 × 4096 12.0 (H200, as graphs, triton 3.6.0, 2026-11-29; so is all below)."""
FIXED_SECONDS = 5e-6
"""Of both kernels; 16 × 256 by 512 classes took 5.1 µs."""
WORTH_SECONDS = 12e-6
"""Up to which tiles pay, though the library's product may be up to 1.2 µs faster: a call that
launches two kernels takes 13 µs of host time, one with a product of the library 27 or more. With
more rows than a tile has, the library is faster by 1.5 µs (128 × 1024 by 512 classes) and more."""
FEW_ROWS = 16
"""Up to which tiles pay also where memory is what they wait for: 16 × 2048 by 32000 classes took
37.0 instead of 45.7 µs, 16 × 4096 66.5 instead of 78.1, by 8192 25.5 instead of 24.6."""
JOINED_ROWS, JOINED, JOINING_WARPS = 256, 4096, 8
"""Rows, and tiles of rows, that a program joins at a time: twice the tiles took 1.3 µs longer."""
MOST_JOINED = 2 * JOINED
"""Tiles of rows up to which one program joins all: 64 × 256 by 32000 classes, 16000 of them, took
19.6 µs instead of 15.8."""


def _why_not_fused(problem: Problem) -> str:
    """Return why the logits cannot be computed tile by tile; empty where they can be."""
    if problem.operation == BACKWARD:
        return "a gradient takes products of all logits"
    if ITEM_BYTES[problem.dtype] > 2:
        return "its products are those of 16-bit numbers"
    # Of both matrices, and of the statistics of all tiles.
    elements = max(problem.rows, classes_of(problem)) * max(problem.columns, problem.rows)
    return "" if elements < 1 << 31 else "it counts elements in 32 bits"


def _tile_of(problem: Problem, target: Target) -> tuple[int, int]:
    """Return the rows and classes of a tile: as few classes as make one wave, or as many as there
    is shared memory for."""
    rows = min(max(next_power_of_2(problem.rows), LEAST_TILE_ROWS), MOST_TILE_ROWS)
    each = TILE_STEP * TILE_STAGES * ITEM_BYTES[problem.dtype]
    room = target.shared_bytes_per_block_optin
    sizes = [n for n in TILE_CLASSES if rows * n <= MOST_TILE_ELEMENTS]
    fit = [n for n in sizes if (rows + n) * each <= room]
    waves = (n for n in fit if _waves(problem, target, rows, n) == 1)
    return rows, next(waves, fit[-1])


def _waves(problem: Problem, target: Target, rows: int, classes: int) -> int:
    tiles = -(-problem.rows // rows) * -(-classes_of(problem) // classes)
    return -(-tiles // target.sm_count)


def _is_fused_faster(problem: Problem, target: Target, rows: int, classes: int) -> bool:
    steps = _waves(problem, target, rows, classes) * -(-problem.columns // TILE_STEP)
    steps_take = steps * STEP_SECONDS
    weights = classes_of(problem) * problem.columns * ITEM_BYTES[problem.dtype]
    weights_take = weights / target.bandwidth
    tiles = problem.rows * -(-classes_of(problem) // classes)
    in_words = problem.columns % DIVISOR == 0  # else Triton loads one number at a time
    if not in_words or problem.rows > rows or tiles > MOST_JOINED:
        return False
    if FIXED_SECONDS + steps_take + weights_take <= WORTH_SECONDS:
        return True
    return problem.rows <= FEW_ROWS and steps_take <= weights_take


def _plan_tiles(problem: Problem, target: Target, rows: int, classes: int) -> LaunchPlan:
    element = f"*{TRITON_TYPE[problem.dtype]}"
    flags: dict[str, Scalar] = {"SMOOTHED": setting(problem, "smoothing") != 0}
    reduction = reduction_of(problem)
    tiles = -(-classes_of(problem) // classes)
    row_tiles = -(-problem.rows // rows)
    joined_rows = min(next_power_of_2(problem.rows), JOINED_ROWS)
    joined_tiles = min(next_power_of_2(tiles), max(JOINED // joined_rows, 1))
    floats = dict.fromkeys(("peaks_ptr", "totals_ptr", "sums_ptr", "picked_ptr"), "*fp32")
    arrays = {"x_ptr": element, "weight_ptr": element, "target_ptr": "*i64", **floats}
    warps = max(1, WARPS * 32 // target.warp_size)
    statistics = KernelLaunch(
        "tile_statistics",
        (tiles, row_tiles, 1),
        {**arrays, **dict.fromkeys(("rows", "classes", "columns"), "i32"), "cap": "fp32"},
        {
            "CAPPED": setting(problem, "softcap") != 0,
            **flags,
            "ROWS": rows,
            "CLASSES": classes,
            "STEP": TILE_STEP,
        },
        warps,
        num_stages=TILE_STAGES,
        divisible_by_16=tuple(arrays) + ("columns",) * (problem.columns % 16 == 0),
    )
    outputs = dict.fromkeys(("loss_ptr", "lse_ptr", "total_ptr", "scale_ptr"), "*fp32")
    arrays = {"target_ptr": "*i64", **floats, **outputs}
    reduced = reduction != "none"
    join = KernelLaunch(
        "join_tiles",
        (1 if reduced else -(-problem.rows // joined_rows), 1, 1),
        {
            **arrays,
            **dict.fromkeys(("rows", "classes", "tiles", "ignored"), "i32"),
            **dict.fromkeys(("kept", "share"), "fp32"),
        },
        {
            **flags,
            "REDUCED": reduced,
            "MEAN": reduction == "mean",
            "ROWS": joined_rows,
            "TILES": joined_tiles,
        },
        max(1, JOINING_WARPS * 32 // target.warp_size),
        divisible_by_16=tuple(arrays),
    )
    return LaunchPlan(
        "fused",
        (statistics, join),
        f"{row_tiles * tiles} tiles of {rows} rows × {classes} classes",
        workspace_bytes=4 * problem.rows * (3 * tiles + 1),
    )
