"""Says who uses the device while the two workers of a measurement get ready.

Both trace and generate code at the same time, and both may launch kernels, to check their outputs
say. What is timed then (launch configurations, implementations to choose from, paddings, how many
steps a turn has) is timed by one worker while the other one does not use the device at all.
"""

from __future__ import annotations

import fcntl
import functools
import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

_GENERATE = (
    ("torch._inductor.compile_fx", "compile_fx"),
    ("torch._inductor.compile_fx:_InProcessFxCompile", "codegen_and_compile"),
)
"""Where Inductor is asked for code: there the device is left to others."""
_CHOOSE = (
    ("torch._inductor.runtime.benchmarking:TritonBenchmarker", "benchmark_gpu"),
    ("torch._inductor.runtime.benchmarking:InductorBenchmarker", "benchmark_gpu"),
    ("torch._inductor.runtime.benchmarking:TorchProfilerBenchmarker", "benchmark_gpu"),
    ("torch._inductor.select_algorithm:AlgorithmSelectorCache", "__call__"),
    ("torch._inductor.fx_passes.pad_mm", "_should_pad"),
)
"""Where it times something for that, or looks up what was timed before. Seen with torch 2.11 to
2.13; one that is not there is passed over."""


class Turnstile:
    """Holds the device for this process, alone or with others, or leaves it. ``path``: a file that
    all share who use the device; empty: nobody waits for anybody. ``wait`` waits until the device
    has done what it was told."""

    def __init__(self, path: str, wait: Callable[[], None]) -> None:
        self.waited = 0.0
        """Seconds for which others held the device."""
        self._wait = wait
        self._file = _open(path) if path else None
        self._queue = _open(f"{path}.queue") if path else None
        self._held = fcntl.LOCK_UN
        self._depth = 0

    def share(self) -> None:
        """Hold the device, which others may hold as well; wait while one holds it alone."""
        self._hold(fcntl.LOCK_SH)

    def give_way(self) -> None:
        """Go on sharing it once those had it alone who wait for that."""
        self.leave()
        self.share()

    def leave(self) -> None:
        """Let another one hold it alone, once the device has nothing more to do."""
        self._hold(fcntl.LOCK_UN)

    def alone(self) -> AbstractContextManager[None]:
        """Hold the device in the block while nobody else does; then as before."""
        return self._holding(fcntl.LOCK_EX)

    def outside(self) -> AbstractContextManager[None]:
        """Leave the device to others in the block; then hold it as before."""
        return self._holding(fcntl.LOCK_UN)

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Leave the device to others while Inductor generates code in the block, and share it
        before that runs."""
        if self._file is None:
            yield
            return
        saved = [_hook(*place, self._generating) for place in _GENERATE]
        saved += [_hook(*place, self.alone) for place in _CHOOSE]
        try:
            yield
        finally:
            for restore in reversed(saved):
                restore()

    @contextmanager
    def _holding(self, wanted: int) -> Iterator[None]:
        before = self._held
        self._hold(wanted)
        try:
            yield
        finally:
            self._hold(before)

    def _hold(self, wanted: int) -> None:
        if wanted == self._held:
            return
        if self._held != fcntl.LOCK_UN:
            self._wait()
        if self._file is not None and self._queue is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            if wanted != fcntl.LOCK_UN:
                began = time.monotonic()
                # In the order in which they come: else who shares it would share it again before
                # one wakes that waits to have it alone.
                fcntl.flock(self._queue, fcntl.LOCK_EX)
                fcntl.flock(self._file, wanted)
                fcntl.flock(self._queue, fcntl.LOCK_UN)
                self.waited += time.monotonic() - began
        self._held = wanted

    @contextmanager
    def _generating(self) -> Iterator[None]:
        self.leave()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.share()


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _hook(
    place: str, name: str, around: Callable[[], AbstractContextManager[None]]
) -> Callable[[], None]:
    """Have a function called in the context that ``around`` makes, and return what undoes that."""
    module, _, owner = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        found = getattr(found, owner) if owner else found
        original = vars(found)[name]
    except (ImportError, AttributeError, KeyError):
        return lambda: None

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        with around():
            return original(*args, **kwargs)

    setattr(found, name, hooked)
    return lambda: setattr(found, name, original)
