from __future__ import annotations

import pytest
from handmade import kernel, run

from perfcli.model import GraphObstacle
from perfcli.model.compilation import Effect
from perfcli.rules.skipped_graphs import RULE

ASKED = {"triton.cudagraphs": True}
MUTATED = GraphObstacle(
    "forward 0", "not recorded", "mutated inputs (1 instances)", "/m.py:3", "s.add_(x)"
)


def test_only_where_graphs_were_asked_for() -> None:
    assert list(RULE.of_run(run([kernel("k")], graph_obstacles=(MUTATED,)))) == []
    assert list(RULE.of_run(run([kernel("k")], settings=ASKED, graph_obstacles=()))) == []
    assert list(RULE.of_run(run([kernel("k")], settings=ASKED))) == []


def test_a_mutated_input_with_its_line() -> None:
    (found,) = RULE.of_run(run([kernel("k")], settings=ASKED, graph_obstacles=(MUTATED,)))
    assert found.severity == "warning"
    said = "forward 0 is not recorded as a CUDA graph: mutated inputs (1 instances)"
    assert found.headline == said
    assert found.origin is not None
    assert (found.origin.location, found.origin.code) == ("/m.py:3", "s.add_(x)")
    assert "mark_static_address" in found.advice


@pytest.mark.parametrize(
    ("effect", "reason", "advice"),
    [
        ("split", "cpu ops", "on the device"),
        ("recorded again", "dynamic sizes", "pad sizes"),
    ],
)
def test_what_is_recorded_in_parts_or_anew(effect: Effect, reason: str, advice: str) -> None:
    obstacle = GraphObstacle("forward 0", effect, reason)
    (found,) = RULE.of_run(run([kernel("k")], settings=ASKED, graph_obstacles=(obstacle,)))
    assert found.severity == "info"
    assert reason in found.headline
    assert advice in found.advice
    assert found.origin is None
