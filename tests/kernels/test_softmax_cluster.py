"""Softmax's long rows by clusters of blocks, in Gluon: what is planned, what it compiles to, and
whether it computes the right numbers (in our own interpreter: see ``gluon_interpreter``)."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gluon_interpreter
import pytest

from perfcli.errors import PerfcliError
from perfcli.handwritten.comparing import compare_outputs
from perfcli.handwritten.compiling import compile_launch
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelLaunch, Problem
from perfcli.model.kernel_work import LaunchToCompile

FAMILY = registry.family("softmax")
H200 = targets.get("h200")
LONG = [
    Problem("softmax", 4096, 65536),
    Problem("softmax", 2048, 50257, "float16"),
    Problem("log-softmax", 1000, 201088, "float32"),
    Problem("softmax-backward", 900, 262144),
    Problem("log-softmax-backward", 1000, 100001),
    Problem("cross-entropy", 823, 163272),
    Problem("cross-entropy", 332, 202369, "float32"),
]
FEW = [
    (Problem("softmax", 4, 8192), "tiled"),
    (Problem("softmax", 4, 32768), "split"),
    (Problem("softmax", 17, 16820), "split"),
    (Problem("softmax", 300, 16384), "tiled"),
    (Problem("softmax", 64, 131072), "cooperative"),
    (Problem("log-softmax", 40, 140001, "float32"), "cooperative"),
    (Problem("softmax-backward", 17, 16820), "split"),
    (Problem("cross-entropy", 32, 32768), "split"),
]
"""Each with the variant that it has without clusters."""


def planner() -> Any:
    return import_module("perfcli.kernels.softmax.cluster_plan")


@pytest.mark.parametrize("problem", LONG, ids=str)
def test_a_cluster_holds_a_whole_row(problem: Problem) -> None:
    (step,) = FAMILY.plan(problem, H200, None).launches
    assert step.grid == (problem.rows, 1, 1)
    assert step.options["num_ctas"] == step.cluster == step.constants["BLOCKS"]
    words = 32 * 4 * step.num_warps * step.cluster * int(str(step.constants["TILES"]))
    lanes = words * int(str(step.constants["HALVES"]))
    assert problem.columns + 15 * bool(step.constants["PEEL"]) <= lanes < 1.4 * problem.columns


@pytest.mark.parametrize(("problem", "other"), FEW, ids=str)
def test_few_rows_are_cut_among_clusters_where_there_are_some(problem: Problem, other: str) -> None:
    made = FAMILY.plan(problem, H200, None)
    assert made.variant == "cluster" and made.portable is not None
    (step,) = made.launches
    assert step.grid == (problem.rows, 1, 1)
    assert made.portable.portable is None
    without = FAMILY.plan(problem, replace(H200, capability=(8, 0)), None)
    assert without.portable is None
    for plan in (made.portable, without):
        assert plan.variant == other
    functions = [[step.function for step in plan.launches] for plan in (made.portable, without)]
    assert functions[0] == functions[1]


@pytest.mark.parametrize(
    ("operation", "columns", "dtype"),
    [
        ("softmax", 8192, "bfloat16"),
        ("softmax", 16820, "bfloat16"),
        ("log-softmax", 140001, "float32"),
        ("softmax-backward", 40000, "bfloat16"),
        ("cross-entropy", 32768, "bfloat16"),
    ],
)
def test_few_rows_have_more_threads_each_than_many(
    operation: str, columns: int, dtype: str
) -> None:
    """Nothing else hides what a thread waits for."""
    few, many = (
        FAMILY.plan(Problem(operation, rows, columns, dtype), H200, "cluster") for rows in (4, 8192)
    )
    threads = [(step.cluster or 0) * step.num_warps for (step,) in (few.launches, many.launches)]
    assert threads[0] >= 2 * threads[1]
    assert "1 of them on a multiprocessor" in few.why


@pytest.mark.parametrize("target", ["a100", "mi300x"])
def test_a_device_without_clusters_does_it_otherwise(target: str) -> None:
    other = targets.get_for_kernels(target)
    plan = FAMILY.plan(Problem("softmax", 4096, 65536), other, "cluster")
    assert plan.variant != "cluster" and "has no clusters" in plan.instead_of


def test_rows_that_are_too_long_or_lie_otherwise_are_left_to_others() -> None:
    for rows, variant in ((300, "streamed"), (8, "cooperative"), (2, "split")):
        plan = FAMILY.plan(Problem("softmax", rows, 600000), H200, "cluster")
        assert plan.variant == variant and "600000 bfloat16 is too long" in plan.instead_of
    plan = FAMILY.plan(Problem("softmax", 300, 150264, row_stride=150265), H200, "cluster")
    assert "do not lie alike" in plan.instead_of
    with pytest.raises(PerfcliError, match="cluster cannot do cross-entropy-backward"):
        FAMILY.plan(Problem("cross-entropy-backward", 8, 65536), H200, "cluster")


@pytest.mark.torch
def test_without_gluon_the_portable_plan_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    launching = import_module("perfcli.kernels._launching")
    made = FAMILY.plan(Problem("softmax", 2048, 50257), H200, None)
    assert made.variant == "cluster" and made.portable is not None
    assert made.portable.variant == "streamed"
    monkeypatch.setattr(launching.triton.knobs.runtime, "interpret", False)
    assert launching.runnable(made) is made
    monkeypatch.setattr(launching, "find_spec", lambda _: None)
    assert launching.runnable(made) is made.portable
    loss = FAMILY.plan(Problem("cross-entropy", 2048, 50257), H200, None)
    assert launching.runnable(loss).variant == "split"


@pytest.mark.torch
@pytest.mark.parametrize("problem", [*LONG, *(problem for problem, _ in FEW)], ids=str)
def test_what_a_thread_keeps_fits_its_registers(problem: Problem, tmp_path: Path) -> None:
    (step,) = FAMILY.plan(problem, H200, None).launches
    made = compile_launch(LaunchToCompile(FAMILY.code, step, H200), FAMILY.name, tmp_path)
    assert made.error == ""
    assert made.shared_bytes == step.shared_bytes  # where it begins is known then
    assert (made.spilled_words or 0) <= 4
    assert (made.registers or 0) <= (step.maxnreg or 0)
    # Rows come 16 bytes at a time.
    inputs = 2 if "dy_ptr" in step.arguments else 1
    assert made.global_loads["128"] >= inputs * (int(str(step.constants["TILES"])) - 1)


@pytest.mark.torch
@pytest.mark.parametrize(("blocks", "warps"), [(2, 4), (16, 4), (16, 8)])
@pytest.mark.parametrize(
    "problem",
    [
        Problem("softmax", 1, 1275, row_stride=1280),
        Problem("softmax-backward", 1, 1275, row_stride=1280),
        Problem("softmax", 4, 4096),
        Problem("softmax", 17, 5001, "float16"),
        Problem("softmax", 9, 3001, "float32"),
        Problem("softmax", 6, 1500, row_stride=1508),
        Problem("log-softmax", 17, 3001),
        Problem("softmax-backward", 7, 5001, "float16"),
        Problem("softmax-backward", 9, 3001, "float32"),
        Problem("log-softmax-backward", 5, 2048),
        Problem("cross-entropy", 1, 1275, row_stride=1280),
        Problem("cross-entropy", 17, 5001, "float16"),
        Problem("cross-entropy", 9, 3001, "float32"),
        Problem("cross-entropy", 8, 1500, row_stride=1508),
        Problem("cross-entropy", 7, 4097, row_stride=4104),
    ],
    ids=str,
)
def test_a_cluster_computes_the_right_numbers(problem: Problem, blocks: int, warps: int) -> None:
    """Right against float64, and each element stored once."""
    code = import_module("perfcli.kernels.softmax.code")
    tensors = code.inputs(problem, "cpu", 3)
    errors = compare_outputs(
        run_cluster(problem, tensors, blocks, warps),
        code.reference(problem, tensors),
        FAMILY.tolerances(problem),
    )
    assert {error.wrong for error in errors} == {0}


@pytest.mark.torch
@pytest.mark.parametrize(("blocks", "warps"), [(2, 4), (16, 8)])
@pytest.mark.parametrize(
    "problem",
    [
        Problem("softmax", 1, 1275, row_stride=1280),
        Problem("softmax", 3, 4096),
        Problem("softmax", 5, 5001, "float16"),
        Problem("softmax", 4, 1500, row_stride=1508),
    ],
    ids=str,
)
def test_exponentials_that_are_computed_twice_are_right(
    problem: Problem, blocks: int, warps: int
) -> None:
    """Relative to a row's maximum, whatever its sign."""
    code = import_module("perfcli.kernels.softmax.code")
    tensors = code.inputs(problem, "cpu", 3)
    tensors["x"][0] -= 20
    found = run_cluster(problem, tensors, blocks, warps, again=True)
    errors = compare_outputs(found, code.reference(problem, tensors), FAMILY.tolerances(problem))
    assert {error.wrong for error in errors} == {0}


