"""Kernels as a launch's constants leave them, and the passes that are counted in them."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from perfcli.errors import UnreadableSource
from perfcli.facts.source.specialization import UNKNOWN, _value_of, specialize
from perfcli.facts.source.triton import triton_facts
from perfcli.handwritten.compiling import launch_facts
from perfcli.model import Scalar

SOURCE = '''
import triton
import triton.language as tl

WIDE = tl.constexpr(4)


@triton.jit
def loaded(at, inside, FULL: tl.constexpr, MORE: tl.constexpr = 0):
    if FULL:
        return tl.load(at)
    return tl.load(at, mask=inside) + MORE


@triton.jit
def kernel(x_ptr, r_ptr, y_ptr, n, late, N: tl.constexpr, RESIDUAL: tl.constexpr,
           PEEL: tl.constexpr, FULL: tl.constexpr):
    """Reads rows in two loops."""
    HALF: tl.constexpr = N // 2 if N > WIDE else N
    total = 0.0
    for i in range(0, n, HALF):
        x = loaded(x_ptr + i, i < n, FULL)
        if RESIDUAL and N > 1:
            x += tl.load(r_ptr + i)
        total += x
    if PEEL:
        total += loaded(x_ptr + n, n > 0, False)
    if late > 0:
        for i in range(0, n, HALF):
            total += tl.load(x_ptr + i)
    tl.store(y_ptr, total)
    tl.store(y_ptr + 1, total if FULL else n)
'''
ALL: Mapping[str, Scalar] = {"N": 8, "RESIDUAL": True, "PEEL": True, "FULL": True}


def text(**changes: Scalar) -> str:
    return specialize(SOURCE, "kernel", {**ALL, **changes})


def loads(source: str) -> list[str]:
    return [a.pointer for a in triton_facts(source, "kernel").accesses if a.kind == "load"]


def test_branches_that_are_not_compiled_are_gone() -> None:
    assert loads(text()) == ["x_ptr", "r_ptr", "x_ptr", "x_ptr"]
    assert loads(text(RESIDUAL=False)) == ["x_ptr", "x_ptr", "x_ptr"]
    assert loads(text(RESIDUAL=False, PEEL=False)) == ["x_ptr", "x_ptr"]
    assert loads(text(N=1, PEEL=False)) == ["x_ptr", "x_ptr"]


def test_a_helper_is_there_once_for_each_set_of_constants() -> None:
    module = ast.parse(text())
    functions = {n.name: ast.unparse(n) for n in module.body if isinstance(n, ast.FunctionDef)}
    assert list(functions) == ["loaded", "loaded_2", "kernel"]
    assert "mask=" not in functions["loaded"]
    assert "mask=" in functions["loaded_2"]
    assert "loaded_2(x_ptr + n" in functions["kernel"]


def test_choices_inside_of_expressions_are_made() -> None:
    assert "tl.store(y_ptr + 1, total)" in text()
    assert "tl.store(y_ptr + 1, n)" in text(FULL=False)
    assert "HALF: tl.constexpr = N // 2" in text(N=8)
    assert "HALF: tl.constexpr = N\n" in text(N=4)


def test_nothing_is_left_behind_a_return() -> None:
    module = ast.parse(text(PEEL=False))
    helper = next(n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == "loaded")
    assert [type(statement) for statement in helper.body] == [ast.Return]


def test_what_a_loop_assigns_is_not_known() -> None:
    source = """
@triton.jit
def kernel(x_ptr, n, FIRST: tl.constexpr):
    for i in range(n):
        if FIRST:
            tl.load(x_ptr)
        FIRST = False
"""
    assert "if FIRST" in specialize(source, "kernel", {"FIRST": True})


def test_passes_are_those_over_whole_rows() -> None:
    """The element at the edge, and the fallback that the device may take, are none."""
    source, facts = launch_facts(SOURCE, "kernel", ALL)
    assert facts.loads == 4
    assert facts.passes == {"x_ptr": 1, "r_ptr": 1}
    assert facts.online_softmax is None
    assert triton_facts(source, "kernel").passes == {"x_ptr": 3, "r_ptr": 1}


def test_two_loops_are_two_passes() -> None:
    source = """
@triton.jit
def kernel(x_ptr, y_ptr, n, AGAIN: tl.constexpr):
    for i in range(n):
        tl.load(x_ptr + i)
    if AGAIN:
        for i in range(n):
            tl.store(y_ptr + i, tl.load(x_ptr + i))
"""
    assert launch_facts(source, "kernel", {"AGAIN": True})[1].passes == {"x_ptr": 2}
    assert launch_facts(source, "kernel", {"AGAIN": False})[1].passes == {"x_ptr": 1}


def test_a_loop_over_what_another_leaves_is_the_same_pass() -> None:
    source = """
@triton.jit
def walk(row, n, LANES: tl.constexpr):
    full = n // LANES
    for tile in tl.range(0, full):
        tl.load(row + tile)
    for first in tl.range(full * LANES, n):
        tl.load(row + first)

@triton.jit
def part(row, begin, end, MASKED: tl.constexpr):
    for i in range(begin, end):
        tl.load(row + i)

@triton.jit
def kernel(x_ptr, y_ptr, n, SURE: tl.constexpr, LANES: tl.constexpr, BOTH: tl.constexpr):
    walk(x_ptr, n, LANES)
    part(y_ptr, 0, SURE, False)
    part(y_ptr, SURE, n, True)
    if BOTH:
        walk(x_ptr, n, LANES)
        part(y_ptr, 0, n, True)
"""
    once = launch_facts(source, "kernel", {"SURE": 8, "LANES": 4, "BOTH": False})[1]
    assert once.passes == {"x_ptr": 1, "y_ptr": 1}
    assert once.loads == 4
    twice = launch_facts(source, "kernel", {"SURE": 8, "LANES": 4, "BOTH": True})[1]
    assert twice.passes == {"x_ptr": 2, "y_ptr": 2}


@pytest.mark.parametrize("source", ["def kernel(:", "x = 1"])
def test_what_is_no_kernel_is_told(source: str) -> None:
    with pytest.raises(UnreadableSource):
        specialize(source, "kernel", {})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("N // 2 * 3 - 1", 11),
        ("N == 8 and not FLAG", True),
        ("FLAG and unknown", False),
        ("unknown or N > 4", True),
        ("WORD == 'opaque'", False),
        ("N if FLAG else -N", -8),
        ("(N - 1).bit_length()", UNKNOWN),
        ("unknown and N > 4", UNKNOWN),
        ("N // 0", UNKNOWN),
        ("x.dtype == tl.float32", UNKNOWN),
        ("1 < N < 9", UNKNOWN),
    ],
)
def test_values_of_expressions(expression: str, value: object) -> None:
    constants: dict[str, Scalar] = {"N": 8, "FLAG": False, "WORD": "no"}
    node = ast.parse(expression, mode="eval").body
    assert _value_of(node, constants) == value
