"""Rows of norms that are kept in registers: in which order they are loaded and stored, and how long
ones are shared. Of rows that clusters compute where there are some (``test_norm_cluster``), what is
planned without them."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from perfcli.handwritten import compiling, describing
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import LaunchToCompile

H200 = targets.get("h200")


def plan_of(problem: Problem, variant: str | None = None, target: Target = H200) -> LaunchPlan:
    family = registry.family(problem.operation.partition("-")[0])
    made = family.plan(problem, target, variant)
    return made.portable or made


def launch_of(problem: Problem, variant: str | None = None) -> KernelLaunch:
    return plan_of(problem, variant).launches[-1]


def compile_to(form: str, launch: KernelLaunch, operation: str) -> str:
    """Return a launch's code as Triton's ``ttir``, ``ptx`` …"""
    family = operation.partition("-")[0]
    code = registry.family(family).code
    source = compiling._source(describing.load_code(code, family).function(launch.function), launch)
    return str(compiling._build(source, LaunchToCompile(code, launch, H200)).asm[form])


@pytest.mark.torch
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        # Three tiles of x; the first weights and biases; mean and deviation; then a tile is stored
        # after the next one's weights and biases have been asked for.
        ("layernorm", "LLL LL SS LLS LLS S"),
        ("layernorm-residual", "LLLLLL SSS LL SS LLS LLS S"),  # x and the residual, before any sum
        ("rmsnorm", "LLL L LS LS S"),
    ],
)
def test_no_load_waits_behind_a_store(operation: str, expected: str) -> None:
    """A compiler moves no load over a store: what stands behind one is waited for alone."""
    columns = 768 if operation.startswith("layernorm") else 3072
    launch = launch_of(Problem(operation, 100_000, columns))
    assert (launch.function, launch.constants["TILES"]) == ("tiled", 3)
    found = re.findall(r"\btt\.(load|store)\b", compile_to("ttir", launch, operation))
    assert "".join(each[0].upper() for each in found) == expected.replace(" ", "")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("layernorm", ["x", "weight", "bias"]),
        ("rmsnorm-residual", ["x", "residual", "weight"]),
    ],
)
def test_a_short_row_is_asked_for_before_its_weights(operation: str, expected: list[str]) -> None:
    """Weights are unpacked where they are loaded, and nothing is asked for until they are there."""
    launch = launch_of(Problem(operation, 16384, 512))
    assert launch.function == "full_tile"
    ttir = compile_to("ttir", launch, operation)
    made_of = dict(re.findall(r"(%\w+) = tt\.\w+ (%\w+)", ttir))
    loaded = re.findall(r"tt\.load (%\w+)", ttir)
    for _ in made_of:
        loaded = [made_of.get(each, each) for each in loaded]
    assert loaded == [f"%{name}" for name in expected]


@pytest.mark.torch
@pytest.mark.parametrize(
    "problem",
    [
        Problem("layernorm-residual", 300, 16001),
        Problem("layernorm", 200, 28672),
        Problem("layernorm", 11472, 11701),
        Problem("layernorm", 25200, 5327),
        Problem("layernorm-residual", 2000, 67104),
        Problem("rmsnorm", 374, 700),
        Problem("layernorm", 5991, 700),
        Problem("layernorm", 838, 5002),
        Problem("rmsnorm-residual", 4, 40000),
    ],
    ids=str,
)
def test_rows_that_registers_hold_spill_none(problem: Problem, tmp_path: Path) -> None:
    family = problem.operation.partition("-")[0]
    asked = LaunchToCompile(registry.family(family).code, launch_of(problem), H200)
    made = compiling.compile_launch(asked, family, tmp_path)
    assert (made.spilled_words, made.error) == (0, "")


@pytest.mark.parametrize(
    ("problem", "threads", "tiles"),
    [
        (Problem("layernorm", 127949, 1049), 32, 5),  # three of 64 threads: a third idle
        (Problem("rmsnorm", 13772, 9746), 256, 5),
        (Problem("rmsnorm", 12202, 11000), 512, 3),
        (Problem("rmsnorm-residual", 14223, 9437), 256, 5),
        (Problem("rmsnorm-residual", 9309, 14419), 256, 8),
        (Problem("rmsnorm-residual", 8200, 16371), 1024, 2),
        (Problem("layernorm", 14223, 9437), 128, 10),
        (Problem("layernorm", 31866, 4212), 64, 9),  # rows that start between multiples of 16 bytes
        (Problem("layernorm", 31866, 4216), 128, 5),
        (Problem("layernorm", 12000, 11003), 128, 11),
        (Problem("layernorm-residual", 12000, 11003), 256, 6),
        (Problem("layernorm", 9309, 14408), 256, 8),
        (Problem("layernorm", 600, 11204), 512, 3),  # too few rows to be kept by fewer threads
    ],
    ids=str,
)
def test_a_row_is_kept_by_threads_that_are_busy(problem: Problem, threads: int, tiles: int) -> None:
    step = launch_of(problem)
    assert (32 * step.num_warps, step.constants["TILES"]) == (threads, tiles)


@pytest.mark.parametrize(
    ("problem", "parts", "tiles", "registers"),
    [
        (Problem("layernorm", 512, 262144), 32, 8, 64),
        (Problem("rmsnorm", 2671, 50257), 5, 10, 80),  # seven of 8192 would be filled to 88 percent
        (Problem("rmsnorm", 335, 200680, "float32"), 49, 8, 64),
        (Problem("layernorm", 968, 138775), 17, 8, 80),
        (Problem("layernorm-residual", 2000, 67104), 11, 6, 88),
        (Problem("rmsnorm-residual", 512, 262144), 37, 7, 96),
    ],
    ids=str,
)
def test_long_rows_are_cut_into_the_parts_that_they_fill_best(
    problem: Problem, parts: int, tiles: int, registers: int
) -> None:
    launch = launch_of(problem)
    found = (launch.constants["PARTS"], launch.constants["TILES"], launch.maxnreg)
    assert found == (parts, tiles, registers)
    assert launch.num_warps == 4


@pytest.mark.parametrize(
    ("problem", "read", "write"),
    [
        (Problem("rmsnorm", 32768, 4096), "evict_last", "evict_first"),
        (Problem("rmsnorm", 12000, 11003), "evict_last", "evict_first"),
        (Problem("layernorm-residual", 12000, 11003), "evict_last", "evict_first"),
        (Problem("layernorm-residual", 2000, 67104), "evict_last", "evict_first"),
        (Problem("layernorm", 12000, 11003), "past L1", "evict_first"),
        (Problem("layernorm", 6000, 11003), "past L1", ""),  # 264 MB are moved
        (Problem("layernorm", 54605, 2458), "", "evict_first"),
        (Problem("rmsnorm", 2671, 50257), "", "evict_first"),
        (Problem("rmsnorm", 32768, 4096), "evict_last", "evict_first"),  # 537 MB are moved
        (Problem("rmsnorm", 30000, 4096), "", ""),  # 492
        (Problem("rmsnorm", 8192, 4096), "", ""),
        (Problem("layernorm-residual", 4000, 11003), "", ""),
        (Problem("rmsnorm", 1024, 4096), "", ""),  # L2 holds all of it
    ],
    ids=str,
)
def test_caches_keep_what_is_needed_again(problem: Problem, read: str, write: str) -> None:
    """Whether or not the variant is asked for by name."""
    for variant in (None, plan_of(problem).variant):
        constants = launch_of(problem, variant).constants
        assert (constants["READ"], constants["WRITE"]) == (read, write)


@pytest.mark.parametrize(("target", "more"), [("h200", 0), ("b200", 8), ("a100", 8)])
def test_other_architectures_have_more_registers(target: str, more: int) -> None:
    """Unless that leaves room for one block: of 512 threads that have 64 registers each."""
    row = plan_of(Problem("layernorm", 11472, 11701), None, targets.get(target)).launches[-1]
    assert row.maxnreg == 104 + more
    wide = Problem("layernorm-residual", 16384, 14336)
    assert plan_of(wide, None, targets.get(target)).launches[-1].maxnreg == 64


@pytest.mark.torch
def test_rows_past_l1_are_loaded_so_and_weights_are_not() -> None:
    """By Triton's own names for it: ``ld.global.cg``."""
    launch = launch_of(Problem("layernorm", 12000, 11003))
    ptx = compile_to("ptx", launch, "layernorm")
    tiles = int(str(launch.constants["TILES"]))
    assert len(re.findall(r"ld\.global\.cg\S*\.v4", ptx)) == tiles
    kept = len(re.findall(r"ld\.global\.L1::evict_last\S*\.v4", ptx))
    assert kept == 2 * tiles  # of weights and biases


