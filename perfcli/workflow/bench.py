"""Takes one measurement: starts the workers, has each round written down, and says what went
wrong."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from perfcli.console.notes import STARTING, Notes, Reporter
from perfcli.errors import Interrupted, OutOfMemory, PerfcliError
from perfcli.fake.measuring import FakeStarter
from perfcli.interleave import alternating, environments
from perfcli.interleave.pair import Clock, Enough, MeasuredPair, PairPlan, Ready
from perfcli.loading import registry
from perfcli.machine import noise_floors
from perfcli.machine.environment import cache_dir
from perfcli.machine.scratch import forget_old, make_scratch
from perfcli.model import (
    Ask,
    Measurement,
    MeasureRequest,
    Prepared,
    Round,
    RoundKind,
    Scalar,
    SideName,
    StartPhase,
    Turn,
)
from perfcli.names import public
from perfcli.storing import store, timings
from perfcli.worker.fork_server import ForkServers
from perfcli.worker.import_ahead import MANY_CORES
from perfcli.worker.live import Starter
from perfcli.worker.ranks import RankGroup
from perfcli.worker.roles import AheadWorker, MeasuringWorker, Phase, Progress, StartAhead
from perfcli.worker.starting import find_triton_cache
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.setting import Setting, why_not
from perfcli.workflow.worktrees import Worktrees

_SIDES: tuple[SideName, ...] = ("base", "head")


class Watch:
    """Writes each round at once, and shows how far it is; a ``pair.Sink``. What can't be written
    is said once, and measured all the same."""

    def __init__(
        self,
        measurement: Measurement,
        progress: Reporter,
        notes: Notes,
        context: Context | None = None,
    ) -> None:
        self.rounds = 0
        self.start: list[StartPhase] = []
        self.servers: ForkServers | None = None
        self._context = context
        self._budget = measurement.budget_seconds
        self._at_once = measurement.device == "cpu"
        self._progress = progress
        self._notes = notes
        self._recorder: timings.Recorder | None = None
        try:
            self._recorder = timings.Recorder(measurement)
        except PerfcliError as error:
            self._complain(str(error))

    @property
    def kept(self) -> str:
        """Return ``12 rounds are kept in .perfcli/timings/….jsonl``; empty where nothing is."""
        if self._recorder is None or self._recorder.failure:
            return ""
        return timings.say_rounds(self.rounds, self._recorder.path)

    def told(self, side: SideName, phase: Phase) -> None:
        """Show a phase; on the CPU both sides get ready at once, and the head's phases come after
        the base's last: the base's stand for both."""
        if not self._at_once:
            self._progress(Progress(_SIDES.index(side), phase))
        elif side == "base":
            self._progress(Progress(len(_SIDES), phase))

    def prepared(self, prepared: Prepared) -> None:
        if not self.rounds:
            self.start += prepared.phases
        if self._recorder is not None:
            self._recorder.prepared(replace(prepared, phases=(), code=None))
            self._look()

    def round(self, measured: Round, elapsed: float) -> None:
        if not self.rounds and self._context is not None:
            imported = self.servers.list_phases() if self.servers else []
            self.start = _list_phases(self._context, [*imported, *self.start], measured.took)
            if self._recorder is not None:
                self._recorder.start(self.start)
        self.rounds += 1
        if self._recorder is not None:
            self._recorder.round(measured)
            self._look()
        text = f"measuring for up to {self._budget:g} s"
        done, total = min(int(elapsed), int(self._budget)), int(self._budget)
        self._progress(Progress(len(_SIDES), "done", done, total, text))

    def end(self, stopped: str, method: str = "", notes: tuple[str, ...] = ()) -> None:
        """End the file; a measurement without a round leaves none, because it would hide an older
        one."""
        if self._recorder is not None:
            self._recorder.end(stopped, method, notes)

    def _look(self) -> None:
        if self._recorder is not None and self._recorder.failure:
            self._complain(self._recorder.failure)
            self._recorder = None

    def _complain(self, reason: str) -> None:
        self._notes.warn(f"{reason}; the measurement is not stored, the report follows")


def _list_phases(
    context: Context, of_workers: Sequence[StartPhase], took: float
) -> list[StartPhase]:
    """Return what the time went to, by the time of the command. ``took``: the seconds of the first
    round, which has just ended."""
    ours = [
        phase if phase.at is None else replace(phase, at=round(phase.at - context.began, 3))
        for phase in of_workers
    ]
    first = round(time.monotonic() - took - context.began, 3)
    return [*context.phases, *ours, StartPhase("command", "first round", first, round(took, 3))]


@dataclass(frozen=True, slots=True)
class Bench:
    """Says what starts workers, and tells the time."""

    starts: StartAhead
    clock: Clock = time.monotonic
    folder: Path | None = None
    """Caches that vanish with ``close``, if they do."""
    worktrees: Worktrees = field(default_factory=Worktrees)
    """Those of the revisions that are measured."""
    servers: ForkServers = field(default_factory=lambda: ForkServers("measure"))
    """What forks the workers."""
    _ahead: dict[SideName, tuple[MeasureRequest, _Ahead]] = field(default_factory=dict)
    """Workers that get ready though nobody has asked for them so far."""

    def start(self, request: MeasureRequest, told: Callable[[Phase], None]) -> MeasuringWorker:
        """Start a worker, or return the one that was started ahead; a ``StartWorker``."""
        asked, ahead = self._ahead.pop(request.side, (None, None))
        if ahead is None:
            return self.starts(request, told)
        if asked != request:
            ahead.close()
            return self.starts(request, told)
        ahead.told = told
        return ahead.started.result()

    def list_prepared(self) -> list[Prepared] | None:
        """Return what the workers say that were started ahead; None where one is not ready yet.
        Raises what one of them raises."""
        ahead = [each for _, each in self._ahead.values()]
        if not ahead or not all(each.started.done() for each in ahead):
            return None
        workers = [each.started.result() for each in ahead]
        if not all(worker.is_prepared() for worker in workers):
            return None
        return [worker.prepare() for worker in workers]

    def generates(self) -> bool:
        """Return whether workers that were started ahead still generate code."""
        return any(ahead.generates for _, ahead in self._ahead.values())

    def start_ahead(self, requests: Iterable[MeasureRequest]) -> None:
        """Start workers that will be asked for, without waiting for what forks them."""
        starting = ThreadPoolExecutor(1, thread_name_prefix="perfcli")
        for request in requests:
            ahead = _Ahead()
            ahead.started = starting.submit(self.starts, request, ahead.tell)
            self._ahead[request.side] = request, ahead
        starting.shutdown(wait=False)

    def close(self) -> None:
        self.servers.close()  # before it waits for workers that wait for them
        for _, ahead in self._ahead.values():
            ahead.close()
        self._ahead.clear()
        self.worktrees.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class _Ahead:
    """Holds a worker that was started ahead; who asks for it then is told of its phases."""

    started: Future[AheadWorker]

    def __init__(self) -> None:
        self.told: Callable[[Phase], None] = lambda phase: None
        self.generates = True

    def tell(self, phase: Phase) -> None:
        self.generates = phase in ("import", "trace", "choices", "kernels")
        self.told(phase)

    def close(self) -> None:
        with suppress(PerfcliError):  # it did not start
            self.started.result().close()


class _OwnFiles:
    """Answers as the worker of a request: where that imports the user's checkout instead of the
    revision that is measured, it is started once more, with folders where Python looks first."""

    def __init__(
        self,
        request: MeasureRequest,
        start: Callable[[MeasureRequest], AheadWorker],
        worktrees: Worktrees,
    ) -> None:
        self._request, self._start, self._worktrees = request, start, worktrees
        self._placed = replace(request, compile=worktrees.place(request.compile))
        self._worker = start(self._placed)

    def is_prepared(self) -> bool:
        if not self._worker.is_prepared():
            return False
        asked, sources = self._request.compile, self._worker.prepare().sources
        return not self._worktrees.place_again(asked, self._placed.compile, sources)

    def prepare(self) -> Prepared:
        asked = self._request.compile
        prepared = self._worker.prepare()
        while again := self._worktrees.place_again(asked, self._placed.compile, prepared.sources):
            self._worker.close()
            self._placed = replace(self._request, compile=again)
            self._worker = self._start(self._placed)
            prepared = self._worker.prepare()
        return replace(prepared, sources=())

    def turn(self, ask: Ask) -> Turn:
        return self._worker.turn(ask)

    def kill(self) -> None:
        self._worker.kill()

    def close(self) -> None:
        self._worker.close()


def open_bench(setting: Setting, jobs: Sequence[Job], timeout: float | None) -> Bench:
    """Start real workers, or those that make things up. Sides of one torch and triton share caches:
    identical kernels are compiled, and tuned, once. Those of the CPU and Triton's binaries stay,
    found by content; what was tuned on a GPU does not."""
    if setting.fake is not None:
        made_up = FakeStarter(setting.fake)
        return Bench(made_up, made_up.clock)
    stays = setting.device == "cpu"
    for job in jobs:
        forget_old(find_triton_cache(job.request))
    folder = cache_dir() / "inductor" if stays else make_scratch("caches-")
    base, head = (_caches_name(job) for job in jobs)
    names: dict[SideName, str] = {"base": base, "head": head}
    worktrees, servers = Worktrees(), ForkServers("measure")
    # Both sides in the same way: one with variables of its own could not be forked.
    forks = not any(job.request.variant.env for job in jobs)

    def start(request: MeasureRequest, told: Callable[[Phase], None]) -> AheadWorker:
        caches = folder / names[request.side]
        caches.mkdir(parents=True, exist_ok=True)
        starter = Starter(caches, timeout, servers if forks else None)

        def start_one(placed: MeasureRequest) -> AheadWorker:
            if placed.compile.world > 1:
                return RankGroup(placed, told, starter)
            return starter(placed, told)

        return _OwnFiles(request, start_one, worktrees)

    return Bench(start, folder=None if stays else folder, worktrees=worktrees, servers=servers)


def open_ahead(setting: Setting, jobs: Sequence[Job], context: Context) -> Bench | None:
    """Start the workers of a measurement while its runs are still compiled: both take about as
    long. Nothing is lost but processor time where these turn out to be the same. Return None where
    there are too few cores for that, or nothing will be measured."""
    few = len(os.sched_getaffinity(0)) < MANY_CORES
    several = any(job.request.world > 1 for job in jobs)
    if few or several or setting.fake is not None or why_not(jobs, setting):
        return None
    place = open_bench(setting, jobs, context.timeout)
    plan = setting.plan(jobs)
    try:
        place.start_ahead((plan.base, plan.head))
    except BaseException:
        place.close()
        raise
    return place


def _caches_name(job: Job) -> str:
    found = job.interpreter
    text = f"{found.torch} {found.triton} {found.torch_dir}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class MeasuredScenario:
    """Says what is measured: a scenario with these parameters, and the ids of both runs."""

    scenario: str
    params: Mapping[str, Scalar]
    base: str
    head: str


def measure(
    subject: MeasuredScenario,
    setting: Setting,
    jobs: Sequence[Job],
    context: Context,
    place: Bench | None = None,
) -> Measurement:
    """Return raw times of both sides; every round is stored as soon as it is there. ``place`` may
    have workers that are on their way already; who gives it closes it. Raises what a worker raises,
    with how much was kept; NotComparable where the two do not run in the same place; Interrupted on
    Ctrl-C before the first round."""
    plan = setting.plan(jobs)
    opening = begin(plan, subject.scenario, subject.base, subject.head)
    names = [*(job.request.variant.name for job in jobs), "both"]
    with ExitStack() as own:
        if place is None:
            place = open_bench(setting, jobs, context.timeout)
            own.callback(place.close)
        progress = own.enter_context(Reporter(names, context.notes, STARTING))
        watch = Watch(opening, progress, context.notes, context)
        watch.servers = place.servers
        measured = _race_watched(plan, place, watch, _Referee(subject, plan, setting))
    return replace(measured.fill(opening), start=tuple(watch.start))


class _Referee:
    """Says who may be measured together, and when it is enough."""

    def __init__(self, subject: MeasuredScenario, plan: PairPlan, setting: Setting) -> None:
        self.notes: list[str] = []
        self._subject = subject
        self._variants = (plan.base.compile.variant, plan.head.compile.variant)
        self._setting = setting
        self._exchanged = ("cpus",) if plan.exchanges else ()
        self._inside = 0.0

    def ready(self, base: Prepared, head: Prepared) -> None:
        """Raise NotComparable."""
        from perfcli.stats import floor

        allowed = [*self._setting.asked.allow_env, *self._exchanged]
        differing = environments.check(base, head, self._variants, allowed)
        said = [
            f"allowed to differ: {difference.text}"
            for difference in differing
            if difference.aspect not in self._exchanged
        ]
        self.notes += [text for text in said if text not in self.notes]
        about = self._subject
        stored = noise_floors.load_floor(base.machine, about.scenario, about.params)
        self._inside = floor.find_floor(self._setting.device, (), stored).inside

    def enough(self, rounds: Sequence[Round], kind: RoundKind) -> str | None:
        from perfcli.stats import stopping

        return stopping.reason_to_stop(rounds, self._inside, kind)


def _race_watched(plan: PairPlan, place: Bench, watch: Watch, referee: _Referee) -> MeasuredPair:
    try:
        measured = race(plan, place, watch, referee.enough, referee.ready)
    except KeyboardInterrupt as error:
        watch.end("interrupted")
        raise Interrupted(f"interrupted; {watch.kept}" if watch.kept else _NOTHING) from error
    except PerfcliError as error:
        watch.end(f"failed: {error}")
        raise _explain(error, plan, watch) from error
    measured.notes += referee.notes
    watch.end(measured.stopped, measured.method, tuple(measured.notes))
    return measured


_NOTHING = "interrupted before anything was measured; --no-time compares without measuring"


def race(plan: PairPlan, place: Bench, watch: Watch, enough: Enough, ready: Ready) -> MeasuredPair:
    """Measure a plan once. Raises as ``alternating.measure``."""
    return alternating.measure(plan, place.start, enough, watch, watch.told, ready, place.clock)


def _explain(error: PerfcliError, plan: PairPlan, watch: Watch) -> PerfcliError:
    """Return the error with what was stored and, if memory ran out, a smaller configuration."""
    parts = [str(error), watch.kept]
    if isinstance(error, OutOfMemory):
        parts.append(suggest_smaller(plan.base))
    return type(error)("; ".join(filter(None, parts)), detail=error.detail)


def suggest_smaller(request: MeasureRequest) -> str:
    """Return what to try where a scenario is too large."""
    name = request.compile.scenario
    if registry.is_user_file(name) or public(name) not in registry.names("scenarios"):
        return "smaller parameters (-p NAME=VALUE) need less"
    scenario = registry.scenario(name)
    presets = [f"--preset {preset}" for preset in scenario.presets if preset != "full"]
    numbers = [
        f"-p {parameter}={request.compile.params[parameter]}"
        for parameter, declared in scenario.parameters.items()
        if isinstance(declared.default, int)
        and not isinstance(declared.default, bool)
        and parameter in request.compile.params
    ]
    less = f"less than {' '.join(numbers)}" if numbers else ""
    options = [*presets, *filter(None, [less])]
    return f"try {' or '.join(options)}" if options else f"{name} declares nothing smaller to try"


def begin(plan: PairPlan, scenario: str, base: str = "", head: str = "") -> Measurement:
    """Return a measurement without any round yet. ``base``, ``head``: ids of runs, where there are
    any."""
    now = datetime.now(UTC)
    return Measurement(
        id=store.new_id(now),
        created=now.isoformat().replace("+00:00", "Z"),
        base=base,
        head=head,
        scenario=scenario,
        device=plan.base.compile.device,
        seed=plan.seed,
        budget_seconds=plan.budget_seconds,
        method=MeasuredPair().method,
    )
