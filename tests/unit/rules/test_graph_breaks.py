from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.compile.tracing import _skipped_frames
from perfcli.model import BreakPlace, Run
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
    assert (first.evidence, second.evidence) == (("1 graph compiled",), ())
    assert first.origin is None
    assert (first.cures, second.cures) == ((), ())


@pytest.mark.parametrize(
    ("code", "proposed"),
    [("if y.sum().item() > 3:", 0), ("while x.item():", 0), ("n = iffy.item()", 1), ("", 1)],
)
def test_an_option_that_leaves_the_break_is_not_proposed(code: str, proposed: int) -> None:
    """Tried with torch 2.13: the same line breaks as "Data-dependent branching"."""
    broken = run(
        [kernel("k")],
        graph_breaks={ITEM: 1},
        break_places={ITEM: (BreakPlace("/m.py:7", code, ""),)},
        settings={"dynamo.capture_scalar_outputs": False},
    )
    (finding,) = RULE.of_run(broken)
    assert len(finding.cures) == proposed


def test_where_dynamo_broke_it_and_on_what() -> None:
    why = "Dynamo does not know how to trace builtin operator `print`"
    places = (BreakPlace("/m.py:7", 'print("a")', why), BreakPlace("/m.py:9", "", why))
    broken = run([kernel("k")], graph_breaks={"builtin": 2}, break_places={"builtin": places})
    (finding,) = RULE.of_run(broken)
    assert finding.evidence == (why, "also /m.py:9", "1 graph compiled")
    assert finding.origin is not None
    assert (finding.origin.location, finding.origin.code) == ("/m.py:7", 'print("a")')


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


def test_a_function_left_alone_has_its_line_and_cure() -> None:
    """A mask in a loop: Dynamo gives up on the whole function, and no graph is broken."""
    reason, option = "Dynamic shape operator", "dynamo.capture_dynamic_output_shape_ops"
    places = (BreakPlace("/m.py:13", "torch.where(i == n)", "the shape depends on data"),)
    left = run(
        [],
        notes=(f"Dynamo left 1 of 2 functions to run eagerly: {reason}",),
        break_places={reason: places},
        settings={option: False},
    )
    (finding,) = RULE.of_run(left)
    assert finding.evidence == (reason, "the shape depends on data")
    assert finding.origin is not None and finding.origin.location == "/m.py:13"
    assert [dict(cure.options) for cure in finding.cures] == [{option: True}]
    # Where graphs were broken for it, too, that finding has the cure.
    first, second = RULE.of_run(replace(left, graph_breaks={reason: 1}))
    assert (len(first.cures), second.cures) == (1, ())


def test_one_graph_and_other_notes_raise_nothing() -> None:
    notes = ("the model's code reads values while it is built: built on the CPU, then moved",)
    assert list(RULE.of_run(run([kernel("k")], notes=notes))) == []
    assert LEFT.match("Dynamo left some functions to run eagerly") is None


@pytest.mark.torch
def test_a_model_that_breaks_once(compile_run: Callable[..., Run]) -> None:
    (finding,) = RULE.of_run(compile_run("broken_graph.py"))
    assert finding.headline.startswith("1 graph break: ")
    assert finding.evidence[-1] == "2 graphs compiled"
    assert finding.origin is not None
    assert finding.origin.location.endswith("broken_graph.py:14")
    assert finding.origin.code == "torch._dynamo.graph_break()"


@pytest.mark.torch
@pytest.mark.parametrize("captured", [False, True])
def test_a_branch_on_a_value(captured: bool, compile_run: Callable[..., Run]) -> None:
    """With the option real torch 2.13 breaks at the branch, and the step goes on, as here."""
    options = (("dynamo.capture_scalar_outputs", True),) if captured else ()
    compiled = compile_run("branch_on_value.py", options=options)
    printed, branch = RULE.of_run(compiled)
    assert "`print`" in printed.evidence[0]
    assert printed.origin is not None
    assert printed.origin.code == 'print("half way")  # noqa: T201'
    assert branch.subject == ("Data-dependent branching" if captured else ITEM)
    assert branch.origin is not None
    assert branch.origin.code == "if y.sum().item() > 3:"
    assert len(compiled.graphs) == 3
    assert any(note.startswith("tensor values read outside") for note in compiled.notes)
