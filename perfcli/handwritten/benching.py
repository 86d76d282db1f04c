"""Times problems of a family against everything else that computes them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.handwritten import describing
from perfcli.handwritten.checking import first_line
from perfcli.handwritten.comparing import compare_outputs
from perfcli.handwritten.contenders import COPY, Launch, Workbench, launch_of
from perfcli.loading import registry
from perfcli.model import KernelFamily, Machine
from perfcli.model.kernel_work import BenchAsk, Benched, BenchRequest, OutputError, TimedContender


class _Clock(Protocol):
    """Times launches. There are two implementations: ``device_clock.DeviceClock``, and one for
    tests."""

    def seconds(self, name: str, launch: Launch) -> float:
        """Return what one launch takes on the device, with nothing of it in L2 before."""
        ...

    def now(self) -> float:
        """Return seconds on the host, from wherever."""
        ...


LEAST_ROUNDS = 8
"""The fewest rounds: with fewer the interval of a median reaches from the smallest to the largest
value at 99 %."""


def time_rounds(
    contenders: Mapping[str, Launch], clock: _Clock, rounds: int, budget_seconds: float, seed: int
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Return each contender's seconds, round by round, and why some were dropped: a contender that
    raises is out from then on, without its values. Ends after ``rounds``, or when the budget is
    spent and eight are there."""
    draw = random.Random(seed)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    errors: dict[str, str] = {}
    started = clock.now()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and clock.now() - started > budget_seconds:
            break
        order = [name for name in contenders if name not in errors]
        draw.shuffle(order)
        for name in order:
            try:
                taken[name].append(clock.seconds(name, contenders[name]))
            except Exception as error:
                errors[name] = first_line(error)
    return {n: tuple(v) for n, v in taken.items() if n not in errors}, errors


Told = Callable[[str], None]


class _Bench:
    """Times the problems that it is asked for, on ``device``, by ``clock``."""

    def __init__(self, request: BenchRequest, clock: _Clock, machine: Machine, device: str) -> None:
        self._family: KernelFamily = registry.family(request.family)
        self._code = describing.load_code(self._family.code, request.family)
        self._seed = request.seed
        self._clock = clock
        self._machine = machine
        self._device = device

    def bench(self, ask: BenchAsk, told: Told) -> Benched:
        """Get every contender ready, hold it against the reference, then time all in rounds.
        ``told`` hears who is being made ready. A contender that fails is not timed; one that takes
        the device with it ends the rest."""
        self._free_memory()
        tensors = self._code.inputs(ask.problem, self._device, self._seed)
        bench = Workbench(ask.problem, self._code, tensors, self._device)
        ready: dict[str, Launch] = {}
        found: dict[str, TimedContender] = {}
        reference = _try(lambda: self._code.reference(ask.problem, tensors))
        for contender in ask.contenders:
            told(contender.name)
            started = time.monotonic()
            try:
                launch = launch_of(contender, bench, ask)
                outputs = launch()
                self._wait()
                launch()  # what the first one tuned or specialised is settled now
                self._wait()
            except Exception as error:
                # Ours and not others': a missing peer or a refused plan is told in its own words.
                why = str(error) if isinstance(error, PerfcliError) else first_line(error)
                found[contender.name] = TimedContender(contender.name, error=why)
                if not self._usable():
                    return self._benched(ask, found, lost=True)
                continue
            timed = TimedContender(
                contender.name, ready_seconds=round(time.monotonic() - started, 3)
            )
            if contender.name != COPY:
                timed = self._judged(timed, ask, outputs, reference)
            ready[contender.name], found[contender.name] = launch, timed
            del outputs
        del reference
        told("")
        seconds, errors = time_rounds(
            ready, self._clock, ask.rounds, ask.budget_seconds, self._seed
        )
        for name, values in seconds.items():
            found[name] = replace(found[name], seconds=values)
        for name, why in errors.items():
            found[name] = replace(found[name], error=why)
        return self._benched(ask, found, lost=bool(errors) and not self._usable())

    def _judged(
        self, timed: TimedContender, ask: BenchAsk, outputs: Any, reference: Any
    ) -> TimedContender:
        """Return the contender with its largest difference from the reference, where that is
        known."""
        if not reference:
            return timed
        named = outputs if isinstance(outputs, Mapping) else _name_outputs(outputs, reference)
        expected = {name: value for name, value in reference.items() if name in named}
        errors = _try(
            lambda: compare_outputs(named, expected, self._family.tolerances(ask.problem))
        )
        if not errors:
            return timed
        worst = max(errors, key=lambda e: (not e.is_right, e.error or 0.0))
        wrong = "" if worst.is_right else _describe_outside(worst.name, worst)
        return replace(timed, largest_error=worst.error, wrong=wrong)

    def _benched(
        self, ask: BenchAsk, found: Mapping[str, TimedContender], *, lost: bool
    ) -> Benched:
        rounds = max((len(timed.seconds) for timed in found.values()), default=0)
        timed = tuple(found.values())
        return Benched(ask.problem, ask.moved_bytes, timed, self._machine, rounds, lost)

    def _wait(self) -> None:
        import torch

        if self._device == "cuda":
            torch.cuda.synchronize()

    def _free_memory(self) -> None:
        """Free the memory of the problem before, whose blocks have other sizes."""
        import torch

        if self._device == "cuda":
            torch.cuda.empty_cache()

    def _usable(self) -> bool:
        try:
            self._wait()
        except RuntimeError:
            return False
        return True


def prepare_bench(request: BenchRequest) -> _Bench:
    """Return a bench on the current CUDA device."""
    from perfcli.handwritten.device_clock import DeviceClock
    from perfcli.measure import machine

    return _Bench(request, DeviceClock(), machine.describe("cuda", flush_l2=True), "cuda")


def _name_outputs(outputs: Any, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Return a peer's outputs by the reference's names, in order."""
    values = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return dict(zip(reference, values, strict=False))


def _describe_outside(name: str, error: OutputError) -> str:
    if error.problem:
        return f"{name} {error.problem}"
    places = f"{error.wrong:,} of {units.plural(error.elements, 'element')} of {name}"
    if error.error is None or error.allowed is None:
        return f"outside tolerance in {places}; the worst is {error.value}, not {error.expected}"
    return (
        f"outside tolerance in {places}; the worst is off by {error.error:.3g} where "
        f"{error.allowed:.3g} is allowed"
    )


def _try(work: Callable[[], Any]) -> Any:
    """Return the result of the work, or None where memory is too small for a reference in float64:
    times are good without."""
    try:
        return work()
    except RuntimeError:
        return None
