"""Runs all ranks of a process group as one measuring worker: a step takes as long as its slowest
rank."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.facts.collectives import is_collective_kernel
from perfcli.machine.scratch import make_scratch
from perfcli.model import Ask, MeasureRequest, Prepared, RankPlace, Turn
from perfcli.worker.roles import AheadWorker, Phase, StartAhead

T = TypeVar("T")

LAST_WORDS_SECONDS = 5.0
"""How long the other ranks have to say what happened to them once one has failed: one that lost its
neighbour may notice before anybody notices that the neighbour died."""


class RankGroup:
    """Answers as a ``roles.AheadWorker``. Rank n has the n-th GPU, or the n-th part of the
    request's cores; phases are those of rank 0."""

    def __init__(
        self, request: MeasureRequest, told: Callable[[Phase], None], start: StartAhead
    ) -> None:
        self._side = request.side
        self._folder = make_scratch("ranks-")
        self._ranks: list[AheadWorker] = []
        self._collective: list[tuple[bool, ...]] = []
        """Of each rank's launches, which are collectives."""
        world = request.compile.world
        self._pool = ThreadPoolExecutor(world)
        port, each = _find_port(), len(request.cpus) // world
        try:
            for number in range(world):
                place = RankPlace(number, str(self._folder / "store"), port)
                own = replace(request, rank=place, cpus=request.cpus[number * each :][:each])
                if request.compile.device == "cuda":
                    own = replace(own, device_index=number)
                self._ranks.append(start(own, _ignore if number else told))
        except BaseException:
            self.close()
            raise

    def is_prepared(self) -> bool:
        return all(rank.is_prepared() for rank in self._ranks)

    def prepare(self) -> Prepared:
        """Wait until all ranks are warm. Raises as the first rank that failed, and names it."""
        found = self._ask(lambda rank: rank.prepare())
        self._collective = [
            tuple(is_collective_kernel(launch.name) for launch in each.launches) for each in found
        ]
        return join_prepared(found)

    def turn(self, ask: Ask) -> Turn:
        """Time the same steps on all ranks at once. Raises as ``prepare``."""
        return join_turns(self._ask(lambda rank: rank.turn(ask)), self._collective)

    def kill(self) -> None:
        for rank in self._ranks:
            rank.kill()

    def close(self) -> None:
        self.kill()
        self._pool.shutdown()
        for rank in self._ranks:
            rank.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, question: Callable[[AheadWorker], T]) -> list[T]:
        """Return each rank's answer. Where one fails, the others wait for it in vain: all are
        ended."""
        failed: list[tuple[float, int, PerfcliError]] = []

        def ask(number: int) -> T:
            try:
                return question(self._ranks[number])
            except PerfcliError as error:
                failed.append((time.monotonic(), number, error))
                raise

        pending = [self._pool.submit(ask, number) for number in range(len(self._ranks))]
        wait(pending, return_when=FIRST_EXCEPTION)
        if not _has_failed(pending):
            return [each.result() for each in pending]
        wait(pending, LAST_WORDS_SECONDS)
        known = sorted(failed, key=lambda each: each[:2])
        self.kill()
        wait(pending)
        if not known:  # no error of ours
            return [each.result() for each in pending]
        raise self._blame([(number, error) for _, number, error in known])

    def _blame(self, known: Sequence[tuple[int, PerfcliError]]) -> PerfcliError:
        """Return the error of the rank that died, or else of the first that failed, with what is
        known of the others that have not finished: one of them may have kept all waiting."""
        number, error = next(((n, e) for n, e in known if isinstance(e, WorkerFailed)), known[0])
        worker, rank = f"the {self._side}'s worker", f"the {self._side}'s rank {number}"
        text = str(error)
        text = text.replace(worker, rank, 1) if worker in text else f"{text} (rank {number})"
        others = [
            f"rank {n}: {e.detail or e}"
            for n, e in known
            if n != number and type(e) is type(error) is WorkerFailed
        ]
        return type(error)(text, detail="\n".join([error.detail, *others]).strip())


def join_prepared(ranks: Sequence[Prepared]) -> Prepared:
    """Return what holds for all ranks: launches are those of rank 0; time, memory and errors those
    of the rank that has most."""
    first = ranks[0]
    memory = [each.memory for each in ranks if each.memory is not None]
    checks = [each.check for each in ranks if each.check is not None]
    return replace(
        first,
        step_seconds=max(each.step_seconds for each in ranks),
        compile_seconds=max(each.compile_seconds for each in ranks),
        memory=max(memory, key=lambda each: each.peak_allocated_bytes or 0, default=None),
        check=max(checks, key=lambda each: each.error or 0.0, default=None),
        notes=tuple(dict.fromkeys(note for each in ranks for note in each.notes)),
        sources=tuple(sorted({path for each in ranks for path in each.sources})),
        ranks=tuple(each.machine for each in ranks),
    )


def join_turns(ranks: Sequence[Turn], collective: Sequence[Sequence[bool]]) -> Turn:
    """Return each step as long as its slowest rank. Single launches are those of rank 0; a step is
    calm where nothing interrupted any rank. ``collective``: which launches of each rank are."""
    states = [each.state for each in ranks if each.state is not None]
    return Turn(
        _slowest([each.seconds for each in ranks]),
        _slowest([each.wall for each in ranks]),
        ranks[0].launches,
        max(states, key=lambda s: (len(s.throttle), s.others_utilisation or 0.0), default=None),
        tuple(map(sum, zip(*(each.preempted for each in ranks), strict=True))),
        tuple(each.seconds for each in ranks),
        _busy([each.launches for each in ranks], collective),
    )


def _busy(
    ranks: Sequence[Sequence[Sequence[float]]], collective: Sequence[Sequence[bool]]
) -> tuple[float, ...]:
    """Return for each profiled step how long its devices are busy with it. The profiler may lose a
    rank's step; all steps are alike."""
    return tuple(_busy_step(step, collective) for step in zip(*ranks, strict=False))


def _busy_step(ranks: Sequence[Sequence[float]], collective: Sequence[Sequence[bool]]) -> float:
    """Return how long the devices are busy with one step: with each collective as long as on the
    rank that waits least there, and with kernels as long as on the rank that waits least in all
    collectives together, which is the last to come; of several such, the one that has most.

    A kernel that runs while its rank's collective waits for another rank takes up to twice as long,
    because the collective holds multiprocessors: how long depends on how late that rank is, not on
    the code. Whoever waits least has fewest such kernels, and a rank that has more to do waits
    least, unless another one's host is late by more.
    """
    own: list[float] = []
    together: list[list[float]] = []
    for seconds, which in zip(ranks, collective, strict=True):
        pairs = list(zip(seconds, which, strict=True))
        own.append(sum(taken for taken, is_collective in pairs if not is_collective))
        together.append([taken for taken, is_collective in pairs if is_collective])
    waited = [sum(each) for each in together]
    if len({len(each) for each in together}) > 1:  # sums of unlike collectives say nothing of waits
        return max(own) + min(waited)
    least: float = sum(min(each) for each in zip(*together, strict=True))
    last = min(range(len(own)), key=lambda rank: (waited[rank], -own[rank]))
    return own[last] + least


def _slowest(ranks: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(max, zip(*ranks, strict=True)))


def _has_failed(pending: Sequence[Future[T]]) -> bool:
    return any(not each.done() or each.exception() is not None for each in pending)


def _ignore(phase: Phase) -> None:
    return None


def _find_port() -> int:
    """Return a port that nobody has at this moment, for models that open a store of their own; the
    ranks find each other by a file, which nobody can take away."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
