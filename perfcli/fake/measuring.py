"""Makes up the turns of a measuring worker: deterministic, and no time passes but on its clock.

The plan is what follows the first semicolon of ``PERFCLI_FAKE``: ``1;ratio=1.05;noise=0.002``.

| part | |
| --- | --- |
| ``ratio=R`` | the head's step takes R times the base's; the first kernel that sums makes the difference |
| ``only=OPTION`` | the ratio is that of whichever side sets this option, not of the head |
| ``noise=S`` | scatter of each step, relative (standard deviation of its logarithm) |
| ``step=SECONDS`` | the base's step |
| ``busy=SHARE`` | on a GPU, the share of the base's step in which the device is busy; the head's step takes ``ratio``, its device ``device`` times as long |
| ``device=R`` | on a GPU, the ratio of the device's own time, where it is not that of the step |
| ``second=R`` | how many times as long everything takes on GPU 1 or core 1 |
| ``graph=REASON`` | on a GPU, why the step can't be taken as a CUDA graph |
| ``fail=KIND:SIDE:WHEN`` | KIND: ``oom``, ``crowded`` (out of memory while the other side lives), ``dies``, ``hangs``, ``garbage``, ``wrong``, ``interrupt``; WHEN: ``prepare`` or the number of a turn, from 1 |
"""  # noqa: E501

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from perfcli.errors import OutOfMemory, PerfcliError, WorkerFailed, WrongResult
from perfcli.fake.run import make_up_run
from perfcli.model import (
    Ask,
    DeviceClock,
    KernelFacts,
    Machine,
    MeasuredLaunch,
    MeasureRequest,
    MemoryUse,
    OutputCheck,
    Prepared,
    Run,
    SideName,
    Turn,
)
from perfcli.worker.roles import Phase

DEVICE = "made-up processor"
FAILURES = ("oom", "crowded", "dies", "hangs", "garbage", "wrong", "interrupt")
STEP_SECONDS = 0.004
PREPARE_SECONDS = 3.0
EXTERN_SECONDS = 2e-6
"""The seconds of an operator that is not generated."""
OWN_SECONDS = 0.0005
"""A turn's own cost, besides its steps."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Describes one planted failure; ``turn`` 0 is preparing."""

    kind: str
    side: SideName
    turn: int


@dataclass(frozen=True, slots=True)
class FakePlan:
    ratio: float = 1.0
    noise: float = 0.001
    step: float = STEP_SECONDS
    busy: float = 1.0
    device: float | None = None
    second: float = 1.0
    graph: str = ""
    failures: tuple[_Failure, ...] = ()
    only: str = ""


def parse(text: str) -> FakePlan | None:
    """Return what a plan says of measuring; None: it says nothing, do not measure. Raises
    PerfcliError for a part that it does not know."""
    _, marked, parts = text.partition(";")
    if not marked:
        return None
    failures: list[_Failure] = []
    numbers: dict[str, float] = {}
    words: dict[str, str] = {}
    for part in filter(None, parts.split(";")):
        name, _, value = part.partition("=")
        if name == "fail":
            failures.append(_failure(value))
        elif name in _WORDS:
            words[name] = value
        elif name in _NUMBERS:
            numbers[name] = float(value)
        else:
            raise PerfcliError(
                "PERFCLI_FAKE plans ratio, only, noise, step, busy, device, second, graph and "
                f"fail, not {part!r}"
            )
    return replace(FakePlan(failures=tuple(failures), **words), **numbers)  # type: ignore[arg-type]


_WORDS = ("only", "graph")
_NUMBERS = ("ratio", "noise", "step", "busy", "device", "second")


def _failure(text: str) -> _Failure:
    match text.split(":"):
        case [kind, ("base" | "head") as side, when] if kind in FAILURES:
            if when == "prepare" or when.isdigit():
                return _Failure(kind, side, 0 if when == "prepare" else int(when))
    raise PerfcliError(f"PERFCLI_FAKE plans fail=KIND:base|head:prepare|N, not {text!r}")


