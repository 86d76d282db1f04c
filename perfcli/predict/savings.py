"""Estimates what a step would save: kernels as they are against kernels as they would be.

A rule describes the kernel without the fault by what it would ask of the device (``Demand``):
fewer bytes or instructions, more blocks, no spills. What has no estimate, or one from its bytes
alone, has no cost either: unknown stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from perfcli.model import Cost, LaunchWork, Run
from perfcli.predict.calibration import Calibration, calibration_for
from perfcli.predict.launchable import list_timed
from perfcli.predict.reuse import find_cold_shares
from perfcli.predict.step import _DOUBTFUL

if TYPE_CHECKING:  # it needs numpy, which takes a tenth of a second
    from perfcli.predict.launch import Demand

    Edit = Callable[[Demand], None]
    """Changes what a launch asks for, in place."""

Rework = Callable[[LaunchWork], LaunchWork]
"""Makes of what a launch configuration does what it would do without the fault."""


_SPREAD = 0.4
"""How far what a cure gains is from what a finding was estimated to cost, as |log ratio|, in eight
of ten cases (20 cures, NVIDIA H200, torch 2.11.0, 2026-11-23: docs/cures.md)."""


def estimate_saving(
    run: Run,
    edits: Mapping[int, Sequence[Edit]],
    added: float = 0.0,
    rework: Rework | None = None,
    unseen: Sequence[Edit] = (),
) -> Cost | None:
    """Return what a step saves if these kernels (indices into ``Run.kernels``) asked for what the
    edits make of their demands, or None where one of them has no estimate that its work explains.

    Every launch configuration is edited that the autotuner would time, and the fastest counts.
    ``added``: seconds of each step that the change costs elsewhere, such as further launches.
    ``rework`` comes before the edits, where the fault is told by what a configuration does.
    ``unseen`` is what the kernels ask for as they are and their estimates leave out.
    """
    calibration = calibration_for(run.target) if run.target else None
    if calibration is None or not run.weighed:
        return None
    before = _sum_steps(run, tuple(edits))
    after = added
    for number, each in edits.items():
        kernel = run.kernels[number]
        seconds = _estimate_edited(run, number, each, calibration, rework)
        if seconds is None:
            return None
        finishing = kernel.estimate.finishing if kernel.estimate else 0.0
        after += (seconds + finishing) * kernel.launches
        if unseen and before is not None and kernel.estimate is not None:
            whole = _estimate_edited(run, number, unseen, calibration, None) or 0.0
            before += max(0.0, whole - kernel.estimate.seconds) * kernel.launches
    if before is None:
        return None
    saved, times = before - after, _spread_of(run, edits, _SPREAD)
    low, high = sorted((saved / times, saved * times))
    return Cost(saved, low, high, _share(run, saved))


def estimate_loss(base: Run, ours: Sequence[int], head: Run, theirs: Sequence[int]) -> Cost | None:
    """Return how much longer a step takes for these kernels of the head than for those of the base,
    or None where one of them has no estimate that its work explains."""
    calibration = calibration_for(head.target) if head.target else None
    if calibration is None or base.estimated_with != head.estimated_with:
        return None
    before, after = _sum_steps(base, ours), _sum_steps(head, theirs)
    if before is None or after is None:
        return None
    half = calibration.pair["k80"] * math.hypot(calibration.pair["floor"], 1)
    times = max(_spread_of(base, ours, half), _spread_of(head, theirs, half))
    lost = after - before
    return Cost(lost, after - before * times, after - before / times, _share(head, lost))


def estimate_total(run: Run) -> float | None:
    """Return the seconds of a step, of all kernels and operators that have an estimate; None where
    none has."""
    found = [k.step_seconds for k in run.kernels if k.step_seconds is not None]
    found += [e.count * e.estimate.seconds for e in run.externs if e.estimate is not None]
    return sum(found) if found else None


def _sum_steps(run: Run, numbers: Sequence[int]) -> float | None:
    seconds = 0.0
    for number in numbers:
        kernel = run.kernels[number]
        if kernel.estimate is None or kernel.estimate.is_rough:
            return None
        seconds += kernel.estimate.of_step * kernel.launches
    return seconds


def _spread_of(run: Run, numbers: Iterable[int], spread: float) -> float:
    doubts = any(e.doubts for n in numbers if (e := run.kernels[n].estimate) is not None)
    return math.exp(spread * (_DOUBTFUL if doubts else 1))


def _share(run: Run, seconds: float) -> float | None:
    total = estimate_total(run)
    return seconds / total if total else None


def _estimate_edited(
    run: Run, number: int, edits: Sequence[Edit], by: Calibration, rework: Rework | None
) -> float | None:
    """Return the seconds of one launch of what the fastest configuration becomes."""
    from perfcli.predict.launch import bounds, combine, demand_of

    kernel, target = run.kernels[number], run.target
    if target is None or kernel.unknown_sizes:
        return None
    found: list[float] = []
    for each in list_timed(kernel):
        candidate = kernel.candidates[each]
        if candidate.work is None or candidate.work.retries:
            continue
        cold = _find_cold(run, by)[number]
        work = rework(candidate.work) if rework else candidate.work
        demand = demand_of(work, candidate, kernel.buffers, target.sm_count, cold)
        for edit in edits:
            edit(demand)
        limits = bounds(demand, by.constants, target.sm_count, by.clock_mhz)
        found.append(1e-6 * float(combine(limits, by.constants)))
    return min(found, default=None)


_last: list[tuple[Run, Calibration, tuple[float, ...]]] = []


def _find_cold(run: Run, by: Calibration) -> tuple[float, ...]:
    """Return the cold shares of a run; those of the last run that was asked about are kept."""
    if not (_last and _last[0][0] is run and _last[0][1] is by):
        _last[:] = [(run, by, find_cold_shares(run, by.constants["cache_bytes"]))]
    return _last[0][2]
