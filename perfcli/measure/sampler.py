"""Samples the device's state while turns are timed: at most four times a second, never in a
thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from perfcli.measure.machine import find_gpu, gpu_uuid
from perfcli.model import DeviceState

EVERY_SECONDS = 0.25

Sample = Callable[[], DeviceState | None]


class Sampler:
    """Wraps each turn as a context; ``state`` is then what was sampled at its end, or None where
    the last sample is too fresh for another."""

    def __init__(self, sample: Sample, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: DeviceState | None = None
        self._sample = sample
        self._clock = clock
        self._next = clock()

    def __enter__(self) -> Sampler:
        self.state = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        now = self._clock()
        if error is None and now >= self._next:
            self._next = now + EVERY_SECONDS
            self.state = self._sample()


def sampler(device: str, cpus: Sequence[int] = ()) -> Sampler:
    """Return a sampler for the current GPU, or for the cores that this process may run on."""
    if device != "cuda":
        return Sampler(_Cores(cpus or sorted(os.sched_getaffinity(0))))
    import torch

    gpu = find_gpu(gpu_uuid(torch.cuda.current_device()))
    return Sampler(lambda: gpu.state(_family() or frozenset()) if gpu else None)


class _Ticks(Protocol):
    """Holds the seconds that cores were busy and that they existed, and the seconds that our
    processes took. None where it is not known which these are."""

    def __call__(self) -> tuple[float, float, float] | None: ...


class _Cores:
    """Tells which share of the cores others kept busy since the last sample."""

    def __init__(self, cpus: Sequence[int], ticks: _Ticks | None = None) -> None:
        self._ticks = ticks or (lambda: _seconds(cpus))
        self._before = self._ticks()

    def __call__(self) -> DeviceState | None:
        now, before = self._ticks(), self._before
        if now is None or before is None:
            return None
        busy, total, ours = (n - b for n, b in zip(now, before, strict=True))
        if total <= 0:  # the kernel counts in hundredths of a second
            return None
        self._before = now
        return DeviceState(others_utilisation=round(min(max((busy - ours) / total, 0.0), 1.0), 4))


def _seconds(cpus: Sequence[int]) -> tuple[float, float, float] | None:
    ours = _family()
    return None if ours is None else (*_core_seconds(_stat(), cpus), _family_seconds(ours))


def _core_seconds(stat: str, cpus: Iterable[int]) -> tuple[float, float]:
    """Return busy and total seconds of these cores since the system started, from /proc/stat."""
    wanted = {f"cpu{n}" for n in cpus}
    busy = total = 0
    for line in stat.splitlines():
        name, *values = line.split()
        if name in wanted:
            # user nice system idle iowait irq softirq steal; guests are counted within user.
            ticks = [int(v) for v in values[:8]]
            total += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]
    tick = os.sysconf("SC_CLK_TCK")
    return busy / tick, total / tick


def _family(proc: Path = Path("/proc")) -> frozenset[int] | None:
    """Return the processes that measure together: this one, and the other children of its parent.
    None where Linux does not list them (CONFIG_PROC_CHILDREN): the other side would count as
    another's load."""
    parent = os.getppid()
    try:
        children = (proc / f"{parent}/task/{parent}/children").read_text(encoding="ascii")
    except OSError:
        return None
    return frozenset({os.getpid(), parent, *(int(pid) for pid in children.split())})


def _family_seconds(pids: Iterable[int]) -> float:
    """Return the processor seconds that these processes have taken; one that has ended counts
    nothing."""
    return sum(_process_seconds(pid) for pid in pids)


def _process_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    # The command, in parentheses, may hold anything; user and system time are fields 14 and 15.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stat() -> str:
    try:
        return Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return ""
