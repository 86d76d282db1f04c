from __future__ import annotations

import math

import pytest

from perfcli.errors import PerfcliError
from perfcli.handwritten import checking
from perfcli.machine import targets
from perfcli.model import Case, KernelFamily, KernelLaunch, LaunchPlan, Problem, Target

H100 = targets.get("h100")


def plan(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    if problem.columns == 13:
        raise PerfcliError("13 columns are unlucky: use 12")
    launch = KernelLaunch("k", (problem.rows, 1, 1), {}, {}, num_warps=4)
    return LaunchPlan(variant or "rows", (launch,), "a program for each row")


FAMILY = KernelFamily(
    "f", "", {}, (), plan, lambda _: 0, lambda _: 0, lambda _: {}, (), (), "nowhere"
)


@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (264, 8192), (512, 16384), (8, 1 << 20)])
def test_small_cases_stay_as_they_are(rows: int, columns: int) -> None:
    case = Case(Problem("f", rows, columns))
    assert checking.plan_case(FAMILY, case, H100, "interpreter").case is case


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (8192, 64, 512),  # as many programs as the interpreter is given
        (8191, 64, 511),  # odd stays odd
        (400, 1 << 16, 128),  # 2^23 elements
        (263, 1 << 17, 63),
        (3, 1 << 23, 1),
    ],
)
def test_large_cases_lose_rows_in_the_interpreter_alone(
    rows: int, columns: int, expected: int
) -> None:
    case = Case(Problem("f", rows, columns), "rows", data="nan")
    shrunk = checking.plan_case(FAMILY, case, H100, "interpreter")
    assert (shrunk.case.problem.rows, shrunk.rows_asked) == (expected, rows)
    assert (shrunk.case.problem.columns, shrunk.case.data) == (columns, "nan")
    assert shrunk.plan is not None
    assert math.prod(shrunk.plan.launches[0].grid) == expected
    assert checking.plan_case(FAMILY, case, H100, "gpu").case is case


def test_a_row_that_is_too_long_for_the_interpreter_is_refused() -> None:
    case = Case(Problem("f", 99_999_999_999_999, 1 << 24))
    found = checking.plan_case(FAMILY, case, H100, "interpreter")
    assert (found.plan, found.refusal) == (
        None,
        "99,999,999,999,999 × 16,777,216 is too large for Triton's interpreter: one row has "
        "16,777,216 elements, and it takes 8,388,608 at most: check on a GPU, or give fewer "
        "columns",
    )
    assert checking.plan_case(FAMILY, case, H100, "gpu").plan is not None


def test_a_planner_that_refuses_is_kept_with_its_reason() -> None:
    found = checking.plan_case(FAMILY, Case(Problem("f", 4, 13)), H100, "gpu")
    assert (found.plan, found.refusal) == (None, "13 columns are unlucky: use 12")


@pytest.mark.parametrize("columns", [1, 16, 1023, 1024])
def test_padded_rows_are_further_apart_than_they_are_long(columns: int) -> None:
    case = Case(Problem("f", 4, columns), layout="padded-rows")
    problem = checking.plan_case(FAMILY, case, H100, "gpu").case.problem
    assert problem.stride > columns
    assert problem.stride % 16 == 0


def test_a_stride_of_the_familys_own_stays() -> None:
    case = Case(Problem("f", 4, 100, row_stride=104), layout="padded-rows")
    assert checking.plan_case(FAMILY, case, H100, "gpu").case.problem.stride == 104
