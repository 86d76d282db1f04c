"""Runs cases of a family and holds them against their references: on the GPU one after the other,
through Triton's interpreter on all cores."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.handwritten import describing, interpreter
from perfcli.handwritten.comparing import compare_outputs
from perfcli.handwritten.data import make_inputs
from perfcli.loading import registry
from perfcli.model import Case, KernelFamily, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import CheckedCase, CheckRequest, PlannedCase, Runner


def check_all(request: CheckRequest) -> Iterator[tuple[int, CheckedCase]]:
    """Yield each case's number and what came of it, as they come. Ends early where the device was
    lost to this process: the last case says so. Raises WorkerFailed where a process of the
    interpreter's was killed. Raises PerfcliError where the family or its code is not there, or
    NumPy, which the interpreter needs."""
    family = registry.family(request.family)
    describing.load_code(family.code, request.family)
    if request.runner == "gpu":
        for number, planned in enumerate(request.cases):
            checked = _check_case(request, planned, "cuda", request.seed + number)
            yield number, checked
            if checked.device_lost:
                return
    else:
        _need_numpy()
        yield from _check_interpreted(request)


def _check_interpreted(request: CheckRequest) -> Iterator[tuple[int, CheckedCase]]:
    import torch

    interpreter.prepare()
    torch.set_num_threads(1)  # before the fork: its threads would not survive it
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(max(request.jobs, 1), mp_context=context)
    try:
        futures = {
            pool.submit(_check_case, request, planned, "cpu", request.seed + number): number
            for number, planned in enumerate(request.cases)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise WorkerFailed(
            "a process that ran cases was killed (out of memory?): use fewer with --jobs, or "
            "choose cases with --case"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _check_case(request: CheckRequest, planned: PlannedCase, device: str, seed: int) -> CheckedCase:
    """Check one case. Whatever a family raises is its failure, not this process's."""
    if planned.plan is None:
        return CheckedCase("refused", "", reason=planned.refusal)
    started = time.monotonic()
    family = registry.family(request.family)
    code = describing.load_code(family.code, request.family)
    try:
        errors = _errors(family, code, planned, planned.plan, device, seed)
    except PerfcliError as error:
        return CheckedCase("refused", planned.plan.variant, reason=str(error))
    except Exception as error:
        lost = device == "cuda" and not _is_usable()
        variant, reason = planned.plan.variant, first_line(error)
        return CheckedCase("failed", variant, reason=reason, device_lost=lost)
    right = all(error.is_right for error in errors)
    taken = round(time.monotonic() - started, 3)
    variant = planned.plan.variant
    return CheckedCase("right" if right else "wrong", variant, errors, seconds=taken)


def _errors(
    family: KernelFamily, code: Any, planned: PlannedCase, plan: LaunchPlan, device: str, seed: int
) -> Any:
    problem = planned.case.problem
    tensors = make_inputs(code, planned.case, problem, device, seed)
    expected = code.reference(problem, tensors)
    found = _run(code, problem, tensors, plan, device)
    return compare_outputs(found, expected, family.tolerances(problem))


def _run(
    code: Any, problem: Problem, tensors: Mapping[str, Any], plan: LaunchPlan, device: str
) -> Mapping[str, Any]:
    import torch

    with torch.no_grad():
        found: Mapping[str, Any] = code.run(problem, tensors, plan)
    if device == "cuda":
        torch.cuda.synchronize()
    return found


def _is_usable() -> bool:
    """Return whether the device can still be used: an illegal access ends all work of its process
    on the device."""
    import torch

    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").item()
    except RuntimeError:
        return False
    return True


def _need_numpy() -> None:
    import importlib.util

    if importlib.util.find_spec("numpy") is None:
        raise PerfcliError(
            "Triton's interpreter needs NumPy, which this Python lacks: pip install numpy there, "
            "or check on a GPU"
        )


def first_line(error: Exception) -> str:
    """Return an error's kind, and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


MOST_PROGRAMS = 512
"""A program of a row kernel takes about 2 ms."""
MOST_ELEMENTS = 1 << 23
"""Some 30 operations of NumPy on each: a few seconds."""


def plan_case(family: KernelFamily, case: Case, target: Target, runner: Runner) -> PlannedCase:
    """Return the case with its plan; with fewer rows where the interpreter would take too long.
    Refused where it still would."""
    if case.layout == "padded-rows" and case.problem.row_stride is None:
        problem = replace(case.problem, row_stride=_padded_stride(case.problem))
        case = replace(case, problem=problem)
    rows = case.problem.rows
    try:
        plan = family.plan(case.problem, target, case.variant)
        shrunk = _shrink(case, plan) if runner == "interpreter" else None
        if runner == "interpreter":
            _refuse_large((shrunk or case).problem, rows)
        if shrunk is None:
            return PlannedCase(case, plan)
        return PlannedCase(
            shrunk, family.plan(shrunk.problem, target, case.variant), rows_asked=rows
        )
    except PerfcliError as error:
        return PlannedCase(case, None, refusal=str(error))


def _refuse_large(problem: Problem, rows_asked: int) -> None:
    """Raise PerfcliError for a problem that the interpreter would not finish in a minute, however
    few its rows are."""
    if problem.elements <= MOST_ELEMENTS:
        return
    left = "one row has" if problem.rows == 1 else f"{problem.rows:,} rows have"
    raise PerfcliError(
        f"{rows_asked:,} × {problem.columns:,} is too large for Triton's interpreter: {left} "
        f"{problem.elements:,} elements, and it takes {MOST_ELEMENTS:,} at most: check on a GPU, "
        "or give fewer columns"
    )


def _padded_stride(problem: Problem) -> int:
    """Return elements from row to row of a case with padded rows that names no stride: more than
    columns, and a multiple of 16."""
    return (problem.columns // 16 + 2) * 16


def _shrink(case: Case, plan: LaunchPlan) -> Case | None:
    """Return the case with so few rows that it is run in seconds, or None where it is small enough.
    Columns stay as they are: they decide the blocks, masks and loops of a row. An odd number of
    rows stays odd, so that a tile of rows that is not full stays one."""
    problem = case.problem
    programs = sum(step.grid[0] * step.grid[1] * step.grid[2] for step in plan.launches)
    factor = max(programs / MOST_PROGRAMS, problem.elements / MOST_ELEMENTS)
    rows = max(int(problem.rows / factor), 1) if factor > 1 else problem.rows
    if rows >= problem.rows:
        return None
    if rows % 2 != problem.rows % 2:
        rows = rows - 1 if rows > 1 else rows
    return replace(case, problem=replace(problem, rows=rows))
