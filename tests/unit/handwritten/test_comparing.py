"""Which differences count, with values that are exact in every dtype."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perfcli.handwritten import comparing
from perfcli.handwritten.comparing import _compare, compare_outputs
from perfcli.model import Tolerance

pytestmark = pytest.mark.torch

NEAR = Tolerance(0.25, 0.5, "of the test")
INF, NAN = math.inf, math.nan


def tensor(values: Any, dtype: str = "float32") -> Any:
    import torch

    return torch.tensor(values, dtype=getattr(torch, dtype))


def test_the_element_that_exceeds_its_own_tolerance_most_is_named() -> None:
    # allowed: 0.25 + 0.5 · |expected| = 0.75, 50.25, 0.25; errors 1.5, 60, 0.25
    found = _compare(
        "y", tensor([[2.5, 160.0, 0.25]]), tensor([[1.0, 100.0, 0.0]], "float64"), NEAR
    )
    assert not found.is_right
    assert (found.where, found.value, found.expected) == ((0, 0), "2.5", "1")
    assert (found.error, found.allowed, found.wrong, found.elements) == (1.5, 0.75, 2, 3)


def test_an_error_as_large_as_the_tolerance_is_right() -> None:
    found = _compare("y", tensor([1.75]), tensor([1.0], "float64"), NEAR)
    assert found.is_right
    assert (found.error, found.allowed) == (0.75, 0.75)


@pytest.mark.parametrize(
    ("ours", "expected", "right"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, INF, True),
        (INF, -INF, False),
        (-INF, -INF, True),
        (INF, 1.0, False),
        (1.0, INF, False),
        (-0.0, 0.0, True),
    ],
)
def test_what_is_not_finite_has_to_be_the_same(ours: float, expected: float, right: bool) -> None:
    found = _compare("y", tensor([0.0, ours]), tensor([0.0, expected], "float64"), NEAR)
    assert found.is_right is right
    assert found.where == ((0,) if right else (1,))
    if not right:
        assert found.error is None
        assert found.wrong == 1


@pytest.mark.parametrize(
    ("ours", "right"), [(INF, True), (-INF, False), (65504.0, True), (10.0, False)]
)
def test_a_value_beyond_the_dtype_may_be_infinite(ours: float, right: bool) -> None:
    found = _compare("y", tensor([ours], "float16"), tensor([7e4], "float64"), NEAR)
    assert found.is_right is right


def test_chunks_are_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "CHUNK", 3)
    reference = tensor([[0.0] * 4] * 2, "float64")
    ours = reference.clone()
    ours[1, 2] = 9.0
    found = _compare("y", ours, reference, NEAR)
    assert (found.where, found.wrong, found.elements) == ((1, 2), 1, 8)


def test_transposed_outputs_are_compared_by_place() -> None:
    reference = tensor([[1.0, 2.0], [3.0, 4.0]], "float64")
    assert _compare("y", reference.t().contiguous().t(), reference, Tolerance(0, 0, "")).is_right


def test_another_shape_and_a_missing_output_are_wrong() -> None:
    reference = {"y": tensor([1.0, 2.0], "float64"), "z": tensor([1.0], "float64")}
    shaped, missing = compare_outputs({"y": tensor([1.0])}, reference, {"y": NEAR, "z": NEAR})
    assert shaped.problem == "has the shape (1,), not (2,)"
    assert missing.problem == "is not among the outputs"
    assert not shaped.is_right
    assert not missing.is_right


def test_an_output_without_a_tolerance_may_not_differ() -> None:
    reference = {"y": tensor([1.0], "float64")}
    (found,) = compare_outputs({"y": tensor([1.0 + 2**-20])}, reference, {})
    assert not found.is_right
    (found,) = compare_outputs({"y": tensor([1.0])}, reference, {})
    assert found.is_right


def test_empty_outputs_are_right() -> None:
    assert _compare("y", tensor([]), tensor([], "float64"), NEAR).is_right
