"""Estimates how long a collective takes, from what a rank sends and the speed of its link.

Speeds are those of the data sheets, one direction: H100 and H200 have 18 links of NVLink 4 with
25 GB/s each, A100 12, B200 18 of twice the speed; MI300X has 7 of Infinity Fabric with 64 GB/s.
Between machines each GPU is taken to have a network port of 400 Gbit/s.
"""

from __future__ import annotations

import math

from perfcli.model import RANKS_PER_MACHINE, OperatorWork, Target, TimeEstimate

_LINKS = {"h100": 450e9, "h200": 450e9, "a100": 300e9, "b200": 900e9, "mi300x": 448e9}
_PORT = 50e9
_REACHED = 0.8
"""The share of a link's speed that a large collective reaches."""
_START = 12e-6
"""Seconds that the smallest collective of two ranks takes."""
_STEP = 1.5e-6
"""Seconds for each rank that a message has to pass on its way."""
_WIDTH = 0.7
"""Half of the interval, as a logarithm: a factor of two either way."""


def estimate_collective(work: OperatorWork, target: Target) -> TimeEstimate | None:
    """Return the estimate of one call; None for a device whose links are not known."""
    if work.variant == "wait":  # the time is that of what it waits for
        return TimeEstimate(0.0, 0.0, 0.0)
    link = _LINKS.get(target.name) or _find_link(target)
    if link is None:
        return None
    ranks = work.sizes["ranks"]
    # Runs of an earlier perfcli do not say on how many machines the ranks are.
    far = work.sizes.get("machines", ranks / RANKS_PER_MACHINE) > 1
    speed = min(link * _REACHED, _PORT) if far else link * _REACHED
    passed = (ranks - 2) * (2 if work.variant == "all_reduce" else 1)
    seconds = _START + max(passed, 0) * _STEP + work.sizes["sent"] / speed
    doubt = "between machines, 400 Gbit/s for each GPU are assumed" if far else ""
    return TimeEstimate(
        seconds,
        seconds * math.exp(-_WIDTH),
        seconds * math.exp(_WIDTH),
        doubts=(doubt,) if doubt else (),
    )


def _find_link(target: Target) -> float | None:
    """Return the speed of a device that was asked itself, and has a longer name."""
    name = f"{target.name} {target.description}".lower()
    return next((speed for known, speed in _LINKS.items() if known in name), None)
