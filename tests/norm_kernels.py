"""What tests of norms' kernels ask of a problem, a launch and its numbers."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.facts.binary.cubin import find_tools, read_cubin
from perfcli.handwritten import compiling
from perfcli.handwritten.comparing import compare_outputs
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelLaunch, LaunchPlan, Problem
from perfcli.model.kernel_work import LaunchToCompile

H200 = targets.get("h200")


def family_of(problem: Problem) -> Any:
    return registry.family(problem.operation.partition("-")[0])


def plan(problem: Problem, target: str = "h200", variant: str | None = None) -> LaunchPlan:
    made: LaunchPlan = family_of(problem).plan(problem, targets.get_for_kernels(target), variant)
    return made


def number(step: KernelLaunch, name: str) -> int:
    value = step.constants[name]
    assert isinstance(value, int)
    return value


def assert_right(problem: Problem, tensors: dict[str, Any], found: dict[str, Any]) -> None:
    """Against float64, within the family's tolerances."""
    expected = import_module("perfcli.kernels._norms.code").reference(problem, tensors)
    assert found.keys() == expected.keys()
    errors = compare_outputs(found, expected, family_of(problem).tolerances(problem))
    assert {error.name: error.wrong for error in errors} == dict.fromkeys(expected, 0)


def copies_to_shared_memory(step: KernelLaunch) -> list[str]:
    """Return the instructions on an H200; skips the test where nothing disassembles."""
    import triton

    try:
        tools = find_tools(Path(triton.__file__).parent)
    except PerfcliError as error:
        pytest.skip(str(error))
    code = "perfcli.kernels._norms.code"
    asked = LaunchToCompile(code, step, H200)
    source = compiling._source(import_module(code).function(step.function), step)
    cubin = compiling._build(source, asked).asm["cubin"]
    return re.findall(r"LDGSTS.*", read_cubin(cubin, tools, "").sass)


def has_uniform_part(copy: str) -> bool:
    """Return whether the address that is copied to has one, for which a copy with a policy has no
    room."""
    return re.match(r"LDGSTS\S* \[R\d+\+UR", copy) is not None
