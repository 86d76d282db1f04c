"""What is finished is kept and not timed again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from handmade_estimate import work

from perfcli.calibrate import measuring
from perfcli.calibrate.corpus import _list_cases
from perfcli.errors import PerfcliError
from perfcli.facts.work import COUNTING
from perfcli.machine import targets
from perfcli.machine.environment import Interpreter
from perfcli.model import LaunchWork
from perfcli.model.kernel_work import ColdAndHot, CorpusCase, CorpusCode, CorpusRequest

H200 = targets.get("h200")
PYTHON = Interpreter("/x/python", "3.12.3", "2.11.0", Path("/t"), "3.6.0", None, None, "0" * 64)
CASES = _list_cases()[:6]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


class Worker:
    """Times every case in one batch of two after the other; dies after some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[CorpusRequest] = []
        self.stop_after = 99
        self.uncountable: set[int] = set()
        monkeypatch.setattr("perfcli.worker.kernels.time_corpus", self.answer)
        monkeypatch.setattr(measuring, "_start_pool", lambda jobs: ThreadPoolExecutor(1))
        monkeypatch.setattr(measuring, "_count", self.count)

    def count(self, ttgir: str, sass: str, case: CorpusCase) -> LaunchWork | None:
        return None if CASES.index(case) in self.uncountable else work()

    def answer(
        self, request: CorpusRequest, python: str
    ) -> Iterator[CorpusCode | tuple[int, ColdAndHot]]:
        self.asked.append(request)
        everything = range(len(request.cases))
        yield CorpusCode(tuple(everything), 32, 0, 0, "ttgir", "sass")
        for number in everything:
            if number == self.stop_after:
                raise KeyboardInterrupt
            yield number, ((2.0 + number,), (1.0 + number,))


def timed() -> list[measuring._TimedCase]:
    found, _ = measuring._time_cases(CASES, H200, PYTHON, 2, lambda *event: None)
    return found


def test_what_was_finished_before_an_interrupt_is_not_timed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    worker.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        timed()
    worker.stop_after = 99
    found = timed()
    assert [len(request.cases) for request in worker.asked] == [6, 2]
    assert [each.case for each in found] == list(CASES)
    assert found[3].times[0] == (5.0,)
    assert found[4].times[0] == (2.0,)  # the first of the second try
    timed()
    assert len(worker.asked) == 2


def test_a_line_that_was_broken_off_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    timed()
    path = measuring._find_times(H200, PYTHON)
    path.write_bytes(path.read_bytes()[:-30])
    assert len(timed()) == 6
    assert [len(request.cases) for request in worker.asked] == [6, 1]
    assert len(timed()) == 6
    assert len(worker.asked) == 2  # the new line stands on a line of its own


def test_another_torch_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    timed()
    other = Interpreter("/x/python", "3.12.3", "2.12.0", Path("/t"), "3.6.0", None, None, "0" * 64)
    measuring._time_cases(CASES, H200, other, 2, lambda *event: None)
    assert [len(request.cases) for request in worker.asked] == [6, 6]


def test_another_way_of_counting_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    timed()
    monkeypatch.setattr("perfcli.calibrate.measuring.COUNTING", COUNTING + 1)
    timed()
    assert [len(request.cases) for request in worker.asked] == [6, 6]


def test_progress_is_held_against_all_that_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    Worker(monkeypatch)
    events: list[tuple[str, int, int]] = []
    measuring._time_cases(CASES, H200, PYTHON, 2, lambda *event: events.append(event))
    timing = [("timing kernels", done, 6) for done in range(1, 7)]
    assert events == [("compiling kernels", 6, 6), *timing]


def test_what_can_not_be_counted_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    worker.uncountable = {1, 2}
    found, uncounted = measuring._time_cases(CASES, H200, PYTHON, 2, lambda *event: None)
    assert [each.case for each in found] == [CASES[0], *CASES[3:]]
    assert uncounted == 2


def test_a_text_that_can_not_be_read_can_not_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measuring._count("no TTGIR", "", CASES[0]) is None

    def fail(text: str) -> None:
        raise TypeError("a mistake in perfcli")

    monkeypatch.setattr("perfcli.facts.work.ttgir.parse_module", fail)
    with pytest.raises(TypeError, match="a mistake"):
        measuring._count("no TTGIR", "", CASES[0])


def test_a_file_that_can_not_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    Worker(monkeypatch)
    (cache / "cache").write_text("a file, where a folder is expected")
    with pytest.raises(PerfcliError, match="can't"):
        timed()
