"""Has generated kernels of the corpus compiled, counted and timed, and library operators timed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import msgspec

from perfcli import units
from perfcli.calibrate.finished import append_finished, find_finished, read_finished
from perfcli.console.notes import Notes
from perfcli.errors import WorkerFailed
from perfcli.facts.work import COUNTING
from perfcli.machine.environment import Interpreter
from perfcli.model import LaunchWork, Target
from perfcli.model.kernel_work import (
    OPERATOR_BATCH,
    ColdAndHot,
    CorpusCase,
    CorpusCode,
    CorpusRequest,
    OperatorCase,
    OperatorsRequest,
    TimedOperator,
)
from perfcli.worker import kernels

_FILE = "_corpus.py"
"""The kernels, in ``kernels/``."""

_Report = Callable[[str, int, int], None]
"""Hears what is being done, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class _TimedCase:
    """Holds one case with what it asks of the device, and its times."""

    case: CorpusCase
    registers: int
    stack_bytes: int
    shared_bytes: int
    work: LaunchWork
    times: ColdAndHot


def _time_cases(
    cases: Sequence[CorpusCase],
    target: Target,
    interpreter: Interpreter,
    jobs: int,
    report: _Report,
) -> tuple[list[_TimedCase], int]:
    """Return every case with its times, those of an earlier try included, and how many cases were
    left out because their work could not be counted. A case that can't be compiled is left out,
    too. Raises PerfcliError where the file with finished cases can't be written, or the worker
    failed."""
    path = _find_times(target, interpreter)
    finished = {_name(each.case): each for each in read_finished(path, _TimedCase)}
    left = tuple(case for case in cases if _name(case) not in finished)
    uncounted = 0
    if left:
        with _start_pool(jobs) as pool:
            for timed in _time(CorpusRequest(left, target, jobs), interpreter, pool, report):
                if timed is None:
                    uncounted += 1
                    continue
                finished[_name(timed.case)] = timed
                append_finished(path, timed)
    return [finished[name] for case in cases if (name := _name(case)) in finished], uncounted


def _start_pool(jobs: int) -> Executor:
    """Return processes that count work while the worker compiles and times."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, initializer=_start_process)


def _start_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    os.environ["OMP_NUM_THREADS"] = "1"  # there are as many processes as cores


def _find_times(target: Target, interpreter: Interpreter) -> Path:
    """Return the file that keeps the times of finished cases."""
    text = (files("perfcli.kernels") / _FILE).read_text(encoding="utf-8")
    return find_finished("kernels", target, interpreter, COUNTING, text)


_Counting = dict[int, tuple[CorpusCode, "Future[LaunchWork | None]"]]


def _time(
    request: CorpusRequest, interpreter: Interpreter, pool: Executor, report: _Report
) -> Iterator[_TimedCase | None]:
    """Yield each case that was timed; None where its work could not be counted."""
    counting: _Counting = {}
    compiled = timed = 0
    for found in kernels.time_corpus(request, interpreter.path):
        if isinstance(found, CorpusCode):
            for number in found.cases:
                future = pool.submit(_count, found.ttgir, found.sass, request.cases[number])
                counting[number] = found, future
            compiled += len(found.cases)
            report("compiling kernels", compiled, len(request.cases))
            continue
        number, times = found
        timed += 1
        report("timing kernels", timed, compiled)
        code, future = counting.pop(number)
        work, case = future.result(), request.cases[number]
        sizes = code.registers, code.stack_bytes, code.shared_bytes
        yield None if work is None else _TimedCase(case, *sizes, work, times)


def _count(ttgir: str, sass: str, case: CorpusCase) -> LaunchWork | None:
    """Return what a launch asks for; None where its index arithmetic can't be run."""
    from perfcli.facts.binary.sass import parse_annotated
    from perfcli.facts.work.launch_work import work_of
    from perfcli.facts.work.ttgir import UnreadableTtgir, parse_module

    try:
        return work_of(parse_module(ttgir), parse_annotated(sass), _FILE, case.grid, case.scalars)
    except (UnreadableTtgir, LookupError, ValueError):
        return None


def _name(case: CorpusCase | OperatorCase) -> str:
    return msgspec.json.encode(case, order="sorted").decode()


# --- library operators -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OperatorTimes:
    """Holds the calls of one case, or what the host needs of calls, in microseconds by kind."""

    case: OperatorCase | None
    timed: tuple[TimedOperator, ...] = ()
    host: Mapping[str, float] = field(default_factory=dict)


_TRIES = 4
"""Workers that may die before the calls that are left are given up."""


def _time_operators(
    cases: Sequence[OperatorCase],
    target: Target,
    interpreter: Interpreter,
    notes: Notes,
    report: _Report,
) -> tuple[list[TimedOperator], Mapping[str, float]]:
    """Return the calls of all cases with their times, those of an earlier try included, and what
    the host needs of calls. What a worker dies of is left out. Raises PerfcliError where the file
    with finished cases can't be written."""
    path = find_finished("operators", target, interpreter, COUNTING)
    finished: dict[str, _OperatorTimes] = {}
    host: Mapping[str, float] = {}
    for known in read_finished(path, _OperatorTimes):
        if known.case is None:
            host = known.host
        else:
            finished[_name(known.case)] = known
    left = [case for case in cases if _name(case) not in finished]
    for _ in range(_TRIES if left else 0):
        asked = tuple(left)
        try:
            for found in kernels.time_operators(OperatorsRequest(asked), interpreter.path):
                if isinstance(found, dict):
                    host, made = found, _OperatorTimes(None, host=found)
                else:
                    number, timed = found
                    made = _OperatorTimes(asked[number], timed)
                    left.remove(asked[number])
                    finished[_name(asked[number])] = made
                    report("timing library operators", len(finished), len(cases))
                append_finished(path, made)
        except WorkerFailed as error:
            notes.warn(f"calls of library operators are left out: {error}")
            left = left[OPERATOR_BATCH:]  # it died of one of these
            continue
        break
    known_cases = [finished[name] for case in cases if (name := _name(case)) in finished]
    if refused := len(cases) - sum(bool(each.timed) for each in known_cases):
        notes.say(
            f"{units.plural(refused, 'call')} of library operators left out: the library does not "
            "take them, or their times were lost"
        )
    return [timed for each in known_cases for timed in each.timed], host
