"""A run of hand-written kernels, made of what a worker found out about their launches."""

from __future__ import annotations

from dataclasses import replace

from handmade import candidate, kernel, origins, run
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.diff.compare import compare
from perfcli.model import (
    KernelFamily,
    KernelLaunch,
    LaunchPlan,
    Problem,
    ScenarioProblem,
    Target,
    Tolerance,
)
from perfcli.model.kernel_work import DescribedLaunch, Operand
from perfcli.predict.step import estimate_run, estimate_step
from perfcli.workbench.as_run import CompiledProblem, _make_run

ROWS, COLUMNS = 64, 4096
SIZE = 2 * ROWS * COLUMNS
SUM = """
@triton.jit
def row_sum(x_ptr, s_ptr, BLOCK: tl.constexpr):
    for i in tl.range(0, 4096, BLOCK):
        s = tl.sum(tl.load(x_ptr + i))
    tl.store(s_ptr, s)
"""
PICK = """
@triton.jit
def pick(x_ptr, s_ptr, y_ptr, PARTS: tl.constexpr):
    s = tl.load(s_ptr)
    tl.store(y_ptr, tl.load(x_ptr + 3) / s)
"""


def operand(argument: str, name: str, columns: int, *, is_input: bool = False) -> Operand:
    shape = (ROWS, columns)
    return Operand(argument, name, "bfloat16", shape, (columns, 1), 2 * ROWS * columns, is_input)


def nothing(_: object) -> int:
    raise AssertionError("a run is made of facts alone")


def planned(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    raise AssertionError("the plan is there")


def tolerances(_: Problem) -> dict[str, Tolerance]:
    return {}


FAMILY = KernelFamily(
    name="sums",
    summary="",
    operations={"sum": ""},
    variants=(),
    plan=planned,
    moved_bytes=nothing,
    flops=nothing,
    tolerances=tolerances,
    cases=(),
    benchmarks=(),
    code="sums",
)
ANSWER = CompiledProblem(
    ScenarioProblem("sums", Problem("sum", ROWS, COLUMNS), left_out="the mean"),
    FAMILY,
    LaunchPlan(
        "two-step",
        (
            KernelLaunch("row_sum", (ROWS, 1, 1), {}, {"BLOCK": 512}, 4),
            KernelLaunch("pick", (ROWS, 1, 1), {}, {"PARTS": 4, "EVEN": True}, 4),
        ),
        "by hand",
        instead_of="one-step: no",
    ),
    (candidate(), candidate()),
    (
        DescribedLaunch(
            SUM, (operand("x_ptr", "x", COLUMNS, is_input=True), operand("s_ptr", "buf0", 1))
        ),
        DescribedLaunch(
            PICK,
            (
                operand("x_ptr", "x", COLUMNS, is_input=True),
                operand("s_ptr", "buf0", 1),
                operand("y_ptr", "buf1", 1),
                operand("unused", "buf2", 1),
            ),
        ),
    ),
)
BASE = run([kernel("a", "max", "sum"), kernel("b", "div"), kernel("c", "mul", graph="backward 0")])


def test_bytes_are_those_of_the_tensors_that_are_read_and_written() -> None:
    first, second = _make_run(BASE, [ANSWER]).run.kernels
    assert (first.bytes_read, first.bytes_written) == (SIZE, 2 * ROWS)
    assert first.bytes_swept == SIZE + 2 * ROWS
    assert [b.role for b in second.buffers] == ["input", "input", "output"]
    # Four elements of each row at most, of an input that is looked up; then the sums.
    assert second.bytes_read == 2 * ROWS * 4 + 2 * ROWS
    assert first.kind == "reduction"
    assert second.kind == "pointwise"


def test_what_is_loaded_by_assembly_counts_by_its_tensors() -> None:
    """Its text shows no load of x: that is not 0 bytes. The same tensor counts once."""
    x, sums = operand("x_ptr", "x", COLUMNS, is_input=True), operand("s_ptr", "buf0", 1)
    again = replace(x, argument="again_ptr")
    text = SUM.replace("x_ptr + i", "s_ptr + i")
    hidden = replace(
        ANSWER,
        plan=replace(ANSWER.plan, launches=ANSWER.plan.launches[:1]),
        compiled=ANSWER.compiled[:1],
        described=(DescribedLaunch(text, (x, again, sums), is_gluon=True),),
    )
    (found,) = _make_run(BASE, [hidden]).run.kernels
    assert (found.bytes_read, found.bytes_written) == (SIZE, 2 * ROWS)
    assert found.bytes_swept == SIZE + 2 * ROWS
    assert found.source_facts is None
    seen = replace(hidden, described=(DescribedLaunch(SUM, (x, sums), is_gluon=True),))
    (found,) = _make_run(BASE, [seen]).run.kernels
    assert found.source_facts is not None


def test_programs_that_share_a_row_have_parts_of_it() -> None:
    first, _ = _make_run(BASE, [ANSWER]).run.kernels
    assert first.sizes == {"x": ROWS, "r0_": COLUMNS}
    launches = [replace(step, grid=(ROWS, 3, 1)) for step in ANSWER.plan.launches]
    plan = replace(ANSWER.plan, launches=tuple(launches))
    first, _ = _make_run(BASE, [replace(ANSWER, plan=plan)]).run.kernels
    assert first.sizes == {"x": 3 * ROWS, "r0_": 1366}


def test_they_compute_what_the_graph_computes() -> None:
    bundle = _make_run(BASE, [ANSWER])
    made = bundle.run
    assert made.variant.name == "kernel sums/two-step"
    assert {k.graph for k in made.kernels} == {"forward 0"}
    assert made.kernels[0].origins == origins("max", "sum", "div")
    assert [g.name for g in made.graphs] == ["forward 0"]
    assert all(k.source in bundle.blobs for k in made.kernels)
    assert made.notes == (
        "hand-written kernels, sums/two-step: by hand; one-step: no",
        "not computed by the hand-written kernels: the mean",
    )


def test_their_group_is_the_graph() -> None:
    forward = replace(BASE, kernels=BASE.kernels[:2], graphs=BASE.graphs[:1])
    (group,) = compare(forward, _make_run(forward, [ANSWER]).run).groups
    assert (group.match.base, group.match.head) == ((0, 1), (0, 1))


def test_nothing_is_estimated_of_what_was_not_counted() -> None:
    """The work of the base's launches was counted, that of hand-written ones was not: an estimate
    would be of one side alone."""
    base = weighed_run(weighed_kernel("triton_red_fused_sum_0", "sum"))
    assert estimate_step(base) is not None
    for known in (base, estimate_run(base)):
        made = _make_run(known, [ANSWER]).run
        assert estimate_step(made) is None
        assert compare(known, made).estimate is None
