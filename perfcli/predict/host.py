"""Estimates how long the host is busy with a step: launching kernels, calling operators, entering
compiled graphs.

A host can be five times as fast as another, and guards take longer the more parameters a model has,
so that the interval is wide: that a step waits for its host is said only where even the least of it
is more than the device can need. Measured on an H200's host (torch 2.11.0, 16 cores, 2026-11):
a forward step of one kernel 91 µs, each further kernel of it 6 µs, a forward step of 17 kernels
1.15 ms, one of 230 in training 5 to 7 ms, a replayed CUDA graph of one kernel 8.5 µs.
"""

from __future__ import annotations

from collections.abc import Collection

from perfcli.model import HostEstimate, Run, Target
from perfcli.predict.operators import estimate_host

_LEAST_GRAPH, _LEAST_LAUNCH = 20e-6, 5e-6
"""Seconds to enter a compiled graph, with its guards, and to launch anything from it, at least."""
_GRAPH, _LAUNCH = 80e-6, 9e-6
"""Those of a forward step: of 91 µs for one kernel, 403 for 35 and 434 for 41."""
_MOST_GRAPH, _MOST_LAUNCH = 700e-6, 27e-6
"""Those of the slowest forward step: of 1.15 ms for 17 kernels."""
_TRAINING_SPREAD = 1.5
"""How many times longer than its estimate a training step keeps its host, at most."""
_REPLAY = 8.5e-6
"""Seconds to replay one CUDA graph."""
_LEAST_RATIO, _MOST_RATIO = 1.0, 60.0
"""Launches that take the host as long as what it does once in a step."""


def estimate_host_of(run: Run) -> HostEstimate | None:
    """Return how long the host is busy with a step of a run; None where nothing is known of a host
    like that of its target."""
    if run.target is None or not run.launches:
        return None
    recorded = _list_recorded(run)
    replays, alone = sum(recorded.values()), _count_alone(run, recorded)
    operators = [(each.op, each.count) for each in run.externs if each.graph not in recorded]
    calls = sum(launch.extern for launch in run.launches if launch.graph not in recorded)
    table = estimate_host(alone - calls, operators, run.target)
    if table is None:
        return None
    launches, graphs = len(run.launches), max(len(run.graphs), 1)
    once, instead, replaying = graphs * _GRAPH, graphs * _REPLAY, replays * _REPLAY
    launching = alone * _LEAST_LAUNCH
    low = graphs * _LEAST_GRAPH + launching
    if replays and not alone:
        seconds, most = once + replaying, graphs * _MOST_GRAPH + replaying
    elif run.mode != "forward":
        seconds, most = table + replaying, table * _TRAINING_SPREAD + replaying
        once = estimate_host(0, [], run.target) or 0.0
    else:
        beyond = _beyond_launches(operators, run.target) + replaying
        seconds = once + alone * _LAUNCH + beyond
        most = graphs * _MOST_GRAPH + alone * _MOST_LAUNCH + beyond
    return HostEstimate(
        seconds, low, most, launches, once, launching, instead,
        replays=replays, alone=alone,
    )  # fmt: skip


def _list_recorded(run: Run) -> dict[str, int]:
    """Return the compiled graphs that are recorded, with as how many CUDA graphs each is."""
    return {each.graph: each.parts for each in run.recorded_graphs if each.parts}


def _count_alone(run: Run, recorded: Collection[str]) -> int:
    """Return how many kernels and operators of a step no CUDA graph launches: those of graphs that
    are not recorded, and what is left out between the parts of one that is."""
    splits = [each for each in run.graph_obstacles or () if each.effect == "split"]
    return sum(launch.graph not in recorded for launch in run.launches) + sum(
        each.graph in recorded for each in splits
    )


def _beyond_launches(operators: list[tuple[str, int]], target: Target) -> float:
    """Return the seconds that calls of operators take the host beyond one launch each."""
    calls = estimate_host(0, operators, target) or 0.0
    nothing = estimate_host(0, [], target) or 0.0
    return max(calls - nothing - sum(count for _, count in operators) * _LAUNCH, 0.0)


def compare_hosts(base: Run, head: Run) -> tuple[float, float]:
    """Return the least and the most that the head's host can take of the base's time: what it does
    once in a step may be as much as few launches, or as many."""
    ours, theirs = _count_started(base), _count_started(head)
    ratios = [(once + theirs) / (once + ours) for once in (_LEAST_RATIO, _MOST_RATIO)]
    return min(ratios), max(ratios)


def _count_started(run: Run) -> int:
    """Return how many kernels, operators and CUDA graphs the host starts in a step."""
    recorded = _list_recorded(run)
    return sum(recorded.values()) + _count_alone(run, recorded)
