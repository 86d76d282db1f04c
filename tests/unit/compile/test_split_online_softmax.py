"""Softmax over split rows: which kernels it becomes, and that results are those of eager."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="generates and interprets Triton kernels"
    ),
]
FIXTURES = Path(__file__).parents[2] / "fixtures"
NAME = "patch.split_online_softmax"
INTERPRETED = (
    *("split", "split-even", "split-special", "split-log", "split-parts"),
    *("split-columns", "split-dynamic"),
)
COMPILED = (*INTERPRETED, "split-wide", "split-many", "unsplit")
RELEASE = tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))


@pytest.fixture(scope="module")
def made(once: Callable[..., dict[str, Any]], cache_of_the_run: Path) -> dict[str, dict[str, Any]]:
    """What is generated with the patch, without it, and after it was taken away."""

    def generate() -> dict[str, Any]:
        asked = [f"{name},+{NAME}=true" for name in COMPILED]
        asked += ["split", f"split,-{NAME}=true", "unsplit"]
        text = run("generated_modules.py", str(cache_of_the_run), *asked)
        return dict(zip(asked, map(json.loads, text.splitlines()), strict=True))

    return once("split online softmax", generate)


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


def test_results_are_those_of_float64(made: dict[str, dict[str, Any]]) -> None:
    """In Triton's interpreter. NaN, infinities, and parts and rows of nothing but -inf included."""
    texts = "".join(f"{json.dumps(patched(made, name))}\n" for name in INTERPRETED)
    lines = run("run_modules.py", "XBLOCK=8,R0_BLOCK=512", given=texts).splitlines()
    found = {each["name"]: max(each["errors"]) for each in map(json.loads, lines)}
    assert found.keys() == set(INTERPRETED)
    assert {name: error for name, error in found.items() if not error <= 1} == {}


def run(program: str, *arguments: str, given: str = "") -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(FIXTURES / program), *arguments],
        input=given,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout
