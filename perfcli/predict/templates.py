"""Estimates how long a kernel takes that Inductor makes of a template: a matrix product, a
convolution, flex attention.

All of them let each block of threads compute one tile of the result and go along an inner
dimension in steps, in each of which two tiles are brought to the multiprocessor and multiplied.
Sizes and launch configuration say how many blocks and steps there are; the compiled kernel says how
many blocks a multiprocessor holds, and what it spills. Accuracy: docs/modes.md.

A worker decides by it where there is no device: standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perfcli.model import PRECISIONS, Buffer, Candidate, Scalar, Target, TimeEstimate
from perfcli.predict.operators import table_for


@dataclass(frozen=True, slots=True)
class TemplateWork:
    """Says what a template's kernel does with one launch configuration."""

    precision: str
    blocks: float
    """Tiles of the result."""
    steps: float
    """How many steps along the inner dimension a tile takes."""
    step_flops: float
    step_bytes: float
    """What a step brings to the multiprocessor."""
    tile_bytes: float
    """What a tile writes."""
    moved: float
    """Bytes of all operands and of the result, each once."""
    rows: int
    columns: int
    """The tile of the result that one product of a step computes."""
    even: bool = True
    """Whether the inner dimension is a multiple of a step: no masks."""
    wide: bool = True
    """Whether rows of operands begin at 16 bytes: they are copied without passing registers."""
    straight: bool = True
    """Whether both operands run along the inner dimension: Hopper's warp-group instruction takes
    other layouts of 16-bit types only."""
    exponentials: bool = False
    """Whether a step takes exponentials of what its product yields, as attention does."""


def describe_template(
    operator: str,
    reads: Sequence[Buffer],
    result: Buffer,
    config: Mapping[str, Scalar],
    tf32: bool = False,
) -> TemplateWork | None:
    """Return the work of a template for Inductor's list of choices ``operator``; None where
    perfcli does not know it."""
    try:
        if "convolution" in operator:
            return _describe_convolution(reads, result, config, tf32)
        if operator.startswith("flex"):
            return _describe_attention(operator, reads, config, tf32)
        if operator.endswith("mm") or "plus_mm" in operator:
            return _describe_product(operator, reads, result, config, tf32)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        pass  # operands or a configuration of another shape: not known
    return None


def _describe_product(
    operator: str, reads: Sequence[Buffer], result: Buffer, config: Mapping[str, Scalar], tf32: bool
) -> TemplateWork:
    left, right = _find_factors(reads, result)
    products = 2 if "plus_mm" in operator else 1
    m, n = result.shape[-2:]
    k = left.shape[-1]
    batch = math.prod(result.shape[:-2])
    rows, columns, depth = _tile(config)
    size, out = _bytes_of(left), _bytes_of(result)
    return TemplateWork(
        _precision(left, tf32),
        blocks=_up(m, rows) * _up(n, columns) * batch,
        steps=_up(k, depth) * products,
        step_flops=2.0 * rows * columns * depth,
        step_bytes=float((rows + columns) * depth * size),
        tile_bytes=float(rows * columns * out),
        moved=float(sum(map(_count_bytes, (*reads, result)))),
        rows=rows,
        columns=columns,
        even=k % depth == 0,
        wide=_is_wide(left, size) and _is_wide(right, size),
        straight=left.stride[-1] == 1 and right.stride[-2] == 1,
    )


def _find_factors(reads: Sequence[Buffer], result: Buffer) -> tuple[Buffer, Buffer]:
    """Return the first two neighbours of which the result is the product: what is added comes
    before them, scales come after."""
    for left, right in pairwise(reads):
        shapes = left.shape[-2:], right.shape[-2:]
        fits = len(shapes[0]) == len(shapes[1]) == 2 and shapes[0][1] == shapes[1][0]
        if fits and (shapes[0][0], shapes[1][1]) == result.shape[-2:]:
            return left, right
    raise ValueError("no product")


def _count_bytes(buffer: Buffer) -> int:
    """Return the bytes of a tensor's different elements: what is expanded is read once."""
    pairs = zip(buffer.shape, buffer.stride, strict=True)
    return math.prod(size for size, stride in pairs if stride) * _bytes_of(buffer)


