"""Asks two workers, both warm, in turns: what drifts hits both sides alike.

A round is a turn of each side, one right after the other, in random order. Sampled like this,
differences between the sides of a round scatter symmetrically around the true one, whatever the
machine does in the meantime.

Where each side has a device of its own, they exchange them half-way: a second pair of workers, of
as many rounds as the first. What one device takes longer than the other hits the base in one half
and the head in the other, and ``stats.series`` combines them.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from perfcli.model import (
    BUDGET_SPENT,
    STEP_WAITS,
    Ask,
    Device,
    Measurement,
    MeasureRequest,
    Prepared,
    Round,
    RoundKind,
    SideName,
    Turn,
)
from perfcli.worker.roles import MeasuringWorker, Phase, StartWorker

TURN_SECONDS: dict[Device, float] = {"cpu": 0.003, "cuda": 0.010}
"""A turn's timed steps take about this long: both turns of a round see the same machine, and a
round's own cost (a warm-up step, two messages) stays small beside them. On a CPU that others use,
many short rounds know more than few long ones: in the same 15 s the interval over turns of 3 ms was
half as wide as over those of 10 ms (softmax over 4 MB, 2-core AMD EPYC, 2026-11-21)."""
RELAYOUT_SECONDS = 0.2
"""How long a layout of memory lasts. Making another one takes as long as several rounds."""
RELAYOUT_TIMES = 4
"""How many times as long as it took to make a layout lasts at least: 128 MiB take a while to get
other pages."""
LEAST_STEPS = 3
MOST_STEPS = 1000
SLOW_STEP_SECONDS = 1.0
"""A step from which one alone is a turn, without warming up: nothing of it is in a cache."""
PROFILED_SHARE = 0.25
"""The share of the time spent on rounds with the profiler attached, for the times of single
kernels."""
PROFILED_BESIDE = 0.1
"""The same where the device's own time is told by CUDA graphs: then single kernels explain it, and
no longer tell it."""
PROFILED_STEPS = 3
LONG_STEP_SECONDS = 0.01
"""A step from which one is profiled per turn: single kernels need 8 rounds for a verdict."""
MOST_REPLAYS = 100
"""Of a CUDA graph in a turn: the host is ahead of all of them."""
SECOND_SHARE = 0.15
"""The share of the time that the clock which does not come first has at least, until it is precise
enough: both see the machine over the whole measurement."""


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Describes a measurement. ``base`` and ``head`` differ in their variant, side, and device at
    most."""

    base: MeasureRequest
    head: MeasureRequest
    budget_seconds: float
    seed: int
    kernels: bool = True
    """Whether to profile single kernels as well."""
    exchanges: bool = False
    """Whether the sides exchange the devices or cores that their requests name, half-way."""


def ask_for(kind: RoundKind, step_seconds: float, device: Device) -> Ask:
    """Return how many steps a turn has, from what one takes."""
    warmup = 0 if step_seconds >= SLOW_STEP_SECONDS else 1
    if step_seconds >= SLOW_STEP_SECONDS:
        return Ask(kind, 1, warmup)
    if kind == "device":
        # Nothing but the device has a part in it: one replay knows as much as the median of three.
        # One that takes a whole turn finds its caches cold for a thousandth of it; without another
        # one before it, both sides see the same clock.
        replays = round(TURN_SECONDS[device] / max(step_seconds, 1e-9))
        warmup = 0 if step_seconds >= LONG_STEP_SECONDS else 1
        return Ask(kind, min(max(replays, 1), MOST_REPLAYS), warmup)
    if kind == "kernels":
        return Ask(kind, 1 if step_seconds >= LONG_STEP_SECONDS else PROFILED_STEPS, warmup)
    fitting = round(TURN_SECONDS[device] / max(step_seconds, 1e-9))
    return Ask(kind, min(max(fitting, LEAST_STEPS), MOST_STEPS), warmup)


BURN_IN_ROUNDS = 2
"""Measured and thrown away: the first turns still wake caches and clocks up."""
SIDES: tuple[SideName, SideName] = ("base", "head")

Enough = Callable[[Sequence[Round], RoundKind], "str | None"]
"""Says why no more rounds of a kind are needed, from all measured so far; None: go on."""
Told = Callable[[SideName, Phase], None]
Ready = Callable[[Prepared, Prepared], None]
"""May raise where the two must not be measured against each other."""
Clock = Callable[[], float]
"""Seconds, as ``time.monotonic``."""


