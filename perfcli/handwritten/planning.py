"""Which plan a case is run with, and how large it is: Triton's interpreter runs one program after
the other, in Python."""

from __future__ import annotations

from dataclasses import replace

from perfcli.errors import PerfcliError
from perfcli.model import Case, KernelFamily, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import PlannedCase, Runner

MOST_PROGRAMS = 512
"""A program of a row kernel takes about 2 ms."""
MOST_ELEMENTS = 1 << 23
"""Some 30 operations of NumPy on each: a few seconds."""


def planned(family: KernelFamily, case: Case, target: Target, runner: Runner) -> PlannedCase:
    """The case with its plan; with fewer rows where the interpreter would take too long."""
    if case.layout == "padded-rows" and case.problem.row_stride is None:
        problem = replace(case.problem, row_stride=padded_stride(case.problem))
        case = replace(case, problem=problem)
    rows = case.problem.rows
    try:
        plan = family.plan(case.problem, target, case.variant)
        shrunk = smaller(case, plan) if runner == "interpreter" else None
        if shrunk is None:
            return PlannedCase(case, plan)
        return PlannedCase(
            shrunk, family.plan(shrunk.problem, target, case.variant), rows_asked=rows
        )
    except PerfcliError as error:
        return PlannedCase(case, None, refusal=str(error))


def padded_stride(problem: Problem) -> int:
    """Elements from row to row of a case with padded rows that names no stride: more than columns,
    and a multiple of 16."""
    return (problem.columns // 16 + 2) * 16


def smaller(case: Case, plan: LaunchPlan) -> Case | None:
    """The case with so few rows that it is run in seconds; None where it is small enough. Columns
    stay as they are: they decide the blocks, masks and loops of a row. An odd number of rows stays
    odd, so that a tile of rows that is not full stays one."""
    problem = case.problem
    programs = sum(step.grid[0] * step.grid[1] * step.grid[2] for step in plan.launches)
    factor = max(programs / MOST_PROGRAMS, problem.elements / MOST_ELEMENTS)
    rows = max(int(problem.rows / factor), 1) if factor > 1 else problem.rows
    if rows >= problem.rows:
        return None
    if rows % 2 != problem.rows % 2:
        rows = rows - 1 if rows > 1 else rows
    return replace(case, problem=replace(problem, rows=rows))