@pytest.mark.parametrize(
    ("problem", "rows", "programs"),
    [
        # The last five programs have a row each: 6885 are 430 × 16 and 5, which lie otherwise.
        (Problem("rmsnorm", 6885, 611), 2, 430 * 8 + 5),
        (Problem("rmsnorm", 6864, 612), 2, 3432),
        (Problem("layernorm", 8003, 533), 2, 500 * 8 + 3),
        (Problem("layernorm", 5273, 797), 2, 329 * 8 + 8),
        (Problem("layernorm", 1365, 3097, "float16"), 2, 85 * 8 + 5),
        (Problem("rmsnorm", 5273, 797), 1, 5273),
        (Problem("layernorm-residual", 8003, 533), 1, 8003),
        # Of smaller problems none does.
        (Problem("rmsnorm", 85, 611), 1, 85),
        (Problem("layernorm", 37, 3097, "float16"), 1, 37),
    ],
    ids=str,
)
def test_two_rows_that_lie_alike_share_a_program(
    problem: Problem, rows: int, programs: int
) -> None:
    family = registry.family(problem.operation.partition("-")[0])
    launch = family.plan(problem, replace(H200, sm_count=1), None).launches[-1]
    assert (launch.constants["ROWS"], launch.grid[0]) == (rows, programs)


