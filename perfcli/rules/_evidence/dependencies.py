"""Tells whether one kernel of a graph needs what another one makes."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli.model import KernelFacts, Run


def are_independent(run: Run, one: int, two: int) -> bool:
    """Return whether it is sure that neither of two kernels of one graph needs the other's result,
    where each is launched first. Not sure: a library operator between them, whose buffers are not
    known, or a kernel that was launched before, on other buffers than those of its facts."""
    graph = run.kernels[one].graph
    order = [launch for launch in run.launches if launch.graph == graph]
    names = [launch.name for launch in order]
    ends = {run.kernels[one].name, run.kernels[two].name}
    if run.kernels[two].graph != graph or len(ends) < 2 or not ends <= set(names):
        return False
    first, last = sorted(names.index(name) for name in ends)
    between = order[first : last + 1]
    kernels = {kernel.name: kernel for kernel in run.kernels if kernel.graph == graph}
    if any(launch.extern or launch.name not in kernels for launch in between):
        return False
    if not {launch.name for launch in between}.isdisjoint(names[:first]):
        return False
    return not _reaches([kernels[launch.name] for launch in between])


def _reaches(between: Sequence[KernelFacts]) -> bool:
    """Return whether what the first of these kernels writes gets, kernel by kernel, to the last."""
    made: set[str] = set()
    needs = False
    for position, kernel in enumerate(between):
        needs = any(b.name in made for b in kernel.buffers if b.role != "workspace")
        if position == 0 or needs:
            made |= {b.name for b in kernel.buffers if b.role != "input"}
    return needs
