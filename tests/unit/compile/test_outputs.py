"""Graph outputs as fake tensors: sizes bound from the arguments of each call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sympy = pytest.importorskip("sympy")

from torch._inductor import ir  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from perfcli.compile.stand_in.decisions import VALUES, Assumptions  # noqa: E402
from perfcli.compile.stand_in.outputs import fake_call  # noqa: E402

pytestmark = pytest.mark.torch

ROWS, COLUMNS, UNSEEN = sympy.symbols("s0 s1 u0", integer=True, positive=True)


class Node:
    """What ``fake_call`` asks of an IR node."""

    def __init__(self, size: Any, stride: Any = None, dtype: Any = torch.float32) -> None:
        self.size, self.stride, self.dtype = size, stride, dtype

    def get_size(self) -> Any:
        return self.size

    def get_stride(self) -> Any:
        return self.stride

    def get_dtype(self) -> Any:
        return self.dtype

    def get_device(self) -> Any:
        return torch.device("cpu")


def call(
    outputs: list[Any],
    inputs: dict[str, Any],
    args: list[Any],
    assumptions: Assumptions | None = None,
) -> tuple[Any, ...]:
    hints = SimpleNamespace(optimization_hint=lambda _value, fallback: fallback)
    graph = SimpleNamespace(graph_outputs=outputs, graph_inputs=inputs, sizevars=hints)
    calls: list[int] = []
    mode = FakeTensorMode()
    made: tuple[Any, ...] = fake_call(
        graph, mode, lambda: calls.append(1), assumptions or Assumptions()
    )(args)
    assert calls == [1]
    assert args == [], "the generated call takes its arguments out of the list"
    assert all(t.fake_mode is mode for t in made if isinstance(t, FakeTensor))
    return made


def test_layout_as_inductor_decided() -> None:
    node = Node((2, 3), (1, 2), torch.bfloat16)
    (made,) = call([node], {}, [])
    assert isinstance(made, FakeTensor)
    assert (made.size(), made.stride(), made.dtype) == ((2, 3), (1, 2), torch.bfloat16)


def test_symbols_are_read_off_the_arguments() -> None:
    inputs = {"s0": ROWS, "x": Node((ROWS, COLUMNS))}
    outputs = [Node((COLUMNS, 2 * ROWS), (2 * ROWS, 1)), Node((ROWS * COLUMNS,), (1,))]
    transposed, flat = call(outputs, inputs, [5, torch.empty(5, 7)])
    assert (transposed.size(), transposed.stride()) == ((7, 10), (10, 1))
    assert flat.size() == (35,)


def test_each_call_binds_anew() -> None:
    for rows in (3, 4):
        (made,) = call([Node((ROWS,), (1,))], {"x": Node((ROWS, 2))}, [torch.empty(rows, 2)])
        assert made.size() == (rows,)


def test_numbers_and_nothing() -> None:
    outputs = [
        ir.NoneAsConstantBuffer(),
        ir.ShapeAsConstantBuffer(expr=ROWS + 1),
        ir.ShapeAsConstantBuffer(expr=sympy.Integer(3)),
    ]
    assert call(outputs, {"s0": ROWS}, [5]) == (None, 6, 3)


def test_a_size_that_depends_on_data_is_what_inductor_assumes() -> None:
    (made,) = call([Node((UNSEEN, 2), (2, 1))], {"x": Node((ROWS,))}, [torch.empty(3)])
    assert made.size() == (8192, 2)


def test_numbers_that_depend_on_data_are_assumed_as_where_item_reads_them() -> None:
    value = sympy.Symbol("zuf0", real=True)
    assumptions = Assumptions()
    expressions = [value > 3.0, value < 3.0, 2 * value, UNSEEN + 1]
    outputs = [ir.ShapeAsConstantBuffer(expr=expression) for expression in expressions]
    made = call(outputs, {}, [], assumptions)
    assert made == (False, True, 1.0, 8193)
    assert [type(number) for number in made] == [bool, bool, float, int]
    assert assumptions.counts == {VALUES: 3}
