"""Measures the variants of a sweep: each in turns with the first one that computes the same, its
control, in one session; on each device one session at a time."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue

from perfcli import units
from perfcli.console.notes import Notes
from perfcli.console.tally import Tally
from perfcli.diff.compare import gather_evidence
from perfcli.errors import Interrupted, PerfcliError
from perfcli.machine import driver, targets
from perfcli.model import (
    Clocks,
    Comparison,
    DeviceClock,
    Measured,
    Measurement,
    MeasureRequest,
    RoundKind,
    SideName,
)
from perfcli.stats import paired, series
from perfcli.storing import timings
from perfcli.sweep.plan import Point
from perfcli.worker.roles import AheadWorker, Phase, Progress
from perfcli.workflow.bench import Bench, Subject, measure, open_bench
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import Obtained
from perfcli.workflow.pair import add_times, has_same_code
from perfcli.workflow.request import Question, choose_device
from perfcli.workflow.setting import MeasuringOptions, Setting, settle, why_not

CORES_OF_A_DEVICE = 2
"""Left to the host's part of a measurement while other variants are compiled."""


def choose_settings(
    points: Sequence[Point], numbers: Sequence[int], asked: MeasuringOptions, context: Context
) -> tuple[Setting, ...]:
    """Return how to measure on each device: the GPUs with these numbers, all of them without any,
    or the CPU.

    Raises PerfcliError where a variant can't be measured as it is asked for, and for devices that
    are not there or unlike.
    """
    if target := next((p.question.target for p in points if p.question.target), ""):
        raise PerfcliError(
            f"--measure needs the device itself, and --target {target} compiles without one: leave "
            "out one of them"
        )
    kinds = {point.question.device for point in points}
    if len(kinds) > 1:
        raise PerfcliError("--measure takes one kind of device: choose it with --device")
    (kind,) = kinds
    device, _ = choose_device(kind, None)
    if device == "cuda" and not targets.has_gpu():
        raise PerfcliError(
            "--measure needs a device, and there is no GPU here: give --device cpu, or leave out "
            "--measure"
        )
    clocks: Clocks = "step" if device == "cpu" else asked.clocks or "device"
    setting = settle(Question("", device=kind), replace(asked, clocks=clocks), context)
    if setting is None:
        raise PerfcliError("--measure: nothing can be measured here")
    if device == "cpu":
        if numbers:
            raise PerfcliError("--device cpu: a CPU is one device, so it has no number here")
        return (setting,)
    places = _check_there(numbers or range(driver.device_count()))
    return tuple(
        replace(setting, asked=replace(setting.asked, a_device=each, b_device=each))
        for each in places
    )


def _check_there(numbers: Sequence[int]) -> Sequence[int]:
    """Return the numbers of GPUs. Raises PerfcliError where one is not there or of another kind."""
    count = driver.device_count()
    if missing := [number for number in numbers if number >= count]:
        there = f"there {'is' if count == 1 else 'are'} {units.plural(count, 'GPU')}, from 0"
        raise PerfcliError(f"--device cuda:{missing[0]}: no such GPU, {there}")
    names = {number: driver.device_name(number) for number in numbers}
    if len(set(names.values())) > 1:
        named = ", ".join(f"cuda:{number} is {name}" for number, name in names.items())
        raise PerfcliError(f"GPUs of one kind are expected ({named}): choose with --device")
    return numbers


def leave_cores(settings: Sequence[Setting]) -> int:
    """Return how many compilations may go on beside measurements."""
    cores = len(os.sched_getaffinity(0))
    if settings[0].device == "cpu":
        return cores
    return max(1, cores - CORES_OF_A_DEVICE * len(settings))


@dataclass(frozen=True, slots=True)
class _Variant:
    number: int
    job: Job
    made: Obtained


@dataclass(frozen=True, slots=True)
class _Session:
    """Holds what was measured of both sides: neither where they have the same code. Where measuring
    failed, the head says why."""

    base: Measured | None = None
    head: Measured | None = None


