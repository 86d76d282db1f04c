"""Turns the work of a library operator into seconds.

A formula with constants of the GPU gives a first estimate. Calls that were measured correct it: a
Gaussian process of how far the formula was from each of them, in logarithms of the sizes, whose
weights stand beside their times in the calibration file. Accuracy: docs/time_operators.md.

A worker reads this, too, to decide whether a matrix product is padded: standard library only.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfcli.model import OperatorWork, Target, TimeEstimate
from perfcli.predict.calibration_files import (
    DERIVED_SPREAD,
    FORMAT,
    VARIABLE,
    _choose_gpu,
    _last_change,
    _list_own,
    _list_shipped,
    _sheet_of,
)
from perfcli.predict.collectives import estimate_collective
from perfcli.predict.operator_formulas import CallPart, Constants, Numbers, parts_of

# --- what was measured ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperatorClass:
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
            total += weight * alike(distance / self.length)
        return total, nearest


def alike(distance: Numbers) -> Numbers:
    """Return how closely two calls resemble each other at a distance in lengths (Matérn, 3/2)."""
    scaled = math.sqrt(3) * distance
    return (1 + scaled) * math.e**-scaled


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """Holds what is known of library operators on one GPU."""

    gpu: Mapping[str, Any]
    """The target, as it is in the file."""
    given: Mapping[str, Mapping[str, Any]]
    """The classes, as they are in the file."""
    host_micros: Mapping[str, float]
    """What the host needs for a step, to launch a generated kernel, and to call operators."""
    estimates: dict[tuple[str, str], TimeEstimate | None] = field(default_factory=dict)
    """Those that were made, by the texts of work and target: their mappings have no hash."""
    _classes: dict[str, OperatorClass] = field(default_factory=dict)

    def class_named(self, name: str) -> OperatorClass | None:
        """Return a class: its places are worked out when it is asked for."""
        if name not in self._classes and name in self.given:
            self._classes[name] = _make_class(name, self.given[name])
        return self._classes.get(name)


def _make_class(name: str, given: Mapping[str, Any]) -> OperatorClass:
    works = [work_of_row(given, row) for row in given["rows"]]
    return OperatorClass(
        given["constants"],
        given["length"],
        tuple(_part_named(work, name).place for work in works),
        tuple(row[-1] / 1000 for row in given["rows"]),
        tuple((float(at), float(width)) for at, width in given["spread"]),
    )


def work_of_row(given: Mapping[str, Any], row: Sequence[float]) -> OperatorWork:
    """Return the work of a measured call of a class as it is in the file; the last two numbers of a
    row are its microseconds and its weight."""
    sizes = dict(zip(given["columns"], row, strict=False)) | given["fixed"]
    precision = given["precisions"][int(sizes.pop("precision"))]
    read, written = sizes.pop("read", 0.0), sizes.pop("written", 0.0)
    return OperatorWork(
        given["family"], precision, 0.0, read, written, sizes, given.get("variant", "")
    )


def _part_named(work: OperatorWork, name: str) -> CallPart:
    return next(part for part in parts_of(work) or () if part.name == name)


def table_for(target: Target) -> OperatorTable | None:
    """Return the table whose numbers stand for a target: of the file that was chosen, else of the
    user's own files and those that come with perfcli. None where none does."""
    return _choose_table(target, _list_tables())


def shipped_table_for(target: Target) -> OperatorTable | None:
    """Return the table that comes with perfcli and stands for a target."""
    return _choose_table(target, _read_tables(_list_shipped()))


def _choose_table(target: Target, known: Mapping[str, OperatorTable]) -> OperatorTable | None:
    name = _choose_gpu(target, {name: _sheet_of(table.gpu) for name, table in known.items()})
    return known[name] if name is not None else None


def _list_tables() -> Mapping[str, OperatorTable]:
    chosen = os.environ.get(VARIABLE)
    found = _read_tables([Path(chosen)]) if chosen else {}
    return found or _read_tables([*_list_shipped(), *_list_own()])


def _read_tables(paths: Sequence[Path]) -> dict[str, OperatorTable]:
    read = (_read_table(str(path), _last_change(path)) for path in paths)
    return {table.gpu["name"]: table for table in read if table is not None}


