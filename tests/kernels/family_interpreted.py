"""Runs problems of a family through Triton's interpreter, in a process of its own: the interpreter
is chosen before Triton is imported. The family comes as the argument, a list of JSON on standard
input: operation, rows, columns, dtype, row stride, variant, data, and where they are not contiguous
and 132 the layout and the number of multiprocessors. Prints a line of JSON per problem: each
output's largest error over what is allowed."""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from dataclasses import replace
from importlib import import_module
from typing import Any

import torch

from perfcli.handwritten.data import make_inputs
from perfcli.handwritten.interpreter import prepare
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, Problem, Tolerance

FAMILY = registry.family(sys.argv[1])
CODE = import_module(FAMILY.code)
prepare()


def excess(found: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> float:
    """The largest error, as a part of what is allowed; infinite where NaNs are not the same."""
    if not expected.numel():
        return 0.0
    wide = found.double()
    same = (wide == expected) | (wide.isnan() & expected.isnan())
    ratio = (wide - expected).abs() / (allowed.absolute + allowed.relative * expected.abs())
    return float(torch.where(same, 0.0, ratio.nan_to_num(nan=torch.inf)).max())


def run(text: list[Any]) -> dict[str, float]:
    """Twice where it is small, with the same bits: nothing may be left in a workspace."""
    operation, rows, columns, dtype, stride, variant, data, *more = text
    defaults: list[Any] = ["contiguous", 132]
    layout, count = [*more, *defaults[len(more) :]]
    problem = Problem(operation, rows, columns, dtype, stride)
    case = Case(problem, variant, data, layout)
    tensors = make_inputs(CODE, case, problem, "cpu", 7)
    target = replace(targets.get("h200"), sm_count=count)
    plan = FAMILY.plan(problem, target, variant)
    found = CODE.run(problem, tensors, plan)
    if problem.elements < 1 << 12:
        again = CODE.run(problem, tensors, plan)
        assert all(torch.equal(found[k].nan_to_num(), again[k].nan_to_num()) for k in found)
    expected = CODE.reference(problem, tensors)
    allowed = FAMILY.tolerances(problem)
    return {name: excess(found[name], expected[name], allowed[name]) for name in expected}


for line in json.load(sys.stdin):
    sys.stdout.write(f"{json.dumps(run(line))}\n")