class Sink(Protocol):
    """Is told of everything as soon as it is there."""

    def prepared(self, prepared: Prepared) -> None: ...

    def round(self, measured: Round, elapsed: float) -> None:
        """Take one round. ``elapsed``: seconds since this pair of processes began to be
        measured."""
        ...


def order_clocks(plan: PairPlan, prepared: Sequence[Prepared]) -> tuple[RoundKind, ...]:
    """Return the kinds of rounds whose times are judged, the one that is asked first. The device's
    own time comes first, because no change of a kernel escapes it; by a CUDA graph if both sides
    have one, else by the profiler."""
    asked, known = plan.base.clocks, {each.device_clock for each in prepared}
    if asked == "step" or "" in known or not prepared:
        return ("step",)
    if known == {"graph"}:
        return ("device", "step")
    return ("kernels", "step") if plan.kernels else ("step",)


def name_reason(reasons: Sequence[str]) -> str:
    """Return why a measurement ends whose clocks are settled for these reasons: the weakest."""
    return STEP_WAITS if STEP_WAITS in reasons else reasons[0]


@dataclass(slots=True)
class MeasuredPair:
    """Holds what came of a measurement."""

    prepared: list[Prepared] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    stopped: str = ""
    method: str = "a pair of workers, interleaved"
    notes: list[str] = field(default_factory=list)

    def fill(self, opening: Measurement) -> Measurement:
        """Return a measurement that has just begun with all that came of it."""
        return replace(
            opening,
            method=self.method,
            prepared=tuple(replace(each, phases=(), code=None) for each in self.prepared),
            rounds=tuple(self.rounds),
            stopped=self.stopped,
            notes=tuple(self.notes),
        )


