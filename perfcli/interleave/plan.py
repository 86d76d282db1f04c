"""Plans what is measured, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model import Ask, Device, MeasureRequest, RoundKind

TURN_SECONDS: dict[Device, float] = {"cpu": 0.003, "cuda": 0.010}
"""A turn's timed steps take about this long: both turns of a round see the same machine, and a
round's own cost (a warm-up step, two messages) stays small beside them. On a CPU that others use,
many short rounds know more than few long ones: in the same 15 s the interval over turns of 3 ms was
half as wide as over those of 10 ms (softmax over 4 MB, 2-core AMD EPYC, 2026-11-21)."""
RELAYOUT_SECONDS = 0.2
"""How long a layout of memory lasts. Making another one takes as long as several rounds."""
RELAYOUT_TIMES = 4
"""How many times as long as it took to make a layout lasts at least: 128 MiB take a while to get
other pages."""
LEAST_STEPS = 3
MOST_STEPS = 1000
SLOW_STEP_SECONDS = 1.0
"""A step from which one alone is a turn, without warming up: nothing of it is in a cache."""
PROFILED_SHARE = 0.25
"""The share of the time spent on rounds with the profiler attached, for the times of single
kernels."""
PROFILED_STEPS = 3
BUDGET_SPENT = "budget spent"
"""Why a measurement ended that was not precise enough before."""
LONG_STEP_SECONDS = 0.01
"""A step from which one is profiled per turn: single kernels need 8 rounds for a verdict."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Describes a measurement. ``base`` and ``head`` differ in their variant, side, and device at
    most."""

    base: MeasureRequest
    head: MeasureRequest
    budget_seconds: float
    seed: int
    kernels: bool = True
    """Whether to profile single kernels as well."""


def ask_for(kind: RoundKind, step_seconds: float, device: Device) -> Ask:
    """Return how many steps a turn has, from what one takes."""
    warmup = 0 if step_seconds >= SLOW_STEP_SECONDS else 1
    if step_seconds >= SLOW_STEP_SECONDS:
        return Ask(kind, 1, warmup)
    if kind == "kernels":
        return Ask(kind, 1 if step_seconds >= LONG_STEP_SECONDS else PROFILED_STEPS, warmup)
    fitting = round(TURN_SECONDS[device] / max(step_seconds, 1e-9))
    return Ask(kind, min(max(fitting, LEAST_STEPS), MOST_STEPS), warmup)
