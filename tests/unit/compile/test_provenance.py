"""Where a node comes from: metadata as Dynamo writes it (torch 2.13)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from perfcli.compile.capture.provenance import origins  # noqa: E402
from perfcli.model import Origin  # noqa: E402

pytestmark = pytest.mark.torch

FUNCTIONAL = f"{Path(torch.__file__).parent}/nn/functional.py"
OUTER = '  File "/home/me/model.py", line 14, in forward\n    x = self.norm(x)\n        ^^^^^^^^^\n'
INNER = '  File "/home/me/layers/norm.py", line 6, in forward\n    return F.rms_norm(x, (8,))\n'
TORCHS = f'  File "{FUNCTIONAL}", line 2924, in rms_norm\n    return torch.rms_norm(input)\n'


def origin_of(**meta: Any) -> Origin:
    (found,) = origins(scheduled(meta))
    return found


def scheduled(*metas: dict[str, Any]) -> Any:
    """One scheduler node whose IR node computes an FX node for each metadata."""
    graph = torch.fx.Graph()
    nodes = []
    for meta in metas:
        node = graph.call_function(torch.sin, (1,))
        node.meta.update(meta)
        nodes.append(node)
    return SimpleNamespace(node=SimpleNamespace(origins=nodes))


@pytest.mark.parametrize(
    ("trace", "location", "code"),
    [
        (OUTER + INNER, "/home/me/layers/norm.py:6", "return F.rms_norm(x, (8,))"),
        (OUTER + TORCHS, "/home/me/model.py:14", "x = self.norm(x)"),
        (OUTER + INNER + TORCHS, "/home/me/layers/norm.py:6", "return F.rms_norm(x, (8,))"),
        (TORCHS, f"{FUNCTIONAL}:2924", "return torch.rms_norm(input)"),
        ("", "", ""),
        (None, "", ""),
    ],
    ids=["user's", "torch's below", "both", "torch's only", "empty", "none"],
)
def test_the_innermost_frame_that_is_not_torchs(
    trace: str | None, location: str, code: str
) -> None:
    origin = origin_of(stack_trace=trace)
    assert (origin.location, origin.code) == (location, code)


def replaced(*, traced: bool) -> tuple[Origin, ...]:
    """Origins of a kernel that computes a node of the pattern matcher's, which has no trace; one
    node later comes one that has it."""
    graph = torch.fx.Graph()
    own = [graph.call_function(torch.sin, (1,))]
    between = graph.call_function(torch.cos, (own[0],))
    user = graph.call_function(torch.exp, (between,))
    user.meta["stack_trace"] = INNER
    if traced:
        own.append(graph.call_function(torch.tan, (1,)))
        own[1].meta["stack_trace"] = OUTER
    return origins(SimpleNamespace(node=SimpleNamespace(origins=own)))


def test_a_kernel_without_any_line_has_that_of_what_uses_it() -> None:
    (origin,) = replaced(traced=False)
    assert (origin.node, origin.location) == ("sin", "/home/me/layers/norm.py:6")
    assert origin.code == "return F.rms_norm(x, (8,))"
    assert [o.location for o in replaced(traced=True)] == ["", "/home/me/model.py:14"]


def test_a_frame_without_text_does_not_borrow_the_next_ones() -> None:
    bare = '  File "<string>", line 3, in forward\n'
    assert origin_of(stack_trace=bare + TORCHS).location == "<string>:3"
    assert origin_of(stack_trace=bare + TORCHS).code == ""
    assert origin_of(stack_trace=OUTER + bare).code == ""


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("L['self'].blocks.3.attn", "blocks.3.attn"),
        ("L['self']._modules['blocks']._modules['3'].attn", "blocks.3.attn"),
        ("L['self'].blocks['3'].attn", "blocks.3.attn"),
        ("L['self']", ""),
        ("G['model'].blocks.0.lin", "blocks.0.lin"),
        ("L['fn'].__closure__[0].cell_contents.norm", "norm"),
        ("", ""),
    ],
)
def test_module_paths(path: str, module: str) -> None:
    stack = {"root": ("L['self']", object), "inner": (path, object)}
    assert origin_of(nn_module_stack=stack).module == module
    assert origin_of(fwd_nn_module_stack=stack).module == module


def test_a_node_outside_of_any_module() -> None:
    assert origin_of().module == ""


def test_operator_and_shape() -> None:
    value = torch.empty(3, 4, device="meta")
    origin = origin_of(original_aten=torch.ops.aten.sin.default, val=value)
    assert origin.op == "aten.sin.default"
    assert origin.shape == (3, 4)


def test_graph_order_whatever_the_sets_order() -> None:
    node = scheduled({"stack_trace": OUTER}, {"stack_trace": INNER}, {})
    names = [o.node for o in origins(node)]
    node.node.origins.reverse()
    assert [o.node for o in origins([node, node])] == names == ["sin", "sin_1", "sin_2"]


def test_only_calls_count() -> None:
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("x"), graph.call_function(torch.sin, (1,))]
    item = SimpleNamespace(node=None, origins=nodes)
    assert [o.node for o in origins(item)] == ["sin"]