def test_exponentials_are_computed_twice_where_a_thread_has_many() -> None:
    """Kept, they take a register each, and words of half precision half of that."""
    for problem, again in (
        (Problem("softmax", 2048, 262144), True),
        (Problem("softmax", 4, 32768), False),  # two vectors
        (Problem("softmax", 1000, 201088, "float32"), False),
    ):
        (step,) = FAMILY.plan(problem, H200, "cluster").launches
        assert step.constants["RECOMPUTE"] is again


@pytest.mark.torch
@pytest.mark.parametrize(
    "problem",
    [
        Problem("softmax", 3, 8203),
        Problem("log-softmax", 2, 20003, "float16"),
        Problem("softmax-backward", 3, 8201),
        Problem("cross-entropy", 2, 16390),
    ],
    ids=str,
)
def test_few_rows_come_out_right_as_they_are_planned(problem: Problem) -> None:
    code = import_module("perfcli.kernels.softmax.code")
    tensors = code.inputs(problem, "cpu", 3)
    (step,) = FAMILY.plan(problem, H200, None).launches
    again = bool(step.constants.get("RECOMPUTE"))
    found = run_cluster(problem, tensors, step.cluster or 0, step.num_warps, again)
    errors = compare_outputs(found, code.reference(problem, tensors), FAMILY.tolerances(problem))
    assert {error.wrong for error in errors} == {0}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("operation", "again"), [("softmax", False), ("softmax", True), ("log-softmax", False)]
)
@pytest.mark.parametrize(
    ("dtype", "number"),
    [("bfloat16", 999424.0), ("bfloat16", 2.0**21), ("bfloat16", 3e38), ("float16", 60000.0)],
)
def test_large_numbers_whose_products_are_rounded_count_once(
    operation: str, again: bool, dtype: str, number: float
) -> None:
    """Twice the same number is half of the row each."""
    import torch

    problem = Problem(operation, 2, 1024, dtype)
    x = torch.full((2, 1024), -number, dtype=getattr(torch, dtype))
    x[:, 5] = x[:, 900] = number
    found = run_cluster(problem, {"x": x}, 2, 4, again)["y"][:, [5, 900]].double()
    half = torch.full((2, 2), 0.5).double()
    expected = half if operation == "softmax" else half.log()
    torch.testing.assert_close(found, expected, rtol=4e-3, atol=0)


