"""Stands in for objects and numbers of the device that a script handles itself: streams, events,
generators, what memory is taken. Nothing waits for anything, and every time is one millisecond."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from perfcli.compile.stand_in.decisions import Assumptions
from perfcli.compile.stand_in.device import replacing

TIMES = "times between events of the device: taken as 1 ms (×{})"
_NO_NUMBERS = (
    "memory_reserved", "max_memory_reserved", "memory_cached", "max_memory_cached",
    "reset_max_memory_allocated", "reset_accumulated_memory_stats", "utilization", "temperature",
    "power_draw", "clock_rate", "device_memory_used",
)  # fmt: skip


@contextmanager
def stand_in_objects(assumptions: Assumptions) -> Iterator[None]:
    """Stand in for them while the block runs."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    cuda: Any = torch.cuda
    stream = _make_stream_class()
    event = _make_event_class(assumptions)
    usual = stream()
    answers = {
        "Stream": stream,
        "ExternalStream": stream,
        "Event": event,
        "current_stream": lambda *_: usual,
        "default_stream": lambda *_: usual,
        "set_stream": lambda *_: None,
        "stream": _Entered,
        "memory_stats": lambda *_: defaultdict(int),
        "memory_summary": lambda *_, **__: "",
        "memory_snapshot": lambda *_: [],
        "mem_get_info": lambda *_: (_total_memory(), _total_memory()),
        "ipc_collect": lambda *_: None,
        "set_per_process_memory_fraction": lambda *_: None,
        **{name: lambda *_: 0 for name in _NO_NUMBERS if hasattr(cuda, name)},
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(replacing(cuda, name, answer))
        stack.enter_context(replacing(FakeTensor, "record_stream", lambda *_: None))
        stack.enter_context(replacing(torch, "Generator", _make_generator_class()))
        yield


def _total_memory() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)


class _Entered:
    """Is what ``torch.cuda.stream`` returns: a block that runs on a stream."""

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream

    def __enter__(self) -> Any:
        return self.stream

    def __exit__(self, *_: Any) -> None:
        return None


def _make_stream_class() -> type:
    import torch

    class Stream:
        cuda_stream = stream_id = device_index = priority = 0
        device = torch.device("cuda", 0)

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def wait_stream(self, _stream: Any) -> None:
            pass

        wait_event = wait_stream

        def record_event(self, event: Any = None) -> Any:
            return event if event is not None else torch.cuda.Event()

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            pass

    return Stream


def _make_event_class(assumptions: Assumptions) -> type:
    class Event:
        cuda_event = 0

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def record(self, _stream: Any = None) -> None:
            pass

        wait = record

        def elapsed_time(self, _end: Any) -> float:
            assumptions.counts[TIMES] += 1
            return 1.0

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            pass

    return Event


def _make_generator_class() -> type:
    """Return a ``torch.Generator`` that can be asked for on the device; its numbers are not."""
    import torch

    real = torch.Generator

    class Instances(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, real)

    class Generator(real, metaclass=Instances):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            if torch.device(device).type == "cpu":
                return real(device)
            return OnDevice()

    class OnDevice(real):  # type: ignore[misc, valid-type]
        device = torch.device("cuda", 0)

    return Generator