class Sessions:
    """Takes the measurements of a sweep while its variants arrive; a context manager.

    ``groups`` are the numbers of the variants that compute the same, in order: the first one that
    compiles is the control of the others, and alone it is measured against itself. Beside CPU
    measurements nothing is compiled, so these begin when all has arrived.
    """

    def __init__(
        self, settings: Sequence[Setting], groups: Sequence[Sequence[int]], context: Context
    ) -> None:
        self._groups = groups
        self._setting = settings[0]
        self._notes = context.notes
        silent = replace(context, notes=Notes(quiet=True))
        self._devices = [_Device(setting, silent) for setting in settings]
        self._free: SimpleQueue[_Device] = SimpleQueue()
        for each in self._devices:
            self._free.put(each)
        self._pool = ThreadPoolExecutor(len(settings), "perfcli-measure")
        self._arrived: dict[int, _Variant | None] = {}
        self._known: dict[int, _Session] = {}
        """By the number of the variant that is held against its control."""
        self._running: dict[int, Future[_Session]] = {}
        self._elsewhere: Counter[str] = Counter()
        """How many stored measurements are of another device, by its name."""

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for device in self._devices:
            device.stop()
        self._pool.shutdown()

    def take(self, number: int, job: Job, made: Obtained | PerfcliError) -> None:
        """Take a variant that is compiled, or has failed."""
        known = None if isinstance(made, PerfcliError) else _Variant(number, job, made)
        self._arrived[number] = known
        if self._setting.device != "cpu":
            self._begin(next(group for group in self._groups if number in group))

    def finish(self) -> dict[int, Measured]:
        """Return what was measured of each variant that compiled, or why nothing was. Raises
        Interrupted on Ctrl-C."""
        for group in self._groups:
            self._begin(group)
        self._say_where()
        self._wait()
        for group in self._groups:
            control = self._find_control(group)
            if control is not None and not self._list_bases(group):
                self._submit(control, control)
        self._wait()
        return {number: each for group in self._groups for number, each in self._read(group)}

    def _wait(self) -> None:
        """Wait for all that is being measured."""
        numbers = {running: number for number, running in self._running.items()}
        if left := sum(not each.done() for each in numbers):
            name = self._devices[0].name
            where = f"{units.plural(len(self._devices), 'device')} ({name})"
            self._notes.say(
                f"measuring {units.plural(left, 'variant')} on {where}, each in turns with its "
                f"control for up to {self._setting.budget:g} s"
            )
        try:
            with Tally([""] * len(numbers), self._notes, "measured") as tell:
                for place, done in enumerate(as_completed(numbers)):
                    self._known[numbers[done]] = done.result()
                    tell(Progress(place, "done"))
        except KeyboardInterrupt as error:
            kept = units.plural(len(self._known), "measurement")
            raise Interrupted(f"interrupted; all runs and {kept} are kept") from error
        self._running.clear()

    def _begin(self, group: Sequence[int]) -> None:
        """Begin the sessions of the variants that have arrived, once their control is known: the
        first that compiles."""
        if (control := self._find_control(group)) is None:
            return
        for number in group:
            variant = self._arrived.get(number)
            begun = number in self._known or number in self._running
            if variant is not None and variant is not control and not begun:
                self._submit(control, variant)

    def _find_control(self, group: Sequence[int]) -> _Variant | None:
        for number in group:
            if number not in self._arrived or self._arrived[number] is not None:
                return self._arrived.get(number)
        return None

    def _submit(self, control: _Variant, variant: _Variant) -> None:
        base, head = control.made.run, variant.made.run
        try:
            compared = gather_evidence(base, head)
            if variant is not control and has_same_code(compared, self._setting):
                self._known[variant.number] = _Session()
            elif known := self._find_stored(base.id, head.id):
                self._known[variant.number] = _describe(compared, known, self._setting, True)
            else:
                jobs = (control.job, variant.job)
                self._running[variant.number] = self._pool.submit(self._measure, compared, jobs)
        except PerfcliError as error:
            self._known[variant.number] = _Session(head=Measured(why=str(error)))

    def _find_stored(self, base: str, head: str) -> Measurement | None:
        """Return the newest stored measurement that can stand for a new one."""
        found = timings.find_measurement(base, head).measurement
        of_device = self._setting.asked.clocks == "device"
        if found is None or not found.ran_to_its_end or found.machine is None:
            return None
        if of_device and not all(each.device_clock for each in found.prepared):
            return None
        if found.machine.device != self._devices[0].name:
            self._elsewhere[found.machine.device] += 1
            return None
        return found

    def _measure(self, compared: Comparison, jobs: Sequence[Job]) -> _Session:
        """Return a new session, on the first device that is free; called in a thread."""
        device = self._free.get()
        try:
            measured = device.measure(compared, jobs)
            if measured.stopped == "interrupted":
                raise KeyboardInterrupt
            return _describe(compared, measured, self._setting)
        except Interrupted as error:
            raise KeyboardInterrupt from error
        except PerfcliError as error:
            return _Session(head=Measured(why=str(error)))
        finally:
            self._free.put(device)

    def _list_bases(self, group: Sequence[int]) -> list[Measured]:
        """Return what the sessions of a group say of its control."""
        known = (self._known.get(number) for number in group)
        return [session.base for session in known if session and session.base]

    def _read(self, group: Sequence[int]) -> Iterator[tuple[int, Measured]]:
        """Yield what the sessions of a group say of its variants. One without a session has the
        code of its control."""
        if (control := self._find_control(group)) is None:
            return
        alone = self._known.get(control.number, _Session())
        (first, *_) = [*self._list_bases(group), alone.head or Measured()]
        for number in group:
            session = self._known.get(number, _Session())
            if number == control.number:
                yield number, first
            elif self._arrived[number] is not None:
                yield number, session.head or first

    def _say_where(self) -> None:
        """Say so where what was measured before is of another device."""
        for other, count in self._elsewhere.items():
            self._notes.warn(
                f"{units.plural(count, 'variant')} measured on {other} before: measured again on "
                f"{self._devices[0].name}, as times of both do not go together"
            )


