"""Runs problems through Triton's interpreter; started by test_rmsnorm.py in a process of its own,
as the interpreter is chosen before Triton is imported. Prints a line of JSON per case."""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from importlib import import_module
from typing import Any

import torch

from perfcli import registry, targets
from perfcli.model import Case, Problem, Tolerance

FAMILY = registry.family("rmsnorm")
CODE = import_module("perfcli.kernels._rmsnorm")
import_module("perfcli.handwritten.interpreter").round_to_nearest()


def excess(found: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> float:
    """The largest error, as a part of what is allowed; infinite where NaNs are not the same."""
    if not expected.numel():
        return 0.0
    wide = found.double()
    same = (wide == expected) | (wide.isnan() & expected.isnan())
    ratio = (wide - expected).abs() / (allowed.absolute + allowed.relative * expected.abs())
    return float(torch.where(same, 0.0, ratio.nan_to_num(nan=torch.inf)).max())


def run(text: list[Any]) -> dict[str, float]:
    operation, rows, columns, dtype, stride, variant, data = text
    problem = Problem(operation, rows, columns, dtype, stride)
    arranged = import_module("perfcli.handwritten.data").arranged
    case = Case(problem, data=data)
    tensors = arranged(case, problem, CODE.inputs(problem, "cpu", 7))
    plan = FAMILY.plan(problem, targets.get("h200"), variant)
    found = CODE.run(problem, tensors, plan)
    again = CODE.run(problem, tensors, plan)
    expected = CODE.reference(problem, tensors)
    assert all(torch.equal(found[k].nan_to_num(), again[k].nan_to_num()) for k in found)
    allowed = FAMILY.tolerances(problem)
    return {name: excess(found[name], expected[name], allowed[name]) for name in expected}


for line in json.loads(sys.stdin.read()):
    sys.stdout.write(f"{json.dumps(run(line))}\n")