@pytest.mark.torch
def test_a_target_that_is_no_column_gives_nan_and_the_ignored_one_zero() -> None:
    """Zero whatever its row holds."""
    import torch

    problem = Problem("cross-entropy", 4, 1275)
    x = torch.zeros(4, 1275, dtype=torch.bfloat16)
    x[3] = float("nan")
    target = torch.tensor([3, -1, 1275, -100])
    found = run_cluster(problem, {"x": x, "target": target}, 2, 4)
    assert found["loss"][0].item() == pytest.approx(math.log(1275), rel=1e-6)
    assert found["loss"][1:3].isnan().all() and found["loss"][3] == 0
    assert found["lse"][3].isnan() and not found["lse"][:3].isnan().any()


@pytest.mark.torch
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("blocks", "warps"), [(2, 4), (16, 8)])
def test_numbers_that_are_not_finite_are_those_of_torch(
    blocks: int, warps: int, dtype: str, again: bool
) -> None:
    import torch

    code = import_module("perfcli.kernels.softmax.code")
    problem = Problem("softmax", 5, 1275, dtype)
    tensors = code.inputs(problem, "cpu", 3)
    tensors["x"][0, :900] = float("-inf")
    tensors["x"][1] = float("-inf")
    tensors["x"][2, 3] = float("nan")
    tensors["x"][3, 7] = float("inf")
    found = run_cluster(problem, tensors, blocks, warps, again)["y"]
    expected = torch.softmax(tensors["x"].double(), 1)
    torch.testing.assert_close(found.double(), expected, rtol=0.01, atol=1e-5, equal_nan=True)
    assert found[1:4].isnan().all()


def run_cluster(
    problem: Problem, tensors: dict[str, Any], blocks: int, warps: int, again: bool = False
) -> dict[str, Any]:
    """Return the output by clusters of so many blocks and warps of each; ``again``: exponentials
    are computed twice."""
    import torch

    ways = (choice for choice, _ in planner().ways(problem, H200))
    wanted = (blocks, warps, again)
    choice = next(
        each for each in ways if (each.blocks, each.warps, each.recompute != "no") == wanted
    )
    step: KernelLaunch
    (step,) = planner().launches(problem, replace(choice, overlap=False))
    span = (problem.rows - 1) * problem.stride + problem.columns
    flat = {n: t.as_strided((span,), (1,)) if t.dim() == 2 else t for n, t in tensors.items()}
    outputs: dict[str, Any]
    if problem.operation == "cross-entropy":
        outputs = {name: torch.zeros(problem.rows) for name in ("loss", "lse")}
    else:
        like = next(iter(tensors.values()))
        shape = (problem.rows, problem.columns)
        outputs = {"dx" if "dy" in tensors else "y": like.new_zeros(shape)}
    values = {**{f"{n}_ptr": t for n, t in {**flat, **outputs}.items()}, **step.constants}
    if "ignored" in step.arguments:
        values["ignored"] = import_module("perfcli.kernels.softmax.code").IGNORED
    made = gluon_interpreter.run(
        Path(str(planner().__file__)).with_name("cluster.py"), step.function, step.grid[0], values
    )
    found = {}
    for name, output in outputs.items():
        memory = made[f"{name}_ptr"]
        assert (memory.stored[: memory.size] == 1).all()
        found[name] = memory.read(output)
    return found
