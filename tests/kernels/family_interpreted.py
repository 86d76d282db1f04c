"""Runs problems of a family through Triton's interpreter (``warm.WarmProcess.interpret``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch

from perfcli.handwritten.data import make_inputs
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, KernelFamily, Problem, Tolerance


def answer(name: str, lines: Sequence[Sequence[Any]]) -> list[dict[str, float]]:
    """Return of each line each output's largest error over what is allowed. A line has operation,
    rows, columns, dtype, row stride, variant, data, and where they are not contiguous, 132 and no
    the layout, the number of multiprocessors, and whether it is planned as if it were large."""
    family = registry.family(name)
    return [_run(family, line) for line in lines]


def _run(family: KernelFamily, line: Sequence[Any]) -> dict[str, float]:
    """Twice where it is small, with the same bits: nothing may be left in a workspace."""
    code = import_module(family.code)
    operation, rows, columns, dtype, stride, variant, data, *more = line
    defaults: list[Any] = ["contiguous", 132, False]
    layout, count, large = [*more, *defaults[len(more) :]]
    problem = Problem(operation, rows, columns, dtype, stride)
    case = Case(problem, variant, data, layout)
    tensors = make_inputs(code, case, problem, "cpu", 7)
    target = replace(targets.get("h200"), sm_count=count)
    with _as_if_large() if large else nullcontext():
        plan = family.plan(problem, target, variant)
    found = code.run(problem, tensors, plan)
    if problem.elements < 1 << 12:
        again = code.run(problem, tensors, plan)
        assert all(torch.equal(found[k].nan_to_num(), again[k].nan_to_num()) for k in found)
    expected = code.reference(problem, tensors)
    allowed = family.tolerances(problem)
    return {name: _excess(found[name], expected[name], allowed[name]) for name in expected}


AS_IF_LARGE = (
    ("_norms.choice", "SMALL_BYTES", 0),
    ("_norms.cuts", "FITTED_BYTES", 1),
    ("softmax.launches", "SKIPPED_FROM", 0),
)


@contextmanager
def _as_if_large() -> Iterator[None]:
    """Plan problems as if they took as long as memory moves them: an interpreter has no time for
    those that do."""
    with ExitStack() as stack:
        for module, name, value in AS_IF_LARGE:
            stack.enter_context(
                patch.object(import_module(f"perfcli.kernels.{module}"), name, value)
            )
        yield


def _excess(found: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> float:
    """The largest error, as a part of what is allowed; infinite where NaNs are not the same."""
    if not expected.numel():
        return 0.0
    wide = found.double()
    same = (wide == expected) | (wide.isnan() & expected.isnan())
    ratio = (wide - expected).abs() / (allowed.absolute + allowed.relative * expected.abs())
    return float(torch.where(same, 0.0, ratio.nan_to_num(nan=torch.inf)).max())
