"""Runs cases of softmax through Triton's interpreter; started by test_softmax.py in a process of
its own, as the interpreter is chosen before Triton is imported. Prints a line of JSON per case."""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from importlib import import_module
from typing import Any

import torch

from perfcli import registry, targets
from perfcli.handwritten.data import arranged
from perfcli.model import Case, Problem, Tolerance

FAMILY = registry.family("softmax")
CODE = import_module("perfcli.kernels._softmax")


def excess(found: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> float:
    """The largest error, as a part of what is allowed; infinite where NaNs are not the same."""
    if not expected.numel():
        return 0.0
    wide = found.double()
    same = (wide == expected) | (wide.isnan() & expected.isnan())
    ratio = (wide - expected).abs() / (allowed.absolute + allowed.relative * expected.abs())
    return float(torch.where(same, 0.0, ratio.nan_to_num(nan=torch.inf)).max())


def run(text: list[Any]) -> dict[str, float]:
    operation, rows, columns, dtype, stride, variant, data, layout = text
    problem = Problem(operation, rows, columns, dtype, stride)
    case = Case(problem, variant, data, layout)
    tensors = arranged(case, problem, CODE.inputs(problem, "cpu", 7))
    outputs = CODE.run(problem, tensors, FAMILY.plan(problem, targets.get("h200"), variant))
    expected = CODE.reference(problem, tensors)
    allowed = FAMILY.tolerances(problem)
    return {name: excess(outputs[name], expected[name], allowed[name]) for name in expected}


for line in json.load(sys.stdin):
    sys.stdout.write(json.dumps(run(line)) + "\n")
