from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade import run
from handmade_reductions import OLD, matrix, reduction, source, split_softmax

from perfcli.model import Finding, KernelFacts, Run
from perfcli.rules.online_softmax_dynamic import RULE


def softmax(rows: int = 8192, columns: int = 50304, **more: Any) -> KernelFacts:
    given: dict[str, Any] = {
        "facts": source(3),
        "dynamic_sizes": ("x", "r0_"),
        "widths": {"16": 12},
        **more,
    }
    sizes = {"x": rows, "r0_": columns}
    return reduction("triton_red_fused_softmax_0", (matrix(rows, columns),), sizes, **given)


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(run(kernels, dynamic=True, **more)))


def test_rows_that_no_cache_holds() -> None:
    (finding,) = found(softmax())
    assert finding.severity == "warning"
    assert finding.headline == (
        "triton_red_fused_softmax_0 sweeps 824 MB 3 times: a softmax's maximum and sum are apart, "
        "since the row's length is dynamic"
    )
    assert finding.evidence == (
        "3 sweeps, where online softmax takes 2",
        "the row's length is a symbol (here 50,304): Inductor cannot prove that it is 8 or more",
        "53.1 MB are in use at once, more than the L2 cache's 52.4 MB",
        "its widest load is 16 bits",
    )
    assert "torch._check(x.size(-1) >= 8)" in finding.advice
    assert finding.amount == 8192 * 50304 * 2


def test_rows_that_the_cache_holds_are_only_worth_knowing() -> None:
    (finding,) = found(softmax(columns=8192))
    assert finding.severity == "info"
    assert "8.65 MB are in use at once, which fits into the L2 cache's 52.4 MB" in finding.evidence


@pytest.mark.parametrize(
    ("columns", "settings", "expected"),
    [
        (50304, {"unroll_reductions_threshold": 8}, [{"unroll_reductions_threshold": 2}]),
        (50304, {"unroll_reductions_threshold": 2}, []),
        (50304, {}, []),
        (8192, {"unroll_reductions_threshold": 8}, []),
    ],
    ids=["the default", "there already", "not known", "gains nothing in cache"],
)
def test_a_length_that_can_be_proven_cures_it(
    columns: int, settings: dict[str, int], expected: list[dict[str, int]]
) -> None:
    (finding,) = found(softmax(columns=columns), settings=settings)
    assert [dict(cure.options) for cure in finding.cures] == expected


def test_split_kernels_are_one_finding() -> None:
    stages = [replace(k, dynamic_sizes=("x", "r0_")) for k in split_softmax(32, 1048576)]
    (finding,) = found(*stages, environment=OLD)
    assert finding.kernels == (0, 2)
    assert finding.advice.endswith("(and torch 2.13 or newer)")


@pytest.mark.parametrize(
    "kernel",
    [
        softmax(facts=source(2, online=True)),
        softmax(facts=source(2, online=None)),
        softmax(dynamic_sizes=("x",)),
        softmax(origins=()),
        softmax(kind="persistent-reduction"),
    ],
    ids=["online", "not known", "static length", "no softmax", "held in registers"],
)
def test_what_is_fine(kernel: KernelFacts) -> None:
    assert found(kernel) == []


CHECKED = """
import torch


def softmax(x):
    {check}
    return torch.softmax(x, -1)


def scenario():
    return softmax, (torch.randn(128, 2048),)
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("check", "codes"), [("pass", ["PC202"]), ("torch._check(x.size(-1) >= 8)", [])]
)
def test_a_lower_bound_brings_it_back(
    check: str, codes: list[str], tmp_path: Any, compile_run: Callable[..., Run]
) -> None:
    model = tmp_path / "model.py"
    model.write_text(CHECKED.format(check=check))
    compiled = compile_run(f"{model}:scenario", dynamic=True)
    assert [finding.code for finding in RULE.of_run(compiled)] == codes
