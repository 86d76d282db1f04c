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
    _, step = plan.launches
    assert step.grid == (programs, 1, 1)
    assert step.num_warps == 4
    assert step.maxnreg == 168  # 65536 / 384 = 170.7, in steps of 8
    assert plan.workspace_bytes == 8 * 2048 * 16


def test_no_more_programs_than_parts() -> None:
    assert planned(5, 40000).launches[-1].grid[0] <= 5 * 40
    assert planned(396, 2048).launches[-1].grid == (396, 1, 1)


@pytest.mark.parametrize("columns", [151936, 201088, 128256, 262144])
@pytest.mark.parametrize("operation", ["softmax", "softmax-backward"])
def test_parts_are_of_one_length_and_programs_take_as_many(operation: str, columns: int) -> None:
    """At most 6 % of the tiles are beyond a row's end, at most 6 % of the programs idle."""
    for rows in (300, 4096):
        problem = Problem(operation, rows, columns)
        _, step = FAMILY.plan(problem, targets.get("h200"), "streamed").launches
        tile = int(str(step.constants["LANES"])) * 8
        chunk = int(str(step.constants["CHUNK"]))
        parts = -(-columns // chunk)
        turns = -(-rows * parts // step.grid[0])
        assert turns * step.grid[0] * chunk <= 1.12 * rows * columns + chunk * step.grid[0] * (
            rows * parts < 4 * step.grid[0]
        ), (chunk // tile, parts, turns)


def test_fewer_registers_give_a_thread_fewer() -> None:
    small = replace(targets.get("h200"), registers_per_sm=32768)
    plan = FAMILY.plan(Problem("softmax", 2048, 262144), small, "streamed")
    assert plan.launches[-1].grid[0] == 2 * 132
    assert plan.launches[-1].maxnreg == 128


def test_shorter_parts_leave_room_for_a_fourth_block() -> None:
    """Of 50257 halves, a thread keeps two parts of ten vectors: 40 + 4 x 20 registers."""
    _, step = planned(2671, 50257).launches
    assert step.grid[0] == 4 * 132
    assert step.maxnreg == 128


@pytest.mark.parametrize("columns", [131072, 262144, 131073])
def test_many_long_rows_are_streamed_where_there_are_no_clusters(columns: int) -> None:
    older = replace(targets.get("h200"), capability=(8, 0))
    for dtype in ("bfloat16", "float16", "float32"):
        problem = Problem("log-softmax", 2048, columns, dtype)
        assert FAMILY.plan(problem, older, None).variant == "streamed"


def test_the_last_tiles_are_masked_where_a_row_does_not_fill_its_parts() -> None:
    assert planned(4096, 262144).launches[-1].constants["FULL"] == 16
    assert planned(4096, 150264).launches[-1].constants["FULL"] == 0


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (planned(2, 1 << 23), "a row of 8388608 takes more than the 396 blocks"),
        (planned(2, 1 << 22, "float32"), "a row of 4194304 takes more than the 396 blocks"),
    ],
)
def test_what_it_cannot_do_is_left_to_cooperative(plan: LaunchPlan, reason: str) -> None:
    assert plan.variant == "cooperative"
    assert plan.instead_of.startswith("streamed: ")
    assert reason in plan.instead_of
    assert plan.launches[-1].maxnreg is None


def test_rows_whose_outputs_lie_otherwise_are_split() -> None:
    plan = planned(300, 150264, stride=150265)
    assert plan.variant == "split"
    assert "150265 apart are not aligned as those of the output" in plan.instead_of


def test_what_cooperative_cannot_do_either_is_split() -> None:
    plan = planned(2, (1 << 24) + 8)
    assert plan.variant == "split"
    assert "streamed: " in plan.instead_of
    assert "more than 1024 blocks" in plan.instead_of


@pytest.mark.parametrize(("target", "overlaps"), [("h200", True), ("a100", False)])
@pytest.mark.parametrize(
    ("operation", "rows", "columns"),
    [("softmax", 2671, 50257), ("softmax-backward", 877, 153136), ("cross-entropy", 300, 201088)],
)
def test_the_second_launch_starts_early_where_the_device_can(
    target: str, overlaps: bool, operation: str, rows: int, columns: int
) -> None:
    variant = "split" if operation == "cross-entropy" else "streamed"
    problem = Problem(operation, rows, columns)
    first, last = FAMILY.plan(problem, targets.get(target), variant).launches
    assert (first.overlaps, last.overlaps) == (False, overlaps)
    # Both sides of it: the first allows it, and the last waits for what the first writes.
    assert first.constants["OVERLAP"] is last.constants["OVERLAP"] is overlaps
