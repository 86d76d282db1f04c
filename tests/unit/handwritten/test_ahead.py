"""What is compiled ahead is what launches look for on the device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from warm import WarmProcess, make_request

from perfcli.handwritten import ahead, checking
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, Problem
from perfcli.model.kernel_work import CheckRequest, PlannedCase

FIXTURES = Path(__file__).parents[2] / "fixtures"
FAMILY = str(FIXTURES / "kernels" / "row_sum.py")
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


@pytest.mark.torch
def test_launches_find_what_was_compiled_ahead(
    warm_process: WarmProcess, cache_of_the_run: Path
) -> None:
    request = make_request(cache_of_the_run)
    before, after = warm_process.call(request, FIXTURES / "launched_ahead.py", FAMILY)
    # Four kernels; a row of one column is a constant to Triton.
    assert len(before) == 4
    assert after == before, "something was compiled again"
