"""What the device did while it was timed, averaged."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from perfcli.model import DeviceState, Round

AVERAGED = (
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_watts",
    "temperature_celsius",
    "others_utilisation",
)


def of_sides(rounds: Iterable[Round]) -> dict[str, DeviceState]:
    """``base`` and ``head``: means over the turns that were sampled, throttle reasons united; a
    side that never was sampled is not there."""
    made = list(rounds)
    sides = {"base": [r.base.state for r in made], "head": [r.head.state for r in made]}
    sampled = {name: [s for s in states if s is not None] for name, states in sides.items()}
    return {name: average(states) for name, states in sampled.items() if states}


def average(states: Sequence[DeviceState]) -> DeviceState:
    """Mean of each value over the states that know it."""
    means: dict[str, Any] = {}
    for name in AVERAGED:
        known = [v for s in states if (v := getattr(s, name)) is not None]
        means[name] = statistics.fmean(known) if known else None
    reasons = sorted({reason for s in states for reason in s.throttle})
    return DeviceState(**means, throttle=tuple(reasons))
