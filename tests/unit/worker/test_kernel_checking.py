"""Workers that die or hang while cases are compiled ahead or run; made up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from perfcli.errors import WorkerFailed
from perfcli.machine import targets
from perfcli.model import Case, LaunchPlan, Problem
from perfcli.model.kernel_work import CheckedCase, CheckRequest, PlannedCase
from perfcli.worker.kernels import _Checking, _Reply

CASES = tuple(
    PlannedCase(Case(Problem("sum", rows, 64)), LaunchPlan("looped", (), "")) for rows in range(4)
)
DIES = _Reply("dies")


def compiling(number: int) -> _Reply:
    return _Reply("compiling", number=number, total=4)


def checked(*numbers: int) -> list[_Reply]:
    return [_Reply("checked", number=number) for number in numbers]


class Made:
    """Workers, each with what it replies; what they were asked and were doing is kept."""

    def __init__(self, *scripts: list[_Reply]) -> None:
        self.scripts = list(scripts)
        self.asked: list[CheckRequest] = []
        self.did: list[str] = []
        self.closed = 0

    def __call__(self) -> Any:
        return self

    def doing(self, what: str) -> None:
        self.did.append(what)

    def ask(self, question: Mapping[str, Any]) -> Iterator[_Reply]:
        self.asked.append(question["check"])
        for reply in self.scripts.pop(0):
            if reply is DIES:
                raise WorkerFailed(f"the worker did not finish while {self.did[-1]}")
            yield reply

    def decoded(self, reply: _Reply, _kind: object) -> CheckedCase:
        return CheckedCase("right", "looped")

    def close(self) -> None:
        self.closed += 1


def found(made: Made, runner: Any = "gpu") -> tuple[dict[int, CheckedCase], list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    target = targets.get("h200") if runner == "gpu" else None
    request = CheckRequest("row_sum", CASES, runner, 2, 0, target)
    checking = _Checking(request, lambda done, total: told.append((done, total)))
    answers: dict[int, CheckedCase] = {}
    while checking.left:
        answers |= dict(checking.run(made))
    assert made.closed == len(made.asked)
    return answers, told


def outcomes(answers: Mapping[int, CheckedCase]) -> list[str]:
    return [answers[number].outcome for number in sorted(answers)]


def test_what_is_compiled_ahead_is_told_and_no_case() -> None:
    made = Made([compiling(0), compiling(4), _Reply("checking"), *checked(0, 1, 2, 3)])
    answers, told = found(made)
    assert outcomes(answers) == ["right"] * 4
    assert told == [(0, 4), (4, 4)]
    assert made.did == ["compiling kernels ahead", "running cases"]


def test_a_worker_lost_while_it_compiles_ahead_takes_no_case() -> None:
    made = Made([compiling(1), DIES], [_Reply("checking"), *checked(0, 1, 2, 3)])
    answers, _ = found(made)
    assert outcomes(answers) == ["right"] * 4
    assert [asked.target is None for asked in made.asked] == [False, True]


def test_a_worker_lost_at_a_case_takes_that_one() -> None:
    made = Made(
        [compiling(4), _Reply("checking"), *checked(0), DIES],
        [_Reply("checking"), *checked(0, 1)],
    )
    answers, _ = found(made)
    assert outcomes(answers) == ["right", "failed", "right", "right"]
    assert answers[1].reason == "the worker did not finish while running cases"
    assert (answers[1].variant, made.asked[1].cases) == ("looped", CASES[2:])
    # What was compiled ahead is kept.
    assert made.asked[1].target is None


def test_a_lost_device_ends_a_worker_early_and_the_rest_gets_another() -> None:
    made = Made([_Reply("checking"), *checked(0, 1)], [_Reply("checking"), *checked(0, 1)])
    assert outcomes(found(made)[0]) == ["right"] * 4


def test_the_interpreters_worker_is_not_started_again() -> None:
    with pytest.raises(WorkerFailed, match="while running cases"):
        found(Made([_Reply("checking"), *checked(0), DIES]), "interpreter")
