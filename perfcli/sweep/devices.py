"""The devices that a sweep measures on: of this machine, one session on each at a time, or of a
cluster, where each session is a task."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue
from typing import Protocol

from perfcli import units
from perfcli.cluster.connection import connect, list_nodes
from perfcli.console.notes import Notes
from perfcli.errors import Interrupted, PerfcliError
from perfcli.interleave.pair import PairPlan
from perfcli.machine import driver, targets
from perfcli.model import Clocks, Comparison, Measurement, MeasureRequest
from perfcli.storing import timings
from perfcli.sweep.plan import SweepPoint
from perfcli.worker.roles import AheadWorker, Phase
from perfcli.workflow.bench import Bench, MeasuredScenario, begin, measure, open_bench
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.request import Question, choose_device
from perfcli.workflow.setting import MeasuringOptions, Setting, settle, settle_elsewhere, why_not


class Devices(Protocol):
    """Takes measurements, several at once if it has several devices."""

    setting: Setting
    """How it is measured on the first device."""
    name: str
    """What each of them is called; empty where that is known afterwards only."""
    title: str
    """``2 devices (NVIDIA H200)``."""
    beside: bool
    """Whether compilation may go on meanwhile."""

    def count_spare_cores(self) -> int:
        """Return how many cores compilation may have."""
        ...

    def begin(self, number: int, compared: Comparison, jobs: Sequence[Job]) -> None:
        """Measure two runs as soon as a device is free."""
        ...

    def finish(self) -> Iterator[tuple[int, Measurement | PerfcliError]]:
        """Yield each number that was begun with its measurement, which is stored, or with what went
        wrong, as they come. Raises KeyboardInterrupt where one was interrupted."""
        ...

    def close(self) -> None:
        """End what is being measured, and all processes."""
        ...


def choose_devices(
    points: Sequence[SweepPoint], numbers: Sequence[int], asked: MeasuringOptions, context: Context
) -> Devices:
    """Return the devices that are meant: the GPUs with these numbers, all of them without any, the
    CPU, or GPUs of the cluster. Raises PerfcliError where a variant can't be measured as it is
    asked for, and for devices that are not there or unlike."""
    if asked.clocks == "both":
        raise PerfcliError("--time is device or step in a sweep: it ranks variants by one of both")
    if context.cluster is not None:
        return _choose_there(points, numbers, asked, context)
    if target := next((p.question.target for p in points if p.question.target), ""):
        raise PerfcliError(
            f"--measure needs the device itself, and --target {target} compiles without one: leave "
            "out one of them"
        )
    kinds = {point.question.device for point in points}
    if len(kinds) > 1:
        raise PerfcliError("--measure takes one kind of device: choose it with --device")
    (kind,) = kinds
    if kind in (None, "cuda") and not targets.has_gpu():
        raise PerfcliError(
            "--measure needs a device, and there is no GPU here: give --device cpu, or leave out "
            "--measure"
        )
    device, _ = choose_device(kind, None)
    clocks: Clocks = asked.clocks or ("step" if device == "cpu" else "device")
    setting = settle(Question("", device=kind), replace(asked, clocks=clocks), context)
    if setting is None:
        raise PerfcliError("--measure: nothing can be measured here")
    if device == "cpu":
        if numbers:
            raise PerfcliError("--device cpu: a CPU is one device, so it has no number here")
        return LocalDevices([setting], context)
    places = _check_there(numbers or range(driver.device_count()))
    settings = [
        replace(setting, asked=replace(setting.asked, a_device=each, b_device=each))
        for each in places
    ]
    return LocalDevices(settings, context)


def _choose_there(
    points: Sequence[SweepPoint], numbers: Sequence[int], asked: MeasuringOptions, context: Context
) -> ClusterDevices:
    assert context.cluster is not None
    if numbers or any(point.question.device == "cpu" for point in points):
        raise PerfcliError("on a cluster, --measure takes any GPU of it: leave out --device")
    named = dict.fromkeys(point.question.target for point in points)
    if len(named) > 1 or (None in named and not targets.has_gpu()):
        raise PerfcliError("--measure on a cluster: name the GPU of its machines with --target")
    if not any(node.resources.get("GPU") for node in list_nodes(connect(context.cluster))):
        raise PerfcliError("--measure needs a GPU, and no machine of the cluster has one")
    return ClusterDevices(
        settle_elsewhere(replace(asked, clocks=asked.clocks or "device"), context), context
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


CORES_OF_A_DEVICE = 2
"""Left to the host's part of a measurement while other variants are compiled."""


