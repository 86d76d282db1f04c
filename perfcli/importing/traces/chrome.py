"""Reads a Chrome trace of torch.profiler (Kineto) into columns.

Of a million events, those that the device ran are kept (``kernel``, ``gpu_memcpy``,
``gpu_memset``), the driver's calls that launched them, and what of the host says where these
belong: marks of steps, operators, compiled graphs. Categories are those of torch 1.12 to 2.13, on
NVIDIA and AMD GPUs; ``gpu_user_annotation`` spans kernels on the device, and is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from perfcli import units
from perfcli.decoding import decoder
from perfcli.errors import PerfcliError
from perfcli.importing.traces.events import Event, TraceFile, decode_arguments
from perfcli.importing.traces.recording import NO_SHAPE, Recording, Shape

_ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_DRIVER = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "runtime"})
_OPERATOR = frozenset({"cpu_op", "operator"})
_MARK = "user_annotation"
_MEMORY = "cpu_instant_event"
STEP = "ProfilerStep"
_GRAPH = re.compile(r"## Call CompiledFxGraph (\w+) ##")
# ``aten::mm``, ``mylib::op``; not ``autograd::engine::evaluate_function: …``.
_NAMED_OPERATOR = re.compile(r"[A-Za-z_]\w*::\w[\w.]*")
_BACKWARD = "autograd::engine::evaluate_function"
_MICRO = 1e-6
_NANOSECONDS = 1e-9


_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""What a column of 64 bits holds."""


class _PlainArguments(msgspec.Struct, gc=False):
    """Arguments of what the device ran, as Kineto writes them."""

    device: _Count
    correlation: _Number
    registers: _Count = msgspec.field(name="registers per thread")
    shared: _Count = msgspec.field(name="shared memory")
    grid: tuple[_Count, _Count, _Count]
    block: tuple[_Count, _Count, _Count]


class _WorkArguments(msgspec.Struct, gc=False):
    """Arguments of what the device ran, whatever they are."""

    device: int | str | None = None
    correlation: int | str | None = None
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared: Any = msgspec.field(default=None, name="shared memory")
    grid: Any = None
    block: Any = None


class _LaunchArguments(msgspec.Struct, gc=False):
    """Arguments of a call of the driver."""

    correlation: int | str | None = None


class _TritonArguments(msgspec.Struct, gc=False):
    """Arguments of a kernel that Triton compiled, on the host."""

    kernel_backend: str = ""


class _MemoryArguments(msgspec.Struct, gc=False):
    """Arguments of a change of the allocator's memory."""

    device_type: int = msgspec.field(default=0, name="Device Type")
    total: float | None = msgspec.field(default=None, name="Total Allocated")


_PLAIN_WORK = decoder(_PlainArguments)
_WORK = decoder(_WorkArguments)
_LAUNCH = decoder(_LaunchArguments)
_TRITON = decoder(_TritonArguments)
_MEMORY_CHANGE = decoder(_MemoryArguments)


def read_chrome_trace(path: Path) -> Recording:
    """Return what a trace holds. Raises PerfcliError for what is no trace. What can't be read of
    one is left out, and said."""
    reader = _Reader(path)
    for events in reader.file.read():
        for event in events:
            reader.take(event)
    return reader.finish()


