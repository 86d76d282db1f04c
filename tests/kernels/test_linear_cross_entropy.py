"""The chunks of linear-cross-entropy, how much memory they take, where tiles are planned instead,
their numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from warm import WarmProcess

from perfcli.errors import PerfcliError
from perfcli.handwritten.compiling import compile_launch
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import LaunchPlan, Problem, Scalar
from perfcli.model.kernel_work import LaunchToCompile

FAMILY = registry.family("linear-cross-entropy")


def planned(
    rows: int = 8192,
    columns: int = 4096,
    dtype: str = "bfloat16",
    operation: str = "linear-cross-entropy",
    variant: str | None = None,
    **settings: Scalar,
) -> LaunchPlan:
    problem = Problem(operation, rows, columns, dtype, settings=settings)
    return FAMILY.plan(problem, targets.get("h200"), variant)


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
    few = planned(64, 32, variant="chunked", classes=1000)
    assert few.launches[0].constants["CHUNK"] == 1024
    chosen = planned(64, 32, classes=1000, chunk=100)
    assert chosen.launches[0].constants["CHUNK"] == 112


@pytest.mark.parametrize(
    ("rows", "columns", "classes", "variant"),
    [
        # Measured on an H200, as graphs: tiles and chunks took so many µs.
        (64, 1024, 1008, "fused"),  # 7.8 and 7.4, and half of the host time
        (1, 2048, 1008, "fused"),  # 7.9 and 14.2
        (16, 2048, 32000, "fused"),  # 37.0 and 45.7
        (16, 4096, 32000, "fused"),  # 66.5 and 78.1
        (16, 1000, 32000, "chunked"),  # not timed: one number at a time
        (64, 256, 32000, "chunked"),  # 19.6 and 15.8: too many statistics to join
        (16, 4096, 512, "chunked"),  # 12.0 and 8.8: few tiles, of many steps
        (64, 4096, 8192, "chunked"),  # 28.9 and 26.2
        (128, 1024, 1008, "chunked"),  # 10.0 and 7.6
        (512, 4096, 8192, "chunked"),  # 95.9 and 52.0
    ],
)
def test_tiles_are_planned_where_they_are_faster_or_the_host_is_slower(
    rows: int, columns: int, classes: int, variant: str
) -> None:
    assert planned(rows, columns, classes=classes).variant == variant


def test_tiles_make_one_wave_and_one_program_joins_them() -> None:
    statistics, join = planned(50, 1024, classes=1000, reduction="mean").launches
    assert statistics.grid == (63, 1, 1)
    assert (statistics.constants["ROWS"], statistics.constants["CLASSES"]) == (64, 16)
    assert join.grid == (1, 1, 1)
    assert (join.constants["ROWS"], join.constants["TILES"]) == (64, 64)
    assert (join.constants["REDUCED"], join.constants["MEAN"]) == (True, True)
    _, alone = planned(300, 64, classes=100, variant="fused").launches
    assert alone.grid == (2, 1, 1)
    assert alone.constants["REDUCED"] is False


@pytest.mark.torch
@pytest.mark.parametrize("target", ["h200", "a100"])
@pytest.mark.parametrize(
    ("rows", "columns", "classes"), [(64, 1024, 1000), (64, 256, 8192), (16, 4096, 32000)]
)
def test_tiles_spill_nothing_and_load_words(
    target: str, rows: int, columns: int, classes: int, cache_of_the_run: Path
) -> None:
    device = targets.get(target)
    problem = Problem("linear-cross-entropy", rows, columns, settings={"classes": classes})
    plan = FAMILY.plan(problem, device, "fused")
    for launch in plan.launches:
        asked = LaunchToCompile(FAMILY.code, launch, device)
        made = compile_launch(asked, FAMILY.name, cache_of_the_run)
        assert (made.error, made.spilled_words) == ("", 0)
        if launch.function == "tile_statistics":
            assert made.global_loads["128"] > 8


@pytest.mark.parametrize(
    ("target", "classes"), [("h200", 64), ("l40s", 64), ("a100", 64), ("mi300x", 16)]
)
def test_a_tile_has_room_in_shared_memory(target: str, classes: int) -> None:
    """Of 64 rows, in three stages of 128 columns: 98 KB where the classes are 64."""
    problem = Problem("linear-cross-entropy", 64, 256, settings={"classes": 16000})
    device = targets.get_for_kernels(target)
    statistics, _ = FAMILY.plan(problem, device, "fused").launches
    assert statistics.constants["CLASSES"] == classes
    assert (64 + classes) * 128 * 2 * 3 <= device.shared_bytes_per_block_optin


@pytest.mark.parametrize(
    ("dtype", "operation", "reason"),
    [
        ("float32", "linear-cross-entropy", "16-bit numbers"),
        ("bfloat16", "linear-cross-entropy-backward", "products of all logits"),
    ],
)
def test_what_tiles_cannot_do_is_done_in_chunks(dtype: str, operation: str, reason: str) -> None:
    plan = planned(64, 32, dtype, operation, "fused", classes=100)
    assert plan.variant == "chunked"
    assert plan.instead_of.startswith("fused: ")
    assert reason in plan.instead_of
    assert planned(64, 32, dtype, operation, classes=100).variant == "chunked"


@pytest.mark.parametrize(
    ("problem", "variant", "message"),
    [
        (Problem("cross-entropy", 1, 8), None, "found 'cross-entropy'"),
        (Problem("linear-cross-entropy", 1, 8), "split", "no variant 'split'"),
        (Problem("linear-cross-entropy", 1, 8, "float64"), None, "found float64"),
        (Problem("linear-cross-entropy", 2, 8, row_stride=16), None, "16 apart"),
        (Problem("linear-cross-entropy", 1, 8, settings={"classes": 0}), None, "one class or more"),
        (Problem("linear-cross-entropy", 1, 8, settings={"smoothing": 2.0}), None, "0 to 1"),
        (Problem("linear-cross-entropy", 1, 8, settings={"reduction": "avg"}), None, "'avg'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    problem: Problem, variant: str | None, message: str
) -> None:
    with pytest.raises(PerfcliError, match=message):
        FAMILY.plan(problem, targets.get("h200"), variant)


@pytest.mark.torch
def test_kernels_agree_with_float64(warm_process: WarmProcess) -> None:
    """Forward in bfloat16, by tiles and by chunks: one class, many, caps and smoothing."""
    numbers = [
        number
        for number, case in enumerate(FAMILY.cases)
        if case.problem.operation == "linear-cross-entropy" and case.problem.dtype == "bfloat16"
    ]
    runner = Path(__file__).with_name("cases_interpreted.py")
    found = warm_process.interpret(runner, "linear-cross-entropy", numbers)
    assert {variant for _, variant, _ in found} == {"chunked", "fused"}
    wrong = {n: f for n, f in zip(numbers, found, strict=True) if f[0] != "right"}
    assert wrong == {}
