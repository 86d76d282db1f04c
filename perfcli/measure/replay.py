"""Takes a step as a CUDA graph, and times the device alone while it replays that graph.

A replay launches every kernel of the step at once, so that its time is the device's own, whatever
the host takes to launch them one by one. The step itself stays as it is: it is still timed as a
program runs it, and shares nothing with its graph but the model, its gradients' absence and its
inputs. Activations have memory of their own in a graph.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.compile import tracing
from perfcli.loading import tracebacks
from perfcli.measure import clocks, room
from perfcli.model import MemoryUse, Turn

if TYPE_CHECKING:
    from perfcli.measure.step import Step

WARM_CAPTURES = 2
SLACK = 1.1
"""Times the memory of a step's activations that a graph of it may take."""
CYCLES_PER_SECOND = 2e9
"""At most, of the clocks of today's GPUs: a wait of so many cycles is as long, or longer."""
MOST_LEAD = 0.005
REASON = 150
"""Characters of an error that are shown."""


class _NoGraphError(Exception):
    """Says in a clause why there is no CUDA graph of a step."""


@dataclass(slots=True)
class Replay:
    """Holds a CUDA graph of a step."""

    step: Step
    graph: Any
    outputs: Any
    """Kept, because the graph writes there."""
    launch_seconds: float = 0.0
    """What the host takes to launch it once."""
    planted: int = 0
    """Cycles that the device waits after each replay."""

    def run(self) -> None:
        self.graph.replay()

    def warm(self) -> float:
        """Replay until it is settled, and return the seconds that one takes. Learn how long the
        host takes to launch it, and how long the wait is that is to be planted."""
        import torch

        with _keep_random_numbers():
            self.run()
            torch.cuda.synchronize()
            started = time.perf_counter()
            self.run()
            self.launch_seconds = time.perf_counter() - started
        seconds = sorted(time_replays(self, 5).seconds)[2]
        self.planted = clocks.cycles_of(seconds * self.step.request.slow_down)
        return seconds


def capture_step(step: Step, used: MemoryUse) -> Replay | str:
    """Return the step as a CUDA graph, or why it can't be one, in a clause; the step is then as it
    was. ``used``: the memory of a step that is launched kernel by kernel."""
    try:
        _check_before(step, used)
        return _capture(step)
    except _NoGraphError as error:
        return str(error)
    except Exception as error:  # whatever torch or a kernel's launcher makes of a capture
        return _first_line(error)


def _check_before(step: Step, used: MemoryUse) -> None:
    """Raise where a capture is bound to fail: a failed one leaves its traces in a process."""
    import torch

    if tracing.replays_graphs():
        raise _NoGraphError("Inductor replays CUDA graphs of its own (triton.cudagraphs)")
    needed = (used.peak_allocated_bytes or 0) - torch.cuda.memory_allocated()
    free, total = torch.cuda.mem_get_info()
    # The other side needs as much, graph and all, less what it has by now.
    ours = torch.cuda.memory_reserved()
    beside = max(ours + needed - (total - free - ours), 0)
    if free < SLACK * needed + beside:
        wanted, there = units.size(round(SLACK * needed) + beside), units.size(free)
        raise _NoGraphError(f"memory for its activations is missing: {wanted} of {there} free")
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step.launch()
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise _NoGraphError(f"it waits for the device{_place(error)}") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
        torch.cuda.synchronize()


def _place(error: BaseException) -> str:
    """Return `` at model.py:12``: the user's line that an error came from, if there is one."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if tracebacks.is_users(f)]
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _capture(step: Step) -> Replay:
    """Return the step, captured on a stream of its own after steps on that stream: libraries make
    their workspaces there."""
    import torch

    stream, before = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        for _ in range(WARM_CAPTURES):
            step.launch()
    before.wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            outputs = step.launch()
        graph.replay()
        torch.cuda.synchronize()
    except BaseException:
        _clean_up(before)
        raise
    return Replay(step, graph, outputs)


def _clean_up(before: Any) -> None:
    """Undo what a failed capture may leave: the capture's stream as the current one, since
    ``torch.cuda.graph`` does not go back to the other where ending the capture fails (torch 2.11,
    2.13); a random number generator that waits for that end; and memory that nobody uses."""
    import torch

    torch.cuda.set_stream(before)
    with suppress(Exception):
        torch.cuda.synchronize()
    with suppress(Exception):
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        fresh = torch.Generator(device=generator.device)
        fresh.manual_seed(generator.initial_seed())
        generator.graphsafe_set_state(fresh.graphsafe_get_state())
    with suppress(Exception):
        torch.cuda.empty_cache()


def _first_line(error: BaseException) -> str:
    """Return the first line of what went wrong first: an error that ends a capture hides the one
    in it."""
    while error.__context__ is not None:
        error = error.__context__
    if room.is_out_of_memory(error):
        return "memory for its activations is missing"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:REASON].rstrip(".")


def time_replays(replay: Replay, count: int) -> Turn:
    """Time ``count`` replays on the device, each between two events. The device waits first until
    the host is far enough ahead, so that no replay waits for its launch. Random numbers are drawn
    as if nothing had been replayed."""
    import torch

    flush = clocks.scratch() if replay.step.request.flush_l2 else None
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    with _keep_random_numbers():
        lead = min(count * replay.launch_seconds, MOST_LEAD)
        torch.cuda._sleep(max(int(lead * CYCLES_PER_SECOND), 1))
        for begin, end in events:
            if flush is not None:
                flush.zero_()
            begin.record()
            replay.run()
            if replay.planted:
                torch.cuda._sleep(replay.planted)
            end.record()
        torch.cuda.synchronize()
    return Turn(tuple(begin.elapsed_time(end) / 1e3 for begin, end in events))


@contextmanager
def _keep_random_numbers() -> Iterator[None]:
    """Let the next step draw what it would have drawn without what runs in between."""
    import torch

    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    before = generator.get_offset()
    try:
        yield
    finally:
        if generator.get_offset() != before:
            generator.set_offset(before)


def take_graph(step: Step, used: MemoryUse) -> str:
    """Make the step one CUDA graph that ``step.run`` replays. Returns a sentence for the notes:
    that it did, or why it could not; the step then stays as it is."""
    found = capture_step(step, used)
    if isinstance(found, str):
        return f"the step could not be taken as a CUDA graph ({found}): launched kernel by kernel"
    step.graphed = found.run
    return "each timed step replays one CUDA graph; kernels are profiled without it"
