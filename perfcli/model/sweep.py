"""Describes a sweep: many variants of one or several scenarios, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.values import Scalar


@dataclass(frozen=True, slots=True)
class Measured:
    """Holds what was measured of a variant in turns with its control, the first variant of its
    workload."""

    seconds: float | None = None
    """The median of a step by ``clock`` over the rounds of its session, with its 95 % interval."""
    low: float | None = None
    high: float | None = None
    ratio: float | None = None
    """Its time over the control's in the same session, with its 95 % interval."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    clock: Literal["device", "step"] = "step"
    """Whose time it is: the device's own, or the step's."""
    device: str = ""
    """The name of the GPU or CPU."""
    memory_bytes: int | None = None
    """The peak memory of a warm step."""
    measurement: str = ""
    """The id of the measurement."""
    reused: bool = False
    """Whether it was stored already."""
    why: str = ""
    """Why it could not be measured; empty where it was."""


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
    """Wall time, which depends on what else was compiled."""
    compile_cpu_seconds: float | None = None
    """Processor time, of all its processes."""
    ratio: float | None = None
    """Its time over that of the first variant of its workload that has one: measured where the
    workload is measured."""
    pareto: bool | None = None
    """Whether no other variant of its workload is both faster and smaller; None where time or
    memory is not known, and where there is no other one."""
    measured: Measured | None = None
    """None where nothing was to be measured, or the variant failed."""

    @property
    def time(self) -> float | None:
        """Return the seconds of a step: measured, else estimated."""
        return self.measured.seconds if self.is_measured and self.measured else self.seconds

    @property
    def is_measured(self) -> bool:
        return self.measured is not None and self.measured.seconds is not None

    @property
    def memory_bytes(self) -> float | None:
        """Return the peak memory of a step: measured, else estimated."""
        measured = self.measured.memory_bytes if self.measured else None
        return self.metrics.get("peak_memory_bytes") if measured is None else measured

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

    @property
    def unmeasured(self) -> tuple[Swept, ...]:
        """Return the variants whose measuring failed."""
        return tuple(each for each in self.variants if each.measured and each.measured.why)
