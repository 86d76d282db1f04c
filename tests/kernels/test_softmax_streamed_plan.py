"""The streamed softmax: its persistent grid, its registers, and what it leaves to others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import LaunchPlan, Problem

FAMILY = registry.family("softmax")


def planned(
    rows: int,
    columns: int,
    dtype: str = "bfloat16",
    target: str = "h200",
    stride: int | None = None,
) -> LaunchPlan:
    problem = Problem("softmax", rows, columns, dtype, stride)
    return FAMILY.plan(problem, targets.get_for_kernels(target), "streamed")


@pytest.mark.parametrize(("target", "programs"), [("h200", 396), ("a100", 324), ("b200", 444)])
def test_three_blocks_of_128_threads_share_the_registers_of_a_multiprocessor(
    target: str, programs: int
) -> None:
    plan = planned(2048, 262144, target=target)
    (step,) = plan.launches
    assert step.grid == (programs, 1, 1)
    assert step.num_warps == 4
    assert step.maxnreg == 168  # 65536 / 384 = 170.7, in steps of 8
    assert plan.workspace_bytes == 8 * 2048 * 16


def test_no_more_programs_than_parts() -> None:
    assert planned(5, 40000).launches[0].grid == (5 * 3, 1, 1)


def test_fewer_registers_give_a_thread_fewer() -> None:
    small = replace(targets.get("h200"), registers_per_sm=32768)
    plan = FAMILY.plan(Problem("softmax", 2048, 262144), small, "streamed")
    assert plan.launches[0].maxnreg == 80


@pytest.mark.parametrize("columns", [131072, 262144, 65544])
def test_many_long_rows_of_halves_are_streamed(columns: int) -> None:
    for dtype in ("bfloat16", "float16"):
        problem = Problem("log-softmax", 2048, columns, dtype)
        assert FAMILY.plan(problem, targets.get("h200"), None).variant == "streamed"


def test_the_last_tiles_are_masked_where_a_row_does_not_fill_its_parts() -> None:
    assert planned(300, 262144).launches[0].constants["TAIL"] is False
    assert planned(300, 150264).launches[0].constants["TAIL"] is True


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (planned(300, 262144, "float32"), "keeps pairs of halves, the rows are float32"),
        (planned(300, 150257), "not made of whole vectors of 16 bytes"),
        (planned(300, 150264, stride=150265), "150265 apart are not made of whole vectors"),
        (planned(2, 1 << 23), "a row of 8388608 takes more than the 396 blocks"),
        (planned(300, 262144, target="mi300x"), "an instruction of NVIDIA's"),
    ],
)
def test_what_it_cannot_do_is_left_to_cooperative(plan: LaunchPlan, reason: str) -> None:
    assert plan.variant == "cooperative"
    assert plan.instead_of.startswith("streamed: ")
    assert reason in plan.instead_of
    assert plan.launches[0].maxnreg is None


def test_what_cooperative_cannot_do_either_is_split() -> None:
    plan = planned(2, (1 << 24) + 8)
    assert plan.variant == "split"
    assert "streamed: " in plan.instead_of
    assert "more than 1024 blocks" in plan.instead_of