class _Reader:
    """Sorts the events of one file into columns."""

    def __init__(self, path: Path) -> None:
        self.file = TraceFile(path)
        self.found = Recording("torch.profiler", path.name)
        self._epoch: float | None = None
        self._threads: dict[object, int] = {}
        self._impossible = 0
        self._impossible_works = 0
        self._whole_microseconds = True
        self._known: set[str] = set()
        """Names of which it is known whether Triton compiled such a kernel."""
        self._takers: Mapping[str, Callable[[Event], None]] = {
            **dict.fromkeys(_ON_DEVICE, self._take_work),
            **dict.fromkeys(_DRIVER, self._take_launch),
            **dict.fromkeys(_OPERATOR, self._take_operator),
            _MARK: self._take_mark,
            _MEMORY: self._take_memory,
        }

    def take(self, event: Event) -> None:
        taker = self._takers.get(event.cat) or self._takers.get(event.cat.lower())
        if taker is None or event.ph not in ("X", "i"):
            return
        # Comparisons with NaN are false.
        if not (event.dur >= 0 and math.isfinite(event.ts) and event.dur < math.inf):
            self._impossible += 1
            self._impossible_works += taker == self._take_work
            return
        if self._epoch is None:
            self._epoch = event.ts
        taker(event)

    def _time(self, event: Event) -> float:
        """Return when an event began, in seconds since the first one of the file."""
        return (event.ts - (self._epoch or 0.0)) * _MICRO

    def _thread(self, event: Event) -> int:
        return self._threads.setdefault(event.tid, len(self._threads))

    def _take_work(self, event: Event) -> None:
        plain = decode_arguments(event, _PLAIN_WORK, None)
        if plain is not None:
            device, number = plain.device, plain.correlation
            shape: Shape = (plain.registers, plain.shared, plain.grid, plain.block)
        else:
            given = decode_arguments(event, _WORK, _WorkArguments())
            device, number = _make_number(given.device, 0), _make_number(given.correlation, -1)
            shape = _make_shape(given)
        name, shape_number = self.found.names.number(event.name), self.found.shapes.number(shape)
        span = self._time(event), event.dur * _MICRO
        self.found.works.add(*span, name, shape_number, device, number)
        if self._whole_microseconds and event.dur != int(event.dur):
            self._whole_microseconds = False

    def _take_launch(self, event: Event) -> None:
        number = _make_number(decode_arguments(event, _LAUNCH, _LaunchArguments()).correlation, -1)
        if number >= 0:
            kernel = starts_kernel(event.name)
            self.found.launches.add(number, self._time(event), self._thread(event), kernel)

    def _take_operator(self, event: Event) -> None:
        name = event.name
        if name.startswith(_BACKWARD):
            self._add(event, name, "backward")
        elif _NAMED_OPERATOR.fullmatch(name):
            self._add(event, name, "operators")
        elif name not in self._known:
            given = decode_arguments(event, _TRITON, _TritonArguments())
            self._known.add(name)
            if given.kernel_backend == "triton":
                self.found.triton.add(self.found.names.number(name))

    def _take_mark(self, event: Event) -> None:
        if event.name.startswith(STEP):
            self._add(event, event.name, "steps")
        elif graph := _GRAPH.fullmatch(event.name):
            self._add(event, graph[1], "graphs")

    def _add(self, event: Event, name: str, column: str) -> None:
        start = self._time(event)
        number = self.found.names.number(name)
        spans = getattr(self.found, column)
        spans.add(start, start + event.dur * _MICRO, number, self._thread(event))

    def _take_memory(self, event: Event) -> None:
        if event.name != "[memory]":
            return
        given = decode_arguments(event, _MEMORY_CHANGE, _MemoryArguments())
        if given.device_type and given.total is not None:
            most = max(self.found.peak_memory_bytes or 0, int(given.total))
            self.found.peak_memory_bytes = most

    def finish(self) -> Recording:
        """Return what was found, with what the file says of itself."""
        found, file = self.found, self.file
        found.events = file.events
        found.resolution = _MICRO if self._whole_microseconds else _NANOSECONDS
        _describe_device(found, file.metadata)
        _describe_rank(found, file.metadata)
        if file.unreadable:
            found.notes.append(f"{units.plural(file.unreadable, 'event')} left out: unreadable")
        if self._impossible:
            found.notes.append(
                f"{units.plural(self._impossible, 'event')} left out: no or an impossible time"
            )
        if file.cut_off:
            found.notes.append(
                f"the trace is cut off after {file.events:,} events: its end is lost"
            )
        if not found.works.start:
            raise PerfcliError(_explain_emptiness(file, found, self._impossible_works))
        return found


def starts_kernel(call: str) -> bool:
    """Return whether a call of the driver starts one kernel: ``cudaLaunchKernel``,
    ``cuLaunchKernelEx``, ``hipModuleLaunchKernel``."""
    return "LaunchKernel" in call or "LaunchCooperativeKernel" in call


def _explain_emptiness(file: TraceFile, found: Recording, impossible: int) -> str:
    """Return why a trace without kernels is of no use. ``impossible`` counts what the GPU ran and
    was left out for its times."""
    if impossible:
        return (
            f"{file.path} has nothing that a GPU ran at a possible time: "
            f"{units.plural(impossible, 'event')} of it left out, whose times are missing, "
            "negative or no numbers; record it again"
        )
    if file.cut_off:
        return (
            f"{file.path} is cut off after {file.events:,} events, before the first kernel: "
            "profilers write kernels last; record it again"
        )
    if not file.events:
        return f"{file.path} is a trace without events"
    if launched := sum(found.launches.kernel):
        return (
            f"{file.path} has no kernel, though the host launched {launched:,}: what the GPU ran "
            "was not recorded (another profiler may have held it)"
        )
    return (
        f"{file.path} has no kernel of a GPU among its {file.events:,} events: it was recorded on "
        "the CPU alone (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] records both)"
    )


def _make_shape(given: _WorkArguments) -> Shape:
    if given.grid is None and given.registers is None:
        return NO_SHAPE
    registers, shared = _make_count(given.registers), _make_count(given.shared)
    return registers, shared, _make_triple(given.grid), _make_triple(given.block)


def _make_count(value: object) -> int | None:
    plain = isinstance(value, int | float) and 0 <= value < 2**40
    return int(value) if plain else None  # type: ignore[call-overload]


def _make_triple(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 3:
        return ()
    found = tuple(each for each in map(_make_count, value) if each is not None)
    return found if len(found) == len(value) else ()


def _make_number(value: int | str | None, otherwise: int) -> int:
    """Return a number that a column of 64 bits holds."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 19 else None
    return value if value is not None and 0 <= value < 2**63 else otherwise


def _describe_device(found: Recording, metadata: Mapping[str, Any]) -> None:
    """Say on which device most of it ran."""
    numbers = found.works.device
    if not numbers:
        return
    most = max(set(numbers), key=numbers.count)
    properties = metadata.get("deviceProperties")
    devices = (
        [each for each in properties if isinstance(each, dict)]
        if isinstance(properties, list)
        else []
    )
    mine = next((each for each in devices if each.get("id") == most), None)
    if mine is not None:
        found.device = str(mine.get("name", ""))[:100]
        found.sm_count = _make_count(mine.get("numSms"))
    versions = {
        "cuda": metadata.get("cuda_runtime_version"),
        "driver": metadata.get("cuda_driver_version"),
        "cupti": metadata.get("cupti_version"),
    }
    found.facts = {name: str(value)[:40] for name, value in versions.items() if value is not None}


def _describe_rank(found: Recording, metadata: Mapping[str, Any]) -> None:
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict):
        found.rank = _make_count(distributed.get("rank"))
        found.world_size = _make_count(distributed.get("world_size"))
