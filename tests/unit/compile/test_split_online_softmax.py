"""Softmax over split rows: which kernels it becomes, and that results are those of eager."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable
from typing import Any

import pytest
from interpreted import generate, interpret
from warm import WarmProcess

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="generates and interprets Triton kernels"
    ),
]
NAME = "patch.split_online_softmax"
INTERPRETED = (
    *("split", "split-even", "split-special", "split-log", "split-parts"),
    *("split-columns", "split-dynamic"),
)
COMPILED = (*INTERPRETED, "split-wide", "split-many", "unsplit")
RELEASE = tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))


@pytest.fixture(scope="module")
def made(
    once: Callable[..., dict[str, Any]], warm_process: WarmProcess
) -> dict[str, dict[str, Any]]:
    """What is generated with the patch, without it, and after it was taken away."""

    def compute() -> dict[str, Any]:
        asked = [f"{name},+{NAME}=true" for name in COMPILED]
        asked += ["split", f"split,-{NAME}=true", "unsplit"]
        return dict(zip(asked, generate(warm_process, asked), strict=True))

    return once("split online softmax", compute)


def patched(made: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    return made[f"{name},+{NAME}=true"]


def kernels(module: dict[str, Any]) -> list[str]:
    """The kinds of kernels that are launched, in order."""
    (text,) = module["modules"]
    return re.findall(r"triton_(per|red|poi)_\w+\.run\(", text)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("split", ["per", "red", "poi"]),  # 1,025 parts, one too many to hold in registers
        ("split-even", ["per", "per", "poi"]),
        ("split-log", ["per", "per", "poi"]),
        ("split-many", ["per", "per", "poi"]),
        ("split-dynamic", ["per", "red", "poi"]),
        ("split-columns", ["red", "red", "poi"]),
        ("split-wide", ["per", "red", "per", "red", "per", "poi"]),  # 9,216 parts, split in turn
    ],
)
def test_parts_and_what_combines_them_are_a_kernel_each(
    made: dict[str, dict[str, Any]], name: str, kinds: list[str]
) -> None:
    module = patched(made, name)
    assert kernels(module) == kinds
    assert module["acted"] == {NAME: 1}


def test_rows_that_are_not_split_are_torchs(made: dict[str, dict[str, Any]]) -> None:
    module = patched(made, "unsplit")
    assert module["acted"] == {NAME: 0}
    assert module["modules"] == made["unsplit"]["modules"]


def test_undone_not_a_byte_differs(made: dict[str, dict[str, Any]]) -> None:
    assert made[f"split,-{NAME}=true"]["modules"] == made["split"]["modules"]
    assert patched(made, "split")["modules"] != made["split"]["modules"]


@pytest.mark.skipif(RELEASE >= (2, 13), reason="torch splits online softmax itself since 2.13")
def test_without_it_there_are_five_kernels(made: dict[str, dict[str, Any]]) -> None:
    assert len(kernels(made["split"])) >= 5


def test_results_are_those_of_float64(
    made: dict[str, dict[str, Any]], warm_process: WarmProcess
) -> None:
    """In Triton's interpreter. NaN, infinities, and parts and rows of nothing but -inf included."""
    modules = [patched(made, name) for name in INTERPRETED]
    interpreted = interpret(warm_process, modules, ["XBLOCK=8,R0_BLOCK=512"])
    found = {each["name"]: max(each["errors"]) for each in interpreted}
    assert found.keys() == set(INTERPRETED)
    assert {name: error for name, error in found.items() if not error <= 1} == {}