@functools.lru_cache(maxsize=16)
def _read_table(path: str, _changed: int) -> OperatorTable | None:
    """Return the table of a calibration file, None where it has none; it is read again when the
    file has changed. What is wrong with a file, ``read_calibration`` says."""
    try:
        data = json.loads(Path(path).read_bytes())
        operators = data.get("operators") if data["format"] == FORMAT else None
        if not operators:
            return None
        return OperatorTable(data["target"], operators["classes"], operators["host_micros"])
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


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
    if work.family == "collective":
        return estimate_collective(work, target)
    table = table_for(target)
    if table is None:
        return None
    key = repr(work), repr(target)
    if key not in table.estimates:
        table.estimates[key] = _estimate_call(work, target, table)
    return table.estimates[key]


def _estimate_call(work: OperatorWork, target: Target, table: OperatorTable) -> TimeEstimate | None:
    if work.family == "product" and work.precision in _EIGHT_BITS:
        return _estimate_of_eight_bits(work, target, table)
    parts = parts_of(work)
    if not parts:
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
        squares += (micros * 1e-6 * spread * (DERIVED_SPREAD if derived else 1.0)) ** 2
        doubts += [doubt] if doubt else []
    if work.variant == "grouped":
        doubts.append("groups are taken to be of the same size")
    if work.family == "encoder layer":
        doubts.append("taken as its products, attention and copies, one after the other")
    width = math.sqrt(squares) / seconds
    return TimeEstimate(
        seconds,
        seconds * math.exp(-width),
        seconds * math.exp(width),
        doubts=tuple(dict.fromkeys(doubts)),
    )


_EIGHT_BITS = ("int8", "fp8")


def _estimate_of_eight_bits(
    work: OperatorWork, target: Target, table: OperatorTable
) -> TimeEstimate | None:
    """Return the estimate of a product of 8-bit numbers: matrix units take two of them where they
    take one of bfloat16, so that it is a bfloat16 product of half the depth. None on a GPU whose
    matrix units have no such numbers."""
    if not target.peak_flops.get(work.precision):
        return None
    sizes = {**work.sizes, "k": max(work.sizes["k"] / 2, 1.0)}
    found = _estimate_call(replace(work, precision="bf16", sizes=sizes), target, table)
    if found is None:
        return None
    return replace(
        found,
        low=found.seconds * (found.low / found.seconds) ** _BEYOND,
        high=found.seconds * (found.high / found.seconds) ** _BEYOND,
        doubts=(*found.doubts, "taken as a bfloat16 product of half the depth"),
    )


def _estimate_part(
    part: CallPart, table: OperatorTable, target: Target
) -> tuple[float, float, str] | None:
    of = table.class_named(part.name)
    if of is None:
        if not part.name.startswith("other ") or any(word in part.name for word in _COMPUTING):
            return None
        micros = float(part.formula(part.sizes, _UNKNOWN_CONSTANTS))
        return micros, _UNKNOWN, "only its bytes are known"
    constants: Constants = dict(of.constants, sms=float(target.sm_count))
    if table.gpu["name"] != target.name:
        constants = scale_constants(constants, table.gpu, target)
    micros = float(part.formula(part.sizes, constants))
    by, nearest = of.correct(part.place)
    spread, doubt = _spread(of, nearest)
    return micros * math.exp(by), spread, doubt


def _spread(of: OperatorClass, nearest: float) -> tuple[float, str]:
    """Return the half-width of the interval for a call at a distance from all measured ones."""
    for distance, width in of.spread:
        if nearest <= distance:
            return width, ""
    return of.spread[-1][1] * _BEYOND, "no call of such sizes was measured"


_RATES = ("rate",)
_TIMES = ("feed", "step", "tile", "pair", "exponential", "mask")
_BANDWIDTHS = ("dram", "around", "partial", "copy_dram")


def scale_constants(
    constants: Mapping[str, float], gpu: Mapping[str, Any], target: Target
) -> Constants:
    """Return constants for another GPU by its data sheet: rates of one multiprocessor by the
    matrix units' peak, bandwidths by the memory's."""
    scaled = dict(constants)
    peak = target.peak_flops.get("bf16", 0.0) / target.sm_count
    own = gpu["peak_flops"].get("bf16", 0.0) / gpu["sm_count"]
    faster = peak / own if peak and own else 1.0
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
    table = table_for(target)
    if table is None:
        return None
    micros = table.host_micros["step"] + kernels * table.host_micros["launch"]
    for name, count in operators:
        kind = next((kind for part, kind in _HOST if part in name), "operator")
        micros += count * table.host_micros[kind]
    return round(micros * 1e-6, 12)  # the table has few digits, and so has their sum
