"""Has the corpus timed, and keeps what is finished: a calibration that was broken off goes on.

``CACHE/calibrate/TARGET-KEY.jsonl`` has one line for each case that was timed; the key is made of
the target, torch, triton, the kernels' text and the version of counting. As everything in the cache
folder, it may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import msgspec

from perfcli.errors import PerfcliError
from perfcli.facts.work import COUNTING
from perfcli.machine.environment import Interpreter, cache_dir
from perfcli.model import LaunchWork, Target
from perfcli.model.kernel_work import ColdAndHot, CorpusCase, CorpusCode, CorpusRequest
from perfcli.storing.runfile import cannot_write
from perfcli.worker import kernels

_FORMAT = 1
"""The format of the lines."""
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
    too.

    Raises:
        PerfcliError: the file with finished cases can't be written, or the worker failed.
    """
    path = _find_finished(target, interpreter)
    finished = {_name(each.case): each for each in _read(path)}
    left = tuple(case for case in cases if _name(case) not in finished)
    uncounted = 0
    if left:
        with _start_pool(jobs) as pool:
            for timed in _time(CorpusRequest(left, target, jobs), interpreter, pool, report):
                if timed is None:
                    uncounted += 1
                    continue
                finished[_name(timed.case)] = timed
                _append(path, timed)
    return [finished[name] for case in cases if (name := _name(case)) in finished], uncounted


def _start_pool(jobs: int) -> Executor:
    """Return processes that count work while the worker compiles and times."""
    context = multiprocessing.get_context("spawn")
    ignore = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    return ProcessPoolExecutor(jobs, context, initializer=signal.signal, initargs=ignore)


def _find_finished(target: Target, interpreter: Interpreter) -> Path:
    """Return the file that keeps what is finished."""
    text = (files("perfcli.kernels") / _FILE).read_text(encoding="utf-8")
    parts = [_FORMAT, COUNTING, target.name, interpreter.torch, interpreter.triton, text]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    return cache_dir() / "calibrate" / f"{target.name}-{key}.jsonl"


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


def _name(case: CorpusCase) -> str:
    return msgspec.json.encode(case, order="sorted").decode()


def _read(path: Path) -> Iterator[_TimedCase]:
    """Yield what is finished. A line that was broken off, the last one, is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror}") from error
    decoder = msgspec.json.Decoder(_TimedCase)
    for line in lines:
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError:
            continue


def _append(path: Path, timed: _TimedCase) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            # A line that was broken off must not take this one with it.
            file.write(b"" if _ends_with_newline(path) else b"\n")
            file.write(msgspec.json.encode(timed) + b"\n")
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 1, 0))
        return file.read() in (b"", b"\n")
