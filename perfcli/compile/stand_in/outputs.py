"""Makes what a compiled graph returns when there is no device: fake tensors laid out as Inductor
decided. Backward passes, graph breaks and later graphs go on from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfcli.compile.stand_in.decisions import ASSUMED, VALUES, Assumptions


def fake_call(
    graph: Any, mode: Any, on_call: Callable[[], None], assumptions: Assumptions
) -> Callable[[list[Any]], Any]:
    """Return a stand-in for the compiled module's ``call`` of a ``GraphLowering``.

    Seen with torch 2.11 to 2.15: outputs are ``graph.graph_outputs`` (IR nodes with layouts),
    inputs are named by ``graph.graph_inputs`` in calling order.
    """
    names = list(graph.graph_inputs)
    outputs = [_describe(node, names) for node in graph.graph_outputs]
    inputs = list(graph.graph_inputs.values())
    sizevars = graph.sizevars

    def call(args: list[Any]) -> Any:
        on_call()
        bound = _bind(inputs, args)
        given = list(args)
        args.clear()
        return tuple(_make(each, bound, sizevars, mode, assumptions, given) for each in outputs)

    return call


def _describe(node: Any, inputs: list[str]) -> Any:
    """Return (size, stride, dtype, device) of a tensor, ("value", expression), ("input", its
    number) or ("object", itself) of what is no tensor, such as a mesh of devices; or None."""
    from torch._inductor import ir

    if isinstance(node, ir.NoneAsConstantBuffer):
        return None
    if isinstance(node, ir.ShapeAsConstantBuffer):
        return ("value", node.expr)
    if _is_object(node):
        if (name := node.get_name()) in inputs:
            return ("input", inputs.index(name))
        value = getattr(node, "value", None)
        return ("object", getattr(value, "real_obj", value))
    return (tuple(node.get_size()), tuple(node.get_stride()), node.get_dtype(), node.get_device())


def _is_object(node: Any) -> bool:
    """Return whether a node is no tensor: a mesh of devices, a process group."""
    from torch._inductor import ir

    kinds: Any = getattr(ir, "NonTensorObj", ())
    return isinstance(node, kinds)


def _bind(inputs: list[Any], args: list[Any]) -> dict[Any, int]:
    """Return the values of the size symbols, read off the arguments."""
    import sympy  # type: ignore[import-untyped]
    import torch

    bound: dict[Any, int] = {}
    for node, value in zip(inputs, args, strict=False):
        if isinstance(node, sympy.Symbol):
            bound[node] = int(value)
        elif isinstance(value, torch.Tensor):  # a mesh of devices has a shape, too
            for expression, size in zip(node.get_size(), value.shape, strict=False):
                if isinstance(expression, sympy.Symbol):
                    bound.setdefault(expression, int(size))
    return bound


def _number(expression: Any, bound: dict[Any, int], sizevars: Any) -> int:
    import sympy

    value = sympy.sympify(expression).subs(bound)
    if value.is_number:
        return int(value)
    # A data-dependent size: what Inductor itself assumes for it.
    return int(sizevars.optimization_hint(value, fallback=8192))


def _value(
    expression: Any, bound: dict[Any, int], sizevars: Any, assumptions: Assumptions
) -> bool | int | float:
    """Return what a graph computed in Python's numbers and returns, such as ``x.sum().item() > 3``,
    which the code after a graph break branches on. Unknown floats are as for ``.item()`` outside of
    graphs."""
    import sympy

    value = sympy.sympify(expression).subs(bound)
    unknown = {symbol: ASSUMED for symbol in value.free_symbols if not symbol.is_integer}
    if unknown:
        assumptions.counts[VALUES] += 1
    for symbol in value.free_symbols - unknown.keys():
        unknown[symbol] = _number(symbol, bound, sizevars)
    value = value.subs(unknown)
    if value.is_Boolean:
        return bool(value)
    return int(value) if value.is_integer else float(value)


def _make(
    output: Any,
    bound: dict[Any, int],
    sizevars: Any,
    mode: Any,
    assumptions: Assumptions,
    given: list[Any],
) -> Any:
    import torch

    if output is None:
        return None
    if output[0] == "value":
        return _value(output[1], bound, sizevars, assumptions)
    if output[0] == "input":
        return given[output[1]]
    if output[0] == "object":
        return output[1]
    size, stride, dtype, device = output
    with mode:
        return torch.empty_strided(
            [_number(s, bound, sizevars) for s in size],
            [_number(s, bound, sizevars) for s in stride],
            dtype=dtype,
            device=device,
        )
