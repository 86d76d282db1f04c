"""Whole training steps are known by what their code names, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perfcli.model import Run

pytestmark = pytest.mark.torch


def is_step(call: Any) -> bool:
    from perfcli.compile import own_backward

    return own_backward.is_step(call)


def _add_up(loss: Any) -> None:
    loss.backward()


class Trainer:
    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer = model, optimizer

    def finish(self) -> None:
        self.optimizer.step()


def test_steps_are_recognised() -> None:
    import torch
    from torch.func import grad

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters())
    trainer = Trainer(model, optimizer)

    def inside(x: Any) -> None:
        model(x).sum().backward()

    def through_another(x: Any) -> None:
        _add_up(model(x).sum())

    def of_an_object() -> None:
        trainer.finish()

    def of_a_gradient(x: Any) -> Any:
        return torch.autograd.grad(model(x).sum(), x)

    def of_a_function(x: Any) -> Any:
        return grad(lambda x: model(x).sum())(x)

    def of_a_function_by_its_full_name(x: Any) -> Any:
        return torch.func.grad(lambda x: model(x).sum())(x)

    steps = (optimizer.step, inside, through_another, of_an_object, of_a_gradient, of_a_function)
    for call in (*steps, of_a_function_by_its_full_name):
        assert is_step(call), call


def test_models_are_no_steps() -> None:
    import torch
    from torch.func import functional_call

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters())

    def functional(x: Any) -> Any:
        return functional_call(model, {}, (x,))

    def call(x: Any) -> Any:
        return model(x)

    def looks_at_a_rate(x: Any) -> Any:
        return model(x) * optimizer.param_groups[0]["lr"]

    for each in (model, model.forward, call, functional, looks_at_a_rate, torch.nn.functional.gelu):
        assert not is_step(each), each


def test_a_scaled_step_runs_its_optimizer(compile_run: Callable[..., Run]) -> None:
    """From the second step on, the optimizer reads gradient, weight and momentum, and writes the
    latter two. The first step, which makes the momentum, does not count."""
    run = compile_run("whole_steps.py:scaled")
    assert run.mode == "step"
    assert [launch.graph for launch in run.launches][-1] == "inference 1"
    (update,) = [kernel for kernel in run.kernels if kernel.graph == "inference 1"]
    assert sorted(b.role for b in update.buffers) == [*["input"] * 3, *["output"] * 2]
    assert [graph.name for graph in run.graphs] == ["forward 0", "backward 0", "inference 1"]
    left = "compiled, but not called in the last step, and left out: inference 0 (1 kernel)"
    assert left in run.notes
    assert any("GradScaler" in note for note in run.notes)
    assert any("built on the CPU" in note for note in run.notes)
