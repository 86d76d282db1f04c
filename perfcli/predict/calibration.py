"""Knows the constants of the GPUs that were calibrated, and derives those of others."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from perfcli.decoding import decode
from perfcli.errors import PerfcliError
from perfcli.model import Target
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


@dataclass(frozen=True, slots=True)
class Residuals:
    """Holds how far estimates of one class of kernels were from measured times, as |log ratio|."""

    kernels: int
    median: float
    q80: float
    q90: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Holds the constants of one GPU, fitted to times that were measured on it."""

    target: Target
    """The GPU, as ``perfcli.machine.targets`` describes it."""
    clock_mhz: float
    """The SM clock that constants in cycles refer to."""
    torch: str
    triton: str
    date: str
    constants: Mapping[str, float]
    """Each constant by the name under which ``docs/time.md`` explains it."""
    residuals: Mapping[str, Residuals]
    """By class of launches (``predict.step.class_of``), and of ``all``."""
    pair: Mapping[str, float] = field(default_factory=dict)
    """Of comparisons: ``k80`` and ``k90``, how many times as wide as the changed kernels' shares of
    the step (added as squares, with ``floor``) the log ratio's intervals are."""
    format: int = FORMAT
    derived: str = ""
    """The target whose constants were scaled by data sheets; empty where they were measured."""
    notes: tuple[str, ...] = ()
    """What its numbers rest on, and what was carried over from another calibration."""
    operators: bytes = b""
    """The table of library operators as JSON, which ``predict.operators`` reads; empty where there
    is none."""

    def residuals_of(self, kind: str) -> Residuals:
        """Return the residuals of a class of launches, those of all where it has none."""
        return self.residuals.get(kind, self.residuals["all"])

    @property
    def source(self) -> str:
        return f"{self.target.description}, torch {self.torch}, {self.date}"


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file. Raises PerfcliError where there is none, it is of another format, or
    it is damaged."""
    try:
        found = _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise PerfcliError(f"can't read calibration {path}: {error.strerror}") from error
    _check_complete(found, path)
    return found


def encode_calibration(found: Calibration) -> bytes:
    """Return the text of a calibration file: JSON for people to read, too."""
    plain = msgspec.to_builtins(replace(found, operators=b""))
    del plain["operators"]
    head = msgspec.json.format(msgspec.json.encode(plain), indent=1).rstrip(b"}\n")
    return head + (b',\n "operators": ' + found.operators if found.operators else b"") + b"\n}\n"


def _check_complete(found: Calibration, path: Path) -> None:
    """Raise PerfcliError where a number is missing that an estimate needs, or is none."""
    model = next(iter(shipped().values()))
    kinds = (("constants", found.constants, model.constants), ("pair", found.pair, model.pair))
    missing = [f"{kind}.{name}" for kind, ours, all_ in kinds for name in all_.keys() - ours.keys()]
    missing += ["residuals.all"] if "all" not in found.residuals else []
    positive = [pair for _, ours, _ in kinds for pair in ours.items()]
    positive.append(("clock_mhz", found.clock_mhz))
    sheet = ("sm_count", "bandwidth", "l2_bytes")
    positive += [(f"target.{name}", getattr(found.target, name)) for name in sheet]
    wrong = [f"{name} > 0" for name, value in positive if not 0 < value < math.inf]
    wrong += [
        f"residuals.{kind}.{name} ≥ 0"
        for kind, each in found.residuals.items()
        for name in ("median", "q80", "q90")
        if not 0 <= getattr(each, name) < math.inf
    ]
    try:
        wrong += _list_wrong_operators(found.operators) if found.operators else []
    except msgspec.MsgspecError as error:
        raise PerfcliError(f"calibration {path}: its operators are damaged: {error}") from error
    if missing or wrong:
        what = f"lacks {', '.join(sorted(missing))}" if missing else f"has no number {wrong[0]}"
        raise PerfcliError(f"calibration {path} {what}: run perfcli calibrate again")


class _OperatorClass(msgspec.Struct):
    """Describes a class of library operators as it is in the file."""

    family: str
    variant: str
    constants: dict[str, float]
    length: float
    spread: list[tuple[float, float]]
    precisions: list[str]
    columns: list[str]
    fixed: dict[str, float]
    rows: list[list[float]]


class _Operators(msgspec.Struct):
    host_micros: dict[str, float]
    classes: dict[str, _OperatorClass]


_HOST = ("step", "launch", "operator")


def _list_wrong_operators(operators: bytes) -> Iterator[str]:
    """Yield what is expected of a table of library operators, where it is not so."""
    found = decode(operators, _Operators)
    for name in _HOST:
        if name not in found.host_micros:
            yield f"operators.host_micros.{name}"
    for name, each in found.classes.items():
        if not (each.length > 0 and each.spread):
            yield f"operators.classes.{name}.length > 0 with spread"
        if any(len(row) != len(each.columns) + 2 for row in each.rows):
            yield f"operators.classes.{name}.rows of {len(each.columns) + 2} numbers"


def _decode(data: bytes, name: str) -> Calibration:
    try:
        head = decode(data, dict[str, msgspec.Raw])
        found = msgspec.json.decode(head.get("format", b"null"))
        if found is None:
            raise PerfcliError(
                f"{name} is no calibration file: it has no format; expected what perfcli calibrate "
                f'writes, an object with "format": {FORMAT}, target, constants and residuals'
            )
        if found != FORMAT:
            raise PerfcliError(
                f"calibration {name} has format {found}, this perfcli reads {FORMAT}: "
                "run perfcli calibrate again"
            )
        operators = bytes(head.pop("operators", b""))
        known = decode(msgspec.json.encode(head), Calibration)
        return replace(known, operators=b"" if operators in (b"null", b"{}") else operators)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PerfcliError(f"{name} is no calibration file: {error}") from error


@functools.cache
def shipped() -> Mapping[str, Calibration]:
    """Return the calibrations that come with perfcli, by target."""
    found = [_decode(path.read_bytes(), path.name) for path in _list_shipped()]
    return {calibration.target.name: calibration for calibration in found}


def _read_all(paths: Sequence[Path]) -> dict[str, Calibration]:
    found = [_read_once(str(path), _last_change(path)) for path in paths]
    return {calibration.target.name: calibration for calibration in found}


def choose_calibration(path: Path) -> None:
    """Use this file from now on, for every target. Raises PerfcliError as ``read_calibration``
    does."""
    read_calibration(path)
    os.environ[VARIABLE] = str(path.absolute())


def read_chosen() -> Calibration | None:
    """Return what the chosen file has; None where none was chosen. Raises PerfcliError."""
    chosen = os.environ.get(VARIABLE)
    return _read_once(chosen, _last_change(Path(chosen))) if chosen else None


def calibration_for(target: Target) -> Calibration | None:
    """Return the calibration of a target: from the file that was chosen, else the user's own, else
    the one that comes with perfcli. Where there is none for this target, one is derived by data
    sheet from the nearest target that has one; None where no target of its vendor has. Raises
    PerfcliError where the chosen file, or one of the user's own, can't be used."""
    if (found := read_chosen()) is not None:
        if found.target.vendor != target.vendor:
            raise PerfcliError(
                f"calibration {os.environ[VARIABLE]} is of {found.target.description}, and "
                f"nothing of {target.description} can be derived from it: use another, or none"
            )
        return found if found.target.name == target.name else _derive(found, target)
    return derive_calibration(target, {**shipped(), **_read_all(_list_own())})


def derive_calibration(target: Target, known: Mapping[str, Calibration]) -> Calibration | None:
    """Return the calibration of a target among these, or one that is derived from the nearest; None
    where no target of its vendor is among them."""
    name = _choose_gpu(target, {name: _sheet_of(each.target) for name, each in known.items()})
    if name is None:
        return None
    return known[name] if name == target.name else _derive(known[name], target)


def name_operators(target: Target) -> str:
    """Return a name that no other table of library operators has than the one that stands for a
    target; empty where there is none. Raises PerfcliError as ``calibration_for``."""
    chosen = read_chosen()
    known = [chosen] if chosen is not None and chosen.operators else []
    known = known or [*shipped().values(), *_read_all(_list_own()).values()]
    tables = {each.target.name: each for each in known if each.operators}
    name = _choose_gpu(target, {name: _sheet_of(each.target) for name, each in tables.items()})
    return "" if name is None else hashlib.sha256(tables[name].operators).hexdigest()[:12]


@functools.lru_cache(maxsize=16)
def _read_once(path: str, _changed: int) -> Calibration:
    """Return what a file has; it is read again when it has changed."""
    return read_calibration(Path(path))


_BY_BANDWIDTH = ("dram",)
_BY_L2 = ("l2", "l2_hit", "local", "finishing_bytes")
"""Bytes per second of the L2 cache, which grow with multiprocessors and their clock."""


def _widen(pair: Mapping[str, float]) -> dict[str, float]:
    return {name: pair[name] * DERIVED_SPREAD for name in ("k80", "k90")}


def _derive(calibration: Calibration, target: Target) -> Calibration:
    own = calibration.target
    known = own.clock_khz > 0 and target.clock_khz > 0
    clock = target.clock_khz / own.clock_khz if known else 1.0
    bandwidth = target.bandwidth / own.bandwidth
    cache = clock * target.sm_count / own.sm_count
    constants = dict(calibration.constants)
    for names, factor in ((_BY_BANDWIDTH, bandwidth), (_BY_L2, cache)):
        for name in names:
            constants[name] *= factor
    constants["cache_bytes"] *= target.l2_bytes / own.l2_bytes
    wider = {
        name: Residuals(r.kernels, *(v * DERIVED_SPREAD for v in (r.median, r.q80, r.q90)))
        for name, r in calibration.residuals.items()
    }
    return replace(
        calibration,
        target=target,
        clock_mhz=calibration.clock_mhz * clock,
        constants=constants,
        residuals=wider,
        pair={**calibration.pair, **_widen(calibration.pair)},
        derived=own.name,
    )
