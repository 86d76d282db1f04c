"""Phases follow each other without a gap, and pieces are summed up."""

from __future__ import annotations

import time

import pytest

from perfcli.measure import phases
from perfcli.measure.phases import Phases


def test_each_phase_lasts_until_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, used = iter((10.0, 12.5, 13.0)), iter((1.0, 3.0, 3.25))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(phases, "processor_seconds", lambda: next(used))
    told: list[str] = []
    made = Phases("head", told.append)
    made.begin("import")
    made.begin("trace")
    made.add("timing", 0.25)
    made.add("timing", 0.5)
    first, second, pieces = made.finish()
    assert told == ["import", "trace"]
    assert (first.of, first.name, first.at) == ("head", "import", 10.0)
    assert (first.seconds, first.processor_seconds) == (2.5, 2.0)
    assert (second.at, second.seconds, second.processor_seconds) == (12.5, 0.5, 0.25)
    assert (pieces.name, pieces.at, pieces.seconds) == ("timing", None, 0.75)
    assert pieces.processor_seconds is None


@pytest.mark.torch
def test_what_inductor_does_with_kernels_is_timed() -> None:
    heuristics = pytest.importorskip("torch._inductor.runtime.triton_heuristics")
    tuner = heuristics.CachingAutotuner
    before = tuner.precompile
    made = Phases("head", lambda _: None)
    made.begin("kernels")

    class Stand:
        def __getattr__(self, _name: str) -> object:
            raise RuntimeError("no kernel")

    with made.timing_kernels():
        assert tuner.precompile is not before
        with pytest.raises(RuntimeError):
            tuner.precompile(Stand())
    assert tuner.precompile is before
    _, piece = made.finish()
    assert (piece.name, piece.seconds < 5) == (phases.PIECES["precompile"], True)


@pytest.mark.torch
def test_what_generates_code_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = pytest.importorskip("torch._dynamo.utils")
    clocks = {
        "_compile.compile_inner": [4.0, 1.0],
        "OutputGraph.call_user_compiler": [3.0],
        "compile_fx_inner": [1.0, 0.5],
    }
    monkeypatch.setattr(utils, "compilation_time_metrics", clocks)
    made = Phases("head", lambda _: None)
    made.begin("kernels")
    made.add_compilation()
    _, *pieces = made.finish()
    found = [(piece.name, piece.seconds) for piece in pieces]
    assert found == [("Dynamo", 2.0), ("AOTAutograd", 1.5), ("Inductor", 1.5)]
