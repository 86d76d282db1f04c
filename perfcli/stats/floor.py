"""Finds the noise floor: the change below which nothing is told apart from noise, however many
rounds.

An interval over rounds narrows without end; what differs between two processes by chance does not.
The floor is the largest of

* an assumed minimum,
* what ``perfcli noise`` stored for this kind of environment,
* what today's *controls* prove: kernels with identical code on both sides, whose true ratio is 1.

For the step, what counts is what all controls have in common: the median over controls of a
round's log ratios, over rounds. A control that follows a changed kernel may really be slower (its
data left the cache); that is no noise, and the median does not see it. Only a common factor whose
99 % interval excludes 1 is proof of anything; else it is sampling noise, which the step's own
interval has already.

For one kernel, what counts is how far a single control can go astray: the conformal bound at 95 %
(Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World*, 2005): of m controls, that of
rank ⌈0.95 (m + 1)⌉, the largest where m < 19. A control whose 99 % interval holds 1 counts as 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from perfcli.model import Device, DeviceClock, Floor
from perfcli.stats.series import RoundSeconds, _align, estimate
from perfcli.stats.verdict import DECIDING

ASSUMED: dict[Device, float] = {"cpu": 0.015, "cuda": 0.01}
"""The assumed minimum. On the CPU an otherwise idle machine's pairs differed by up to 0.7 % (4
pairs, softmax over 4 MB, 2-core AMD EPYC, 2026-11-21): twice that. A busy one's do by more
(docs/accuracy.md), which no floor covers. On an H200 they differed by 0.03 % for one kernel (5
pairs), by 0.3 % for a step at the power limit (3 pairs): three times that (docs/noise.md)."""
ASSUMED_OF_GRAPH = 0.006
"""The assumed minimum of the device's own time, where it replays a CUDA graph: no host is in it.
Twice what pairs of processes differed by on an H200 (docs/noise.md)."""
SHORT_GRAPH_SECONDS, ASSUMED_OF_SHORT_GRAPH = 5e-4, 0.018
"""A graph that takes less than so long, and its assumed minimum: where kernels take microseconds,
it counts on which addresses their data and code lie, which each process draws anew. On an H200 such
graphs of 28 to 281 µs differed by 0.58 % (root mean square of 12 pairs, docs/noise.md), of which
the next pair stays below 1.8 % with 99 % confidence."""
ASSUMED_WAITING, ASSUMED_WAITING_SECONDS = 0.08, 2e-4
"""The assumed minimum of a step that waits for its host, whose time is that of two Python
processes, and what it may differ by besides, in seconds. On an H200 steps of 2 to 6 ms differed by
up to 7.5 %, of 0.9 ms by 16 %, of 0.25 ms by 48 % (docs/noise.md): this is about twice as much.
What ``perfcli noise`` stored takes its place."""
FOR_STEP, FOR_KERNEL = 3, 5
"""Controls needed to say anything."""


def find_floor(
    device: Device,
    controls: Sequence[RoundSeconds],
    stored: tuple[float, str] | None = None,
    clock: DeviceClock = "",
    *,
    seconds: float = math.inf,
    waits: bool = False,
) -> Floor:
    """Return the largest of the three. ``stored``: what ``perfcli noise`` found, with its source.
    ``clock``: what tells the device's own time, where the floor is for that; else it is for the
    step's, of which ``waits`` says whether it waits for its host. ``seconds``: how long either
    is."""
    of_graph = ASSUMED_OF_SHORT_GRAPH if seconds < SHORT_GRAPH_SECONDS else ASSUMED_OF_GRAPH
    known = [(of_graph if clock == "graph" else ASSUMED[device], "assumed")]
    if stored is not None:
        known.append(stored)
    controls = [control for control in controls if control.base]
    known.append(
        (_common_bias(controls), f"{len(controls)} identical kernels on both sides, today")
    )
    kernel = max(*(each for each, _ in known), _single_bias(controls))
    if waits and stored is None:  # no kernel waits for the host
        of_host = ASSUMED_WAITING + ASSUMED_WAITING_SECONDS / seconds
        known.append((of_host, "assumed of a step that waits for its host"))
    relative, source = max(known, key=lambda k: k[0])
    return Floor(relative, source, kernel, margin=ASSUMED[device])


def _common_bias(controls: Sequence[RoundSeconds]) -> float:
    """Return the relative difference that all controls share, if it is one; else 0. In the rounds
    that all of those have that have times at all."""
    controls = _align(controls)
    if len(controls) < FOR_STEP:
        return 0.0
    medians = [
        math.exp(statistics.median(logs)) for logs in zip(*(c.logs for c in controls), strict=True)
    ]
    return _proven_difference(
        RoundSeconds((1.0,) * len(medians), tuple(medians), controls[0].processes)
    )


def _single_bias(controls: Sequence[RoundSeconds]) -> float:
    """Return the relative difference that one control in twenty exceeds, or 0 where they are too
    few."""
    count = len(controls)
    if count < FOR_KERNEL:
        return 0.0
    rank = min(math.ceil(0.95 * (count + 1)), count)
    return sorted(map(_proven_difference, controls))[rank - 1]


def _proven_difference(series: RoundSeconds) -> float:
    """Return how far the ratio is from 1, where noise between rounds does not explain it."""
    found = estimate(series, DECIDING)
    if found.ratio is None or found.low is None or found.high is None:
        return 0.0
    return 0.0 if found.low <= 1 <= found.high else max(found.ratio, 1 / found.ratio) - 1


CONFIDENCE = 0.99
LEAST_PAIRS = 2
"""One pair would give 64 times its own difference."""


def factor(pairs: int, confidence: float = CONFIDENCE) -> float:
    """Return by how much the root mean square is multiplied: 5.84 for 3 pairs, 3.17 for 10."""
    from scipy.special import stdtrit

    return float(stdtrit(pairs, (1 + confidence) / 2))


def bound(ratios: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Return the relative difference (0.01: one percent) that the next pair stays below. ``ratios``
    are head over base of identical variants, one per fresh pair of processes.

    None where there are fewer than ``LEAST_PAIRS``, or a ratio is not a positive number.
    """
    if len(ratios) < LEAST_PAIRS or not all(math.isfinite(r) and r > 0 for r in ratios):
        return None
    spread = math.sqrt(math.fsum(math.log(r) ** 2 for r in ratios) / len(ratios))
    return math.expm1(min(factor(len(ratios), confidence) * spread, 700.0))
