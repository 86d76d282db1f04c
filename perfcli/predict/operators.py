"""Turns the work of a library operator into seconds.

A formula with constants of the GPU gives a first estimate. Calls that were measured correct it: a
Gaussian process of how far the formula was from each of them, in logarithms of the sizes, whose
weights are shipped beside their times. Formulas take numbers or arrays of numbers alike, so that
a calibration fits the same formulas that an estimate uses. Times are in microseconds, rates in
units per microsecond. Accuracy: docs/time_operators.md.

A worker reads this, too, to decide whether a matrix product is padded: standard library only.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from perfcli.model import OperatorWork, Target, TimeEstimate

Numbers = Any
"""A float, or an array of them."""
Sizes = Mapping[str, Numbers]
Constants = Mapping[str, float]

_FORMAT = 1
_SHIPPED = resources.files("perfcli") / "data" / "operators"
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


# --- formulas --------------------------------------------------------------------------------


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
class _Part:
    """Holds one thing that a call does, as its formula and its class of calls know it."""

    name: str
    """The class: ``product half 8``, ``convolution weight dense tf32``."""
    formula: Callable[[Sizes, Constants], Numbers]
    sizes: Mapping[str, float]
    place: tuple[float, ...]
    """Where it is among others of its class: mostly logarithms, of a length that says how much
    each size matters."""


_BYTES = {"bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4}


def _parts_of(work: OperatorWork) -> tuple[_Part, ...] | None:
    """Return what a call does one after the other; None where no formula is known."""
    if work.family == "other":
        return (_other(work),)
    if work.precision not in _BYTES:
        return None
    if work.family == "product":
        return (_product(work),)
    if work.family in ("attention", "attention backward"):
        return (_attention(work),)
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


def _product(work: OperatorWork) -> _Part:
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
    return _Part(f"product {_half(work.precision)} {aligned}", _product_micros, sizes, place)


def _attention(work: OperatorWork) -> _Part:
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
    return _Part(name, _attention_micros, sizes, place)


def _convolution(work: OperatorWork, part: str) -> _Part:
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
    return _Part(f"convolution {part} {kind} {_half(work.precision)}", formula, sizes, place)


def _kind_of_convolution(z: Mapping[str, float], size: int) -> str:
    """Return which kernels a convolution takes: those of one channel, of groups, of channels that
    fill no vector, of single pixels (a product), and all others."""
    if z["groups"] > 1:
        return "depthwise" if z["groups"] == z["in"] else "grouped"
    lane = 8 if size == 2 else 4
    if z["in"] % lane or z["out"] % lane:
        return "thin"
    return "point" if z["taps"] == 1 and z["stride"] == 1 else "dense"


def _other(work: OperatorWork) -> _Part:
    moved = work.read + work.written
    row = max(work.sizes.get("row", 1.0), 1.0)
    sizes = {"bytes": moved, "flops": 0.0, "copies": 0.0}
    return _Part(
        f"other {work.variant}", _moving_micros, sizes, (math.log(max(moved, 1)), math.log(row))
    )


# --- what was measured ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OperatorClass:
    """Holds the constants of one class of calls, and those of it that were measured."""

    constants: Constants
    length: float
    """The distance over which errors of the formula resemble one another."""
    places: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    spread: tuple[tuple[float, float], ...]
    """Distance of the nearest measured call to the 90th percentile of |log error|."""

    def correct(self, place: Sequence[float]) -> tuple[float, float]:
        """Return the logarithm of measured to formula that is expected at a place, and the
        distance of the nearest measured call."""
        total, nearest = 0.0, math.inf
        for known, weight in zip(self.places, self.weights, strict=True):
            distance = math.dist(known, place)
            nearest = min(nearest, distance)
            total += weight * _alike(distance / self.length)
        return total, nearest


def _alike(distance: Numbers) -> Numbers:
    """Return how closely two calls resemble each other at a distance in lengths (Matérn, 3/2)."""
    scaled = math.sqrt(3) * distance
    return (1 + scaled) * math.e**-scaled


@dataclass(frozen=True, slots=True)
class _OperatorTable:
    """Holds what is known of library operators on one GPU."""

    gpu: Mapping[str, Any]
    """Its name, and what its data sheet says: for other GPUs."""
    source: str
    classes: Mapping[str, Mapping[str, Any]]
    """As they are in the file."""
    host_micros: Mapping[str, float]
    """What the host needs for a step, to launch a generated kernel, and to call operators."""


@functools.cache
def _shipped_tables() -> Mapping[str, _OperatorTable]:
    """Return the tables that come with perfcli, by target."""
    if not _SHIPPED.is_dir():
        return {}
    found = [json.loads(entry.read_bytes()) for entry in _SHIPPED.iterdir()]
    return {
        data["gpu"]["name"]: _OperatorTable(
            data["gpu"], data["source"], data["classes"], data["host_micros"]
        )
        for data in found
        if data["format"] == _FORMAT
    }


@functools.cache
def _hash_tables() -> str:
    """Return the SHA-256 of the tables that come with perfcli."""
    entries = sorted(_SHIPPED.iterdir(), key=lambda entry: entry.name) if _SHIPPED.is_dir() else []
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(hashlib.sha256(entry.read_bytes()).digest())
    return digest.hexdigest()


_DERIVED_SPREAD = 1.6
"""How much wider the intervals of a GPU that was not measured are."""


def _find_nearest(target: Target, known: Mapping[str, tuple[int, float]]) -> str:
    """Return the name of the GPU that is most like a target: first by architecture, then by
    bandwidth. ``known`` has the major number of the compute capability, and the bandwidth in
    bytes/s."""

    def distance(name: str) -> tuple[int, float]:
        capability, bandwidth = known[name]
        return abs(capability - target.capability[0]), abs(bandwidth / target.bandwidth - 1)

    return min(known, key=distance)


@functools.cache
def _class_of(target: str, name: str) -> _OperatorClass | None:
    """Return a class of the table of a target: places are worked out for those that are asked
    for."""
    given = _shipped_tables()[target].classes.get(name)
    if given is None:
        return None
    works = [_work_of_row(given, row) for row in given["rows"]]
    return _OperatorClass(
        given["constants"],
        given["length"],
        tuple(_part_named(work, name).place for work in works),
        tuple(row[-1] / 1000 for row in given["rows"]),
        tuple((float(at), float(width)) for at, width in given["spread"]),
    )


def _work_of_row(given: Mapping[str, Any], row: Sequence[float]) -> OperatorWork:
    """Return the work of a measured call; the last two numbers of a row are its microseconds and
    its weight."""
    sizes = dict(zip(given["columns"], row, strict=False)) | given["fixed"]
    precision = given["precisions"][int(sizes.pop("precision"))]
    read, written = sizes.pop("read", 0.0), sizes.pop("written", 0.0)
    return OperatorWork(
        given["family"], precision, 0.0, read, written, sizes, given.get("variant", "")
    )


def _part_named(work: OperatorWork, name: str) -> _Part:
    return next(part for part in _parts_of(work) or () if part.name == name)


# --- estimates --------------------------------------------------------------------------------

_BEYOND = 1.5
"""How much wider they are farther from all measured calls than those were from each other."""
_UNKNOWN = 1.5
"""|log error| of an operator of which only the bytes are known."""
_COMPUTING = ("mm", "conv", "attention", "rnn", "lstm", "gru", "linalg", "linear", "cdist")
"""Parts of the names of operators whose bytes say nothing of their time."""
_UNKNOWN_CONSTANTS = {"launch": 3.0, "dram": 2e6, "rate": 1e6, "copy_dram": 1e6}


def estimate_call(work: OperatorWork, target: Target) -> TimeEstimate | None:
    """Return the estimate of one call; None where no GPU's table fits the target, or nothing like
    the call was measured."""
    key = repr(work), repr(target)
    if key not in _ESTIMATES:
        _ESTIMATES[key] = _estimate_call(work, target)
    return _ESTIMATES[key]


_ESTIMATES: dict[tuple[str, str], TimeEstimate | None] = {}
"""By the texts of work and target: their mappings have no hash."""


def _estimate_call(work: OperatorWork, target: Target) -> TimeEstimate | None:
    table = _table_for(target)
    parts = _parts_of(work)
    if table is None or not parts:
        return None
    derived = table.gpu["name"] != target.name
    seconds = squares = 0.0
    doubts: list[str] = []
    for part in parts:
        found = _estimate_part(part, table, target)
        if found is None:
            return None
        micros, spread, doubt = found
        seconds += micros * 1e-6
        squares += (micros * 1e-6 * spread * (_DERIVED_SPREAD if derived else 1.0)) ** 2
        doubts += [doubt] if doubt else []
    width = math.sqrt(squares) / seconds
    return TimeEstimate(
        seconds,
        seconds * math.exp(-width),
        seconds * math.exp(width),
        doubts=tuple(dict.fromkeys(doubts)),
    )


def _table_for(target: Target) -> _OperatorTable | None:
    known = _shipped_tables()
    if target.name in known:
        return known[target.name]
    if target.vendor != "nvidia" or not known:
        return None
    gpus = {name: (t.gpu["capability"][0], t.gpu["bandwidth"]) for name, t in known.items()}
    return known[_find_nearest(target, gpus)]


def _estimate_part(
    part: _Part, table: _OperatorTable, target: Target
) -> tuple[float, float, str] | None:
    of = _class_of(table.gpu["name"], part.name)
    if of is None:
        if not part.name.startswith("other ") or any(word in part.name for word in _COMPUTING):
            return None
        micros = float(part.formula(part.sizes, _UNKNOWN_CONSTANTS))
        return micros, _UNKNOWN, "only its bytes are known"
    constants: Constants = dict(of.constants, sms=float(target.sm_count))
    if table.gpu["name"] != target.name:
        constants = _scale(constants, table.gpu, target)
    micros = float(part.formula(part.sizes, constants))
    by, nearest = of.correct(part.place)
    spread, doubt = _spread(of, nearest)
    return micros * math.exp(by), spread, doubt


def _spread(of: _OperatorClass, nearest: float) -> tuple[float, str]:
    """Return the half-width of the interval for a call at a distance from all measured ones."""
    for distance, width in of.spread:
        if nearest <= distance:
            return width, ""
    return of.spread[-1][1] * _BEYOND, "no call of such sizes was measured"


_RATES = ("rate",)
_TIMES = ("feed", "step", "tile", "pair", "exponential", "mask")
_BANDWIDTHS = ("dram", "around", "partial", "copy_dram")


def _scale(constants: Mapping[str, float], gpu: Mapping[str, Any], target: Target) -> Constants:
    """Return constants for another GPU by its data sheet: rates of one multiprocessor by the
    matrix units' peak, bandwidths by the memory's."""
    scaled = dict(constants)
    peak = target.peak_flops.get("bf16", 0.0) / target.sm_count
    own = gpu["peak_flops"] / gpu["sm_count"]
    faster = peak / own if peak else 1.0
    wider = target.bandwidth / gpu["bandwidth"]
    for names, factor in ((_RATES, faster), (_TIMES, 1 / faster), (_BANDWIDTHS, wider)):
        for name in names:
            if name in scaled:
                scaled[name] *= factor
    if "l2" in scaled:
        scaled["l2"] *= faster * target.sm_count / gpu["sm_count"]
    return scaled


_HOST = (
    ("convolution_backward", "convolution backward"),
    ("convolution", "convolution"),
    ("attention_backward", "attention backward"),
    ("attention", "attention"),
)
"""Operators by parts of their names, and what the table calls what the host needs for them."""


def estimate_host(
    kernels: int, operators: Sequence[tuple[str, int]], target: Target
) -> float | None:
    """Return the seconds that the host needs for a step: for itself, for each launch of a
    generated kernel, and for each call of an operator."""
    table = _table_for(target)
    if table is None:
        return None
    micros = table.host_micros["step"] + kernels * table.host_micros["launch"]
    for name, count in operators:
        kind = next((kind for part, kind in _HOST if part in name), "operator")
        micros += count * table.host_micros[kind]
    return micros * 1e-6


_ADVANTAGE = 1.1
"""Inductor's own: a padded product is taken where it is this much faster
(``pad_mm.is_padded_faster``)."""
_LAUNCH = 2e-6
"""Seconds between two kernels of one timed function."""
_COPIES = {"aligned": 0.75, "odd": 0.43, "transposed": 0.18}
"""Share of the memory's bandwidth that a copy into a padded matrix reaches: from rows that begin
at 16 bytes, from others, and from columns."""


@dataclass(frozen=True, slots=True)
class PaddedMatrix:
    """Describes one operand of a product, and what Inductor would make of it."""

    rows: int
    columns: int
    padded_rows: int
    padded_columns: int
    transposed: bool
    """Whether its rows are not contiguous in memory."""
    free: bool
    """Whether Inductor takes it that what makes the operand can write it padded at once
    (``pad_mm.should_exclude_padding_time``)."""

    @property
    def is_padded(self) -> bool:
        return (self.rows, self.columns) != (self.padded_rows, self.padded_columns)


def predict_padding(
    left: PaddedMatrix, right: PaddedMatrix, batch: int, precision: str, bias: bool, target: Target
) -> bool | None:
    """Return whether Inductor would measure that padding pays; None where a product's time is not
    known."""
    size = 2 if precision in ("bf16", "fp16") else 4
    lane = 16 // size
    before = _estimate(left, right, batch, precision, bias, target, padded=False)
    after = _estimate(left, right, batch, precision, bias, target, padded=True)
    if before is None or after is None:
        return None
    for matrix in (left, right):
        if not matrix.is_padded:
            continue
        if matrix.free:
            after += _LAUNCH  # the padding itself is filled
            continue
        cells = batch * matrix.padded_rows * matrix.padded_columns * size
        kind = "transposed" if matrix.transposed else "odd" if matrix.columns % lane else "aligned"
        # Filled, then copied into: written twice and read once.
        after += 2 * _LAUNCH + 3 * cells / (target.bandwidth * _COPIES[kind])
    if bias and right.columns != right.padded_columns:
        after += 2 * _LAUNCH
    return before > _ADVANTAGE * after


def _estimate(
    left: PaddedMatrix,
    right: PaddedMatrix,
    batch: int,
    precision: str,
    bias: bool,
    target: Target,
    padded: bool,
) -> float | None:
    if padded:
        m, k, n = left.padded_rows, left.padded_columns, right.padded_columns
    else:
        m, k, n = left.rows, left.columns, right.columns
    # A padded copy is contiguous, whatever it was copied from.
    turned = [each.transposed and not (padded and each.is_padded) for each in (left, right)]
    strides = (m if turned[0] else k, k if turned[1] else n, n)
    align = 8
    while any(stride % align for stride in strides):
        align //= 2
    sizes = {
        "m": m, "n": n, "k": k, "batch": batch, "left": turned[0], "right": turned[1],
        "align": align, "batched": batch > 1, "bias": bias, "added": False,
    }  # fmt: skip
    work = OperatorWork(
        "product", precision, 2.0 * batch * m * n * k, 0.0, 0.0,
        {name: float(value) for name, value in sizes.items()},
    )  # fmt: skip
    found = estimate_call(work, target)
    return None if found is None else found.seconds
