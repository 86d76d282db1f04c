"""Words what several rules need to say where and what."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.model import Candidate, Comparison, KernelFacts, KernelGroup, Origin, Relation, Run

_REDUCTIONS = frozenset((
    "sum", "mean", "amax", "amin", "max", "min", "var", "std", "prod", "norm", "softmax",
    "logsumexp", "argmax", "argmin",
))  # fmt: skip


def number_kernels(run: Run) -> Iterator[tuple[int, KernelFacts, Candidate]]:
    """Yield kernels of which machine code is known, with their index and their best candidate. Left
    out is what is never launched: another form of a kernel (``triton.multi_kernel``), which the
    device takes only if it is the faster one."""
    for number, kernel in enumerate(run.kernels):
        if kernel.best is not None and kernel.launches:
            yield number, kernel, kernel.best


def origin_of(kernel: KernelFacts) -> Origin | None:
    """Return the FX node that stands for a kernel: its largest reduction on a line of the model,
    else its largest node there."""
    known = [origin for origin in kernel.origins if origin.location] or list(kernel.origins)
    return max(known, key=_weight, default=None)


def _weight(origin: Origin) -> tuple[bool, int]:
    return _is_reduction(origin.op), math.prod(s for s in origin.shape if isinstance(s, int))


def _is_reduction(op: str) -> bool:
    """Return whether an ATen operator, ``aten.sum.dim_IntList``, reduces."""
    words = op.removeprefix("aten.").removeprefix("prims.").split(".")[0].split("_")
    return "clamp" not in words and not _REDUCTIONS.isdisjoint(words)


def torch_version(run: Run) -> tuple[int, int]:
    """Return ``(2, 11)`` of ``2.11.0+cu130``; ``(0, 0)`` where it is something else."""
    found = re.match(r"(\d+)\.(\d+)", run.environment.torch)
    return (int(found[1]), int(found[2])) if found else (0, 0)


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


NAMED = 6


def against_a_baseline(comparison: Comparison) -> bool:
    """Return whether the base is a baseline: it keeps what kernels are made of, not their sources.
    Elsewhere the list of kernels says what these rules say."""
    base = comparison.base
    return not base.id and not any(kernel.source for kernel in base.kernels)


def groups(comparison: Comparison, relation: Relation) -> list[KernelGroup]:
    return [group for group in comparison.groups if group.match.relation == relation]


def list_kernels(kernels: Sequence[KernelFacts]) -> tuple[str, ...]:
    """Return a line each, with what the kernel costs."""
    lines = [f"{k.name}: {_launches(k)}, {units.size(k.bytes_moved)} each" for k in kernels[:NAMED]]
    more = len(kernels) - NAMED
    return (*lines, f"and {units.count(more)} more") if more > 0 else tuple(lines)


def _launches(kernel: KernelFacts) -> str:
    return units.plural(kernel.launches, "launch", "launches")
