"""Defines the times that another program recorded of a run: a profiler's trace, as far as it can be
held against another one.

Seconds and bytes everywhere. ``None`` is "not known".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median


@dataclass(frozen=True, slots=True)
class ObservedWork:
    """Holds what a step launched under one name: a generated kernel, or what a library operator
    launched of one shape."""

    name: str
    """The kernel's own name, as the profiler wrote it."""
    label: str
    """The same without parameters and templates, where it is that of a library."""
    generated: bool
    """Whether Inductor generated it."""
    launches: int
    """Launches per step: the median over steps."""
    seconds: tuple[float, ...]
    """All launches of each step together; 0 where a step did not launch it."""
    graph: str = ""
    """The compiled graph that launched it, ``forward 0``; empty: none that is known."""
    operator: str = ""
    """The library operator that launched it, ``aten::mm``; empty: none that is known."""
    calls: float | None = None
    """Calls of that operator per step whose first launch this is: over all that the operator
    launches, they add up to its calls. None: no operator is known, or an earlier version's run."""
    registers: int | None = None
    shared_bytes: int | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()

    @property
    def typical_seconds(self) -> float:
        """Return the seconds of a step: the median, or the mean where most steps do without it."""
        return median(self.seconds) or fmean(self.seconds)

    @property
    def look(self) -> tuple[object, ...]:
        """Return what its launches have in common, apart from names and times."""
        return (self.grid, self.block, self.registers, self.shared_bytes)


@dataclass(frozen=True, slots=True)
class ObservedStep:
    """Holds one step on the device: from its first launch to the first of the next step."""

    name: str
    """``ProfilerStep#12``."""
    seconds: float | None
    """None for the last step of several: where it ended is not recorded."""
    busy: float
    """The seconds in which the device ran anything."""


@dataclass(frozen=True, slots=True)
class ObservedRank:
    """Holds one process of a distributed run: medians over its steps."""

    rank: int
    file: str
    seconds: float | None
    busy: float
    communication: float
    """Seconds per step of its collective kernels."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Holds what a trace says of a run: times per step, of each thing that a step launches."""

    tool: str
    """``torch.profiler``, ``Nsight Systems``."""
    file: str
    """The trace's own name, without its folder."""
    device: str
    """``NVIDIA H200``; empty where the trace does not say."""
    sm_count: int | None
    steps: tuple[ObservedStep, ...]
    works: tuple[ObservedWork, ...]
    order: tuple[int, ...]
    """What its first step launched, one after the other: indices into ``works``."""
    marks: str
    """How steps were told apart: ``ProfilerStep marks``, ``launches that repeat``, ``one step``."""
    resolution: float = 0.0
    """Seconds that its clock counts in."""
    rank: int | None = None
    world_size: int | None = None
    ranks: tuple[ObservedRank, ...] = ()
    """All ranks whose traces were found beside it; empty where it is the only process."""
    peak_memory_bytes: int | None = None
    """The most that the allocator had handed out while it was recorded."""
    held: tuple[tuple[str, int], ...] = ()
    """What was allocated then, by the line that asked for it: bytes, the most first."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else the trace says of where it was recorded: ``cuda``, ``driver``."""
    notes: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """Return the seconds of the steps whose end is known."""
        return tuple(step.seconds for step in self.steps if step.seconds is not None)

    @property
    def busy_seconds(self) -> tuple[float, ...]:
        return tuple(step.busy for step in self.steps)

    @property
    def idle_share(self) -> float | None:
        """Return the part of its steps in which the device ran nothing; None where no step's end is
        known."""
        timed = [(step.seconds, step.busy) for step in self.steps if step.seconds]
        whole = sum(seconds for seconds, _ in timed)
        return max(0.0, 1 - sum(busy for _, busy in timed) / whole) if whole else None