@pytest.mark.parametrize(
    ("problem", "threads", "tiles"),
    [
        (Problem("rmsnorm", 4, 8192), 1024, 1),
        (Problem("rmsnorm", 4, 32000), 1024, 4),
        (Problem("rmsnorm", 374, 700), 64, 2),
        (Problem("layernorm", 374, 700), 64, 2),
        (Problem("rmsnorm-residual", 374, 700), 64, 2),
        (Problem("layernorm-residual", 374, 700, "float32"), 256, 1),
        (Problem("rmsnorm", 5991, 700), 32, 3),  # 8 MiB, of which loads take 8 bytes at a time
        (Problem("rmsnorm", 2095, 1001), 32, 4),  # 4 MiB, 2 bytes at a time
        (Problem("layernorm", 838, 5002), 128, 5),
        (Problem("layernorm", 600, 6984), 256, 4),
    ],
    ids=str,
)
def test_a_small_problem_is_one_launch_of_few_tiles(
    problem: Problem, threads: int, tiles: int
) -> None:
    plan = plan_of(problem)
    (step,) = plan.launches
    assert (plan.variant, step.function) == ("register-tiled", "tiled")
    assert (step.constants["PARTS"], step.constants["ROWS"]) == (1, 1)
    assert (32 * step.num_warps, step.constants["TILES"]) == (threads, tiles)


@pytest.mark.parametrize(
    "problem", [Problem("rmsnorm", 1, 1001), Problem("layernorm", 1, 30941)], ids=str
)
def test_a_single_odd_row_is_read_16_bytes_at_a_time(problem: Problem) -> None:
    """It starts at a vector: no weights have to be shifted for it."""
    (step,) = registry.family(problem.operation).plan(problem, H200, None).launches
    assert step.constants["PEEL"] is True


@pytest.mark.parametrize(
    ("problem", "parts"),
    [
        (Problem("rmsnorm", 10, 30941), 31),  # two bytes at a time: 2 KiB to a block
        (Problem("rmsnorm", 2, 30941, row_stride=30942), 31),
        (Problem("layernorm-residual", 10, 30941), 31),
        (Problem("layernorm", 3, 20001, "float32"), 24),  # four
    ],
    ids=str,
)
def test_few_long_odd_rows_have_several_blocks_and_no_shifted_weights(
    problem: Problem, parts: int
) -> None:
    plan = plan_of(problem)
    assert [step.function for step in plan.launches] == ["fill_words", "tiled"]
    assert plan.launches[-1].constants["PEEL"] is False
    assert plan.launches[-1].constants["PARTS"] == parts


@pytest.mark.parametrize(
    ("problem", "threads", "tiles"),
    [
        (Problem("rmsnorm", 5752, 23336), 512, 6),
        (Problem("rmsnorm", 4684, 14328, "float32"), 512, 7),
        (Problem("rmsnorm", 4096, 32768), 512, 8),
        (Problem("rmsnorm", 2672, 50240), 1024, 7),
        (Problem("rmsnorm", 2048, 65536), 1024, 8),
        (Problem("layernorm", 5752, 23336), 256, 12),
        (Problem("layernorm", 4682, 28672), 512, 7),
    ],
    ids=str,
)
def test_a_long_aligned_row_has_one_block(problem: Problem, threads: int, tiles: int) -> None:
    step = launch_of(problem)
    assert (step.constants["PARTS"], step.constants["PEEL"]) == (1, False)
    assert (32 * step.num_warps, step.constants["TILES"]) == (threads, tiles)


