"""Words what several rules need to say where and what."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from perfcli.model import Candidate, KernelFacts, Origin, Run

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
