"""The formulas of library operators: what a call asks for, as sizes, and what that takes.

Formulas take numbers or arrays of numbers alike, so that a calibration fits the same formulas that
an estimate uses. Times are in microseconds, rates in units per microsecond: docs/time_operators.md.

A worker reads this, too: standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfcli.model import OperatorWork

Numbers = Any
"""A float, or an array of them."""
Sizes = Mapping[str, Numbers]
Constants = Mapping[str, float]

_DEPTH = 64
"""A tile goes along the inner dimension in steps of so many elements."""
_TILES = (
    (64, 8), (64, 16), (64, 32), (64, 64), (128, 64), (64, 128), (128, 128), (192, 128),
    (128, 192), (256, 128), (128, 256), (192, 192), (256, 64), (64, 256),
)  # fmt: skip
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""By how many blocks of threads one tile's inner dimension may be shared."""
_CONVOLUTION_TILES = (
    (64, 32), (64, 64), (128, 32), (128, 64), (64, 128), (128, 128), (256, 64), (256, 128),
    (128, 256),
)  # fmt: skip
_WEIGHT_SPLITS = (1, 2, 4, 8, 16, 32, 64)
_SHARP = 30
_ROWS = 128
"""Queries that one block of threads of an attention kernel works on."""


def _up(value: Numbers, step: float = 1) -> Numbers:
    """Round up to whole steps."""
    return -(-value // step) * step


def _least(options: Iterable[Numbers]) -> Numbers:
    """Return the least of some options, smoothly: a little below it where several are close. A
    library's heuristics choose the tile that is expected to be the fastest, as this does."""
    total = 0.0
    for option in options:
        total = total + option**-_SHARP
    return total ** (-1 / _SHARP)


def _join(c: Constants, bounds: Iterable[Numbers]) -> Numbers:
    """Return what bounds come to that partly overlap: a norm of them."""
    total = 0.0
    for bound in bounds:
        total = total + bound ** c["norm"]
    return total ** (1 / c["norm"])


def _product_micros(z: Sizes, c: Constants) -> Numbers:
    """Return microseconds of ``b`` products of ``m`` × ``k`` by ``k`` × ``n`` elements of ``s``
    bytes, with what is added to them."""
    micros = c["launch"] + _tiled(z, c, _TILES, _SPLITS, z["bytes"] / c["dram"], l2=True)
    return micros * (1 + c["bias"] * z["bias"]) + z["added"] * c["added"]


def _tiled(
    z: Sizes,
    c: Constants,
    tiles: Sequence[tuple[int, int]],
    splits: Sequence[int],
    dram: Numbers,
    l2: bool = False,
) -> Numbers:
    """Return microseconds of a product by the best of some tiles, each of which keeps one
    multiprocessor busy, with its inner dimension shared by one block of threads or several."""
    m, n, k, b, s = z["m"], z["n"], z["k"], z["b"], z["s"]

    def option(rows: int, columns: int, split: int) -> Numbers:
        blocks = _up(m / rows) * _up(n / columns) * b * split
        depth = _up(k / split, _DEPTH)
        step = rows * columns * 2 / c["rate"] + (rows + columns) * s * c["feed"]
        each = depth * step + depth / _DEPTH * c["step"] + c["tile"]
        bounds = [_up(blocks / c["sms"]) * each, dram]
        if l2:
            bounds.append(blocks * depth * (rows + columns) * s / c["l2"])
        partial = c["split"] + split * m * n * b * 8 / c["partial"] if split > 1 else 0.0
        return _join(c, bounds) + partial

    return _least(option(r, n, split) for r, n in tiles for split in splits)


def _attention_micros(z: Sizes, c: Constants) -> Numbers:
    """Return microseconds of attention, one direction: each pair of a query and a key costs time
    for its products, which grows with the width of a head, and for its exponential."""
    keys = _up(z["keys"], 64)
    causal = z["causal"]
    blocks = z["heads"] * _up(z["queries"] / _ROWS)
    seen = keys * (1 - causal / 2) + causal * _ROWS / 2
    pair = (z["width"] * c["pair"] + c["exponential"]) * (1 + z["dropout"] * c["dropout"])
    pair = pair + z["mask"] * c["mask"]
    each = _ROWS * seen * pair + c["tile"]
    longest = _ROWS * keys * pair + c["tile"]
    busy = blocks / c["sms"] * each + c["tail"] * longest
    bytes_ = z["bytes"]
    return c["launch"] + _join(c, (busy, bytes_ / c["dram"])) + bytes_ / c["around"]


def _convolution_micros(z: Sizes, c: Constants) -> Numbers:
    """Return microseconds of one part of a convolution as the product that it is, with the copies
    that put channels last and back."""
    splits = _WEIGHT_SPLITS if "split" in c else (1,)
    micros = c["launch"] + _tiled(z, c, _CONVOLUTION_TILES, splits, z["bytes"] / c["dram"])
    return micros + z["copies"] * (c["copy_launch"] + z["bytes"] / c["copy_dram"])


def _moving_micros(z: Sizes, c: Constants) -> Numbers:
    """Return microseconds of an operator that moves bytes, or multiplies little."""
    micros = c["launch"] + z["bytes"] / c["dram"] + z["flops"] / c["rate"]
    return micros + z["copies"] * z["bytes"] / c["copy_dram"]


# --- sizes to what a formula and a distance take -----------------------------------------------


@dataclass(frozen=True, slots=True)
class CallPart:
    """Holds one thing that a call does, as its formula and its class of calls know it."""

    name: str
    """The class: ``product half 8``, ``convolution weight dense tf32``."""
    formula: Callable[[Sizes, Constants], Numbers]
    sizes: Mapping[str, float]
    place: tuple[float, ...]
    """Where it is among others of its class: mostly logarithms, of a length that says how much
    each size matters."""


_BYTES = {"bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4}


def parts_of(work: OperatorWork) -> tuple[CallPart, ...] | None:
    """Return what a call does one after the other; None where no formula is known."""
    if work.family == "other":
        return (_other(work),)
    if work.precision not in _BYTES:
        return None
    if work.family == "product":
        return (_product(work),)
    if work.family in ("attention", "attention backward"):
        return (_attention(work),)
    if work.family == "encoder layer":
        return tuple(_encoder_layer(work))
    if work.precision == "fp32":
        return None  # convolutions without TF32 were never measured
    wanted = (
        ("forward",)
        if work.family == "convolution"
        else tuple(part for part in ("input", "weight") if work.sizes[f"to_{part}"])
    )
    return tuple(_convolution(work, part) for part in wanted)


def _half(precision: str) -> str:
    return "half" if precision in ("bf16", "fp16") else precision


def _product(work: OperatorWork) -> CallPart:
    z = work.sizes
    m, n, k, batch, s = z["m"], z["n"], z["k"], z["batch"], _BYTES[work.precision]
    align = int(z["align"])
    # Half a dozen kernels: those for operands of 16 bytes, of 4 and 8, and of any alignment.
    aligned = (8 if align == 8 else min(align, 2)) if s == 2 else 4 if align >= 4 else 1
    added = z["added"]
    sizes = {
        "m": m, "n": n, "k": k, "b": batch, "s": float(s), "bias": z["bias"], "added": added,
        "bytes": batch * s * (m * k + k * n + (1 + 2 * added) * m * n),
    }  # fmt: skip
    place = (
        math.log(m), math.log(n), math.log(k), 0.7 * math.log(batch), 0.7 * z["left"],
        0.7 * z["right"], 0.49 * math.log2(align), 0.7 * z["batched"], 0.3 * z["bias"],
        1.4 * added, 0.3 * (work.precision == "fp16"),
    )  # fmt: skip
    return CallPart(f"product {_half(work.precision)} {aligned}", _product_micros, sizes, place)


def _attention(work: OperatorWork) -> CallPart:
    z, s = work.sizes, _BYTES[work.precision]
    backward = work.family == "attention backward"
    heads, queries, keys, width = z["heads"], z["queries"], z["keys"], z["width"]
    moved = heads * (queries + keys) * width * s * (4 if backward else 2)
    moved += z["mask"] * heads * queries * keys * s
    if backward:  # its blocks of threads are of keys, and go along the queries
        queries, keys = keys, queries
    wide = width if work.variant == "cudnn" else _up(width, 32)
    sizes = {
        "heads": heads, "queries": queries, "keys": keys, "width": wide, "bytes": moved,
        "causal": z["causal"], "mask": z["mask"], "dropout": z["dropout"],
    }  # fmt: skip
    place = (
        0.7 * math.log(heads), 0.7 * math.log(queries), 0.7 * math.log(keys),
        2 * math.log(width), 1.5 * z["causal"], 2 * z["dropout"], 2 * z["mask"],
    )  # fmt: skip
    name = f"{work.family} {work.variant} {'half' if s == 2 else 'fp32'}"
    return CallPart(name, _attention_micros, sizes, place)


def _encoder_layer(work: OperatorWork) -> Iterator[CallPart]:
    """Yield what ``_transformer_encoder_layer_fwd`` launches, in torch 2.11 to 2.13: four products
    with weights, attention, and what moves activations between them."""
    z, s = work.sizes, _BYTES[work.precision]
    rows, width, inner = z["batch"] * z["tokens"], z["width"], z["inner"]
    for n, k in ((3 * width, width), (width, width), (inner, width), (width, inner)):
        sizes = {
            "m": rows, "n": n, "k": k, "batch": 1.0, "left": 0.0, "right": 1.0,
            "align": float(math.gcd(8, int(n), int(k))), "batched": 0.0, "bias": 1.0, "added": 0.0,
        }  # fmt: skip
        yield _product(replace(work, family="product", sizes=sizes))
    sizes = {
        "heads": z["batch"] * z["heads"], "queries": z["tokens"], "keys": z["tokens"],
        "width": width / z["heads"], "causal": 0.0, "mask": z["mask"], "dropout": 0.0,
    }  # fmt: skip
    variant = "flash" if s == 2 and not z["mask"] else "efficient"
    yield _attention(replace(work, family="attention", sizes=sizes, variant=variant))
    # Queries, keys and values are put apart, heads together; twice a sum and its normalisation.
    for read, written in ((3, 3), (1, 1), (3, 2), (3, 2)):
        moved = rows * width * s
        yield _other(
            OperatorWork(
                "other", "", 0.0, read * moved, written * moved, {"row": width}, variant="copy"
            )
        )


def _convolution(work: OperatorWork, part: str) -> CallPart:
    z, s = work.sizes, _BYTES[work.precision]
    images, groups, taps = z["images"], z["groups"], z["taps"]
    channels = z["in"], z["out"]
    pixels = images * z["pixels"], images * z["made"]
    moved = (pixels[0] * channels[0] + pixels[1] * channels[1]) * s
    moved += channels[0] * channels[1] / groups * taps * s
    kind = _kind_of_convolution(z, s)
    flops = 2 * pixels[z["transposed"] == 0] * channels[0] * channels[1] / groups * taps
    if z["transposed"]:  # the gradient of the convolution that maps its output to its input
        channels, pixels = channels[::-1], pixels[::-1]
    does = {"forward": "input", "input": "forward"}.get(part, part) if z["transposed"] else part
    lane = 8 if s == 2 else 4
    inside, outside = channels[0] / groups, channels[1] / groups
    if does == "forward":
        m, n, k = pixels[1], outside, _up(inside, lane) * taps
    elif does == "input":
        shared = pixels[1] / pixels[0] if z["stride"] > 1 else 1.0
        m, n, k = pixels[0], inside, max(_up(outside, lane) * taps * shared, 1.0)
    else:
        m, n, k = outside, inside * taps, pixels[1]
    copied = not z["channels_last"] and kind != "point"
    sizes = {
        "m": m, "n": n, "k": k, "b": groups, "s": float(s), "bytes": moved, "flops": flops,
        "copies": float(copied),
    }  # fmt: skip
    place = (
        0.5 * math.log(images), 0.6 * math.log(z["pixels"]), 0.9 * math.log(z["in"]),
        0.9 * math.log(z["out"]), 1.5 * copied, 0.35 * min(z["tap"], 9),
        0.8 * min(z["stride"], 4), 2 * z["transposed"], 1.2 * z["dims"], 1.5 * (z["dilation"] > 1),
        0.3 * (work.precision == "fp16"), 0.4 * math.log(groups),
    )  # fmt: skip
    formula = _moving_micros if kind == "depthwise" else _convolution_micros
    return CallPart(f"convolution {part} {kind} {_half(work.precision)}", formula, sizes, place)


def _kind_of_convolution(z: Mapping[str, float], size: int) -> str:
    """Return which kernels a convolution takes: those of one channel, of groups, of channels that
    fill no vector, of single pixels (a product), and all others."""
    if z["groups"] > 1:
        return "depthwise" if z["groups"] == z["in"] else "grouped"
    lane = 8 if size == 2 else 4
    if z["in"] % lane or z["out"] % lane:
        return "thin"
    return "point" if z["taps"] == 1 and z["stride"] == 1 else "dense"


def _other(work: OperatorWork) -> CallPart:
    moved = work.read + work.written
    row = max(work.sizes.get("row", 1.0), 1.0)
    sizes = {"bytes": moved, "flops": 0.0, "copies": 0.0}
    return CallPart(
        f"other {work.variant}", _moving_micros, sizes, (math.log(max(moved, 1)), math.log(row))
    )
