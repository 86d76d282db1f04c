"""Has the corpus timed, and keeps what is finished: a calibration that was broken off goes on.

``CACHE/calibrate/TARGET-KEY.jsonl`` has one line for each case that was timed; the key is made of
the target, torch, triton and the kernels' text. As everything in the cache folder, it may be
deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perfcli.errors import PerfcliError
from perfcli.machine.environment import Interpreter, cache_dir
from perfcli.model import Target
from perfcli.model.kernel_work import CorpusCase, CorpusRequest, CorpusTimes, CorpusWork
from perfcli.storing.runfile import cannot_write
from perfcli.worker import kernels

_FORMAT = 1
_KERNELS = Path(__file__).parents[1] / "measure" / "corpus_kernels.py"


@dataclass(frozen=True, slots=True)
class TimedCase:
    """Holds one case with its work and its times."""

    case: CorpusCase
    work: CorpusWork
    times: CorpusTimes


def time_cases(
    cases: Sequence[CorpusCase],
    target: Target,
    interpreter: Interpreter,
    jobs: int,
    report: Callable[[str, int, int], None],
) -> list[TimedCase]:
    """Return every case with its times, those of an earlier try included; ``report`` hears what is
    being done, how much of it is done, and of how much. A case that can't be compiled or counted is
    left out.

    Raises:
        PerfcliError: the file with finished cases can't be written, or the worker failed.
    """
    path = find_finished(target, interpreter)
    finished = {_name(each.case): each for each in _read(path)}
    left = tuple(case for case in cases if _name(case) not in finished)
    if left:
        for timed in _time(CorpusRequest(left, target, jobs), interpreter, report):
            finished[_name(timed.case)] = timed
            _append(path, timed)
    return [finished[name] for case in cases if (name := _name(case)) in finished]


def find_finished(target: Target, interpreter: Interpreter) -> Path:
    """Return the file that keeps what is finished."""
    text = _KERNELS.read_text(encoding="utf-8")
    parts = [_FORMAT, target.name, interpreter.torch, interpreter.triton, text]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    return cache_dir() / "calibrate" / f"{target.name}-{key}.jsonl"


def _time(
    request: CorpusRequest, interpreter: Interpreter, report: Callable[[str, int, int], None]
) -> Iterator[TimedCase]:
    total = len(request.cases)
    works: dict[int, CorpusWork] = {}
    compiled = timed = 0
    for number, found in kernels.time_corpus(request, interpreter.path):
        if isinstance(found, CorpusTimes):
            timed += 1
            report("timing kernels", timed, len(works))
            yield TimedCase(request.cases[number], works[number], found)
        else:
            compiled += 1
            report("compiling kernels", compiled, total)
            if found is not None and found.work is not None:
                works[number] = found


def _name(case: CorpusCase) -> str:
    return msgspec.json.encode(case, order="sorted").decode()


def _read(path: Path) -> Iterator[TimedCase]:
    """Yield what is finished. A line that was broken off, the last one, is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror}") from error
    decoder = msgspec.json.Decoder(TimedCase)
    for line in lines:
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError:
            continue


def _append(path: Path, timed: TimedCase) -> None:
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
