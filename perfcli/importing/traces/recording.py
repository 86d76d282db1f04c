"""Holds what a profiler recorded, in columns: what the device ran, and what of the host tells where
it belongs. Times are seconds since some moment of the recording."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

Shape = tuple[int | None, int | None, tuple[int, ...], tuple[int, ...]]
"""Registers per thread, shared memory per block in bytes, grid, block."""
NO_SHAPE: Shape = (None, None, (), ())


class Numbering(Generic[T]):
    """Gives each different value a number, from 0."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


def _floats() -> array[float]:
    return array("d")


def _integers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Works:
    """Holds everything that the device ran, one value in each column: kernels, copies, fills."""

    start: array[float] = field(default_factory=_floats)
    seconds: array[float] = field(default_factory=_floats)
    name: array[int] = field(default_factory=_integers)
    shape: array[int] = field(default_factory=_integers)
    device: array[int] = field(default_factory=_integers)
    launch: array[int] = field(default_factory=_integers)
    """The number that the host's call of the driver has as well; −1: not recorded."""

    def add(
        self, start: float, seconds: float, name: int, shape: int, device: int, launch: int
    ) -> None:
        self.start.append(start)
        self.seconds.append(seconds)
        self.name.append(name)
        self.shape.append(shape)
        self.device.append(device)
        self.launch.append(launch)


@dataclass(slots=True)
class HostLaunches:
    """Holds the host's calls that made the device run something."""

    launch: array[int] = field(default_factory=_integers)
    start: array[float] = field(default_factory=_floats)
    thread: array[int] = field(default_factory=_integers)
    kernel: array[int] = field(default_factory=_integers)
    """Whether it starts a kernel."""

    def add(self, launch: int, start: float, thread: int, kernel: bool) -> None:
        self.launch.append(launch)
        self.start.append(start)
        self.thread.append(thread)
        self.kernel.append(kernel)


@dataclass(slots=True)
class Spans:
    """Holds named stretches of time of the host's threads."""

    start: array[float] = field(default_factory=_floats)
    end: array[float] = field(default_factory=_floats)
    name: array[int] = field(default_factory=_integers)
    thread: array[int] = field(default_factory=_integers)

    def add(self, start: float, end: float, name: int, thread: int) -> None:
        self.start.append(start)
        self.end.append(end)
        self.name.append(name)
        self.thread.append(thread)


@dataclass(slots=True)
class Recording:
    """Holds what one file says."""

    tool: str
    file: str
    names: Numbering[str] = field(default_factory=Numbering)
    shapes: Numbering[Shape] = field(default_factory=Numbering)
    works: Works = field(default_factory=Works)
    launches: HostLaunches = field(default_factory=HostLaunches)
    steps: Spans = field(default_factory=Spans)
    """Marks around steps, on the host."""
    operators: Spans = field(default_factory=Spans)
    """Operators of libraries, ``aten::mm``."""
    backward: Spans = field(default_factory=Spans)
    """What autograd runs backward."""
    graphs: Spans = field(default_factory=Spans)
    """Calls of graphs that Inductor compiled; the name is the graph's key."""
    triton: set[int] = field(default_factory=set)
    """Names of kernels that Triton compiled, as far as the recording says so."""
    device: str = ""
    sm_count: int | None = None
    rank: int | None = None
    world_size: int | None = None
    resolution: float = 0.0
    """Seconds."""
    peak_memory_bytes: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    events: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be read, and other remarks."""
