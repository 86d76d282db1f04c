"""What Triton is told at a launch, and where the buffers of a launch lie."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelLaunch, LaunchPlan, Problem

pytestmark = pytest.mark.torch

STEP = KernelLaunch("f", (3, 1, 1), {"x": "i32"}, {"BLOCK": 8}, num_warps=2)


def told(step: KernelLaunch) -> dict[str, Any]:
    """The arguments and options of one launch."""
    seen: list[dict[str, Any]] = []
    function = {step.grid: lambda **given: seen.append(given)}
    code: Any = SimpleNamespace(function=lambda _: function)
    launching = import_module("perfcli.kernels._launching")
    launching.launch(code, LaunchPlan("v", (step,), ""), {"x": 5, "other": 6})
    return seen[0]


def test_a_bound_on_registers_is_an_option_of_the_launch_that_has_one() -> None:
    """Triton's AMD backend knows no such option, not even with None."""
    plain = {"x": 5, "BLOCK": 8, "num_warps": 2, "num_stages": 1}
    assert told(STEP) == plain
    assert told(replace(STEP, maxnreg=168)) == {**plain, "maxnreg": 168}


@pytest.mark.parametrize(
    ("operation", "columns", "variant"),
    [
        ("softmax", 1048589, "split"),
        ("cross-entropy", 4099, "online"),
        ("softmax", 40000, "split"),
        ("softmax", 1048576, None),
    ],
)
def test_buffers_of_softmax_begin_where_its_plan_says(
    operation: str, columns: int, variant: str | None
) -> None:
    """Outputs and workspace, which share an allocation: at multiples of 16 bytes."""
    import torch

    family = registry.family("softmax")
    code = import_module(family.code)
    problem = Problem(operation, 3, columns)
    plan = family.plan(problem, targets.get("h200"), variant)
    like = torch.empty(3, columns, dtype=torch.bfloat16)
    buffers = {**code._outputs_of(problem, like), **code._workspace_of(problem, plan, like)}
    tensors = {name: each for name, each in buffers.items() if isinstance(each, torch.Tensor)}
    assert len(tensors) >= 2
    assert {name: each.data_ptr() % 16 for name, each in tensors.items()} == dict.fromkeys(
        tensors, 0
    )


@pytest.mark.parametrize(
    ("operation", "columns", "variant"),
    [
        ("rmsnorm-backward", 1128, "fused"),
        ("layernorm-residual-backward", 1123, "fused"),
        ("layernorm-backward", 20003, "ring"),
    ],
)
def test_gradients_of_norms_that_load_words_find_them_aligned(
    operation: str, columns: int, variant: str
) -> None:
    """Wherever rows and weights begin: a GPU loads no word from between two of them."""
    import torch

    family = registry.family(operation.partition("-")[0])
    code = import_module(family.code)
    launching = import_module("perfcli.kernels._launching")
    problem = Problem(operation, 300, columns)
    plan = family.plan(problem, targets.get("h200"), variant)
    given = {}
    for name, tensor in code.inputs(problem, "cpu", 3).items():
        room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)
        given[name] = room[1:].view(tensor.shape).copy_(tensor)
        assert given[name].data_ptr() % 16
    with launching.record_launches() as record:
        code.run(problem, given, plan)
    taken = next(values for step, values in record if step.function.startswith("gradient"))
    for name, tensor in given.items():
        assert taken[name].data_ptr() % 16 == 0, name
        assert torch.equal(taken[name], tensor), name
