"""Fits the constants of library operators to calls that were timed, and corrects the formulas by
what is left: the table of a calibration file.

It starts from a table that is known, of this GPU or of another one. Constants are drawn towards
those of that table. Its calls stay: how far each was from its formula says something of its
neighbours, less than a call that was timed now.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcli.model import OperatorWork, Target
from perfcli.model.kernel_work import TimedOperator
from perfcli.predict.calibration import Residuals
from perfcli.predict.calibration_files import DERIVED_SPREAD
from perfcli.predict.operator_formulas import CallPart, parts_of
from perfcli.predict.operators import OperatorTable, alike, scale_constants, work_of_row

_NOISES = (0.1, 0.3, 1.0)
"""Variances of what one call says of itself, in variances of what is to be corrected."""
_OLDER = {True: (1.0, 4.0), False: (3.0, 30.0)}
"""How many times as large they are of the calls that the table had: of this GPU, and of another."""
_LENGTHS = (0.5, 0.8, 1.5, 3.0)
_DRAWN_HOME, _DRAWN, _LEAST_DRAWN = 0.2, 0.05, 0.3
"""How strongly constants are drawn to where they started: those of this GPU, and derived ones."""
_FEWEST_TO_FIT = 12
_FEW = 20
"""Calls that say where nine of ten errors are."""
_MOST = 1.5
"""An error of the formula beyond this (a factor of 4.5) counts as this: one call of an odd kernel
says nothing of its neighbours."""
_MOVING = {"launch": 2.0, "rate": 1e7, "dram": 2e6, "copy_dram": 2e6}
_COLUMNS = {
    "product": ("m", "n", "k", "batch", "left", "right", "align", "batched", "bias", "added"),
    "attention": ("heads", "queries", "keys", "width", "causal", "mask", "dropout"),
    "convolution": ("images", "in", "out", "pixels", "made", "taps", "tap", "stride", "dilation",
                    "groups", "transposed", "dims", "channels_last"),
    "other": ("row", "read", "written"),
}  # fmt: skip


@dataclass(frozen=True)
class _Known:
    """Holds one call: what it asks for, and its microseconds."""

    work: OperatorWork
    part: CallPart
    micros: float
    """0 where it was timed on another GPU only."""
    before: float | None = None
    """Of a call that the table had: the log ratio of its time to the formula as it was there."""


@dataclass(frozen=True)
class FittedClass:
    """Holds one class of calls: constants of its formula, and what is left."""

    calls: Sequence[_Known]
    """Those that were timed now, then those of the table before."""
    constants: Mapping[str, float]
    length: float
    weights: Any
    spread: Sequence[tuple[float, float]]
    errors: Any
    """|log error| of each call that was timed now, where all others are known and it is not."""
    formula_errors: Any
    """The same of the formula alone."""


def fit_operators(
    timed: Sequence[TimedOperator], table: OperatorTable, target: Target, pool: Executor
) -> dict[str, FittedClass]:
    """Return every class of calls of which any were timed, by name; ``pool`` fits several at
    once."""
    grouped: dict[str, list[_Known]] = defaultdict(list)
    for each in timed:
        micros = take_middle(each)
        parts = parts_of(each.work) or ()
        if len(parts) == 1 and micros > 0:
            grouped[parts[0].name].append(_Known(each.work, parts[0], micros))
    fits = {
        name: pool.submit(_fit_class, name, grouped[name], table.given.get(name), table.gpu, target)
        for name in sorted(grouped)
    }
    return {name: fit.result() for name, fit in fits.items()}


def take_middle(timed: TimedOperator) -> float:
    """Return microseconds: the middle, in logarithms, between inputs in the L2 cache and not."""
    return math.sqrt(math.prod(statistics.median(times) for times in timed.times))


def _fit_class(
    name: str,
    calls: Sequence[_Known],
    given: Mapping[str, Any] | None,
    gpu: Mapping[str, Any],
    target: Target,
) -> FittedClass:
    is_own = gpu["name"] == target.name
    start = dict(given["constants"] if given else _MOVING)
    if given and not is_own:
        start = dict(scale_constants(start, gpu, target))
    older = list(_list_older(name, given, gpu["sm_count"], is_own)) if given else []
    constants = _fit_constants(calls, start, target.sm_count, is_own)
    known = [*calls, *older]
    errors = _list_errors(known, constants, target.sm_count)
    places = np.array([each.part.place for each in known])
    apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    lengths = (given["length"],) if given else _LENGTHS
    length, weights, left_out = _fit_rest(apart, errors, len(calls), lengths, _OLDER[is_own])
    np.fill_diagonal(apart, np.inf)
    nearest = apart[: len(calls)].min(1) if len(known) > 1 else np.ones(1)
    spread = _find_spread(nearest, left_out)
    if given and len(calls) < _FEW:  # too few to narrow what many calls said
        before = 1.0 if is_own else DERIVED_SPREAD
        spread = [(at, max(width * before, spread[-1][1])) for at, width in given["spread"]]
    elif len(calls) < _FEW:
        spread = [(at, max(width, 0.4)) for at, width in spread]
    first = np.abs(errors[: len(calls)])
    return FittedClass(known, constants, length, weights, spread, left_out, first)


def _list_older(name: str, given: Mapping[str, Any], sms: int, is_own: bool) -> Iterator[_Known]:
    for row in given["rows"]:
        work = work_of_row(given, row)
        part = next(each for each in parts_of(work) or () if each.name == name)
        formula = _evaluate([part], given["constants"], sms)[0]
        yield _Known(work, part, row[-2] if is_own else 0.0, math.log(row[-2] / formula))


def _list_errors(calls: Sequence[_Known], constants: Mapping[str, float], sms: int) -> Any:
    """Return the log ratios of measured time to the formula: of each call to the constants that
    were fitted when it was timed, so that a GPU whose clocks changed shifts no neighbours."""
    formula = _evaluate([each.part for each in calls], constants, sms)
    pairs = zip(calls, formula, strict=True)
    return np.array(
        [math.log(each.micros / own) if each.before is None else each.before for each, own in pairs]
    )


def _evaluate(parts: Sequence[CallPart], constants: Mapping[str, float], sms: int) -> Any:
    sizes = {name: np.array([p.sizes[name] for p in parts], float) for name in parts[0].sizes}
    return parts[0].formula(sizes, {**constants, "sms": float(sms)})


def _fit_constants(
    calls: Sequence[_Known], start: Mapping[str, float], sms: int, is_own: bool
) -> dict[str, float]:
    if len(calls) < _FEWEST_TO_FIT:
        return dict(start)
    from scipy.optimize import least_squares

    names = list(start)
    origin = np.log([start[name] for name in names])
    measured = np.log([each.micros for each in calls])
    parts = [each.part for each in calls]
    drawn = _DRAWN_HOME if is_own else _DRAWN
    pull = max(_LEAST_DRAWN, drawn * math.sqrt(len(calls)))

    def miss(values: Any) -> Any:
        constants = dict(zip(names, np.exp(values), strict=True))
        errors = np.log(_evaluate(parts, constants, sms)) - measured
        return np.concatenate([errors, (values - origin) * pull])

    with np.errstate(all="ignore"):
        found = least_squares(
            miss, origin, loss="soft_l1", f_scale=0.1, max_nfev=40, diff_step=1e-2
        )
    return {n: float(f"{v:.4g}") for n, v in zip(names, np.exp(found.x), strict=True)}


def _fit_rest(
    apart: Any, errors: Any, count: int, lengths: Sequence[float], older: Sequence[float]
) -> tuple[float, Any, Any]:
    """Return the length, the weights, and the errors of the first ``count`` calls where each is
    left out, with the length and the noises that leave the smallest ones."""
    capped = np.clip(errors, -_MOST, _MOST)
    is_older = np.arange(len(errors)) >= count
    best: tuple[float, float, Any, Any] | None = None
    for length in lengths:
        likeness = alike(apart / length)
        for noise in _NOISES:
            for times in older if is_older.any() else (1.0,):
                own = np.where(is_older, noise * times, noise)
                inverse = np.linalg.inv(likeness + np.diag(own))
                weights = inverse @ capped
                off = np.abs(weights / np.diag(inverse) + errors - capped)[:count]
                score = float(np.median(off) + 0.2 * np.quantile(off, 0.9))
                if best is None or score < best[0]:
                    best = score, length, weights, off
    assert best is not None
    return best[1:]


def _find_spread(nearest: Any, errors: Any) -> list[tuple[float, float]]:
    """Return up to three distances with the 90th percentile of errors up to them."""
    several = (0.4, 0.8, 1.0) if len(errors) >= 60 else (1.0,)
    found: list[tuple[float, float]] = []
    below = -1.0
    for edge in (float(np.quantile(nearest, q)) for q in several):
        inside = (nearest > below) & (nearest <= edge)
        count = int(inside.sum())
        if count:
            # One more than the share: the next call is one of n + 1.
            share = min(1.0, 0.9 * (count + 1) / count)
            found.append(
                (round(edge, 3), round(min(float(np.quantile(errors[inside], share)), _MOST), 3))
            )
        below = edge
    return found


def list_residuals(classes: Mapping[str, FittedClass]) -> dict[str, Residuals]:
    """Return how far calls were from their estimates where each is left out, by family."""
    grouped: dict[str, list[float]] = defaultdict(list)
    for name, fitted in classes.items():
        grouped[f"operators: {name.split()[0]}"] += [float(error) for error in fitted.errors]
    return {
        name: Residuals(
            len(each), *(round(float(np.quantile(each, q)), 4) for q in (0.5, 0.8, 0.9))
        )
        for name, each in sorted(grouped.items())
    }


# --- the file --------------------------------------------------------------------------------


def write_operators(
    classes: Mapping[str, FittedClass],
    table: OperatorTable,
    target: Target,
    host: Mapping[str, float],
) -> bytes:
    """Return the table as JSON, one call a line. Classes of which no call was timed are taken over;
    what the host needs of a call (microseconds by kind) replaces what is known."""
    is_own = table.gpu["name"] == target.name
    micros = {**table.host_micros, **host}
    for name, times in (("convolution", 2.0), ("attention", 1.5)):
        if name in host:
            micros[f"{name} backward"] = round(host[name] * times, 1)
    texts = []
    for name in sorted({*table.given, *classes}):
        if name in classes:
            described = _describe_class(classes[name])
        elif is_own:
            described = dict(table.given[name])
        else:
            described = _derive_class(table.given[name], table, target)
        rows = described.pop("rows")
        body = ",\n     ".join(json.dumps(row, separators=(",", ":")) for row in rows)
        head = json.dumps(described)[:-1]
        texts.append(f'   {json.dumps(name)}: {head}, "rows": [\n     {body}]}}')
    return (
        f'{{\n  "host_micros": {json.dumps(micros)},\n  "classes": {{\n'
        + ",\n".join(texts)
        + "\n  }\n }"
    ).encode()


def _describe_class(fitted: FittedClass) -> dict[str, Any]:
    work = fitted.calls[0].work
    columns = _COLUMNS[work.family.split()[0]]
    precisions = sorted({each.work.precision for each in fitted.calls})
    rows = []
    for each, weight in zip(fitted.calls, fitted.weights, strict=True):
        known = {**each.work.sizes, "read": each.work.read, "written": each.work.written}
        sizes = [_shorten(known[column]) for column in columns]
        times = [float(f"{each.micros:.4g}"), round(float(weight) * 1000)]
        rows.append([precisions.index(each.work.precision), *sizes, *times])
    return {
        "family": work.family, "variant": work.variant, "constants": dict(fitted.constants),
        "length": fitted.length, "spread": [list(each) for each in fitted.spread],
        "precisions": precisions, "columns": ["precision", *columns],
        "fixed": {k: v for k, v in work.sizes.items() if k.startswith("to_")}, "rows": rows,
    }  # fmt: skip


def _derive_class(given: Mapping[str, Any], table: OperatorTable, target: Target) -> dict[str, Any]:
    """Return a class of another GPU as it is derived for this one; its times are left out."""
    return {
        **given,
        "constants": dict(scale_constants(given["constants"], table.gpu, target)),
        "spread": [[at, round(width * DERIVED_SPREAD, 3)] for at, width in given["spread"]],
        "rows": [[*row[:-2], 0, row[-1]] for row in given["rows"]],
    }


def _shorten(value: float) -> float:
    return int(value) if value == int(value) else round(value, 3)
