"""What a measuring worker is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfcli.model.workload import CompileRequest

SideName = Literal["base", "head"]
RoundKind = Literal["step", "kernels"]


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """Everything a measuring worker needs to get ready. Both sides of a pair get the same seed:
    the same weights and inputs."""

    compile: CompileRequest
    side: SideName
    seed: int
    threads: int | None = None
    """Threads of CPU operators and kernels; None: torch's own number."""
    cpus: tuple[int, ...] = ()
    """Cores that the process is pinned to; empty: where it may run already."""
    device_index: int | None = None
    cuda_graph: bool = False
    flush_l2: bool = False
    """Before each timed step, memory twice the size of L2 is written (for steps of few kernels)."""
    slow_down: float = 0.0
    """Planted: every step is followed by busy waiting for this share of the time it took."""
    pause: float = 0.0
    """The other side of what is planted, CPU only: as long a wait after each step that is no part
    of its time. What a wait does to the next step (data leaves a cache that others share) is then
    alike on both sides, and the planted share the true difference."""
    check: bool = True
    """Hold outputs against the eager reference before anything is timed."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a worker that is ready."""

    kind: RoundKind
    steps: int = 0
    warmup: int = 1
    """Steps run before the timed ones and not reported."""
    relayout: bool = False
    """Whether the step's memory is to lie elsewhere from this turn on, where the worker can see to
    that."""
