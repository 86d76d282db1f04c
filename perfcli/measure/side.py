"""Serves one side of a measurement, in its worker process: gets ready, then answers questions."""

from __future__ import annotations

import gc
import importlib
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from perfcli.compile.importing import import_inductor, load_libraries, without_collection
from perfcli.errors import PerfcliError, WrongResult
from perfcli.measure import before_cuda
from perfcli.measure.phases import Phases
from perfcli.measure.turnstile import Turnstile
from perfcli.model import (
    Ask,
    Device,
    DeviceClock,
    MeasureRequest,
    MemoryUse,
    OutputCheck,
    Prepared,
    Turn,
)

if TYPE_CHECKING:
    from perfcli.measure.layout import Layout
    from perfcli.measure.profiling import StepProfiler
    from perfcli.measure.replay import Replay
    from perfcli.measure.sampler import Sampler
    from perfcli.measure.step import Step

PLANNING_STEPS = 5
WARM_STEPS = 2


_MEASURING = (
    "perfcli.compile.session",
    "perfcli.measure.checking",
    "perfcli.measure.clocks",
    "perfcli.measure.layout",
    "perfcli.measure.machine",
    "perfcli.measure.memory",
    "perfcli.measure.profiling",
    "perfcli.measure.replay",
    "perfcli.measure.sampler",
    "perfcli.measure.step",
)


def import_early(device: Device) -> None:
    """Import what sides are measured with, in a process that is forked for each of them. Raises
    PerfcliError where that has begun to use CUDA, which no fork could use any more."""
    with before_cuda.without_cuda():
        load_libraries()
        import_inductor()
        with without_collection():
            for name in _MEASURING:
                importlib.import_module(name)
    if device == "cuda" and before_cuda.has_begun():
        raise PerfcliError("importing torch has begun to use CUDA")


