"""What is said after each test of a search, in a log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfcli.bisect import progress
from perfcli.bisect.forge import Forge
from perfcli.bisect.metrics import METRICS
from perfcli.bisect.progress import Watcher
from perfcli.console.notes import Notes
from perfcli.search.question import Answer, OptionChange, Query

ONLINE = OptionChange("online_softmax", True, False)
READS = OptionChange("triton.mix_order_reduction_max_reads", 10, None)


def watcher(quiet: bool = False) -> Watcher:
    space = SimpleNamespace(changes=(ONLINE, READS))
    forge = cast("Forge", SimpleNamespace(space=space, compiled=1, classes=1))
    return Watcher(forge, METRICS["loads"], Notes(quiet))


def said(capsys: Any, question: Query[Any], answer: Answer) -> str:
    watcher()(question, answer)
    return str(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ((ONLINE,), "narrowing, online_softmax=false: 12 · 1 compiled, 1 class, "),
        ((READS,), "narrowing, triton.mix_order_reduction_max_reads=null: 12 · "),
        ((ONLINE, READS), "narrowing, 2 changes: 12 · "),
    ],
)
def test_a_change_is_written_as_it_is_typed(
    capsys: Any, changes: tuple[OptionChange, ...], written: str
) -> None:
    wanted = frozenset(change.key for change in changes)
    question = Query(wanted, step="narrowing", suspects=2)
    assert said(capsys, question, Answer("good", 12.0)).startswith(written)


def test_a_value_that_is_no_estimate_is_not_shown(capsys: Any) -> None:
    question = Query(frozenset({ONLINE.key}))
    text = said(capsys, question, Answer("good", 12.0, reason="not estimated"))
    assert text.startswith("online_softmax=false: not estimated · 1 compiled, ")


def test_something_is_said_before_the_first_answer(capsys: Any) -> None:
    with watcher():
        assert capsys.readouterr().err == "compiling the first variants\n"


def test_a_log_hears_what_takes_long(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "GAP_SECONDS", 0.001)
    watching = watcher()
    with watching:
        watching._forge.told("compiling 3 kernels")
        said = ""
        while "compiling 3 kernels, " not in said:
            said += capsys.readouterr().err
    assert said.startswith("compiling the first variants\n")


def test_quiet_says_nothing(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "GAP_SECONDS", 0.0)
    watching = watcher(quiet=True)
    with watching:
        watching._forge.told("compiling 3 kernels")
    assert capsys.readouterr().err == ""


def test_a_terminal_is_drawn_with_the_seconds_that_have_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter(range(1000))
    monkeypatch.setattr("perfcli.bisect.progress.time.monotonic", lambda: next(now))
    watching = watcher()  # at second 0
    assert watching._screen().plain == "compiling the first variants, 1 s"
    watching._draw(Query(frozenset({ONLINE.key}), step="proof", suspects=3))
    assert watching._screen().plain == (
        "trying proof, online_softmax=false · left: 3 suspects\nknown: 1 compiled, 1 class, 2 s"
    )
    assert watching._screen().plain.endswith("3 s")
