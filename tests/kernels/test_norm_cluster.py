"""Norms whose long rows are cut among the blocks of clusters, in Gluon: what is planned, what it
compiles to, and whether it computes the right numbers (in our own interpreter: see
``gluon_interpreter``)."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gluon_interpreter
import pytest
from norm_kernels import (
    H200,
    assert_right,
    copies_to_shared_memory,
    family_of,
    has_uniform_part,
    number,
    plan,
)

from perfcli.errors import PerfcliError
from perfcli.handwritten import compiling
from perfcli.model import KernelLaunch, Problem
from perfcli.model.kernel_work import LaunchToCompile

LONG = [
    Problem("layernorm", 4684, 28672),
    Problem("layernorm", 968, 138775, "float16"),
    Problem("layernorm-residual", 2000, 67104),
    Problem("rmsnorm", 2671, 50257),
    Problem("rmsnorm", 335, 200680, "float32"),
    Problem("rmsnorm-residual", 512, 262144),
]
FEW = [
    Problem("layernorm", 10, 30941),
    Problem("layernorm", 64, 20001),
    Problem("rmsnorm-residual", 16, 40000),
    Problem("rmsnorm", 3, 40001, "float32"),
]


def planner() -> Any:
    return import_module("perfcli.kernels._norms.cluster_plan")


# --- what is planned ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [*LONG, *FEW], ids=str)
def test_a_cluster_holds_a_whole_row(problem: Problem) -> None:
    made = plan(problem)
    step = made.launches[-1]
    assert (made.variant, step.function) == ("cluster", "norm_cluster")
    assert step.options["num_ctas"] == step.cluster == number(step, "BLOCKS")
    assert step.num_warps == number(step, "WARPS")
    lanes = 32 * step.num_warps * step.cluster * number(step, "TILES") * number(step, "VECTOR")
    peels = bool(step.constants["PEEL"])
    assert problem.columns + (number(step, "ALIGN") - 1) * peels <= lanes < 1.5 * problem.columns
    assert 0 < (step.shared_bytes or 0) <= H200.shared_bytes_per_block_optin
    assert made.portable is not None and made.portable.variant != "cluster"
    others = {each.function for each in made.portable.launches}
    assert others <= {"tiled", "shift_weights", "fill_words"}


@pytest.mark.parametrize(
    ("problem", "variant"),
    [
        (Problem("layernorm", 5752, 23336), "cluster"),
        (Problem("layernorm", 9309, 14408), "register-tiled"),
        (Problem("layernorm", 12000, 11003), "cluster"),  # starts between multiples of 16 bytes
        (Problem("layernorm-residual", 12000, 11003), "peeled"),
        (Problem("layernorm", 25200, 5327), "peeled"),
        (Problem("rmsnorm", 6710, 20003), "cluster"),
        (Problem("rmsnorm", 9309, 14419), "peeled"),
        (Problem("rmsnorm", 4096, 32768), "register-tiled"),
        (Problem("rmsnorm-residual", 8192, 28672), "register-tiled"),
    ],
    ids=str,
)
def test_rows_have_clusters_from_the_length_on_where_these_are_faster(
    problem: Problem, variant: str
) -> None:
    assert plan(problem).variant == variant
    assert plan(problem, variant="cluster").variant == "cluster"


@pytest.mark.parametrize("problem", LONG, ids=str)
def test_clusters_that_are_all_resident_take_rows_from_a_counter(problem: Problem) -> None:
    """It is cleared first."""
    clear, step = plan(problem).launches
    assert (clear.function, clear.grid) == ("fill_words", (1, 1, 1))
    assert (clear.constants["WORD"], number(clear, "BLOCK")) == (0, 1)
    assert step.constants["QUEUE"] is True and number(step, "SLOTS") in (1, 2)
    assert step.arguments["words"] == "*i64" and "words" in clear.arguments
    assert step.maxnreg is not None and step.shared_bytes is not None and step.cluster
    per_sm = min(
        H200.registers_per_sm // (32 * step.num_warps * step.maxnreg),
        H200.shared_bytes_per_sm // (step.shared_bytes + H200.reserved_shared_bytes_per_block),
    )
    assert step.grid[0] < problem.rows
    assert step.grid[0] * step.cluster <= per_sm * H200.sm_count


@pytest.mark.parametrize("problem", FEW, ids=str)
def test_each_of_a_few_rows_has_a_cluster_in_a_single_launch(problem: Problem) -> None:
    (step,) = plan(problem).launches
    assert step.grid == (problem.rows, 1, 1)
    assert step.constants["QUEUE"] is False and "words" not in step.arguments
    assert problem.rows * number(step, "BLOCKS") <= H200.sm_count
    assert 2 * problem.rows * number(step, "BLOCKS") > H200.sm_count or step.cluster in (8, 16)


@pytest.mark.parametrize("problem", [LONG[0], LONG[3], FEW[0]], ids=str)
def test_a_device_without_clusters_does_it_otherwise(problem: Problem) -> None:
    made = plan(problem, "a100")
    assert made.variant != "cluster" and made.portable is None
    with pytest.raises(PerfcliError, match="cluster: a100 has no clusters: use cooperative"):
        plan(problem, "a100", "cluster")


def test_without_clusters_long_rows_are_cooperative() -> None:
    for problem in LONG[1:]:
        assert plan(problem, "a100").variant == "cooperative"


def test_rows_that_do_not_lie_alike_or_are_too_long_are_left_to_others() -> None:
    shifted = Problem("layernorm", 1000, 50264, row_stride=50265)
    too_long = Problem("rmsnorm", 335, 600000, "float32")
    for problem, reason in ((shifted, "do not lie alike"), (too_long, "is too long for a cluster")):
        assert plan(problem).variant == "cooperative"
        with pytest.raises(PerfcliError, match=f"{reason}.*: use cooperative"):
            plan(problem, variant="cluster")
    # Rows with a gap of whole vectors do, and of a single row nobody asks where the next begins.
    assert plan(replace(shifted, row_stride=50272)).variant == "cluster"
    assert plan(replace(shifted, rows=1)).variant == "cluster"


# --- what it compiles to --------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("problem", [*LONG[:3], LONG[5], FEW[0], FEW[3]], ids=str)
def test_a_cluster_spills_nothing_and_takes_the_planned_shared_memory(
    problem: Problem, tmp_path: Path
) -> None:
    step, family = plan(problem).launches[-1], family_of(problem)
    asked = LaunchToCompile(family.code, step, H200)
    made = compiling.compile_launch(asked, family.name, tmp_path)
    assert made.error == ""
    assert made.shared_bytes == step.shared_bytes  # where it begins is known then
    assert (made.stack_bytes, made.local_loads, made.local_stores) == (0, 0, 0)
    assert (made.registers or 0) <= (step.maxnreg or 0)
    # Rows and weights come 16 bytes at a time, also those of a tile that they do not fill.
    inputs = 1 + bool(step.constants["RESIDUAL"])
    assert made.global_loads["128"] >= inputs * number(step, "TILES")
    assert not made.global_loads.keys() - {"128"}


@pytest.mark.torch
@pytest.mark.parametrize("problem", [LONG[0], Problem("rmsnorm", 10000, 20003)], ids=str)
def test_copies_to_shared_memory_have_no_uniform_part_in_their_address(problem: Problem) -> None:
    """With a policy they have no room for it, and ptxas 12.8 does not know that: the device finds
    an illegal instruction."""
    step = plan(problem).launches[-1]
    assert (step.constants["KEEP"], step.constants["QUEUE"]) == ("evict_last", True)
    copies = copies_to_shared_memory(step)
    assert len(copies) >= number(step, "TILES")
    assert not any(map(has_uniform_part, copies))


# --- whether its numbers are right ----------------------------------------------------------------


SHAPES = [
    Problem("layernorm", 5, 1001),  # rows start at any element
    Problem("layernorm", 5, 1000),  # aligned, but not to sectors
    Problem("layernorm", 5, 1016, "float16"),
    Problem("layernorm", 5, 1003, "float16"),
    Problem("layernorm", 5, 1004, "float32"),
    Problem("layernorm", 5, 517, "float32"),
    Problem("layernorm", 5, 2048),  # full tiles
    Problem("layernorm", 5, 2049),
    Problem("layernorm", 4, 500, row_stride=508),  # a single tile, which rows fill in part
    Problem("layernorm", 4, 992, row_stride=1024),  # aligned rows with gaps
    Problem("layernorm-residual", 5, 1001),
    Problem("layernorm-residual", 5, 1000, "float16"),
    Problem("layernorm-residual", 4, 517, "float32"),
    Problem("rmsnorm", 5, 1002),  # leads of whole words only
    Problem("rmsnorm", 5, 1000),
    Problem("rmsnorm", 5, 1003, "float16"),
    Problem("rmsnorm", 5, 1021, "float32"),
    Problem("rmsnorm", 4, 1024, "float32"),
    Problem("rmsnorm-residual", 5, 1001, "float16"),
    Problem("rmsnorm-residual", 5, 1000),
    Problem("rmsnorm-residual", 3, 1500, row_stride=1508),
]
WAYS = {
    "one slot": (2, 1),
    "two slots": (2, 2),
    "idle clusters": (4, 2),
    "no queue": (0, 1),
}
"""Clusters, 0 for one to each row, and slots."""


@pytest.mark.torch
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_clusters_compute_the_right_numbers(problem: Problem, way: str) -> None:
    """Right against float64, and each element stored once."""
    tensors = import_module("perfcli.kernels._norms.code").inputs(problem, "cpu", 3)
    clusters, slots = WAYS[way]
    assert_right(problem, tensors, run_clusters(problem, tensors, (2, 2), clusters, slots))


@pytest.mark.torch
@pytest.mark.parametrize("size", [(2, 4), (4, 2), (8, 8)], ids=str)
@pytest.mark.parametrize(
    "problem",
    [
        Problem("layernorm", 5, 5003),
        Problem("layernorm", 3, 4096, "float16"),
        Problem("rmsnorm-residual", 4, 3001, "float32"),
    ],
    ids=str,
)
def test_the_warps_of_all_blocks_add_up(problem: Problem, size: tuple[int, int]) -> None:
    """Those of the largest cluster each hear of more warps than they have lanes."""
    tensors = import_module("perfcli.kernels._norms.code").inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_clusters(problem, tensors, size, 2, 2))


@pytest.mark.torch
@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize(
    "problem", [Problem("layernorm", 3, 1001), Problem("rmsnorm", 2, 1000, "float32")], ids=str
)
def test_there_may_be_more_clusters_than_rows(problem: Problem, slots: int) -> None:
    tensors = import_module("perfcli.kernels._norms.code").inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_clusters(problem, tensors, (2, 2), 5, slots))


@pytest.mark.torch
@pytest.mark.parametrize("columns", [1001, 1000, 1024])
@pytest.mark.parametrize("clusters", [0, 1])
def test_squares_about_a_large_mean_do_not_cancel(columns: int, clusters: int) -> None:
    import torch

    code = import_module("perfcli.kernels._norms.code")
    problem = Problem("layernorm", 3, columns, "float32")
    tensors = code.inputs(problem, "cpu", 3)
    tensors["x"] += 1000
    found = run_clusters(problem, tensors, (2, 2), clusters, 1)
    expected = code.reference(problem, tensors)
    # As exact as numbers of that size are added up.
    torch.testing.assert_close(found["rstd"].double(), expected["rstd"], rtol=1e-5, atol=0)
    torch.testing.assert_close(found["mean"].double(), expected["mean"], rtol=2e-7, atol=0)
    torch.testing.assert_close(found["y"].double(), expected["y"], rtol=0, atol=1e-3)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("columns", "dtype"), [(1003, "bfloat16"), (1000, "bfloat16"), (1003, "float32")]
)
def test_a_row_that_is_not_finite_leaves_its_neighbours_alone(columns: int, dtype: str) -> None:
    """Its elements come along with theirs, and it is in the slot before theirs."""
    code = import_module("perfcli.kernels._norms.code")
    problem = Problem("layernorm", 4, columns, dtype)
    tensors = code.inputs(problem, "cpu", 3)
    tensors["x"][1] = float("nan")
    found = run_clusters(problem, tensors, (2, 2), 1, 1)
    assert found["y"][1].isnan().all() and found["rstd"][1].isnan()
    assert_right(problem, tensors, found)


@pytest.mark.torch
@pytest.mark.parametrize(
    "problem",
    [Problem("layernorm", 2, 16391), Problem("rmsnorm-residual", 2, 20000, "float16")],
    ids=str,
)
def test_few_rows_come_out_right_as_they_are_planned(problem: Problem) -> None:
    tensors = import_module("perfcli.kernels._norms.code").inputs(problem, "cpu", 3)
    (step,) = plan(problem).launches
    assert_right(problem, tensors, run(problem, tensors, step))


def run_clusters(
    problem: Problem,
    tensors: dict[str, Any],
    size: tuple[int, int],
    clusters: int,
    slots: int,
) -> dict[str, Any]:
    """Return the outputs by so many clusters, each of so many blocks and warps of these."""
    (parts, warps), cluster_plan = size, planner()
    align, wide = cluster_plan._alignment(problem), cluster_plan.vector(problem)
    tile = 32 * warps * parts * wide
    tiles = -(-cluster_plan.lanes_of(problem, align) // tile)
    blocks = cluster_plan.Blocks(
        "cluster", 32 * warps, tile=tile, align=align, tiles=tiles, parts=parts, stages=slots
    )
    # As for large problems: copies with a policy have addresses of their own.
    blocks = replace(blocks, read="evict_last", write="evict_first")
    few = min(clusters, problem.rows - 1) or problem.rows
    small = replace(H200, sm_count=few * parts)
    *_, step = planner().launches(problem, small, replace(blocks, per_sm=1))
    assert step.constants["QUEUE"] is (clusters > 0)
    return run(problem, tensors, replace(step, grid=(clusters or few, 1, 1)))


def run(problem: Problem, tensors: dict[str, Any], step: KernelLaunch) -> dict[str, Any]:
    """Return the outputs of a launch, which stores each element once."""
    import torch

    code = import_module("perfcli.kernels._norms.code")
    span = (problem.rows - 1) * problem.stride + problem.columns
    flat = {n: t.as_strided((span,), (1,)) if t.dim() == 2 else t for n, t in tensors.items()}
    outputs = {}
    for name in code.output_names(problem):
        of_rows = name in ("mean", "rstd")
        shape = (problem.rows,) if of_rows else (problem.rows, problem.columns)
        dtype = torch.float32 if of_rows else tensors["x"].dtype
        outputs["total" if name == "sum" else name] = torch.zeros(shape, dtype=dtype)
    counter = torch.zeros(1, dtype=torch.int64)
    given = {**flat, **outputs, "words": counter}
    given |= {"rows": problem.rows, "eps": code._epsilon(problem)}
    values = {name: given[name] for name in step.arguments} | dict(step.constants)
    kernel = Path(str(code.__file__)).with_name("cluster.py")
    made = gluon_interpreter.run(kernel, step.function, step.grid[0], values)
    found = {}
    for name, output in outputs.items():
        assert (made[name].stored[: made[name].size] == 1).all(), name
        found["sum" if name == "total" else name] = made[name].read(output)
    return found
