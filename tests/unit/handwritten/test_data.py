"""What the inputs of a case hold, and how they lie."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from perfcli.handwritten.data import arrange, make_inputs
from perfcli.model import Case, Data, Layout, Problem

pytestmark = pytest.mark.torch


def made(
    data: Data = "normal", layout: Layout = "contiguous", *, rows: int = 8, dtype: str = "float32"
) -> dict[str, Any]:
    import torch

    problem = Problem("f", rows, 33, dtype, 48 if layout == "padded-rows" else None)
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    tensors = {
        "weight": torch.ones(33, dtype=kind),
        "x": torch.randn(rows, 33).to(kind),
        "dy": torch.randn(rows, 33).to(kind),
    }
    kept = {name: t.clone() for name, t in tensors.items()}
    found = arrange(Case(problem, None, data, layout), problem, tensors)
    assert all(torch.equal(tensors[name], kept[name]) for name in kept)  # as they were
    assert torch.equal(found["weight"], kept["weight"])
    assert torch.equal(found["dy"], kept["dy"])
    return {**found, "was": kept["x"]}


def test_large_values_stay_within_the_dtype() -> None:
    for dtype, factor in (("float32", 1e4), ("bfloat16", 1e4), ("float16", 65504 / 512)):
        found = made("large", dtype=dtype)
        assert found["x"].isfinite().all()
        grown = float(found["x"].double().norm() / found["was"].double().norm())
        assert grown == pytest.approx(factor, rel=0.01)


def test_nan_is_in_every_other_row_once() -> None:
    x = made("nan")["x"]
    assert x.isnan().sum(1).tolist() == [1, 0, 1, 0, 1, 0, 1, 0]
    assert len(set(x.isnan().nonzero()[:, 1].tolist())) == 4


def test_infinities_alone_together_and_not_at_all() -> None:
    x = made("infinite")["x"]
    assert [[bool((row == v).any()) for v in (float("inf"), -float("inf"))] for row in x] == [
        [True, False],
        [False, True],
        [True, True],
        [False, False],
    ] * 2


def test_masked_rows_have_values_in_front_and_some_have_none() -> None:
    x = made("minus-infinity-masked")["x"]
    kept = [(row != -float("inf")).sum().item() for row in x]
    assert kept == [0, 5, 9, 13, 0, 21, 25, 29]
    assert all((row[:n].isfinite()).all() for row, n in zip(x, kept, strict=True))


def test_zeros_have_both_signs() -> None:
    import torch

    x = made("signed-zero")["x"]
    assert not x.any()
    assert {bool(s) for s in torch.signbit(x).flatten()} == {True, False}


def test_a_constant_is_everywhere() -> None:
    assert (made("constant")["x"] == 0.5).all()


@pytest.mark.parametrize(
    ("layout", "strides", "offset"),
    [
        ("contiguous", (33, 1), 0),
        ("padded-rows", (48, 1), 0),
        ("transposed", (1, 8), 0),
        ("misaligned", (33, 1), 1),
    ],
)
def test_layouts_hold_the_same_values(
    layout: Layout, strides: tuple[int, int], offset: int
) -> None:
    import torch

    found = made(layout=layout)
    for name in ("x", "dy"):
        assert found[name].stride() == strides
        assert found[name].storage_offset() == offset
    assert torch.equal(found["x"], found["was"])


def test_what_lies_between_rows_is_nan() -> None:
    import torch

    x = made(layout="padded-rows")["x"]
    whole = torch.as_strided(x, (8, 48), (48, 1))
    assert whole[:, 33:].isnan().all()


def test_empty_problems_have_no_special_values() -> None:
    for data in ("nan", "infinite", "minus-infinity-masked", "constant"):
        assert made(data, rows=0)["x"].shape == (0, 33)


def test_what_a_forward_saved_is_of_the_values_that_the_case_gives() -> None:
    code = import_module("perfcli.kernels._norms.code")
    problem = Problem("layernorm-backward", 4, 32, "float32")
    tensors = make_inputs(code, Case(problem, None, "large"), problem, "cpu", 3)
    assert tensors["x"].std() > 1e3
    assert tensors["mean"].tolist() == pytest.approx(tensors["x"].mean(dim=1).tolist())
    deviations = tensors["x"].std(dim=1, correction=0)
    assert (tensors["rstd"] * deviations).tolist() == pytest.approx([1.0] * 4)
