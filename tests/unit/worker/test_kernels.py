"""Hand-written kernels in a worker process: through the interpreter, and compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.handwritten import checking
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Case, Problem
from perfcli.model.kernel_work import (
    CheckedCase,
    CheckRequest,
    LaunchesRequest,
    LaunchToCompile,
    PlannedCase,
)
from perfcli.worker.kernels import KernelProcess

pytestmark = pytest.mark.torch

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kernels"
H100 = targets.get("h100")


def check(file: str, *extra: Case) -> tuple[list[PlannedCase], dict[int, CheckedCase]]:
    family = registry.family(str(FIXTURES / file))
    cases = [
        checking.plan_case(family, case, H100, "interpreter") for case in (*family.cases, *extra)
    ]
    request = CheckRequest(str(FIXTURES / file), tuple(cases), "interpreter", 2, 0)
    return cases, dict(KernelProcess().checked(request, lambda *_: None))


def test_every_case_of_a_right_family_is_right_through_the_interpreter() -> None:
    cases, found = check("row_sum.py")
    assert sorted(found) == list(range(len(cases)))
    transposed = next(n for n, each in enumerate(cases) if each.case.layout == "transposed")
    assert found[transposed].outcome == "refused"
    assert "side by side" in found[transposed].reason
    assert {found[n].outcome for n in found if n != transposed} == {"right"}
    nan = next(n for n, each in enumerate(cases) if each.case.data == "nan")
    assert found[nan].outputs[0].elements == 5
    large = next(n for n, each in enumerate(cases) if each.rows_asked)
    assert (cases[large].case.problem.rows, cases[large].rows_asked) == (512, 8192)


def test_a_wrong_element_and_an_exception_are_found() -> None:
    _, found = check("row_sum_wrong.py")
    assert [found[n].outcome for n in range(3)] == ["right", "wrong", "failed"]
    (error,) = found[1].outputs
    assert error.where == (5,)
    assert error.wrong == 1
    assert error.error == pytest.approx(1.0, abs=1e-4)
    assert found[2].reason == "RuntimeError: rows of 65 are planted to fail"


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(WorkerFailed, match="a process that ran cases was killed"):
        check("row_sum_wrong.py", Case(Problem("sum", 1, 66)))


def test_launches_come_back_with_their_numbers(tmp_path: Path) -> None:
    family = registry.family(str(FIXTURES / "row_sum.py"))
    launches = [
        LaunchToCompile(family.code, family.plan(problem, H100, variant).launches[0], H100)
        for problem in family.benchmarks
        for variant in ("looped", None)
    ]
    request = LaunchesRequest(tuple(launches), 2, str(tmp_path), str(FIXTURES / "row_sum.py"))
    found = dict(KernelProcess().compiled(request))
    assert sorted(found) == [0, 1, 2, 3]
    assert all(made.error == "" and made.registers for made in found.values())
    assert found[1].num_warps == launches[1].launch.num_warps == 4
    # 65,536 float32 columns do not fit into one tile: both are the loop
    assert found[2] == found[3]


def test_a_code_module_that_is_not_there_is_named() -> None:
    launch = LaunchToCompile(
        "no_such_code",
        registry.family(str(FIXTURES / "row_sum.py"))
        .plan(Problem("sum", 4, 64), H100, None)
        .launches[0],
        H100,
    )
    request = LaunchesRequest((launch,), 1, "", str(FIXTURES / "row_sum.py"))
    with pytest.raises(PerfcliError, match="there is no module no_such_code"):
        list(KernelProcess().compiled(request))
