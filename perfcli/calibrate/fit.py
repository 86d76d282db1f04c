"""Fits the constants of ``predict.launch`` to measured times.

Least squares of the logarithms of estimated over measured times, less sensitive to outliers
(``soft_l1``), with every constant drawn towards where it started: towards the shipped value where
this GPU was calibrated before, loosely towards a value derived by data sheet where not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from perfcli.calibrate.corpus import _bytes_of
from perfcli.calibrate.measuring import _TimedCase
from perfcli.calibrate.steps import _TimedStep
from perfcli.facts.occupancy import occupancy
from perfcli.model import Buffer, Candidate
from perfcli.predict.calibration import Calibration, Residuals
from perfcli.predict.launch import Demand, bounds, combine, demand_of, stack
from perfcli.predict.reuse import share_cold
from perfcli.predict.step import class_of

_FIXED = ("code_cached", "cache_bytes", "finishing", "finishing_bytes")
"""Constants that no launch of the corpus says anything of."""
_DRAWN_HOME, _DRAWN = 0.6, 0.05
"""How strongly constants are drawn to where they started: those of this GPU, and derived ones."""
_FARTHEST = 8.0
"""Times, either way: no constant of two GPUs that can be derived from one another differs more."""
_OUTLIER = 0.1
"""A log ratio from which on an error counts less than its square."""
_LEAST_MICROS = 1.2
"""Below, the clock of the profiler and the launch itself are all that a time says."""
_FOLDS = 5
_FEWEST = 30
"""Launches that a class has residuals of its own with."""
_OUTPUTS = ("out", "part")
_STEP_WEIGHT = 4.0
_REPEATED = {"launch": 0.873, "dram": 0.905, "issue": 0.808}
"""Constants of a launch that repeats itself, with nothing of a step around it, over those of a
step's: it finds its code and the clocks warm, and memory as what flushed the cache left it. Of
2,695 launches of an H200 (torch 2.11) against the constants of thirteen architectures."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Holds measured launches as arrays."""

    demand: Demand
    micros: Any
    kernels: tuple[str, ...]
    """What each is a launch of: launches of one kernel are held out together."""
    repeated: Any
    """Whether each is of a launch that repeats itself, with nothing of a step around it."""

    def take(self, chosen: Any) -> Samples:
        """Return those that a mask chooses."""
        taken = {f.name: getattr(self.demand, f.name)[chosen] for f in fields(Demand)}
        kernels = tuple(k for k, wanted in zip(self.kernels, chosen, strict=True) if wanted)
        return Samples(Demand(**taken), self.micros[chosen], kernels, self.repeated[chosen])


def join_samples(*several: Samples) -> Samples:
    """Return the launches of all, in order."""
    joined = {
        f.name: np.concatenate([getattr(each.demand, f.name) for each in several])
        for f in fields(Demand)
    }
    kernels = tuple(kernel for each in several for kernel in each.kernels)
    micros, repeated = (
        np.concatenate([getattr(each, name) for each in several]) for name in ("micros", "repeated")
    )
    return Samples(Demand(**joined), micros, kernels, repeated)


def _list_samples(timed: Sequence[_TimedCase], start: Calibration) -> Samples:
    """Return the timed launches that say something about constants. Cold ones that move more than
    about a third of what memory can move in their time are left out: their output meets a cache
    full of what was flushed, which no launch of a step does."""
    demands: list[Demand] = []
    micros: list[float] = []
    kernels: list[str] = []
    for each in timed:
        for cold, times in zip((1.0, 0.0), each.times, strict=True):
            demand = _demand(each, start, cold)
            median = float(np.median(times))
            moved = (demand.read + demand.written) / start.target.bandwidth * 1e6
            if median > _LEAST_MICROS and not (cold and moved > 0.35 * median):
                demands.append(demand)
                micros.append(median)
                kernels.append(each.case.kernel)
    return Samples(stack(demands), np.array(micros), tuple(kernels), np.full(len(micros), True))