class LocalDevices:
    """Has a thread for each device of this machine."""

    def __init__(self, settings: Sequence[Setting], context: Context) -> None:
        self.setting = settings[0]
        self.name = self.setting.device_name
        self.title = f"{units.plural(len(settings), 'device')} ({self.name})"
        # The host has a part in the time of a step, and none in the device's own.
        self.beside = self.setting.asked.clocks == "device"
        silent = replace(context, notes=Notes(quiet=True))
        self._devices = [_Device(setting, silent) for setting in settings]
        self._free: SimpleQueue[_Device] = SimpleQueue()
        for each in self._devices:
            self._free.put(each)
        self._pool = ThreadPoolExecutor(len(settings), "perfcli-measure")
        self._running: dict[Future[Measurement | PerfcliError], int] = {}

    def count_spare_cores(self) -> int:
        cores = len(os.sched_getaffinity(0))
        return max(1, cores - CORES_OF_A_DEVICE * len(self._devices)) if self.beside else cores

    def begin(self, number: int, compared: Comparison, jobs: Sequence[Job]) -> None:
        self._running[self._pool.submit(self._measure, compared, jobs)] = number

    def finish(self) -> Iterator[tuple[int, Measurement | PerfcliError]]:
        for done in as_completed(self._running):
            yield self._running[done], done.result()
        self._running.clear()

    def _measure(self, compared: Comparison, jobs: Sequence[Job]) -> Measurement | PerfcliError:
        device = self._free.get()
        try:
            measured = device.measure(compared, jobs)
        except Interrupted as error:
            raise KeyboardInterrupt from error
        except PerfcliError as error:
            return error
        finally:
            self._free.put(device)
        if measured.stopped == "interrupted":
            raise KeyboardInterrupt
        return measured

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for device in self._devices:
            device.stop()
        self._pool.shutdown()


class _Device:
    """Measures on one device. What one session compiled and tuned, the next ones find."""

    def __init__(self, setting: Setting, context: Context) -> None:
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
        subject = MeasuredScenario(head.scenario, head.params, base.id, head.id)
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
            worker.kill()
        for place in self._benches.values():
            place.close()


class ClusterDevices:
    """Has a task for each session, with a GPU that the cluster lends it."""

    name = ""
    title = "GPUs of the cluster"
    beside = False

    def __init__(self, setting: Setting, context: Context) -> None:
        self.setting = setting
        self._context = context
        self._begun: dict[int, tuple[Measurement, PairPlan]] = {}

    def count_spare_cores(self) -> int:
        return len(os.sched_getaffinity(0))

    def begin(self, number: int, compared: Comparison, jobs: Sequence[Job]) -> None:
        plan, head = self.setting.plan(jobs), compared.head
        self._begun[number] = begin(plan, head.scenario, compared.base.id, head.id), plan

    def finish(self) -> Iterator[tuple[int, Measurement | PerfcliError]]:
        from perfcli.cluster.executor import measure_pairs

        numbers, begun = list(self._begun), list(self._begun.values())
        self._begun.clear()
        with closing(measure_pairs(self._context.terms, begun)) as arriving:
            for place, made in arriving:
                if isinstance(made, Measurement):
                    try:
                        timings.write(made)
                    except PerfcliError as error:
                        self._context.notes.warn(str(error))
                yield numbers[place], made

    def close(self) -> None:
        pass
