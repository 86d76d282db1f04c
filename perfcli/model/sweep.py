"""Describes a sweep: many variants of one or several scenarios, and what came of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfcli.model.values import Scalar


@dataclass(frozen=True, slots=True)
class Swept:
    """Holds one variant of a sweep: where it lies on each axis, and what came of it."""

    scenario: str
    params: Mapping[str, Scalar] = field(default_factory=dict)
    """Those that the sweep sets; the others have the scenario's own values."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    target: str = ""
    """The GPU that it is compiled for; ``cpu`` for the processor."""
    torch: str = ""
    python: str = ""
    """The interpreter that was asked for; empty: the one of perfcli."""
    run: str = ""
    """The id of its run; empty where it failed."""
    reused: bool = False
    """Whether its run was stored already."""
    error: str = ""
    seconds: float | None = None
    """The estimated time of a step, with the ends of its interval."""
    low: float | None = None
    high: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """The totals of its run that a comparison has, by the names of ``diff.metrics``."""
    compile_seconds: float | None = None
    ratio: float | None = None
    """Its time over that of the first variant of its workload that has one."""
    pareto: bool | None = None
    """Whether no other variant of its workload is both faster and smaller; None where time or
    memory is not known, and where there is no other one."""

    @property
    def memory_bytes(self) -> float | None:
        """Return the estimated peak memory of a step."""
        return self.metrics.get("peak_memory_bytes")

    @property
    def bound_seconds(self) -> float | None:
        """Return the least time that the device's bandwidths allow."""
        return self.metrics.get("lower_bound_seconds")

    @property
    def workload(self) -> tuple[str, tuple[tuple[str, Scalar], ...], str]:
        """Return what is computed, and for which device: variants that share it are choices."""
        return self.scenario, tuple(self.params.items()), self.target

    @property
    def way(self) -> tuple[tuple[tuple[str, Scalar], ...], str]:
        """Return how it is compiled: options and torch."""
        return tuple(self.options.items()), self.python


@dataclass(frozen=True, slots=True)
class Sweep:
    """Holds the variants of a sweep, in the order in which they were asked for."""

    variants: tuple[Swept, ...]
    command: str = ""

    @property
    def failed(self) -> tuple[Swept, ...]:
        return tuple(each for each in self.variants if each.error)


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """Describes the page of a sweep in ``reports/``: ``render`` gives the whole text."""

    name: str
    suffix: str
    render: Callable[[Sweep], str]