@pytest.mark.parametrize(
    "problem",
    [
        Problem("rmsnorm", 2096, 1001),  # 4 MiB
        Problem("rmsnorm", 4190, 1001),
        Problem("layernorm", 4190, 1001),
        Problem("layernorm", 5992, 700),
        Problem("layernorm", 839, 5002),
        Problem("rmsnorm", 2096, 1001, "float32"),  # 8 MiB, 4 bytes at a time
    ],
    ids=str,
)
def test_of_larger_odd_rows_weights_are_shifted(problem: Problem) -> None:
    plan = registry.family(problem.operation).plan(problem, H200, None)
    assert plan.variant == "peeled"
    assert [step.function for step in plan.launches] == ["shift_weights", "tiled"]


@pytest.mark.parametrize(
    ("problem", "early"),
    [
        (Problem("layernorm", 838, 5002), False),
        (Problem("layernorm", 600, 6984), False),
        (Problem("rmsnorm", 838, 5002), True),
        (Problem("layernorm", 60, 5002), True),  # few rows
        (Problem("layernorm", 5991, 700), True),  # three tiles
    ],
    ids=str,
)
def test_many_rows_of_four_tiles_and_a_mean_load_weights_when_they_need_them(
    problem: Problem, early: bool
) -> None:
    assert launch_of(problem).constants["EARLY"] is early


@pytest.mark.parametrize(
    ("columns", "spacing"), [(19220, 4), (14416, 1), (14408, 2), (14419, 16), (1022, 8)]
)
def test_no_two_tiles_of_a_gradient_share_a_sector(columns: int, spacing: int) -> None:
    """16 elements of half precision are one; rows that are SPACING apart begin alike in theirs."""
    plan = registry.family("rmsnorm").plan(Problem("rmsnorm-backward", 9309, columns), H200, None)
    found = next(step.constants for step in plan.launches if "ALIGN" in step.constants)
    assert (found["ALIGN"], found["SPACING"], found["PEEL"]) == (16, spacing, spacing > 1)
    assert int(found["GROUPS"] or 0) % spacing == 0
    assert int(found.get("CHUNK") or found["TILE"] or 0) % 16 == 0


@pytest.mark.parametrize(("columns", "parts", "apart"), [(50257, 5, 16), (262144, 32, 32)])
def test_words_of_two_rows_share_no_line(columns: int, parts: int, apart: int) -> None:
    problem = Problem("layernorm", 1000, columns)
    plan = plan_of(problem)
    mark, rows = plan.launches[-2:]
    assert (rows.constants["PARTS"], rows.constants["APART"]) == (parts, apart)
    assert mark.function == "fill_words"
    assert mark.grid[0] * int(mark.constants["BLOCK"] or 0) >= 1000 * apart
    shifted = 8 * 2 * 50304 * 2 if columns % 8 else 0  # copies of weights and biases, 2 bytes each
    assert plan.workspace_bytes == 8 * 1000 * apart + shifted


def test_weights_that_are_loaded_early_leave_room_for_the_row() -> None:
    """Five tiles of 1024 threads would take 68 of their 64 registers."""
    launch = launch_of(Problem("layernorm-residual", 179, 35630))
    assert (launch.constants["PARTS"], launch.constants["TILES"]) == (5, 7)


@pytest.mark.parametrize("family", ["rmsnorm", "layernorm"])
def test_rows_of_any_number_length_and_distance_have_a_plan(family: str) -> None:
    draw = random.Random(11)
    devices = [*targets.TARGETS.values(), *targets.KERNEL_TARGETS.values()]
    for _ in range(2000):
        columns = int(2 ** draw.uniform(0, 18.6))
        problem = Problem(
            family + draw.choice(("", "-residual")),
            int(2 ** draw.uniform(0, 16)),
            columns,
            draw.choice(("bfloat16", "float16", "float32")),
            columns + draw.choice((0, 0, 1, 8)),
        )
        assert registry.family(family).plan(problem, draw.choice(devices), None).launches, problem


@pytest.mark.parametrize("columns", [20_000, 28_672, 31_648])
def test_rows_with_a_residual_are_kept_by_more_threads(columns: int) -> None:
    """Both are loaded at the same time, which takes twice the registers."""
    launch = launch_of(Problem("layernorm-residual", 5000, columns))
    vectors = -(-columns // (launch.num_warps * 32 * 8))
    assert launch.constants["PARTS"] == 1
    assert launch.constants["TILES"] == vectors <= 5
