"""Works out what of a step's collectives can be hidden behind its kernels.

Kernels run one after the other, and so do collectives, in an order of their own: they share a link.
A collective begins when all launches before it are done, or those that it is known to wait for, and
the next launch that waits for it (``wait_tensor``, ``c10d.wait``) begins when it is done; one that
nothing waits for has until the end of the step. That is the best case: on a device a collective
takes multiprocessors and bandwidth from the kernels beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfcli.model import CollectiveTime, OperatorWork, Run, StepEstimate, TimeEstimate
from perfcli.predict.operators import estimate_call


def hide_collectives(run: Run, step: StepEstimate) -> CollectiveTime | None:
    """Return the time of the collectives of a step, and how much of it can be hidden; None where
    there are none, or a launch has no estimate."""
    works = _list_works(run)
    kinds = [w.variant if w and w.family == "collective" else "" for w in works]
    found = _list_estimates(run, step, works) if any(kinds) else None
    if found is None:
        return None

    def hide(time: Callable[[TimeEstimate], float]) -> tuple[float, float]:
        times = [time(estimate) for estimate in found]
        whole = sum(seconds for kind, seconds in zip(kinds, times, strict=True) if kind)
        hidden = sum(times) - _walk(run, kinds, times)
        return whole, min(max(hidden, 0.0), whole)

    seconds, hidden = hide(lambda estimate: estimate.seconds)
    return CollectiveTime(seconds, hidden, hide(lambda estimate: estimate.low)[1])


def _walk(run: Run, kinds: Sequence[str], times: Sequence[float]) -> float:
    """Return the seconds of the step in which all is hidden that can be."""
    ends = [0.0]
    """When so many launches, from the first on, are done, but for collectives."""
    now = link = 0.0
    pending: dict[tuple[str, str], float] = {}
    for launch, kind, seconds in zip(run.launches, kinds, times, strict=True):
        names = [(launch.graph, name) for name in launch.operands]
        if kind == "wait":
            now = max([now, *(pending.pop(name) for name in names if name in pending)])
        elif kind:
            ready = now if launch.after is None else ends[min(launch.after, len(ends) - 1)]
            link = max(link, ready) + seconds
            pending |= dict.fromkeys(names, link)
        else:
            now += seconds
        ends.append(now)
    return max(now, link)


def _list_works(run: Run) -> list[OperatorWork | None]:
    """Return the work of each launch that calls an operator, None where that is not known."""
    calls = {(extern.graph, extern.op): extern.calls for extern in run.externs}
    return [
        None if launch.call is None else calls[launch.graph, launch.name][launch.call].work
        for launch in run.launches
    ]


def _list_estimates(
    run: Run, step: StepEstimate, works: Sequence[OperatorWork | None]
) -> list[TimeEstimate] | None:
    """Return the estimate of each launch; None where one has none."""
    kernels = {
        (kernel.graph, kernel.name): estimate
        for kernel, estimate in zip(run.kernels, step.kernels, strict=True)
    }
    found: list[TimeEstimate] = []
    for launch, work in zip(run.launches, works, strict=True):
        estimate: TimeEstimate | None = TimeEstimate(0.0, 0.0, 0.0)
        if not launch.extern:
            estimate = kernels.get((launch.graph, launch.name))
        elif not launch.finishing:  # what finishes a kernel is counted with it
            estimate = estimate_call(work, run.target) if work and run.target else None
        if estimate is None:
            return None
        found.append(estimate)
    return found
