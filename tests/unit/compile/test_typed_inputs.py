"""Tensors of the inputs that were typed: shapes, strides and dtypes as torch has them."""

from __future__ import annotations

from typing import Any

import pytest

from perfcli.loading.inputs import read_inputs
from perfcli.model import Workload

pytestmark = pytest.mark.torch


def make(call: Any, *texts: str, mode: Any = "forward") -> tuple[Any, tuple[str, ...]]:
    from perfcli.compile.typed_inputs import make_inputs

    given = read_inputs(texts)
    named = {each.name: each for each in given if each.name}
    return make_inputs(Workload(call, tuple(e for e in given if not e.name), named, mode=mode))


def test_tensors_and_values() -> None:
    import torch

    texts = ("4,6:bf16", "tokens=3x2:int64:below=9", "n=3", "image=2,3,4,4:channels_last")
    made, notes = make(abs, *texts, "turned=4,6:f16:strides=1,4", "odd=5:bool", "small=8:fp8e4m3")
    (x,), kwargs = made.inputs, made.kwargs
    assert (x.shape, x.dtype, x.requires_grad) == ((4, 6), torch.bfloat16, False)
    assert kwargs["tokens"].dtype == torch.int64
    assert int(kwargs["tokens"].max()) < 9
    assert kwargs["n"] == 3
    assert kwargs["image"].stride() == (48, 1, 12, 3)
    assert kwargs["turned"].stride() == (1, 4)
    assert (kwargs["odd"].dtype, kwargs["small"].dtype) == (torch.bool, torch.float8_e4m3fn)
    assert notes == ()


def test_gradients_and_weights() -> None:
    import torch

    layer = torch.nn.Linear(4, 4)
    made, notes = make(layer, "2,4:bf16", "ids=2:int64", "own=2:bf16:nograd", mode="training")
    found = [made.inputs[0], made.kwargs["ids"], made.kwargs["own"]]
    assert [tensor.requires_grad for tensor in found] == [True, False, False]
    assert layer.weight.dtype == torch.bfloat16
    assert len(notes) == 1
    assert "the model was converted, as by .to(torch.bfloat16)" in notes[0]
    half = torch.nn.Linear(4, 4).half()
    assert make(half, "2,4:bf16")[1] == ()
    assert half.weight.dtype == torch.float16, "weights that somebody chose stay"
    mixed = torch.nn.Linear(4, 4)
    assert make(mixed, "2,4:bf16", "b=2:f32")[1] == ()
    assert mixed.weight.dtype == torch.float32


def test_a_workload_with_inputs_of_its_own_is_left_alone() -> None:
    workload = Workload(abs, (1,))
    from perfcli.compile.typed_inputs import make_inputs

    assert make_inputs(workload) == (workload, ())