def _describe_convolution(
    reads: Sequence[Buffer], result: Buffer, config: Mapping[str, Scalar], tf32: bool
) -> TemplateWork:
    image, weight = reads[:2]
    rows, columns, depth = _tile(config)
    groups = max(1, image.shape[1] // weight.shape[1])
    taps = math.prod(weight.shape[2:])
    pixels = result.shape[0] * math.prod(result.shape[2:])
    size = _bytes_of(image)
    return TemplateWork(
        _precision(image, tf32),
        blocks=_up(pixels, rows) * _up(weight.shape[0] // groups, columns) * groups,
        steps=_up(weight.shape[1], depth) * taps,
        step_flops=2.0 * rows * columns * depth,
        step_bytes=float((rows + columns) * depth * size),
        tile_bytes=float(rows * columns * _bytes_of(result)),
        moved=float(sum(each.bytes for each in (*reads, result))),
        rows=rows,
        columns=columns,
        even=weight.shape[1] % depth == 0,
        wide=image.stride[1] == 1 and weight.stride[1] == 1,
    )


def _describe_attention(
    operator: str, reads: Sequence[Buffer], config: Mapping[str, Scalar], tf32: bool
) -> TemplateWork:
    query, key, value = reads[:3]
    batch, heads, queries, width = query.shape
    keys, size = key.shape[-2], _bytes_of(query)
    wide = width + value.shape[-1]
    if operator.endswith("backward"):
        rows, columns = _number(config, "BLOCK_M1"), _number(config, "BLOCK_N1")
        # One half of the blocks goes along the queries, the other along the keys.
        blocks = batch * heads * (_up(keys, columns) + _up(queries, _number(config, "BLOCK_M2")))
        steps, products = _up(queries, rows), 1.75
    else:
        rows, columns = _number(config, "BLOCK_M"), _number(config, "BLOCK_N")
        splits = _number(config, "SPLIT_KV") if "SPLIT_KV" in config else 1
        grouped = heads // key.shape[1] if splits > 1 else 1
        blocks = batch * heads // grouped * _up(queries * grouped, rows) * splits
        steps, products = _up(keys / splits, columns), 1.0
    return TemplateWork(
        _precision(query, tf32),
        blocks=float(blocks),
        steps=float(steps),
        step_flops=2.0 * rows * columns * wide * products,
        step_bytes=float(columns * wide * size),
        tile_bytes=float(rows * value.shape[-1] * size),
        moved=float(sum(each.bytes for each in reads[:3]) + query.bytes),
        rows=rows,
        columns=columns,
        exponentials=True,
    )


def _tile(config: Mapping[str, Scalar]) -> tuple[int, int, int]:
    return _number(config, "BLOCK_M"), _number(config, "BLOCK_N"), _number(config, "BLOCK_K")


def _number(config: Mapping[str, Scalar], name: str) -> int:
    return int(config[name] or 0)


def _up(value: float, step: float) -> float:
    return float(-(-value // step))


def _precision(buffer: Buffer, tf32: bool) -> str:
    if buffer.dtype == "float32" and tf32:
        return "tf32"
    return PRECISIONS.get(buffer.dtype, buffer.dtype)


def _bytes_of(buffer: Buffer) -> int:
    return buffer.bytes // max(1, math.prod(buffer.shape))


def _is_wide(matrix: Buffer, size: int) -> bool:
    strides = [s for s in matrix.stride[-2:] if s != 1]
    return all(stride * size % 16 == 0 for stride in strides)


# --- seconds ----------------------------------------------------------------------------------

Constants = Mapping[str, float]
_CONSTANTS: Constants = {
    "launch": 5.0,
    "tile": 1.89,
    "step": 0.064,
    "latency": 0.457,
    "wgmma": 1.14,
    "mma": 0.147,
    "feed": 175.0,
    "l2": 11900.0,
    "dram": 0.78,
    "store": 48.6,
    "masked": 1.005,
    "narrow": 2.0,
    "exponentials": 3.14,
    "spill": 0.01,
    "norm": 5.04,
}
"""Of an NVIDIA H200. Microseconds; bytes per microsecond and multiprocessor (``feed``, ``store``)
or in all (``l2``) in thousands; parts of the data sheet's peaks (``wgmma``, ``mma``, ``dram``), of
which more than one says that other terms have a part of the same time. Fitted to every other one of
26 lists of choices that Inductor timed (torch 2.11.0); of what it timed, 8 microseconds that the
host took are left out of ``launch``. ``narrow`` and ``spill`` were not in them."""
_SPREAD = 0.46
"""|log error| of nine of ten templates, in the lists that the constants were not fitted to: a
factor of 1.58."""
_PEAKS = {"bf16": "bf16", "fp16": "bf16", "tf32": "tf32", "fp32": "fp32", "int8": "int8"}


def estimate_template(
    work: TemplateWork, candidate: Candidate | None, target: Target
) -> TimeEstimate | None:
    """Return the estimate of one launch; None where the target's peaks are not known or the kernel
    does not fit on it."""
    micros = _micros(work, candidate, target, _CONSTANTS)
    if micros is None:
        return None
    seconds = 1e-6 * micros
    return TimeEstimate(
        seconds, seconds * math.exp(-_SPREAD), seconds * math.exp(_SPREAD), kind="template"
    )


_HOST_CALLS = {"template": 0.8, "operator": 1.4, "graph": 2.8}
"""How long the host takes for what Inductor times, in calls of an operator: the least of 453 timed
templates (11.6 microseconds), what padding decisions showed, and two of those."""


def count_host_seconds(kind: str, target: Target) -> float:
    """Return what Inductor measures at least for an implementation, however short it is."""
    table = table_for(target)
    return _HOST_CALLS[kind] * table.host_micros["operator"] * 1e-6 if table else 0.0


def _micros(
    work: TemplateWork, candidate: Candidate | None, target: Target, c: Constants
) -> float | None:
    peak = target.peak_flops.get(_PEAKS.get(work.precision, work.precision)) or 0.0
    resident = (candidate.blocks_per_sm if candidate else None) or 0
    if not peak or candidate is None or not resident or target.bandwidth <= 0:
        return None
    sms = target.sm_count
    halves = work.precision in ("bf16", "fp16") or (work.precision != "fp32" and work.straight)
    whole = work.rows >= 64 and candidate.num_warps >= 4 and target.capability[0] == 9
    part = c["wgmma"] if whole and halves else c["mma"]
    rate = part * peak / sms * 1e-6
    compute = work.step_flops / rate
    feed = work.step_bytes / (1e3 * c["feed"])
    busy = _norm((compute, feed), c["norm"]) * (1 if work.even else c["masked"])
    busy *= 1 if work.wide else c["narrow"]
    busy *= c["exponentials"] if work.exponentials else 1
    spilled = candidate.spilled_words or 0
    busy *= 1 + c["spill"] * spilled
    # A block on its own waits in each step for what it asked for some steps before.
    ahead = max(candidate.num_stages - 1, 0.5)
    alone = max(busy, c["latency"] / ahead) + c["step"]
    end = c["tile"] + work.tile_bytes / (1e3 * c["store"])
    on_one = math.ceil(work.blocks / sms)
    resident = min(resident, on_one)
    turns, rest = divmod(on_one, resident)
    micros = turns * _turn(work.steps, resident, busy, alone, end)
    micros += _turn(work.steps, rest, busy, alone, end) if rest else 0.0
    l2 = work.blocks * work.steps * work.step_bytes / (1e3 * c["l2"])
    dram = work.moved / (c["dram"] * target.bandwidth) * 1e6
    return c["launch"] + _norm((micros, l2, dram), c["norm"])


def _turn(steps: float, blocks: int, busy: float, alone: float, end: float) -> float:
    """Return microseconds in which blocks of one multiprocessor compute a tile each, together."""
    return steps * max(blocks * busy, alone) + end


def _norm(times: Sequence[float], power: float) -> float:
    return float(sum(time**power for time in times) ** (1 / power))