@dataclass(slots=True)
class _Clock:
    """Stands until somebody works."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class FakeStarter:
    """Starts made-up workers, as a ``roles.StartWorker``; they let its clock run."""

    plan: FakePlan = field(default_factory=FakePlan)
    clock: _Clock = field(default_factory=_Clock)
    alive: set[int] = field(default_factory=set)
    """Numbers of the workers that nobody has closed."""
    started: list[MeasureRequest] = field(default_factory=list)

    def __call__(self, request: MeasureRequest, told: Callable[[Phase], None]) -> _FakeWorker:
        self.started.append(request)
        worker = _FakeWorker(request, self, len(self.started), told)
        self.alive.add(worker.number)
        return worker


class _FakeWorker:
    """Makes up what a ``roles.MeasuringWorker`` would answer."""

    def __init__(
        self,
        request: MeasureRequest,
        starter: FakeStarter,
        number: int,
        told: Callable[[Phase], None],
    ) -> None:
        self.number = number
        self._request = request
        self._starter = starter
        self._told = told
        self._turns = 0
        self._random = random.Random(f"{request.seed} {request.side} {number}")
        run = make_up_run(request.compile).run
        self._launches = tuple(_launches(run))
        self._step = sum(_times(run, self._planned(starter.plan.ratio)))
        device = starter.plan.ratio if starter.plan.device is None else starter.plan.device
        busy = starter.plan.busy if request.compile.device == "cuda" else 1.0
        self._times = tuple(_times(run, busy * self._planned(device)))
        tells = request.compile.device == "cuda" and request.clocks != "step"
        tells = tells and not request.cuda_graph
        self._clock: DeviceClock = "graph" if tells and not starter.plan.graph else ""
        self._clock = self._clock or ("profiler" if tells else "")

    def is_prepared(self) -> bool:
        return True

    def prepare(self) -> Prepared:
        self._fail()
        for phase in ("import", "trace", "kernels"):
            self._told(phase)
        request = self._request
        self._starter.clock.now += PREPARE_SECONDS
        return Prepared(
            side=request.side,
            process=0,
            machine=_machine(request),
            step_seconds=self._step,
            compile_seconds=PREPARE_SECONDS,
            launches=self._launches,
            launch_count=len(self._launches),
            memory=MemoryUse(3 << 30, 4 << 30, "made up"),
            check=OutputCheck(1e-7, 1e-4, "made up") if request.check else None,
            copy_bandwidth=10e9,
            device_clock=self._clock,
            device_seconds=sum(self._times) if self._clock == "graph" else None,
            no_graph=self._starter.plan.graph if self._clock == "profiler" else "",
        )

    def turn(self, ask: Ask) -> Turn:
        self._turns += 1
        self._fail()
        scatters = [self._scatter() for _ in range(ask.steps)]
        seconds = sum(self._times) if ask.kind == "device" else self._step
        steps = tuple(seconds * scatter for scatter in scatters)
        warm = seconds * ask.warmup
        self._starter.clock.now += OWN_SECONDS + warm + sum(steps)
        if ask.kind == "kernels":
            return Turn((), (), tuple(tuple(t * s for t in self._times) for s in scatters))
        return Turn(steps)

    def kill(self) -> None:
        """Nobody waits for what is made up."""

    def close(self) -> None:
        self._starter.alive.discard(self.number)

    def _planned(self, ratio: float) -> float:
        """Return seconds of a step that takes ``ratio`` times the base's on the slower side."""
        plan = self._starter.plan
        options = self._request.compile.variant.options
        slower = plan.only in options if plan.only else self._request.side == "head"
        place = 1 in (self._request.device_index, *self._request.cpus)
        seconds = plan.step * (ratio if slower else 1.0) * (plan.second if place else 1.0)
        return seconds * (1 + self._request.slow_down)

    def _scatter(self) -> float:
        return math.exp(self._random.gauss(0, self._starter.plan.noise))

    def _fail(self) -> None:
        for failure in self._starter.plan.failures:
            if (failure.side, failure.turn) != (self._request.side, self._turns):
                continue
            if failure.kind == "crowded" and len(self._starter.alive) < 2:
                continue
            raise _error(failure.kind, self._request)


def _error(kind: str, request: MeasureRequest) -> BaseException:
    side = request.side
    match kind:
        case "oom" | "crowded":
            name = request.compile.scenario
            return OutOfMemory(f"the {side}'s {name} does not fit into memory: tried 48 GiB")
        case "wrong":
            return WrongResult(f"the {side}'s outputs are wrong: 3 of 4096 values are NaN")
        case "interrupt":
            return KeyboardInterrupt()
        case "dies":
            text = f"the {side}'s worker was killed by SIGKILL while measuring (out of memory?)"
            return WorkerFailed(text, "the end of its log:\nlast line")
        case "hangs":
            return WorkerFailed(f"the {side}'s worker did not finish within 300 s and was stopped")
        case _:
            return WorkerFailed(f"the {side}'s worker sent what is not a reply")


# --- what a made-up run would take -------------------------------------------------------------


def _launches(run: Run) -> Iterator[MeasuredLaunch]:
    kernels = {(kernel.graph, kernel.name): kernel for kernel in run.kernels}
    for launch in run.launches:
        kernel = kernels[launch.graph, launch.name]
        yield MeasuredLaunch(kernel.name, kernel.graph, True, kernel.source_hash)
    for extern in run.externs:
        for _ in range(extern.count):
            yield MeasuredLaunch(extern.op.replace(".", "::"), generated=False)


def _times(run: Run, step: float) -> Iterator[float]:
    """Yield seconds of each launch. The same kernel takes the same time on both sides: what the
    step takes more or less is up to the first kernel that sums, which options change."""
    kernels = {(kernel.graph, kernel.name): kernel for kernel in run.kernels}
    launched = [kernels[launch.graph, launch.name] for launch in run.launches]
    externs = run.count_externs().total()
    own = [_own_seconds(kernel) for kernel in launched]
    extern = EXTERN_SECONDS if own else step / max(externs, 1)
    blamed = next((n for n, kernel in enumerate(launched) if "sum" in kernel.name), None)
    if blamed is not None:
        rest = sum(own) - own[blamed] + externs * extern
        own[blamed] = max(step - rest, step / 100)
    yield from own
    yield from [extern] * externs


def _own_seconds(kernel: KernelFacts) -> float:
    moved = kernel.bytes_moved or 0
    return 1e-6 + moved / 1e14


def _machine(request: MeasureRequest) -> Machine:
    return Machine(
        device=DEVICE,
        torch="2.13.0",
        triton="3.7.1",
        python="3.11.9",
        device_index=request.device_index,
        threads=request.threads,
        cpus=request.cpus,
        facts={"cores": 2, "fixed_layout": True},
    )
