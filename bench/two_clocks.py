"""What two clocks find within a budget, simulated: the device's own time beside the step's.

    python bench/two_clocks.py [--repetitions N] [--budget SECONDS] [--only NAME …] [--jobs N]
                               [--out FILE]

Made-up workers take made-up times, on a clock of their own, with noise as it was seen on an H200
(docs/noise.md) or worse; how rounds are chosen, when measuring stops, intervals and verdicts are
the very code that ``compare`` runs: ``interleave.pair``, ``stats.stopping``, ``stats.timing``.
What stands in for the device is only here.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcli.interleave.pair import PairPlan, Race
from perfcli.model import (
    Ask,
    CompileRequest,
    Machine,
    MeasureRequest,
    Prepared,
    Round,
    RoundKind,
    Turn,
    Variant,
)
from perfcli.stats import floor, stopping
from perfcli.stats.timing import judge_clocks
from perfcli.workflow.request import build_request

MESSAGE_SECONDS = 0.002
"""A turn's own cost: two messages, garbage, and waking up."""
PROFILER_SECONDS = 0.03
PLANTED = (0.0, 0.01, 0.03)


@dataclass(frozen=True, slots=True)
class Noise:
    """Describes how times scatter, as standard deviations of their logarithms."""

    own: float
    """Each step's."""
    shared: float = 0.0
    """What both sides see, while it lasts: clocks under a power limit, heat."""
    lasts: float = 0.05
    """Seconds."""
    process: float = 0.0
    """What two processes differ by for as long as they live."""
    alone: float = 0.0
    """What one process has and the other has not, for a second."""
    outliers: float = 0.0
    """Share of the steps that take 1.2 to 3 times as long."""
    bursts: float = 0.0
    """By how much another program, which comes and goes every few seconds, slows both down."""


@dataclass(frozen=True, slots=True)
class Case:
    """Describes a model: the device's seconds for a step, the host's, and how both scatter."""

    device: float
    host: float
    device_noise: Noise
    host_noise: Noise = Noise(0.02, outliers=0.02)


CASES: dict[str, Case] = {
    "one kernel, 0.56 ms": Case(0.56e-3, 0.1e-3, Noise(0.001, process=0.0003)),
    "a block, 4.3 ms": Case(4.3e-3, 2e-3, Noise(0.003, shared=0.004, process=0.0005)),
    "at the power limit, 23.5 ms": Case(
        23.5e-3, 9e-3, Noise(0.01, shared=0.016, lasts=0.06, process=0.001)
    ),
    "a shared GPU, 4.3 ms": Case(
        4.3e-3, 2e-3, Noise(0.01, shared=0.01, process=0.0005, bursts=0.35)
    ),
    "a GNN, 0.6 of 1.5 ms": Case(
        0.6e-3, 1.5e-3, Noise(0.002, process=0.0005), Noise(0.06, alone=0.03, process=0.01)
    ),
    "two layers, 2.1 of 5.4 ms": Case(
        2.1e-3, 5.4e-3, Noise(0.003, shared=0.004, process=0.0005),
        Noise(0.08, alone=0.10, process=0.01, outliers=0.05),
    ),
    "a tiny step, 40 µs of 0.3 ms": Case(
        40e-6, 0.3e-3, Noise(0.01, process=0.001), Noise(0.05, alone=0.02, process=0.01)
    ),
    "half waiting, 3 of 6 ms": Case(
        3e-3, 6e-3, Noise(0.003, shared=0.01, process=0.001), Noise(0.02, alone=0.01, process=0.003)
    ),
}  # fmt: skip


class Scatter:
    """Gives the factors of one noise over a clock's time."""

    def __init__(self, noise: Noise, dice: np.random.Generator, clock: Callable[[], float]) -> None:
        self.noise, self._dice, self._clock = noise, dice, clock
        self._slow = {"shared": [0.0, -1e9], "base": [0.0, -1e9], "head": [0.0, -1e9]}
        self._bias = {side: noise.process * dice.standard_normal() / math.sqrt(2) for side in SIDES}
        self._busy, self._until = False, 0.0

    def factors(self, side: str, count: int) -> Sequence[float]:
        noise = self.noise
        level = self._bias[side] + self._drift("shared", noise.shared, noise.lasts)
        level += self._drift(side, noise.alone, 1.0) + self._burst()
        own = noise.own * self._dice.standard_normal(count)
        hit = self._dice.random(count) < noise.outliers
        longer = np.where(hit, np.log(self._dice.uniform(1.2, 3, count)), 0.0)
        return [float(f) for f in np.exp(level + own + longer)]

    def _drift(self, name: str, spread: float, lasts: float) -> float:
        """Return an Ornstein–Uhlenbeck process at this moment."""
        value, then = self._slow[name]
        kept = math.exp(-(self._clock() - then) / lasts) if spread else 0.0
        value = kept * value + spread * math.sqrt(1 - kept**2) * self._dice.standard_normal()
        self._slow[name] = [value, self._clock()]
        return value

    def _burst(self) -> float:
        if self.noise.bursts and self._clock() >= self._until:
            self._busy = not self._busy
            self._until = self._clock() + self._dice.exponential(1.5)
        return self.noise.bursts * self._busy * (1 + 0.2 * self._dice.standard_normal())


SIDES = ("base", "head")