def _demand(timed: _TimedCase, start: Calibration, cold: float) -> Demand:
    case, target = timed.case, start.target
    fitting = occupancy(target, timed.registers, timed.shared_bytes, case.warps)
    candidate = Candidate(
        {},
        case.warps,
        1,
        registers=timed.registers,
        stack_bytes=timed.stack_bytes,
        shared_bytes=timed.shared_bytes,
        blocks_per_sm=fitting.blocks_per_sm,
    )
    buffers = [_buffer(name, kind, n) for name, kind, n in case.tensors]
    demand = demand_of(timed.work, candidate, buffers, target.sm_count, cold)
    if not cold:  # what is larger than the L2 cache pushes itself out
        moved = demand.read + demand.written
        demand = replace(demand, cold=share_cold(moved, start.constants["cache_bytes"]))
    return demand


def _buffer(name: str, kind: str, elements: int) -> Buffer:
    is_output = name in _OUTPUTS
    size = _bytes_of(kind, elements)
    return Buffer(name, name, "output" if is_output else "input", kind, (elements,), (1,), size)


def _list_step_samples(steps: Sequence[_TimedStep], start: Calibration) -> Samples | None:
    """Return the kernels of steps that say something about constants; None where there are none.
    Those of one scenario are held out together."""
    sms = start.target.sm_count
    found = [
        (demand_of(each.candidate.work, each.candidate, each.buffers, sms, each.cold), each, step)
        for step in steps
        for each in step.kernels
        if each.candidate.work is not None and each.seconds * 1e6 > _LEAST_MICROS
    ]
    if not found:
        return None
    return Samples(
        stack([demand for demand, _, _ in found]),
        np.array([each.seconds * 1e6 for _, each, _ in found]),
        tuple(step.scenario for _, _, step in found),
        np.full(len(found), False),
    )


# --- the fit ---------------------------------------------------------------------------------


def estimate_micros(
    samples: Samples, constants: Mapping[str, float], start: Calibration
) -> tuple[dict[str, Any], Any]:
    """Return the bounds of every launch, and its microseconds."""
    usual = _estimate(samples, constants, start)
    if not samples.repeated.any():
        return usual
    warm = {name: value * _REPEATED.get(name, 1.0) for name, value in constants.items()}
    alone = _estimate(samples, warm, start)
    found = {n: np.where(samples.repeated, alone[0][n], usual[0][n]) for n in usual[0]}
    return found, np.where(samples.repeated, alone[1], usual[1])


def _estimate(
    samples: Samples, constants: Mapping[str, float], start: Calibration
) -> tuple[dict[str, Any], Any]:
    found = bounds(samples.demand, constants, start.target.sm_count, start.clock_mhz)
    return found, combine(found, constants)


def fit_constants(
    samples: Samples, start: Calibration, weights: Any = None, drawn: float | None = None
) -> dict[str, float]:
    """Return the constants with which estimates fit the samples best. ``drawn`` says how strongly
    they are drawn to those of ``start``."""
    from scipy.optimize import least_squares

    names = [name for name in start.constants if name not in _FIXED]
    origin = np.log([start.constants[name] for name in names])
    highest = origin + np.log(_FARTHEST)
    measured = np.log(samples.micros)
    if drawn is None:
        drawn = _DRAWN if start.derived else _DRAWN_HOME
    pull = drawn * len(measured) ** 0.5
    weight = np.ones(len(measured)) if weights is None else weights

    def miss(points: Any) -> Any:
        """Return what estimates miss: a row for each of several points, which is much faster."""
        values = np.exp(points).T[..., None]
        constants = {**start.constants, **dict(zip(names, values, strict=True))}
        _, micros = estimate_micros(samples, constants, start)
        return np.hstack([(np.log(micros) - measured) * weight, pull * (points - origin)])

    def slopes(point: Any) -> Any:
        steps = np.sqrt(np.finfo(float).eps) * np.maximum(1, np.abs(point))
        steps = np.where(point + steps > highest, -steps, steps)
        at = miss(np.vstack([point, point + np.diag(steps)]))
        return ((at[1:] - at[0]) / steps[:, None]).T

    found = least_squares(
        lambda point: miss(point[None])[0],
        origin,
        jac=slopes,
        bounds=(origin - np.log(_FARTHEST), highest),
        loss="soft_l1",
        f_scale=_OUTLIER,
        max_nfev=25,
    )
    fitted = {
        name: float(f"{value:.5g}") for name, value in zip(names, np.exp(found.x), strict=True)
    }
    return {**start.constants, **fitted}


