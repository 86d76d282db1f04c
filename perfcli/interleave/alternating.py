"""Measures both sides where they do not fit into memory at once: a fresh process for each side and
round, one after the other. That is slower, and noisier: what differs from process to process is in
it."""

from __future__ import annotations

import time
from dataclasses import replace

from perfcli.errors import OutOfMemory
from perfcli.interleave.pair import (
    SIDES,
    Clock,
    Enough,
    MeasuredPair,
    PairPlan,
    Race,
    Ready,
    Sink,
    Told,
    ask_for,
    name_reason,
    order_clocks,
)
from perfcli.model import BUDGET_SPENT, Prepared, Round, RoundKind, SideName, Turn
from perfcli.worker.roles import StartWorker

METHOD = "alternating fresh processes"
TURNS = 5
"""Turns' worth of steps that a process gives before it ends: starting it took far longer."""


def measure(
    plan: PairPlan,
    start: StartWorker,
    enough: Enough,
    sink: Sink,
    told: Told = lambda side, phase: None,
    ready: Ready = lambda base, head: None,
    clock: Clock = time.monotonic,
) -> MeasuredPair:
    """Measure with a race of two workers; where one of them runs out of memory beside the other,
    close both and let the sides alternate. Raises as ``Race.run``; OutOfMemory where a side has not
    enough memory though it is alone."""
    race = Race(plan, start, enough, sink, told, ready, clock)
    try:
        return race.run()
    except OutOfMemory as error:
        if plan.exchanges:  # each side was alone on its device
            raise
        race.measured.notes.append(
            f"both sides at once do not fit into memory ({error}): each round has a fresh process "
            "for each side, which takes longer and scatters more"
        )
    rest = _Alternation(plan, start, enough, sink, told, ready, clock)
    rest.measured = race.measured
    rest.measured.method = METHOD
    return rest.run()


class _Alternation(Race):
    """Goes on where a race ended: rounds that it measured stay."""

    def run(self) -> MeasuredPair:
        """Measure until it is enough, the budget is spent (starting processes counts), or somebody
        interrupts; at least one round."""
        process = max((p.process for p in self.measured.prepared), default=-1) + 1
        try:
            while not self.measured.stopped:
                self._process(process)
                process += 1
                self.measured.stopped = self._reason()
        except KeyboardInterrupt:
            if not self.measured.rounds:
                raise
            self.measured.stopped = "interrupted"
        return self.measured

    def _reason(self) -> str:
        clocks = order_clocks(self.plan, self.measured.prepared[-len(SIDES) :])
        wanted = clocks[:1] if self.plan.base.clocks == "device" else clocks
        reasons = [self._enough(self.measured.rounds, kind) or "" for kind in wanted]
        if all(reasons):
            return name_reason(reasons)
        spent = self._clock() - self._began >= self.plan.budget_seconds
        return BUDGET_SPENT if spent else ""

    def _process(self, process: int) -> None:
        """Measure a round of steps, and one of kernels, with the same two processes."""
        first = self._order.choice(SIDES)
        prepared: dict[SideName, Prepared] = {}
        turns: dict[SideName, dict[RoundKind, Turn]] = {}
        for side in (first, "head" if first == "base" else "base"):
            prepared[side], turns[side] = self._alone(side, process)
        self._ready(prepared["base"], prepared["head"])
        for side in SIDES:
            self.measured.prepared.append(prepared[side])
            self._sink.prepared(prepared[side])
        # Both processes are through: starting them is part of what a round takes.
        at = self._clock() - self._began
        for kind in (each for each in turns["base"] if each in turns["head"]):
            number = len(self.measured.rounds)
            base, head = turns["base"][kind], turns["head"][kind]
            done = Round(number, process, kind, first, at, base, head)
            self.measured.rounds.append(done)
            self._sink.round(done, self._clock() - self._began)

    def _alone(self, side: SideName, process: int) -> tuple[Prepared, dict[RoundKind, Turn]]:
        request = self.plan.base if side == "base" else self.plan.head
        # Outputs are those of the first process, which were checked.
        checked = any(p.side == side for p in self.measured.prepared)
        request = replace(request, check=request.check and not checked)
        try:
            worker = self._start(request, lambda phase: self._told(side, phase))
            try:
                prepared = replace(worker.prepare(), process=process)
                clocks = order_clocks(self.plan, [prepared])
                kinds: list[RoundKind] = ["step", "kernels"] if self.plan.kernels else ["step"]
                turns: dict[RoundKind, Turn] = {}
                for kind in [*kinds, *(each for each in clocks if each not in kinds)]:
                    seconds = prepared.device_seconds if kind == "device" else None
                    ask = ask_for(kind, seconds or prepared.step_seconds, request.compile.device)
                    steps = ask.steps if kind == "kernels" else TURNS * ask.steps
                    turns[kind] = worker.turn(replace(ask, steps=steps, warmup=max(ask.warmup, 1)))
                return prepared, turns
            finally:
                worker.close()
        except OutOfMemory as error:
            raise OutOfMemory(
                f"{error}; tried: both sides at once, then the {side} alone", detail=error.detail
            ) from error
