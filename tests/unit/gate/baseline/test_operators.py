"""How the nodes that a kernel computes are written into a baseline's file, and read back."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import kernel

from perfcli.gate.baseline.operators import (
    Node,
    Sort,
    _described,
    _numbered,
    _origin,
    _ranges,
    _read,
)
from perfcli.model import Origin

GRAPH = "forward 0"


def node(
    op: str,
    number: int = 0,
    module: str = "",
    stem: str | None = None,
    shape: tuple[int | str, ...] = (8,),
) -> Node:
    usual = op.removeprefix("aten.").split(".")[0]
    return Node(Sort(GRAPH, op, usual if stem is None else stem, module, shape), number)


# --- numbers ---------------------------------------------------------------------------------


def test_nodes_are_numbered_in_the_order_of_their_graph_within_their_sort() -> None:
    """``mul`` comes before ``mul_2`` and that before ``mul_10``, which a text would sort first."""
    names = ("mul_10", "mul_2", "mul")
    found = _numbered([kernel("a", origins=[Origin(n, "aten.mul.Tensor") for n in names])])
    assert {name: number for (_, name), (_, number) in found.items()} == {
        "mul": 0,
        "mul_2": 1,
        "mul_10": 2,
    }
    assert {graph for graph, _ in found} == {GRAPH}
    assert found[GRAPH, "mul_10"].sort == Sort(GRAPH, "aten.mul.Tensor", "mul", "", ())


def test_another_graph_module_shape_stem_or_operator_is_another_sort() -> None:
    nodes = [
        Origin("mul_1", "aten.mul.Tensor", "a", (8,)),
        Origin("mul_2", "aten.mul.Tensor", "b", (8,)),
        Origin("mul_3", "aten.mul.Tensor", "a", (9,)),
        Origin("mul_4", "aten.mul.Scalar", "a", (8,)),
        Origin("times_5", "aten.mul.Tensor", "a", (8,)),
    ]
    elsewhere = kernel(
        "b", graph="forward 1", origins=[Origin("mul_6", "aten.mul.Tensor", "a", (8,))]
    )
    found = _numbered([kernel("a", origins=nodes), elsewhere])
    assert [each.number for each in found.values()] == [0] * 6


def test_one_node_of_two_kernels_is_one_node() -> None:
    twice = [kernel(name, origins=[Origin("mul_1", "aten.mul.Tensor")]) for name in "ab"]
    assert [each.number for each in _numbered(twice).values()] == [0]


@pytest.mark.parametrize("name", ["a=b", "a#1", "a,b", "a b"])
def test_what_the_file_could_not_be_read_back_with_is_left_out(name: str) -> None:
    origins = [Origin(name, "aten.mul.Tensor"), Origin("mul", name), Origin("add", "aten.add")]
    found = _numbered([kernel("a", origins=origins)])
    assert [each for _, each in found] == ["add"]


# --- the table -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "tables"),
    [
        ([], []),
        ([node("aten.mul.Tensor")], [{"shape": [8], "ops": "mul.Tensor"}]),
        ([node("aten.mul.Tensor", 3)], [{"shape": [8], "ops": "mul.Tensor#3"}]),
        (
            [node("aten.mul.Tensor", 2), node("aten.mul.Tensor", 0), node("aten.mul.Tensor", 0)],
            [{"shape": [8], "ops": "mul.Tensor#0+2"}],
        ),
        ([node("prims.copy")], [{"shape": [8], "ops": "/prims.copy"}]),
        (
            [node("aten._to_copy.default", stem="convert_element_type")],
            [{"shape": [8], "ops": "_to_copy.default=convert_element_type"}],
        ),
        (
            [node("aten._to_copy.default", 1, "norm", "cast", ("s0", 4))],
            [{"in": "norm", "shape": ["s0", 4], "ops": "_to_copy.default=cast#1"}],
        ),
        (
            [node("aten.mul.Tensor"), node("aten.add.Tensor", 4)],
            [{"shape": [8], "ops": "add.Tensor#4, mul.Tensor"}],
        ),
        (
            [node("aten.mul.Tensor", module=f"blocks.{n}.attn.1") for n in (0, 1, 2, 5, 10, 11)],
            [{"in": "blocks.*.attn.1", "layers": "0-2 5 10-11", "shape": [8], "ops": "mul.Tensor"}],
        ),
        (
            [node("aten.mul.Tensor", module=f"blocks.{n}") for n in (7,)],
            [{"in": "blocks.*", "layers": "7", "shape": [8], "ops": "mul.Tensor"}],
        ),
        (
            [node("aten.mul.Tensor", n, f"blocks.{n}") for n in (0, 1)],
            [
                {"in": "blocks.*", "layers": "1", "shape": [8], "ops": "mul.Tensor#1"},
                {"in": "blocks.*", "layers": "0", "shape": [8], "ops": "mul.Tensor"},
            ],
        ),
        # A star of the module's own, and a number that is no layer, stay as they are.
        ([node("aten.x", module="a.*.1")], [{"in": "a.*.1", "shape": [8], "ops": "x"}]),
        ([node("aten.x", module="conv2d")], [{"in": "conv2d", "shape": [8], "ops": "x"}]),
        ([node("aten.x", module="3.a")], [{"in": "3.a", "shape": [8], "ops": "x"}]),
        ([node("aten.x", module="a.3b")], [{"in": "a.3b", "shape": [8], "ops": "x"}]),
    ],
)
def test_a_kernels_nodes_in_few_words_and_back(
    nodes: list[Node], tables: list[dict[str, Any]]
) -> None:
    assert _described(nodes) == tables
    assert set(_read(GRAPH, tables)) == set(nodes)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        (["4"], "4"),
        (["4", "5"], "4-5"),
        (["4", "6"], "4 6"),
        (["0", "1", "2", "5", "6", "9"], "0-2 5-6 9"),
    ],
)
def test_ranges(numbers: list[str], text: str) -> None:
    assert _ranges(numbers) == text


def test_a_module_takes_its_layer_once() -> None:
    table = {"in": "blocks.*.heads.*", "layers": "2-3", "shape": [], "ops": "mul"}
    modules = [each.sort.module for each in _read(GRAPH, [table])]
    assert modules == ["blocks.2.heads.*", "blocks.3.heads.*"]


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no operator: 'mul#x'"):
        list(_read(GRAPH, [{"shape": [], "ops": "mul#x"}]))


def test_an_origin_gets_a_name_that_no_node_has() -> None:
    made = _origin(node("aten.mul.Tensor", 2, "norm", "times", (8, "s0")))
    assert made == Origin("times@norm[8, 's0']#2", "aten.mul.Tensor", "norm", (8, "s0"))
