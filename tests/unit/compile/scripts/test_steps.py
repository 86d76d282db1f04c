"""Which calls of graphs make up a step, and how a script is ended. Graphs are letters here."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.scripts.steps import ScriptEnded, StepCounter

FIRST, SECOND = SimpleNamespace(), SimpleNamespace()


def count(wanted: int = 2, *optimizers: Any) -> tuple[StepCounter, list[Any]]:
    called: list[Any] = []
    capture: Any = SimpleNamespace(call_order=called, eager=[])
    counter = StepCounter(capture, wanted)
    counter.optimizers = {id(each): each for each in optimizers}
    return counter, called


def chosen(counter: StepCounter) -> str:
    graphs: list[Any] = counter.select()
    return "".join(graphs)


def test_a_step_goes_from_one_step_of_the_optimizer_to_the_next() -> None:
    """Evaluation (e) comes before; two micro-batches, forward and backward, make a step."""
    counter, called = count(2, FIRST)
    called += "eeefbfb"
    counter.finish_step(FIRST)
    called += "fbfb"
    with pytest.raises(ScriptEnded):
        counter.finish_step(FIRST)
    called += "x"  # what a finally block calls
    assert chosen(counter) == "fbfb"


def test_what_runs_eagerly_is_cut_where_the_graphs_are() -> None:
    counter, called = count(2, FIRST)
    eager: list[Any] = counter.capture.eager
    assert counter.select_eager() == []
    eager += ["built", "updated 1"]
    called += "fb"
    counter.finish_step(FIRST)
    eager += ["accumulated", "updated 2"]
    with pytest.raises(ScriptEnded):
        counter.finish_step(FIRST)
    eager.append("finally")
    found: list[Any] = list(counter.select_eager())
    assert found == ["accumulated", "updated 2"]


def test_of_several_optimizers_the_one_that_steps_least_often_counts() -> None:
    counter, called = count(2, FIRST, SECOND)
    for round_ in range(2):
        for _ in range(3):
            called += "d"
            counter.finish_step(FIRST)
        called += "g"
        if round_ == 0:
            counter.finish_step(SECOND)
    with pytest.raises(ScriptEnded):
        counter.finish_step(SECOND)
    assert chosen(counter) == "dddg"


def test_an_optimizer_that_never_steps_is_not_waited_for() -> None:
    counter, called = count(2, FIRST, SECOND)
    with pytest.raises(ScriptEnded):
        for _ in range(100):
            called += "f"
            counter.finish_step(FIRST)
    assert len(called) == 16
    assert chosen(counter) == "f"


def test_one_step_is_everything_up_to_it() -> None:
    counter, called = count(1, FIRST)
    called += "fb"
    with pytest.raises(ScriptEnded):
        counter.finish_step(FIRST)
    assert chosen(counter) == "fb"


def test_without_an_optimizer_a_round_counts_and_what_came_before_it_once() -> None:
    """A prefill (use 0), then decoding with two callables (1, 2) over and over."""
    counter, called = count()
    counter.enter(0)
    called += "p"
    with pytest.raises(ScriptEnded):
        for _ in range(100):
            counter.enter(1)
            called += "a"
            counter.enter(2)
            called += "b"
    assert len(called) == 1 + 2 * 32
    assert chosen(counter) == "pab"


def test_a_step_inside_of_compiled_code_ends_with_the_call() -> None:
    counter, called = count(2, FIRST)
    with pytest.raises(ScriptEnded):
        for _ in range(10):
            counter.enter(0)
            counter.finish_traced_step()
            called += "s"
    assert called == ["s", "s"]
    assert chosen(counter) == "s"


def test_a_script_that_catches_everything_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loops, each with a handler that goes on; they run where tracing disturbs nobody."""
    counter, _ = count(1, FIRST)
    left: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", left.append)

    def run_epoch() -> None:
        for _ in range(10):
            try:
                counter.finish_step(FIRST)
            except BaseException:
                continue

    def run() -> None:
        while True:
            try:
                run_epoch()
            except BaseException:
                continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert [each.exc_type for each in left] == [ScriptEnded]


def test_without_an_optimizer_the_last_call_counts_as_the_step() -> None:
    counter, _ = count()
    for _ in range(20):
        counter.enter(0)
    assert counter.describe() == (
        "no optimizer was stepped: the last of 20 calls counts as the step"
    )
    counter.enter(1)
    assert "the last round of 21 calls counts" in counter.describe()
