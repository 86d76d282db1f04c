"""The planner of RMSNorm: what is launched, for which problem, on which device. Without torch."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelLaunch, LaunchPlan, Problem

FAMILY = registry.family("rmsnorm")
BLOCKS = import_module("perfcli.kernels._norms.blocks")
H200 = targets.get("h200")
DEVICES = [*targets.TARGETS.values(), *targets.KERNEL_TARGETS.values()]


def plan(problem: Problem, variant: str | None = None, target: str = "h200") -> LaunchPlan:
    return FAMILY.plan(problem, targets.get(target), variant)


def number(step: KernelLaunch, name: str) -> int:
    value = step.constants[name]
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize(
    ("operation", "count"),
    [
        ("rmsnorm", 268_439_552),  # 2 × 32768 × 2048 × 2 + 2048 × 2
        ("rmsnorm-residual", 536_875_008),
        ("rmsnorm-backward", 402_661_376),  # 3 matrices, 2 vectors
        ("rmsnorm-residual-backward", 536_879_104),
    ],
)
def test_bytes_are_those_counted_by_hand(operation: str, count: int) -> None:
    assert FAMILY.moved_bytes(Problem(operation, 32768, 2048)) == count
    assert FAMILY.moved_bytes(Problem(operation, 32768, 2048, "float32")) == 2 * count


def test_flops() -> None:
    assert FAMILY.flops(Problem("rmsnorm", 3, 5)) == 60
    assert FAMILY.flops(Problem("rmsnorm-backward", 3, 5)) == 180


@pytest.mark.parametrize("target", DEVICES, ids=lambda t: t.name)
@pytest.mark.parametrize("problem", FAMILY.benchmarks, ids=str)
def test_every_benchmark_has_a_plan_that_fits(problem: Problem, target: object) -> None:
    assert isinstance(target, type(H200))
    for each in FAMILY.plan(problem, target, None).launches:
        threads = each.num_warps * target.warp_size
        assert 32 <= threads <= target.max_threads_per_block
        assert all(0 < blocks <= 2**31 - 1 for blocks in each.grid)


@pytest.mark.parametrize("case", FAMILY.cases, ids=str)
def test_blocks_cover_the_problem(case: object) -> None:
    assert isinstance(case, type(FAMILY.cases[0]))
    problem = case.problem
    for step in FAMILY.plan(problem, H200, case.variant).launches:
        programs = step.grid[0]
        if step.function in ("full_tile", "tma_rows"):
            assert number(step, "BLOCK") >= problem.columns
            persistent = programs % H200.sm_count == 0
            assert programs * number(step, "ROWS") >= problem.rows or persistent
        elif step.function == "tiled":
            parts = number(step, "PARTS")
            assert number(step, "CHUNK") * parts >= problem.columns
            assert number(step, "TILE") * number(step, "TILES") >= number(step, "CHUNK")
            assert programs * number(step, "ROWS") >= problem.rows * parts
            assert programs == problem.rows * parts or number(step, "ROWS") == 2
        elif step.function in ("split_sum", "split_apply"):
            assert number(step, "CHUNK") * number(step, "PARTS") >= problem.columns
            assert number(step, "CHUNK") % number(step, "BLOCK") == 0
            assert programs == problem.rows * number(step, "PARTS")
        elif step.function == "gradient_rows":
            assert number(step, "TILE") * number(step, "TILES") >= problem.columns
            assert programs == number(step, "GROUPS") <= H200.sm_count * 8
            # A program's rows lie alike: it takes every so many of them, or only one tile.
            one_each = programs * number(step, "ROWS") >= problem.rows
            assert programs % number(step, "SPACING") == 0 or one_each
        elif step.function == "gradient_ring":
            assert number(step, "CHUNK") * number(step, "PARTS") >= problem.columns
            assert number(step, "CHUNK") % number(step, "VECTOR") == 0
            assert number(step, "GROUPS") % number(step, "SPACING") == 0
        elif step.function == "gradient_columns":
            assert programs * number(step, "TILE") >= problem.columns


@pytest.mark.parametrize("case", FAMILY.cases, ids=str)
def test_tiles_are_powers_of_two_and_no_vector_is_one(case: object) -> None:
    assert isinstance(case, type(FAMILY.cases[0]))
    wide = 16 // (4 if case.problem.dtype == "float32" else 2)
    for step in FAMILY.plan(case.problem, H200, case.variant).launches:
        for name in {"BLOCK", "TILE", "ROWS", "WIDTH"} & {*step.constants}:
            if step.function in ("tma_rows", "full_tile", "tiled") and name != "WIDTH":
                assert number(step, name).bit_count() == 1
        if step.function == "tma_rows":
            assert number(step, "WIDTH") >= wide


def test_rows_that_start_anywhere_are_peeled() -> None:
    steps = plan(Problem("rmsnorm", 70, 50257)).launches
    assert steps[0].function == "shift_weights"
    assert steps[0].grid[1] == 8  # one copy for each element that 16 bytes can start at
    assert steps[-1].constants["PEEL"] is True
    assert plan(Problem("rmsnorm", 70, 50256)).launches[-1].constants.get("PEEL", False) is False


@pytest.mark.parametrize("operation", ["rmsnorm", "rmsnorm-residual"])
@pytest.mark.parametrize("columns", [169, 601, 2691, 7999, 20001, 50257, 140001])
def test_many_odd_rows_are_loaded_in_vectors(operation: str, columns: int) -> None:
    """No kernel loads them element by element."""
    for dtype in ("bfloat16", "float32"):
        rows = (1 << 28) // columns
        (step,) = (
            s for s in plan(Problem(operation, rows, columns, dtype)).launches if "y" in s.arguments
        )
        assert step.constants["PEEL"] is True


def test_input_and_output_rows_at_different_distances_are_not_peeled() -> None:
    assert not any(
        step.constants.get("PEEL")
        for step in plan(Problem("rmsnorm", 7, 8193, row_stride=8200), "two-read").launches
    )
    with pytest.raises(PerfcliError, match="use register-tiled"):
        plan(Problem("rmsnorm", 7, 8193, row_stride=8200), "peeled")


def test_few_long_rows_are_shared_by_many_blocks() -> None:
    step = plan(Problem("rmsnorm", 1, 1 << 20)).launches[-1]
    assert step.function == "tiled"
    assert number(step, "PARTS") >= 64


@pytest.mark.parametrize(
    ("problem", "variant", "target", "words"),
    [
        (Problem("rmsnorm", 7, 64, "int8"), None, "h200", "dtype 'int8'"),
        (Problem("layernorm", 7, 64), None, "h200", "no operation 'layernorm'"),
        (Problem("rmsnorm", 7, 64), "fused", "h200", "no variant 'fused' of rmsnorm"),
        (Problem("rmsnorm-backward", 7, 64), "tma", "h200", "no variant 'tma'"),
        (Problem("rmsnorm", 7, 64, row_stride=32), None, "h200", "overlap"),
        (Problem("rmsnorm", -1, 64), None, "h200", "zero or more"),
        (Problem("rmsnorm", 7, 50257), "tma", "h200", "multiples of 16 bytes, these are 100514"),
        (Problem("rmsnorm", 7, 1024), "tma", "a100", "capability 9.0 or more"),
        (Problem("rmsnorm", 7, 1 << 20), "full-tile", "h200", "registers per thread"),
        (Problem("rmsnorm", 7, 1 << 20), "register-tiled", "h200", "registers per thread"),
        (Problem("rmsnorm-backward", 7, 1 << 20), "fused", "h200", "leave the variant to"),
    ],
)
def test_what_cannot_be_done_is_refused(
    problem: Problem, variant: str | None, target: str, words: str
) -> None:
    with pytest.raises(PerfcliError, match=words):
        plan(problem, variant, target)


def test_nothing_is_launched_for_nothing() -> None:
    for rows, columns in ((0, 64), (7, 0)):
        assert plan(Problem("rmsnorm", rows, columns)).launches == ()
        assert plan(Problem("rmsnorm-backward", rows, columns)).launches == ()


def test_few_backward_rows_are_cut_into_columns() -> None:
    """One launch for the rows' sums, one that adds up the weight's gradient of all 16 rows."""
    first, second = plan(Problem("rmsnorm-backward", 16, 7168)).launches
    assert (first.function, second.function) == ("gradient_sums", "gradient_columns")
    assert first.grid[0] > H200.sm_count
    assert second.grid == (224, 1, 1)  # 32 columns each
    assert second.constants["FINAL"] is True


@pytest.mark.parametrize("columns", [2880, 5120, 7168, 12288, 14336, 28672, 32000, 128256, 201088])
def test_backward_rows_that_are_no_power_of_two_waste_little(columns: int) -> None:
    made = plan(Problem("rmsnorm-backward", (1 << 27) // columns, columns))
    if made.variant == "fused":
        (step,) = (s for s in made.launches if s.function == "gradient_rows")
        lanes = number(step, "TILE") * number(step, "TILES")
    else:
        (step,) = (s for s in made.launches if s.function == "gradient_ring")
        tile = 128 * number(step, "WARPS") * number(step, "HALVES")
        lanes = tile * number(step, "TILES") * number(step, "PARTS")
    assert columns <= lanes <= 1.15 * columns


def test_workspace_of_a_fused_backward_is_its_partial_sums() -> None:
    made = plan(Problem("rmsnorm-backward", 32768, 2048), "fused")
    assert made.workspace_bytes == made.launches[0].grid[0] * 2048 * 4
    assert made.launches[0].grid[0] % H200.sm_count == 0


def test_shared_memory_is_refused_before_it_overflows() -> None:
    problem = Problem("rmsnorm", 4096, 16384)
    blocks = BLOCKS.Blocks("tma", threads=512, stages=3)
    assert BLOCKS._shared_bytes(problem, blocks, 1) == 2 * 32768
    assert BLOCKS._misfit(problem, H200, blocks, 1) == ""
    deeper = replace(blocks, stages=9)
    assert "262144 bytes of shared memory" in BLOCKS._misfit(problem, H200, deeper, 1)


@pytest.mark.parametrize("target", DEVICES, ids=lambda t: t.name)
@pytest.mark.parametrize("operation", FAMILY.operations)
def test_there_is_a_plan_for_every_row_length(operation: str, target: object) -> None:
    assert isinstance(target, type(H200))
    for columns in (1, 17, 760, 1023, 8192, 8193, 20000, 50257, 65537, 262144, 1 << 22):
        for rows, stride in ((1, None), (7, columns + 3), (40000, columns + 8)):
            for dtype in ("bfloat16", "float32"):
                made = FAMILY.plan(Problem(operation, rows, columns, dtype, stride), target, None)
                assert made.launches and made.why


def test_a_rounded_sum_may_move_a_rows_scale_less_the_longer_the_row() -> None:
    unit = 2.0**-8
    allowed = {
        columns: FAMILY.tolerances(Problem("rmsnorm-residual", 8, columns))["y"].relative / unit
        for columns in (1, 64, 2048)
    }
    # Two roundings with a hundredth to spare, the scale by 1, 6 / 8 and 6 / 45.25 units.
    expected = {1: 2.02 + 1, 64: 2.02 + 0.75, 2048: 2.02 + 0.1326}
    assert allowed == pytest.approx(expected, abs=1e-3)
    plain = FAMILY.tolerances(Problem("rmsnorm", 8, 64))["y"]
    assert plain.relative / unit == pytest.approx(1.01, abs=1e-3)


def test_later_launches_start_early_where_the_device_can() -> None:
    problem = Problem("rmsnorm-backward", 1792, 74864)
    assert [s.overlaps for s in plan(problem).launches] == [False, True, True]
    assert not any(s.overlaps for s in plan(problem, target="a100").launches)


@pytest.mark.parametrize(
    ("problem", "halves"),
    [
        (Problem("rmsnorm-backward", 4096, 2880), 2),
        (Problem("rmsnorm-backward", 4096, 1803, "float16"), 2),
        (Problem("rmsnorm-backward", 4096, 1803, "float32"), 1),
        (Problem("rmsnorm-backward", 4096, 1803, row_stride=1804), 1),  # dx lies otherwise than x
    ],
    ids=str,
)
def test_half_precision_is_held_in_pairs_where_it_is_read_in_vectors(
    problem: Problem, halves: int
) -> None:
    (step,) = (s for s in plan(problem).launches if s.function == "gradient_rows")
    assert number(step, "HALVES") == halves


@pytest.mark.parametrize(
    ("problem", "warps", "rows"),
    [
        (Problem("rmsnorm-backward", 2000, 1001), 4, 1),
        (Problem("layernorm-residual-backward", 2000, 1001), 4, 1),
        (Problem("rmsnorm-backward", 2000, 700), 1, 2),
        (Problem("layernorm-backward", 8192, 192), 1, 4),
        (Problem("rmsnorm-backward", 1_400_000, 192), 2, 8),  # 1.6 GB: it is a small part of that
    ],
    ids=str,
)
def test_programs_of_small_gradients_have_several_rows_or_several_warps(
    problem: Problem, warps: int, rows: int
) -> None:
    """With both, warps wait for each other before the first row and behind the last."""
    family = registry.family(problem.operation.partition("-")[0])
    made = family.plan(problem, H200, None)
    assert made.variant == "fused"
    assert (made.launches[0].num_warps, number(made.launches[0], "ROWS")) == (warps, rows)


def test_small_problems_write_few_partial_sums() -> None:
    """As many as there are multiprocessors: more cost more than they save."""
    main, last = plan(Problem("rmsnorm-backward", 512, 4096)).launches
    assert (main.function, last.function) == ("gradient_rows", "sum_partials")
    assert number(main, "GROUPS") == H200.sm_count


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((16384, 256), 4),
        ((262144, 512), 4),
        ((4096, 512), 2),
        ((100, 512), 1),  # there are more multiprocessors than rows
        ((262144, 2048), 1),
        ((16384, 603), 2),  # only peeled loads them 16 bytes wide
        ((16384, 799), 1),
    ],
)
def test_a_block_takes_several_short_rows(shape: tuple[int, int], rows: int) -> None:
    """Of blocks with one short row each, a multiprocessor starts too few at a time."""
    step = plan(Problem("rmsnorm", *shape)).launches[-1]
    assert step.constants["ROWS"] == rows
    if rows > 1:
        assert step.grid[0] == shape[0] // rows >= 8 * H200.sm_count


def test_long_means_keep_rows_of_a_thousand_columns_apart() -> None:
    inside, beyond = (Problem("layernorm", rows, 1000) for rows in (4096, 131072))
    layernorm = registry.family("layernorm")
    variants = [layernorm.plan(each, H200, None).variant for each in (inside, beyond)]
    assert variants == ["full-tile", "register-tiled"]
