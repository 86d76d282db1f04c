"""The chunks of linear-cross-entropy: how much memory they take, and what is refused."""

from __future__ import annotations

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import LaunchPlan, Problem, Scalar

FAMILY = registry.family("linear-cross-entropy")


def planned(
    rows: int = 8192, columns: int = 4096, dtype: str = "bfloat16", **settings: Scalar
) -> LaunchPlan:
    problem = Problem("linear-cross-entropy", rows, columns, dtype, settings=settings)
    return FAMILY.plan(problem, targets.get("h200"), None)


@pytest.mark.parametrize(
    ("rows", "columns", "classes"),
    [(8192, 4096, 128256), (4096, 2048, 151936), (128, 4096, 32000), (65536, 8192, 201088)],
)
def test_a_chunk_takes_a_24th_of_the_gradients_or_little(
    rows: int, columns: int, classes: int
) -> None:
    plan = planned(rows, columns, classes=classes)
    gradients = 2 * columns * (rows + classes)
    chunk = int(str(plan.launches[0].constants["CHUNK"]))
    assert plan.workspace_bytes == 2 * rows * chunk
    assert plan.workspace_bytes <= max(gradients / 24, 2 * rows * 1024, 32 << 20)
    assert chunk % 256 == 0
    assert chunk < classes + 256


def test_a_chunk_is_as_long_as_fills_the_last_wave() -> None:
    # 64 × 8 tiles of 128 × 256 are 3.9 waves of 132 multiprocessors; 64 × 11, for which there would
    # be room, 5.3. Measured on an H200: 55.8 and 57.1 ms.
    assert planned(classes=128256).launches[0].constants["CHUNK"] == 2048


def test_few_classes_are_one_chunk_and_a_setting_chooses_another() -> None:
    assert planned(64, 32, classes=1000).launches[0].constants["CHUNK"] == 1024
    assert planned(64, 32, classes=1000, chunk=100).launches[0].constants["CHUNK"] == 112


@pytest.mark.parametrize(
    ("problem", "variant", "message"),
    [
        (Problem("cross-entropy", 1, 8), None, "found 'cross-entropy'"),
        (Problem("linear-cross-entropy", 1, 8), "split", "no variant 'split'"),
        (Problem("linear-cross-entropy", 1, 8, "float64"), None, "found float64"),
        (Problem("linear-cross-entropy", 2, 8, row_stride=16), None, "16 apart"),
        (Problem("linear-cross-entropy", 1, 8, settings={"classes": 0}), None, "one class or more"),
        (Problem("linear-cross-entropy", 1, 8, settings={"smoothing": 2.0}), None, "0 to 1"),
    ],
)
def test_what_cannot_be_done_is_refused(
    problem: Problem, variant: str | None, message: str
) -> None:
    with pytest.raises(PerfcliError, match=message):
        FAMILY.plan(problem, targets.get("h200"), variant)
