"""What is compiled ahead is what launches look for on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import perfcli
from perfcli.handwritten import ahead, checking
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, Problem
from perfcli.model.kernel_work import CheckRequest, PlannedCase

FAMILY = str(Path(__file__).parents[2] / "fixtures" / "kernels" / "row_sum.py")
H200 = targets.get("h200")


def case(problem: Problem, variant: str | None = None, **changes: object) -> PlannedCase:
    asked = replace(Case(problem, variant), **changes)  # type: ignore[arg-type]
    return checking.plan_case(registry.family(FAMILY), asked, H200, "gpu")


def test_one_process_takes_all_cases_of_the_same_kernels() -> None:
    first, taller = case(Problem("sum", 7, 192)), case(Problem("sum", 9, 192))
    looped, nothing = case(Problem("sum", 7, 192), "looped"), case(Problem("sum", 0, 192))
    other_values = case(Problem("sum", 7, 192), data="nan")
    misaligned = case(Problem("sum", 7, 192), layout="misaligned")
    refused = case(Problem("product", 7, 192))
    found = ahead._groups(
        [first, looped, taller, other_values, nothing, misaligned, refused, looped]
    )
    assert found == [(first, taller, misaligned), (looped,)]


@pytest.mark.torch
def test_progress_is_told_and_nothing_that_fails_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    good, failing = case(Problem("sum", 64, 2048)), case(Problem("sum", 64, 2048), "looped")
    assert failing.plan is not None
    step = replace(failing.plan.launches[0], constants={"BLOCK": 1000})
    failing = replace(failing, plan=replace(failing.plan, launches=(step,)))
    request = CheckRequest(FAMILY, (failing, good), "gpu", 2, 0, H200)
    assert list(ahead.compile_ahead(request)) == [(0, 2), (1, 2), (2, 2)]
    kept = {path.name for path in (tmp_path / "triton").rglob("*.cubin")}
    assert kept == {"row_sum.cubin"}


def test_without_a_target_nothing_is_compiled_ahead() -> None:
    request = CheckRequest(FAMILY, (case(Problem("sum", 64, 2048)),), "gpu", 2, 0)
    assert list(ahead.compile_ahead(request)) == []
    amd = replace(request, target=targets.get_for_kernels("mi300x"))
    assert list(ahead.compile_ahead(amd)) == []


LAUNCHED = """
import os
import sys
from pathlib import Path

import torch
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.compile.stand_in.device import install_triton_driver
from perfcli.handwritten import ahead, checking, compiling, describing
from perfcli.handwritten.data import arrange
from perfcli.model import Case, Problem
from perfcli.model.kernel_work import CheckRequest, LaunchToCompile

family, target = registry.family(sys.argv[1]), targets.get("h200")
code = describing.load_code(family.code, sys.argv[1])
problems = (Problem("sum", 64, 2048), Problem("sum", 64, 1023, "float32"), Problem("sum", 4, 1))
cases = [Case(problem) for problem in problems] + [Case(problems[0], layout="misaligned")]
planned = tuple(checking.plan_case(family, case, target, "gpu") for case in cases)
for _ in ahead.compile_ahead(CheckRequest(sys.argv[1], planned, "gpu", 1, 0, target)):
    pass
kept = Path(os.environ["TRITON_CACHE_DIR"])
before = {path.name for path in kept.iterdir()}
install_triton_driver(target)
for case, each in zip(cases, planned):
    problem, (step,) = each.case.problem, each.plan.launches
    function = code.function(step.function)
    x = arrange(case, problem, code.inputs(problem, "cpu", 0))["x"]
    launched = function.warmup(
        x, torch.empty(problem.rows), problem.columns, x.stride(0), **step.constants,
        num_warps=step.num_warps, grid=(1,)
    )
    if case.layout == "contiguous" and problem.columns > 1:  # where the plan knows all
        source = compiling._source(function, step)
        assert source.attrs == launched.src.attrs, (source.attrs, launched.src.attrs)
        assert source.hash() == launched.src.hash()
assert {path.name for path in kept.iterdir()} == before, "something was compiled again"
print(len(before))
"""


@pytest.mark.torch
def test_launches_find_what_was_compiled_ahead(tmp_path: Path) -> None:
    file = tmp_path / "launched.py"
    file.write_text(LAUNCHED)
    root, kept = Path(perfcli.__file__).parents[1], tmp_path / "triton"
    done = subprocess.run(
        [sys.executable, str(file), FAMILY],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root), "TRITON_CACHE_DIR": str(kept)},
    )
    # Four kernels; a row of one column is a constant to Triton.
    assert done.stdout == "4\n", done.stderr
