"""Measures how much memory a step takes at its peak, and when.

On a GPU by the caching allocator; on the CPU by the allocator's events in a profile, or else by
the process's resident set.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfcli.measure import clocks
from perfcli.measure.events import STEP
from perfcli.measure.step import storages
from perfcli.model import MemoryUse

if TYPE_CHECKING:
    from perfcli.measure.step import Step

TIMELINE_POINTS = 300
_HISTORY_ENTRIES = 400_000

Points = tuple[tuple[float, int], ...]


def measure_memory(step: Step) -> MemoryUse:
    """Run one step and return its memory, with the weights and inputs that it works on. Call it
    before a CUDA graph is taken: that one keeps memory of its own."""
    return _on_device(step) if step.device == "cuda" else _on_host(step)


def _reduce(points: Sequence[tuple[float, int]], limit: int = TIMELINE_POINTS) -> Points:
    """Return at most ``limit`` of the points: of each stretch of equal length in time the highest,
    so that the peak stays, and the last of all."""
    if len(points) <= limit:
        return tuple(points)
    start, end = points[0][0], points[-1][0]
    width = (end - start) / (limit - 1) or 1.0
    highest: dict[int, tuple[float, int]] = {}
    for moment, held in points[:-1]:
        stretch = min(int((moment - start) / width), limit - 2)
        if stretch not in highest or held > highest[stretch][1]:
            highest[stretch] = (moment, held)
    return (*(highest[s] for s in sorted(highest)), points[-1])


def _timeline(changes: Iterable[tuple[float, int]], held: int) -> list[tuple[float, int]]:
    """Return the held bytes after each change, from what was held before the first."""
    points = [(0.0, held)]
    for moment, change in changes:
        held += change
        points.append((round(max(moment, 0.0), 6), held))
    return points


# --- on a GPU ---------------------------------------------------------------------------------


def _on_device(step: Step) -> MemoryUse:
    import torch

    torch.cuda.synchronize()
    clocks.drop_scratch()
    # Compiling and autotuning reserved more than a step needs.
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    missing = _record(True)
    started = time.time()
    step.launch()
    torch.cuda.synchronize()
    changes = [] if missing else _changes(started)
    missing = missing or _record(False)
    return MemoryUse(
        peak_allocated_bytes=torch.cuda.max_memory_allocated(),
        peak_reserved_bytes=torch.cuda.max_memory_reserved(),
        method="caching allocator" + (f" (no timeline: {missing})" if missing else ""),
        timeline=_reduce(_timeline(changes, held)) if changes else (),
    )


def _record(on: bool) -> str:
    """Switch the allocator's history on or off (private; torch 2.11 to 2.13); return why it
    failed."""
    import torch

    try:
        if on:
            torch.cuda.memory._record_memory_history(
                enabled="all", context=None, max_entries=_HISTORY_ENTRIES, clear_history=True
            )
        else:
            torch.cuda.memory._record_memory_history(enabled=None)
    except (AttributeError, TypeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"[:100]
    return ""


def _changes(started: float) -> list[tuple[float, int]]:
    """Return seconds since ``started``, and bytes allocated (freed: negative)."""
    import torch

    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    signs = {"alloc": 1, "free_completed": -1}
    return [
        (entry["time_us"] / 1e6 - started, signs[entry["action"]] * entry["size"])
        for entry in trace
        if entry["action"] in signs
    ]


# --- on the CPU -------------------------------------------------------------------------------


def _on_host(step: Step) -> MemoryUse:
    held = sum(length for _, length in storages(step))
    changes = _profiled_changes(step)
    if changes is None:
        return MemoryUse(_resident_peak(step), None, "resident set of the process")
    points = _timeline(changes, held)
    return MemoryUse(
        peak_allocated_bytes=max(bytes_held for _, bytes_held in points),
        peak_reserved_bytes=None,
        method="allocator, on top of weights and inputs",
        timeline=_reduce(points),
    )


def _profiled_changes(step: Step) -> list[tuple[float, int]] | None:
    """Return the allocator's events of a step (of torch 2.13: a block that was there before and is
    freed has none), or None where this torch reports none at all."""
    import torch

    with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as profile:
        with torch.profiler.record_function(STEP):
            outputs = step.launch()
        del outputs
    events = profile.kineto_results.events()
    started = next(e.start_ns() for e in events if e.name() == STEP)
    ended = next(e.start_ns() + e.duration_ns() for e in events if e.name() == STEP)
    changes = sorted(
        ((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"), key=lambda c: c[0]
    )
    if not changes:
        return None
    return [((at - started) / 1e9, size) for at, size in changes if started <= at <= ended]


def _resident_peak(step: Step) -> int | None:
    """Return the peak of the whole process while one step ran, or in its whole life where Linux
    forbids a reset."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    step.launch()
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    line = next((text for text in status.splitlines() if text.startswith("VmHWM:")), "")
    return int(line.split()[1]) * 1024 if line else None