def _weigh(samples: Samples) -> Any:
    """Return the weight of each sample: a kernel of a step is what estimates are for, and there are
    few of them."""
    return np.where(samples.repeated, 1.0, _STEP_WEIGHT)


def _hold_out(
    samples: Samples, start: Calibration, pool: Executor
) -> tuple[Any, list[str], dict[str, float]]:
    """Return for each sample the log ratio of estimated to measured time, by constants that were
    fitted without any launch of its kernel or scenario, and its class; and the constants that are
    fitted to all. ``pool`` fits several at once."""
    names = sorted(set(samples.kernels))
    folds = np.array([names.index(kernel) % _FOLDS for kernel in samples.kernels])
    chosen = [folds == fold for fold in sorted(set(folds))]
    training = [samples.take(~out) if (~out).any() else samples for out in chosen]
    fits = [pool.submit(fit_constants, s, start, _weigh(s)) for s in (*training, samples)]
    errors, classes = np.zeros(len(folds)), np.full(len(folds), "", object)
    for out, fit in zip(chosen, fits[:-1], strict=True):
        found, micros = estimate_micros(samples.take(out), fit.result(), start)
        errors[out] = np.log(micros / samples.micros[out])
        classes[out] = _classify(found, micros)
    return errors, list(classes), fits[-1].result()


def _classify(found: Mapping[str, Any], micros: Any) -> list[str]:
    names = list(found)
    times = np.stack([np.broadcast_to(found[name], micros.shape) for name in names])
    first = times.argmax(0)
    pairs = zip(first, micros, strict=True)
    return [class_of({names[bound]: 1.0}, float(time) * 1e-6) for bound, time in pairs]


def _sum_up_residuals(errors: Any, classes: Sequence[str]) -> dict[str, Residuals]:
    """Return the residuals of all launches and of each class that has enough of them."""
    grouped: dict[str, list[float]] = defaultdict(list)
    for error, kind in zip(np.abs(errors), classes, strict=True):
        grouped["all"].append(error)
        grouped[kind].append(error)
    return {
        kind: Residuals(len(each), *(_round(np.quantile(each, q)) for q in (0.5, 0.8, 0.9)))
        for kind, each in sorted(grouped.items())
        if kind == "all" or len(each) >= _FEWEST
    }


def _round(value: Any) -> float:
    return round(float(value), 4)


def _fit_calibration(
    timed: Sequence[_TimedCase],
    steps: Sequence[_TimedStep],
    start: Calibration,
    versions: tuple[str, str, str],
    pool: Executor,
) -> Calibration:
    """Return the calibration of ``start.target`` that these times make. ``versions`` are those of
    torch and triton, and the date."""
    torch, triton, date = versions
    samples = _list_samples(timed, start)
    real = _list_step_samples(steps, start)
    count = len(samples.micros)
    if real is not None:
        samples = join_samples(samples, real)
    errors, classes, constants = _hold_out(samples, start, pool)
    residuals = _sum_up_residuals(errors, classes)
    if real is not None:
        residuals["steps"] = _sum_up_residuals(errors[count:], classes[count:])["all"]
    origin = start.derived or f"{start.target.name} of {start.date}"
    scenarios = ", ".join(step.scenario for step in steps)
    return Calibration(
        target=start.target,
        clock_mhz=start.clock_mhz,
        torch=torch,
        triton=triton,
        date=date,
        constants=constants,
        residuals=residuals,
        pair=start.pair,
        notes=(
            f"constants: {count} launches of {len(timed)} generated kernels"
            + (f", {len(real.micros)} kernels of steps ({scenarios})" if real else "")
            + f", drawn towards those of {origin}",
            "residuals: each kernel by constants that were fitted without it, those of a scenario "
            "without all of it",
            f"pair: no pairs of options were measured; k80 and k90 are those of {origin}",
        ),
    )
