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

    for call in (optimizer.step, inside, through_another, of_an_object, of_a_gradient):
        assert is_step(call), call


def test_models_are_no_steps() -> None:
    import torch

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters())

    def call(x: Any) -> Any:
        return model(x)

    def looks_at_a_rate(x: Any) -> Any:
        return model(x) * optimizer.param_groups[0]["lr"]

    for each in (model, model.forward, call, looks_at_a_rate, torch.nn.functional.gelu):
        assert not is_step(each), each


def test_a_scaled_step_runs_its_optimizer(compile_run: Callable[..., Run]) -> None:
    """The optimizer reads gradient and weight, and writes a weight and its first momentum."""
    run = compile_run("whole_steps.py:scaled")
    assert run.mode == "step"
    assert [launch.graph for launch in run.launches][-1] == "inference 0"
    (update,) = [kernel for kernel in run.kernels if kernel.graph == "inference 0"]
    assert sorted(b.role for b in update.buffers) == ["input", "input", "output", "output"]
    assert any("GradScaler" in note for note in run.notes)
    assert any("built on the CPU" in note for note in run.notes)