class Race:
    """Measures one plan."""

    def __init__(
        self,
        plan: PairPlan,
        start: StartWorker,
        enough: Enough,
        sink: Sink,
        told: Told = lambda side, phase: None,
        ready: Ready = lambda base, head: None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.plan = plan
        self.measured = MeasuredPair()
        self._start = start
        self._enough = enough
        self._sink = sink
        self._told = told
        self._ready = ready
        self._clock = clock
        self._order = random.Random(plan.seed)
        self._began = clock()
        self._spent: defaultdict[RoundKind, float] = defaultdict(float)
        self._settled: dict[RoundKind, str] = {}
        self._clocks: tuple[RoundKind, ...] = ("step",)
        self._relayout_at = 0.0
        self._step_seconds = 0.0
        self._device_seconds = 0.0
        self._half: Literal[0, 1, 2] = 1 if plan.exchanges else 0

    def run(self) -> MeasuredPair:
        """Measure until it is enough, the budget is spent, or somebody interrupts. Raises what a
        worker raises while it gets ready (``ready`` may raise as well), and WorkerFailed where one
        dies while it measures; what the sink was told before stays good."""
        try:
            self._pair(process=0)
            if self._half:
                self._half = 2
                self._pair(process=1)
        except KeyboardInterrupt:
            if not self.measured.rounds:
                raise
            self.measured.stopped = "interrupted"
        return self.measured

    # --- a pair of processes ---------------------------------------------------------------

    def _pair(self, process: int) -> None:
        workers: dict[SideName, MeasuringWorker] = {}
        try:
            prepared = self._prepared(workers, process)
            self._ready(prepared["base"], prepared["head"])
            self._rounds(workers, prepared, process)
        finally:
            for worker in workers.values():
                worker.close()

    def _started(self, side: SideName) -> MeasuringWorker:
        return self._start(self._request(side), lambda phase: self._told(side, phase))

    def _request(self, side: SideName) -> MeasureRequest:
        base, head = self.plan.base, self.plan.head
        ours, theirs = (base, head) if side == "base" else (head, base)
        if self._half < 2:
            return ours
        # Outputs are those of the first pair, which were checked.
        return replace(ours, device_index=theirs.device_index, cpus=theirs.cpus, check=False)

    def _prepared(
        self, workers: dict[SideName, MeasuringWorker], process: int
    ) -> dict[SideName, Prepared]:
        """Return both workers warm. They get ready at the same time; on a GPU one at a time times
        anything (``measure.turnstile``). Groups of ranks, which have several devices each, get
        ready one after the other."""
        found: dict[SideName, Prepared] = {}
        several = self.plan.base.compile.world > 1
        for side in SIDES if not several else ():
            workers[side] = self._started(side)
        for side in SIDES:
            if several:
                workers[side] = self._started(side)
            found[side] = replace(workers[side].prepare(), process=process)
        for side in SIDES:
            self.measured.prepared.append(found[side])
            self._sink.prepared(found[side])
        return found

    def _rounds(
        self,
        workers: dict[SideName, MeasuringWorker],
        prepared: dict[SideName, Prepared],
        process: int,
    ) -> None:
        self._step_seconds = max(p.step_seconds for p in prepared.values())
        self._device_seconds = max(p.device_seconds or 0.0 for p in prepared.values())
        self._clocks = order_clocks(self.plan, list(prepared.values()))
        for _ in range(BURN_IN_ROUNDS):
            self._round("step", workers, process)
        measured = max((r.at + r.took for r in self.measured.rounds), default=0.0)
        self._began = self._clock() - measured
        self._settled.clear()
        budget = self.plan.budget_seconds / (2 if self._half == 1 else 1)
        while True:
            elapsed = self._clock() - self._began
            if elapsed >= budget and self._has_step(process):
                self.measured.stopped = BUDGET_SPENT
                return
            kind = self._next_kind(elapsed, process)
            done = self._round(kind, workers, process)
            took = self._clock() - self._began - elapsed
            self._spent[kind] += took
            self.measured.rounds.append(done)
            self._sink.round(done, elapsed + took)
            if self._is_enough(kind):
                self.measured.stopped = name_reason(list(self._settled.values()))
                return

    def _is_enough(self, kind: RoundKind) -> bool:
        """Return whether every clock that is asked for is settled, after a round of this kind."""
        asked = kind in self._clocks and kind not in self._settled
        if asked and (reason := self._reason_to_stop(kind)):
            self._settled[kind] = reason
        wanted = self._clocks[:1] if self.plan.base.clocks == "device" else self._clocks
        return all(each in self._settled for each in wanted)

    def _reason_to_stop(self, kind: RoundKind) -> str | None:
        """Return why a clock needs no more rounds, or None. In the second half it has as many as in
        the first, each of which gets its partner."""
        rounds = self.measured.rounds
        if self._half == 2:
            of_kind = Counter(r.half for r in rounds if r.kind == kind)
            return self.measured.stopped if of_kind[2] >= of_kind[1] else None
        return self._enough([replace(r, half=0) for r in rounds] if self._half else rounds, kind)

    def _has_step(self, process: int) -> bool:
        return any(r.kind == "step" and r.process == process for r in self.measured.rounds)

    def _next_kind(self, elapsed: float, process: int) -> RoundKind:
        """Return the kind of the next round. The budget goes to the first clock that is not settled
        yet; the other has its share meanwhile, and the profiler, where single kernels are asked
        for, has one to the end."""
        if not self._has_step(process):
            return "step"
        profiled = PROFILED_BESIDE if "device" in self._clocks else PROFILED_SHARE
        if self.plan.kernels and self._spent["kernels"] <= profiled * elapsed:
            return "kernels"
        left = [kind for kind in self._clocks if kind not in self._settled]
        for kind in left[1:]:
            if self._spent[kind] <= SECOND_SHARE * elapsed:
                return kind
        return left[0] if left else "step"

    def _round(
        self, kind: RoundKind, workers: dict[SideName, MeasuringWorker], process: int
    ) -> Round:
        first = self._order.choice(SIDES)
        at = self._clock() - self._began
        seconds = self._device_seconds if kind == "device" else self._step_seconds
        ask = ask_for(kind, seconds, self.plan.base.compile.device)
        ask = replace(ask, relayout=self._clock() >= self._relayout_at)
        turns: dict[SideName, Turn] = {}
        for side in (first, "head" if first == "base" else "base"):
            turns[side] = workers[side].turn(ask)
        number = len(self.measured.rounds)
        took = self._clock() - self._began - at
        if ask.relayout:
            self._keep_layout(ask, took)
        sides = turns["base"], turns["head"]
        return Round(number, process, kind, first, at, *sides, took, self._half)

    def _keep_layout(self, ask: Ask, took: float) -> None:
        """Set when the next layout is due, from how much longer the round with this one took."""
        more = took - len(SIDES) * (ask.steps + ask.warmup) * self._step_seconds
        self._relayout_at = self._clock() + max(RELAYOUT_SECONDS, RELAYOUT_TIMES * more)