class _Device:
    """Measures on one device. What one session compiled and tuned, the next ones find."""

    def __init__(self, setting: Setting, context: Context) -> None:
        self.name = setting.device_name
        self._setting = setting
        self._context = context
        self._benches: dict[object, Bench] = {}
        self._workers: list[AheadWorker] = []
        self._stopped = threading.Event()

    def measure(self, compared: Comparison, jobs: Sequence[Job]) -> Measurement:
        """Return a new measurement, which is stored. Raises what measuring raises."""
        if reason := why_not(jobs, self._setting):
            raise PerfcliError(reason)
        base, head = compared.base, compared.head
        subject = Subject(head.scenario, head.params, base.id, head.id)
        try:
            return measure(subject, self._setting, jobs, self._context, self._open(jobs))
        finally:
            self._workers.clear()

    def _open(self, jobs: Sequence[Job]) -> Bench:
        """Return what starts the workers of such jobs."""
        kind = tuple((job.interpreter.path, bool(job.request.variant.env)) for job in jobs)
        if kind not in self._benches:
            made = open_bench(self._setting, jobs, self._context.timeout)

            def start(request: MeasureRequest, told: Callable[[Phase], None]) -> AheadWorker:
                self._workers.append(made.starts(request, told))
                return self._workers[-1]

            def look() -> float:
                # Asked in every round: Ctrl-C, which the main thread alone hears, arrives here.
                if self._stopped.is_set():
                    raise KeyboardInterrupt
                return made.clock()

            self._benches[kind] = replace(made, starts=start, clock=look)
        return self._benches[kind]

    def stop(self) -> None:
        """End what is being measured, and all processes."""
        self._stopped.set()
        for worker in list(self._workers):
            with suppress(PerfcliError):
                worker.close()
        for place in self._benches.values():
            place.close()


def _describe(
    compared: Comparison, measured: Measurement, setting: Setting, reused: bool = False
) -> _Session:
    """Return both sides of a measurement. Raises PerfcliError where the clock that was asked for
    says nothing."""
    timing = add_times(compared, measured, setting.asked.clocks or "both").timing
    assert timing is not None
    if timing.clock != setting.asked.clocks:
        raise PerfcliError(
            f"the device's own time is not known ({timing.no_graph or 'no profile'}): --time step "
            "measures the step"
        )
    kinds: dict[DeviceClock, RoundKind] = {"graph": "device", "profiler": "kernels"}
    kind = "step" if timing.clock == "step" else kinds[timing.device_clock]
    rounds, change = series.clock_series(measured.rounds, kind), timing.deciding

    def describe(side: SideName, seconds: Sequence[float]) -> Measured:
        worker, middle = measured.of(side), paired.median(seconds)
        if middle is None or worker is None:
            raise PerfcliError("measured, and no round can be used")
        return Measured(
            *(middle.value, middle.low, middle.high),
            clock=timing.clock,
            device=worker.machine.device,
            memory_bytes=worker.memory.peak_allocated_bytes if worker.memory else None,
            measurement=measured.id,
            reused=reused,
        )

    base, head = describe("base", rounds.base), describe("head", rounds.head)
    return _Session(
        replace(base, ratio=1.0),
        replace(head, ratio=change.ratio, ratio_low=change.low, ratio_high=change.high),
    )
