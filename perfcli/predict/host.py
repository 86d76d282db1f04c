"""Estimates how long the host is busy with a step: launching kernels, calling operators, entering
compiled graphs.

A host can be five times as fast as another, and guards take longer the more parameters a model has,
so that the interval is wide: that a step waits for its host is said only where even the least of it
is more than the device can need. Measured on an H200's host (torch 2.11.0, 16 cores, 2026-11):
a forward step of one kernel 91 µs, each further kernel of it 6 µs, a forward step of 17 kernels
1.15 ms, one of 230 in training 5 to 7 ms, a replayed CUDA graph of one kernel 8.5 µs.
"""

from __future__ import annotations

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


def count_launches(run: Run) -> int:
    """Return how many kernels and operators a step launches."""
    return len(run.launches)


def estimate_host_of(run: Run) -> HostEstimate | None:
    """Return how long the host is busy with a step of a run; None where nothing is known of a host
    like that of its target."""
    operators = [(each.op, each.count) for each in run.externs]
    kernels = sum(not launch.extern for launch in run.launches)
    if run.target is None or not run.launches:
        return None
    table = estimate_host(kernels, operators, run.target)
    if table is None:
        return None
    launches, graphs = count_launches(run), max(len(run.graphs), 1)
    replay = graphs * _REPLAY
    if _is_replayed(run):
        once = graphs * _GRAPH
        least, most = graphs * _LEAST_GRAPH, graphs * _MOST_GRAPH
        return HostEstimate(once + replay, least, most, launches, once, 0.0, replay, replayed=True)
    launching = launches * _LEAST_LAUNCH
    low = graphs * _LEAST_GRAPH + launching
    if run.mode != "forward":
        once = estimate_host(0, [], run.target) or 0.0
        most = table * _TRAINING_SPREAD
        return HostEstimate(table, low, most, launches, once, launching, replay)
    beyond = _beyond_launches(operators, run.target)
    once = graphs * _GRAPH
    most = graphs * _MOST_GRAPH + launches * _MOST_LAUNCH + beyond
    seconds = once + launches * _LAUNCH + beyond
    return HostEstimate(seconds, low, most, launches, once, launching, replay)


def _beyond_launches(operators: list[tuple[str, int]], target: Target) -> float:
    """Return the seconds that calls of operators take the host beyond one launch each."""
    calls = estimate_host(0, operators, target) or 0.0
    nothing = estimate_host(0, [], target) or 0.0
    return max(calls - nothing - sum(count for _, count in operators) * _LAUNCH, 0.0)


def _is_replayed(run: Run) -> bool:
    """Return whether CUDA graphs were asked for and nothing keeps them from being recorded."""
    asked = run.settings.get("triton.cudagraphs") is True
    return asked and run.graph_obstacles == ()


def compare_hosts(base: Run, head: Run) -> tuple[float, float]:
    """Return the least and the most that the head's host can take of the base's time: what it does
    once in a step may be as much as few launches, or as many."""
    ours, theirs = count_launches(base), count_launches(head)
    ratios = [(once + theirs) / (once + ours) for once in (_LEAST_RATIO, _MOST_RATIO)]
    return min(ratios), max(ratios)