class MeasuredSide:
    """Holds one side's step, and what has been learnt of it. ``report`` is told of phases."""

    def __init__(self, request: MeasureRequest, report: Callable[[str], None]) -> None:
        self.request = request
        self._phases = Phases(request.side, report)
        self._step: Step
        self._profiler: StepProfiler
        self._sampler: Sampler
        self._layout: Layout | None = None
        self._replay: Replay | None = None

    @property
    def _device(self) -> str:
        return self.request.compile.device

    def prepare(self) -> Prepared:
        """Do everything that is done once, before anything is timed. Raises what building and
        compiling raise, WrongResult for outputs that are not those of the reference, and
        OutOfMemory."""
        self._phases.begin("import")
        with before_cuda.without_cuda():
            import_inductor()
        from perfcli.measure import step as steps

        self._phases.begin("trace")
        turnstile = Turnstile(self.request.turnstile, lambda: steps.wait_for(self._device))
        self._step = steps.prepare(self.request, self._phases, turnstile)
        code = self._step.describe_code()  # before anything else is launched
        turnstile.give_way()
        check = self._checked(turnstile)
        turnstile.give_way()
        self._phases.begin("warm")
        with self._memory_errors():
            known = self._known(check, turnstile)
        turnstile.leave()
        self._phases.add("waiting for the other side to leave the device", turnstile.waited)
        return replace(known, phases=self._phases.finish(), code=code)

    def turn(self, ask: Ask) -> Turn:
        """Warm up again, since the other side ran in between, then time."""
        step = self._step
        with self._memory_errors():
            if ask.relayout or self._layout is None:
                # A millisecond: not before each turn of three.
                gc.collect()
            replay = self._replay if ask.kind == "device" else None
            for _ in range(ask.warmup + self._relayout(ask)):
                (replay or step).run()
            if ask.kind == "kernels" or self._device != "cuda":
                # Else the first timed step would wait for the host, as no other does.
                step.wait()
            with self._sampler as sampler:
                if ask.kind == "kernels":
                    turn = Turn((), launches=tuple(self._profiler.times(ask.steps)))
                elif replay is not None:
                    turn = self._replayed(replay, ask.steps)
                else:
                    turn = self._timed(ask.steps)
            return replace(turn, state=sampler.state)

    def _relayout(self, ask: Ask) -> int:
        """Return how many more steps the new layout needs to be warm."""
        if self._layout is None or not ask.relayout:
            return 0
        self._layout.change()
        return WARM_STEPS if self._layout.renews else 0

    def _checked(self, turnstile: Turnstile) -> OutputCheck | None:
        if not self.request.check:
            return None
        from perfcli.measure import checking, room

        self._phases.begin("check")
        # Else the other side's reference might take the memory that this one needs.
        with nullcontext() if room.is_ample(self._device) else turnstile.alone():
            found = checking.check(self._step)
        if found.failure:
            raise WrongResult(f"the {self.request.side}'s outputs are wrong: {found.failure}")
        return found

    def _known(self, check: OutputCheck | None, turnstile: Turnstile) -> Prepared:
        from perfcli.compile.session import list_user_sources
        from perfcli.measure import clocks, machine, memory, replay
        from perfcli.measure.heap import why_unmovable
        from perfcli.measure.layout import Layout
        from perfcli.measure.profiling import StepProfiler
        from perfcli.measure.sampler import sampler

        request, step = self.request, self._step
        sources = tuple(list_user_sources())
        used = memory.measure_memory(step)
        with turnstile.alone():
            bandwidth = clocks.copy_bandwidth(self._device)
        # Last of these: a graph keeps memory of its own.
        graph = replay.take_graph(step, used) if request.cuda_graph else ""
        no_graph = self._capture(used)
        self._profiler = StepProfiler(step)
        self._sampler = sampler(self._device, request.cpus)
        # What getting ready left behind would be gone through again before each turn.
        gc.collect()
        gc.freeze()
        fixed = why_unmovable() if self._device != "cuda" else ""
        # Another layout takes more steps, and all ranks of a group have to run as many.
        if self._device != "cuda" and not fixed and request.rank is None:
            self._layout = Layout(step, request.seed, used.peak_allocated_bytes)
        with turnstile.alone():
            step.warm()
            device_seconds = self._replay.warm() if self._replay is not None else None
            step_seconds = statistics.median(self._timed(PLANNING_STEPS).seconds)
        return Prepared(
            side=request.side,
            process=0,
            machine=machine.describe(
                self._device, threads=request.threads, cpus=request.cpus, flush_l2=request.flush_l2
            ),
            step_seconds=step_seconds,
            compile_seconds=round(step.compile_seconds, 3),
            launches=self._profiler.launches,
            launch_count=self._profiler.kernel_count,
            memory=used,
            check=check,
            copy_bandwidth=bandwidth,
            device_clock=self._name_clock(),
            no_graph=no_graph,
            device_seconds=device_seconds,
            notes=tuple(filter(None, (*step.built.notes, graph, fixed, *self._profiler.notes))),
            sources=sources,
        )

    def _capture(self, used: MemoryUse) -> str:
        """Take the step as a CUDA graph to time the device alone, where that is asked for. Returns
        why it can't be one, in a clause."""
        if not self._tells_device:
            return ""
        if self.request.rank is not None:
            return "ranks of a process group wait for each other in the middle of a step"
        from perfcli.measure import replay

        found = replay.capture_step(self._step, used)
        if isinstance(found, str):
            return found
        self._replay = found
        return ""

    @property
    def _tells_device(self) -> bool:
        """Return whether the device has a time of its own here: a step that is timed as a graph is
        that already."""
        request = self.request
        return self._device == "cuda" and request.clocks != "step" and self._step.graphed is None

    def _name_clock(self) -> DeviceClock:
        if not self._tells_device:
            return ""
        return "graph" if self._replay is not None else "profiler"

    def _replayed(self, found: Replay, count: int) -> Turn:
        from perfcli.measure import replay

        with _pause_collection():
            return replay.time_replays(found, count)

    def _timed(self, count: int) -> Turn:
        from perfcli.measure import clocks

        time_steps = clocks.time_gpu_steps if self._device == "cuda" else clocks.time_cpu_steps
        with _pause_collection():
            return time_steps(self._step, count)

    def _memory_errors(self) -> AbstractContextManager[None]:
        from perfcli.measure import step as steps

        return steps.translate_out_of_memory(self.request.side, self.request.compile)


@contextmanager
def _pause_collection() -> Iterator[None]:
    """Keep garbage from being collected in the middle of a step: turns do so before."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
