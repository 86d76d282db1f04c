from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from handmade import kernel, run

from perfcli.compile.tracing import _skipped_frames
from perfcli.model import Run
from perfcli.rules.graph_breaks import LEFT, RULE

ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


def test_each_reason_with_its_number() -> None:
    broken = run([kernel("k")], graph_breaks={"Data-dependent branching": 3, ITEM: 1})
    first, second = RULE.of_run(broken)
    assert first.headline == "3 graph breaks: Data-dependent branching"
    assert second.headline == f"1 graph break: {ITEM}"
    assert (first.metric, first.amount, first.subject) == (
        "graph_breaks",
        3,
        "Data-dependent branching",
    )
    assert first.evidence == ("1 graph compiled",)
    assert (first.cures, second.cures) == ((), ())


def test_the_option_is_proposed_where_this_torch_has_it_off() -> None:
    option = "dynamo.capture_scalar_outputs"
    reasons = {ITEM: 1, "Data-dependent branching": 1}
    off = run([kernel("k")], graph_breaks=reasons, settings={option: False})
    item, branch = RULE.of_run(off)
    assert [dict(cure.options) for cure in item.cures] == [{option: True}]
    assert branch.cures == ()
    (item,) = RULE.of_run(run([kernel("k")], graph_breaks={ITEM: 1}, settings={option: True}))
    assert item.cures == ()


def test_functions_left_to_run_eagerly() -> None:
    counters = {
        "frames": Counter(total=5, ok=3),
        "unimplemented": Counter({"call to a skipped function\n  Explanation: …": 1}),
        "graph_break": Counter(),
    }
    (finding,) = RULE.of_run(run([kernel("k")], notes=_skipped_frames(counters)))
    assert finding.headline == "2 of 5 functions run eagerly, without kernels"
    assert finding.evidence == ("call to a skipped function",)
    assert finding.amount == 2


def test_one_graph_and_other_notes_raise_nothing() -> None:
    notes = ("the model's code reads values while it is built: built on the CPU, then moved",)
    assert list(RULE.of_run(run([kernel("k")], notes=notes))) == []
    assert LEFT.match("Dynamo left some functions to run eagerly") is None


@pytest.mark.torch
def test_a_model_that_breaks_once(compile_run: Callable[..., Run]) -> None:
    (finding,) = RULE.of_run(compile_run("broken_graph.py"))
    assert finding.headline.startswith("1 graph break: ")
    assert finding.evidence == ("2 graphs compiled",)
