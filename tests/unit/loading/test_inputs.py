"""Inputs as people type them."""

from __future__ import annotations

from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading.inputs import GivenInput, join_inputs, read_inputs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8,128,768:bf16", {"shape": (8, 128, 768), "dtype": "bfloat16"}),
        ("tokens=4x1024:int64", {"name": "tokens", "shape": (4, 1024), "dtype": "int64"}),
        ("(8,):torch.float16", {"shape": (8,), "dtype": "float16"}),
        ("[]:half", {"shape": (), "dtype": "float16"}),
        ("8,64", {"shape": (8, 64), "dtype": "float32"}),
        ("8:FP8E4M3", {"shape": (8,), "dtype": "float8_e4m3fn"}),
        ("x=8,8:strides=1,8", {"name": "x", "shape": (8, 8), "strides": (1, 8)}),
        ("2,3,8,8:channels_last", {"shape": (2, 3, 8, 8), "layout": "channels_last"}),
        ("8:int32:below=50257", {"shape": (8,), "dtype": "int32", "below": 50257}),
        ("8:nograd", {"shape": (8,), "grad": False}),
        ("8:f64:grad", {"shape": (8,), "dtype": "float64", "grad": True}),
        ("n=3", {"name": "n", "value": 3}),
        ("8", {"value": 8}),
        ("scale=-2.5", {"name": "scale", "value": -2.5}),
        ("causal=True", {"name": "causal", "value": True}),
        ("mask=none", {"name": "mask"}),
        ("kind=mean", {"name": "kind", "value": "mean"}),
    ],
)
def test_what_a_text_says(text: str, expected: dict[str, Any]) -> None:
    assert read_inputs([text]) == (GivenInput(text, **expected),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8,64:bf17", "'bf17' is no dtype: did you mean bf16"),
        ("8,a:bf16", "'8,a' is no shape; expected [NAME=]SHAPE:DTYPE"),
        (":bf16", "'' is no shape"),
        ("8,-1:bf16", "'8,-1' is no shape"),
        ("8,8:strides=1", "strides=1 is not one number for each size"),
        ("8,8:channels_last", "channels_last needs 4 sizes"),
        ("8:below=0", "below=0 is no number above 0"),
        ("strides=1,8", "strides stands behind a shape"),
        ("[(8,4),(3,4)]:f32", "no [(…: what is called with lists or dictionaries needs a function"),
        ("x={'a':3}", "no {'…: what is called with lists"),
        ("?", "'?' is neither a shape nor a number"),
    ],
)
def test_what_says_nothing(text: str, said: str) -> None:
    with pytest.raises(PerfcliError) as raised:
        read_inputs([text])
    assert str(raised.value).startswith(f"--input {text}: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_is_given_once() -> None:
    with pytest.raises(PerfcliError, match="--input has x twice"):
        read_inputs(["x=8", "x=9"])


@pytest.mark.parametrize(
    ("shared", "own", "joined"),
    [
        (["8", "n=3"], [], ("8", "n=3")),
        (["8", "n=3"], ["16"], ("n=3", "16")),
        (["8", "n=3"], ["n=4"], ("8", "n=4")),
        (["8", "9"], ["16"], ("16",)),
    ],
)
def test_a_sides_own_inputs_take_the_place_of_both_sides(
    shared: list[str], own: list[str], joined: tuple[str, ...]
) -> None:
    assert join_inputs(shared, own) == joined


def test_which_dtypes_have_gradients() -> None:
    (floating, whole) = read_inputs(["8:fp8e5m2", "8:u16"])
    assert (floating.is_floating, whole.is_floating) == (True, False)
