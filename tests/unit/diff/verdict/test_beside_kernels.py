"""CUDA graphs that are not recorded decide where nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel, run
from handmade_estimate import estimated

from perfcli.diff.compare import compare
from perfcli.diff.verdict.conclude import conclude
from perfcli.model import GraphObstacle, Run
from perfcli.model.compilation import Effect

ASKED = {"triton.cudagraphs": True}


def step(*effects: Effect, asked: bool = True, known: bool = True) -> Run:
    obstacles = tuple(GraphObstacle("forward 0", effect, "mutated inputs") for effect in effects)
    return run(
        [kernel("k")], settings=ASKED if asked else {}, graph_obstacles=obstacles if known else None
    )


@pytest.mark.parametrize("effect", ["not recorded", "split"])
def test_a_graph_that_is_no_longer_recorded_is_worse(effect: Effect) -> None:
    found = conclude(compare(step(), step(effect)))
    assert found.outcome == "worse"
    assert found.because is not None
    assert found.because.code == "PC602"
    assert conclude(compare(step(effect), step())).outcome == "same"


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (step("not recorded"), step("not recorded")),
        (step(), step("recorded again")),
        (step(asked=False), step("not recorded", asked=False)),
        (step(known=False), step("not recorded")),
    ],
)
def test_what_nobody_asked_for_or_knows_decides_nothing(base: Run, head: Run) -> None:
    assert conclude(compare(base, head)).outcome == "same"


def test_it_is_worse_also_where_the_time_cannot_be_told() -> None:
    given = estimated("unsure", 1.0, 1.0, missing=("cpp_fused_0: it was not compiled for a GPU",))
    assert conclude(given).outcome == "unknown"
    change = next(
        c
        for c in compare(step(), step("not recorded")).totals
        if c.metric == "obstacles_to_cuda_graphs"
    )
    again = replace(given, totals=(*given.totals, change))
    assert conclude(again).outcome == "worse"