@dataclass(slots=True)
class Machinery:
    """Starts the workers of a case, and is their clock."""

    case: Case
    planted: float
    dice: np.random.Generator
    now: float = 0.0
    device: Scatter = field(init=False)
    host: Scatter = field(init=False)

    def __post_init__(self) -> None:
        self.device = Scatter(self.case.device_noise, self.dice, self.clock)
        self.host = Scatter(self.case.host_noise, self.dice, self.clock)

    def clock(self) -> float:
        return self.now

    def start(self, request: MeasureRequest, told: Any) -> Worker:
        return Worker(self, request.side)


@dataclass(slots=True)
class Worker:
    place: Machinery
    side: str

    def prepare(self) -> Prepared:
        case = self.place.case
        return Prepared(
            side=self.side,  # type: ignore[arg-type]
            process=0,
            machine=Machine("made up", "2.11.0"),
            step_seconds=max(case.device, case.host),
            compile_seconds=0.0,
            device_clock="graph",
            device_seconds=case.device,
        )

    def turn(self, ask: Ask) -> Turn:
        place, count = self.place, ask.steps + ask.warmup
        taken = self._seconds(ask.kind, count)
        place.now += MESSAGE_SECONDS + sum(taken)
        if ask.kind == "kernels":
            place.now += PROFILER_SECONDS
            return Turn((), launches=tuple((seconds,) for seconds in taken[ask.warmup :]))
        return Turn(tuple(taken[ask.warmup :]))

    def _seconds(self, kind: RoundKind, count: int) -> list[float]:
        case, place = self.place.case, self.place
        more = 1 + place.planted * (self.side == "head")
        busy = [case.device * more * f for f in place.device.factors(self.side, count)]
        if kind != "step":
            return busy
        hosts = (case.host * f for f in place.host.factors(self.side, count))
        return [max(device, host) for device, host in zip(busy, hosts, strict=True)]

    def close(self) -> None:
        pass


class Nobody:
    """Is told of everything, and keeps nothing."""

    def prepared(self, prepared: Prepared) -> None: ...

    def round(self, measured: Round, elapsed: float) -> None: ...


@functools.cache
def _request() -> CompileRequest:
    """Return the request of a step that nobody compiles here."""
    return build_request("softmax", Variant("default"), device="cuda", jobs=1)


def measure_pair(case: Case, planted: float, budget: float, seed: int) -> dict[str, Any]:
    """Measure one pair, and return what came of it."""
    place = Machinery(case, planted, np.random.default_rng(seed))
    base = MeasureRequest(_request(), "base", seed)
    plan = PairPlan(base, replace(base, side="head"), budget, seed)
    inside = floor.find_floor("cuda", ()).inside

    def enough(rounds: Sequence[Round], kind: RoundKind) -> str | None:
        return stopping.reason_to_stop(rounds, inside, kind)

    done = Race(plan, place.start, enough, Nobody(), clock=place.clock).run()
    timing = judge_clocks(done.rounds, "cuda", "graph")
    device = timing.device
    assert device is not None
    return {
        "device": device.verdict,
        "step": timing.step.verdict,
        "verdict": timing.deciding.verdict,
        "clock": timing.clock,
        "seconds": timing.seconds,
        "error": abs((device.ratio or 9.0) / (1 + planted) - 1),
        "half_width": ((device.high or 9.0) - (device.low or 0.0)) / 2,
    }


def measure_case(name: str, planted: float, budget: float, repetitions: int) -> dict[str, Any]:
    """Measure many pairs of a case; shares are parts of 1."""
    seeds = np.random.SeedSequence([list(CASES).index(name), int(planted * 1000)])
    pairs = [
        measure_pair(CASES[name], planted, budget, int(seed))
        for seed in seeds.generate_state(repetitions)
    ]

    def share(what: str) -> dict[str, float]:
        counted = Counter(pair[what] for pair in pairs)
        return {word: counted[word] / len(pairs) for word in ("slower", "faster", "same", "unsure")}

    seconds = sorted(pair["seconds"] for pair in pairs)
    return {
        "case": name,
        "planted": planted,
        "device": share("device"),
        "step": share("step"),
        "verdict": share("verdict"),
        "by device": sum(pair["clock"] == "device" for pair in pairs) / len(pairs),
        "seconds, median": statistics.median(seconds),
        "seconds, 90th percentile": seconds[int(0.9 * len(seconds))],
        "error, 95th percentile": float(np.percentile([p["error"] for p in pairs], 95)),
        "half width, median": statistics.median(pair["half_width"] for pair in pairs),
    }


def write_table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, in percent of the pairs."""
    heads = ["model", "planted", "device: SLOWER", "SAME", "UNSURE", "FASTER", "step: UNSURE"]
    heads += ["verdict: SLOWER", "SAME", "UNSURE", "FASTER", "seconds", "±"]
    yield f"| {' | '.join(heads)} |"
    yield "| --- " * len(heads) + "|"
    for each in found:
        words = ("slower", "same", "unsure", "faster")
        cells = [each["case"], f"+{each['planted'] * 100:g} %" if each["planted"] else ""]
        cells += [f"{each['device'][word] * 100:.3g}" for word in words]
        cells += [f"{each['step']['unsure'] * 100:.3g}"]
        cells += [f"{each['verdict'][word] * 100:.3g}" for word in words]
        cells += [f"{each['seconds, median']:.1f}", f"{each['half width, median'] * 100:.2g} %"]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--only", choices=list(CASES), action="append")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.jobs) as pool:
        started = [
            pool.submit(measure_case, name, planted, asked.budget, asked.repetitions)
            for name in asked.only or CASES
            for planted in PLANTED
        ]
        found = [each.result() for each in started]
    print("\n".join(write_table(found)))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
