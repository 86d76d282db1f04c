"""Measures pairs of identical variants as ``compare`` measures two different ones."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import perfcli
from perfcli.console.notes import Reporter
from perfcli.errors import OutOfMemory
from perfcli.interleave import environments
from perfcli.interleave.pair import PairPlan
from perfcli.machine import noise_floors
from perfcli.model import DeviceClock, Floor, Machine, Prepared, Round, RoundKind, TimeChange
from perfcli.stats import floor as floors
from perfcli.stats import stopping
from perfcli.stats.timing import judge_clocks
from perfcli.workflow.bench import Bench, Watch, begin, open_bench, race, suggest_smaller
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.setting import Setting


@dataclass(frozen=True, slots=True)
class NoisePair:
    """Holds one fresh pair of workers."""

    seed: int
    change: TimeChange
    """Of the clock that decides."""
    clock: str
    step: TimeChange
    device: TimeChange | None
    """The device's own time, where a CUDA graph told it."""
    stopped: str
    seconds: float
    """Spent measuring."""
    measurement: str
    """Its raw values are in ``.perfcli/timings/``, in a file of this name."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class PairSeries:
    """Holds all pairs that were asked for, one after the other."""

    job: Job
    setting: Setting
    pairs: int
    planted: float
    context: Context
    preset: str | None = None
    """As typed: the request has its parameters only."""
    found: list[NoisePair] = field(default_factory=list)
    machine: Machine | None = None
    floor: Floor | None = None
    """What decided the last pair's verdict."""
    _unsure: list[bool] = field(default_factory=list)
    """Of each pair, whether it is UNSURE with the stored floor and without it."""

    @property
    def complete(self) -> bool:
        return len(self.found) == self.pairs and self.found[-1].stopped != "interrupted"

    @property
    def unsure(self) -> bool:
        """Return whether every pair is UNSURE, by every clock, and not for a stored floor alone."""
        return bool(self.found) and all(self._unsure)

    def run(self) -> None:
        """Measures; ``found`` grows with each pair, whatever happens to the next. Ctrl-C ends it
        after a pair of which something was measured. Raises what ``alternating.measure`` raises,
        and KeyboardInterrupt."""
        bench = open_bench(self.setting, [self.job] * 2, self.context.timeout)
        try:
            for number in range(self.pairs):
                self._pair(number, bench)
                if self.found[-1].stopped == "interrupted":
                    return
        finally:
            bench.close()

    def _pair(self, number: int, bench: Bench) -> None:
        setting = replace(self.setting, seed=self.setting.seed + number)
        plan = _plant(setting.plan([self.job] * 2), self.planted)
        begun = begin(plan, plan.base.compile.scenario)
        name = f"pair {number + 1} of {self.pairs}"
        with Reporter([f"{name}, base", f"{name}, head", name], self.context.notes) as progress:
            watch = Watch(begun, progress, self.context.notes)
            try:
                done = race(plan, bench, watch, self._enough, self._ready)
            except OutOfMemory as error:
                watch.end("failed")
                tip = suggest_smaller(plan.base)
                raise OutOfMemory(f"{error}; {tip}", detail=error.detail) from error
            except BaseException:
                watch.end("failed")
                raise
        watch.end(done.stopped, done.method, tuple(done.notes))
        by_graph = any(r.kind == "device" for r in done.rounds)
        of_step, of_device = (self._load_floor(clock) for clock in ("step", "device"))
        clock: DeviceClock = "graph" if by_graph else ""
        found = judge_clocks(done.rounds, setting.device, clock, (), of_step, of_device)
        found = replace(found, clocks=plan.base.clocks)
        without = judge_clocks(done.rounds, setting.device, clock, ())
        clocks = (found.step, found.device, without.step, without.device)
        self._unsure.append(all(change.verdict == "unsure" for change in clocks if change))
        self.floor = found.deciding_floor
        known = (found.deciding, found.clock, found.step, found.device, done.stopped)
        notes = (*dict.fromkeys(p.no_graph for p in done.prepared if p.no_graph), *done.notes)
        self.found.append(NoisePair(plan.seed, *known, found.seconds, begun.id, notes))

    def _ready(self, base: Prepared, head: Prepared) -> None:
        """Raise NotComparable."""
        request = self.job.request
        environments.check(base, head, (request.variant, request.variant))
        self.machine = base.machine

    def _load_floor(self, clock: str) -> tuple[float, str] | None:
        request = self.job.request
        return noise_floors.load_floor(self.machine, request.scenario, request.params, clock)

    def _enough(self, rounds: Sequence[Round], kind: RoundKind) -> str | None:
        # Not by the stored floor: a high one would end each pair early, and so stay high.
        return stopping.reason_to_stop(rounds, floors.ASSUMED[self.setting.device], kind)


def _plant(plan: PairPlan, share: float) -> PairPlan:
    """Return the plan with a head that is slower by this share, for steps alone: what single
    kernels take is not asked here."""
    base, head = replace(plan.base, pause=share), replace(plan.head, slow_down=share)
    return replace(plan, base=base, head=head, kernels=False)


def prove_floor(done: PairSeries) -> noise_floors.StoredFloor | None:
    """Return what all pairs prove together; None where they are too few, or all unsure: that is
    how little was measured, and would be the floor of every scenario on such a machine."""
    if done.unsure:
        return None
    ratios = [m.step.ratio for m in done.found if m.step.ratio is not None]
    of_device = [m.device.ratio for m in done.found if m.device and m.device.ratio is not None]
    relative = floors.bound(ratios)
    if done.machine is None or relative is None:
        return None
    request, machine = done.job.request, done.machine
    return noise_floors.StoredFloor(
        relative=relative,
        scenario=request.scenario,
        params=dict(request.params),
        variant=request.variant.name,
        pairs=tuple(_describe_pair(m) for m in done.found),
        confidence=floors.CONFIDENCE,
        budget_seconds=done.setting.budget,
        created=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        host=platform.node(),
        device=machine.device,
        torch=machine.torch,
        triton=machine.triton,
        driver=machine.driver,
        perfcli=perfcli.__version__,
        device_relative=floors.bound(of_device) if len(of_device) == len(ratios) else None,
    )


def _describe_pair(measured: NoisePair) -> noise_floors.FloorPair:
    """Return what is kept of a pair."""
    c, device = measured.step, measured.device
    ratio = device.ratio if device else None
    return noise_floors.FloorPair(c.ratio, c.low, c.high, c.verdict, c.rounds, measured.seed, ratio)


def exit_code(found: Sequence[NoisePair]) -> int:
    """Return what ``compare`` of a planted change would return: 1 where every pair is SLOWER, 3
    where the others are UNSURE, 0 where one missed it."""
    verdicts = {measured.change.verdict for measured in found}
    return 1 if verdicts == {"slower"} else 3 if verdicts <= {"slower", "unsure"} else 0
