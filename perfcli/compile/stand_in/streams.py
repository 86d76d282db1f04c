"""Stands in for streams and events of the device: nothing waits, there is nothing to wait for. What
would wait for what is kept for those who listen, because a collective in a stream of its own is
hidden behind kernels.

Seen with torch 2.11 to 2.13, CPU and CUDA builds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

_MILLISECONDS = 1.0
"""What ``Event.elapsed_time`` says: programs divide by it."""


@dataclass(slots=True)
class StreamProgress:
    """Says what is done before anything that is launched into a stream of its own from now on."""

    calls: int = 0
    """Calls of graphs in the stream that everything else runs in."""
    pending: tuple[str, ...] = ()
    """The results of collectives."""

    def wait_for(self, other: StreamProgress) -> None:
        self.calls = max(self.calls, other.calls)
        self.pending = tuple(dict.fromkeys((*self.pending, *other.pending)))


@dataclass(slots=True)
class _Streams:
    """Holds the streams that are entered, and who listens."""

    entered: list[Any]
    count: Callable[[], int] = lambda: 0
    wait: Callable[[Sequence[str]], None] = lambda _: None

    def read(self, stream: Any) -> StreamProgress:
        """Return how far a stream has come."""
        own: StreamProgress | None = getattr(stream, "progress", None)
        return StreamProgress(self.count()) if own is None else own

    def let_wait(self, stream: Any, other: StreamProgress) -> None:
        own: StreamProgress | None = getattr(stream, "progress", None)
        if own is not None:
            own.wait_for(other)
        elif other.pending:
            self.wait(other.pending)


_streams = _Streams([])


def current_stream() -> StreamProgress | None:
    """Return how far the stream has come that is entered now; None for the one that everything
    runs in where none is."""
    return getattr(_streams.entered[-1], "progress", None) if _streams.entered else None


def listen_to_streams(count: Callable[[], int], wait: Callable[[Sequence[str]], None]) -> None:
    """Let ``count`` say how many graphs were called so far, and ``wait`` hear of the collectives
    that the stream of these waits for."""
    _streams.count, _streams.wait = count, wait


def find_stream(default: Any = None) -> Any:
    """Return the stream that is entered, else the default."""
    return _streams.entered[-1] if _streams.entered else default


class StandInEvent:
    """Stands in for ``torch.cuda.Event``."""

    def __init__(self, *_: Any, **__: Any) -> None:
        import torch

        self.device = torch.device("cuda", 0)
        self.cuda_event = self.event_id = 0
        self._progress = StreamProgress()

    def record(self, stream: Any = None) -> None:
        self._progress = replace(_streams.read(stream or find_stream()))

    def wait(self, stream: Any = None) -> None:
        _streams.let_wait(stream or find_stream(), self._progress)

    def synchronize(self) -> None:
        return None

    def elapsed_time(self, _end: Any) -> float:
        return _MILLISECONDS

    def query(self) -> bool:
        return True


def make_stream_class() -> type:
    """Return a class that derives from torch's own of any device: operators take no others."""
    import torch

    class Stream(torch.Stream):  # type: ignore[misc]
        cuda_stream = 0
        priority = 0

        def __new__(cls, *_: Any, **__: Any) -> Any:
            made = super().__new__(cls, stream_id=0, device_index=0, device_type=1)
            made.progress = StreamProgress()
            return made

        def record_event(self, event: Any = None) -> Any:
            event = event or StandInEvent()
            event.record(self)
            return event

        def wait_event(self, event: Any) -> None:
            event.wait(self)

        def wait_stream(self, stream: Any) -> None:
            _streams.let_wait(self, _streams.read(stream))

        def synchronize(self) -> None:
            return None

        def query(self) -> bool:
            return True

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return (0, -5)

        def __enter__(self) -> Any:
            _streams.entered.append(self)
            return self

        def __exit__(self, *_: object) -> None:
            _streams.entered.pop()

    return Stream


class use_stream(nullcontext):  # type: ignore[type-arg]
    """Stands in for ``torch.cuda.stream``."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__(stream)

    def __enter__(self) -> Any:
        if self.enter_result is not None:
            _streams.entered.append(self.enter_result)
        return self.enter_result

    def __exit__(self, *_: object) -> None:
        if self.enter_result is not None:
            _streams.entered.pop()
