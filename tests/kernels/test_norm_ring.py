"""Norms whose long rows are streamed through shared memory, in Gluon: what is planned, what it
compiles to, and whether it computes the right numbers. Triton's interpreter has no Gluon; one of
our own runs the kernel here (``gluon_interpreter``), on a GPU it is ``perfcli kernels check``."""

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
from perfcli.handwritten.compiling import compile_launch
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelLaunch, LaunchPlan, Problem
from perfcli.model.kernel_work import LaunchToCompile


def ring_of(made: LaunchPlan) -> KernelLaunch:
    (step,) = (s for s in made.launches if s.function == "gradient_ring")
    return step


LONG = [
    Problem("layernorm-backward", 1296, 103557),
    Problem("rmsnorm-backward", 4240, 31648),
    Problem("rmsnorm-residual-backward", 1429, 93896, "float16"),
    Problem("layernorm-backward", 1000, 67101, "float32"),
    Problem("rmsnorm-backward", 512, 262144),
]


@pytest.mark.parametrize("problem", LONG, ids=str)
def test_long_rows_are_streamed_by_programs_that_are_all_resident(problem: Problem) -> None:
    made = plan(problem, variant="ring")
    step = ring_of(made)
    assert step.options["launch_cooperative_grid"] is True
    assert step.maxnreg is not None and step.shared_bytes is not None
    threads = 32 * step.num_warps
    per_sm = min(
        H200.registers_per_sm // (threads * step.maxnreg),
        H200.shared_bytes_per_sm // (step.shared_bytes + H200.reserved_shared_bytes_per_block),
    )
    assert step.grid[0] <= per_sm * H200.sm_count
    groups, parts = number(step, "GROUPS"), number(step, "PARTS")
    assert step.grid == (groups * parts, 1, 1)
    mixed = groups % number(step, "SPACING") != 0
    assert number(step, "PARTIALS") == groups + mixed * (number(step, "SPACING") - 1)
    chunk = number(step, "CHUNK")
    beside = number(step, "VECTOR") - 1 if step.constants["PEEL"] else 0  # where a row may begin
    assert problem.columns + beside <= chunk * parts
    tile = number(step, "WARPS") * 128 * number(step, "HALVES")
    assert chunk <= tile * number(step, "TILES")
    assert number(step, "APART") >= parts
    assert 0 < number(step, "BEHIND") < number(step, "SLOTS") - 1


@pytest.mark.torch
@pytest.mark.parametrize("problem", LONG, ids=str)
def test_a_ring_spills_little_and_takes_the_planned_shared_memory(
    problem: Problem, tmp_path: Path
) -> None:
    step = ring_of(plan(problem, variant="ring"))
    family = family_of(problem)
    asked = LaunchToCompile(family.code, step, H200)
    made = compile_launch(asked, family.name, tmp_path)
    assert made.error == ""
    assert made.shared_bytes == step.shared_bytes
    assert (made.spilled_words or 0) <= 24
    assert (made.registers or 0) <= (step.maxnreg or 0)
    # Rows come 16 bytes at a time, in a copy for each tile; only the weights come one by one.
    inputs = len({"dy", "dsum", "residual"} & step.arguments.keys()) + 1
    fetched = number(step, "SLOTS") - number(step, "BEHIND") + 1
    assert made.global_loads["128"] >= inputs * number(step, "TILES") * fetched


@pytest.mark.torch
@pytest.mark.parametrize(
    "problem",
    [
        # The last program would lack most of its tiles if all but it had whole lines of columns.
        Problem("layernorm-backward", 3766, 35642),
        Problem("rmsnorm-backward", 823, 163144, "float16"),
        Problem("rmsnorm-backward", 1190, 112824, "float16"),
        # Rows start anywhere, in two tiles of which a mask for each word is kept.
        Problem("layernorm-backward", 2439, 55036),
        Problem("layernorm-backward", 1066, 125943),
    ],
    ids=str,
)
def test_programs_of_a_row_that_are_alike_spill_nothing_in_their_loop(
    problem: Problem, tmp_path: Path
) -> None:
    step = ring_of(plan(problem))
    # Rows are cut with up to 14 elements of their neighbours, in whole vectors of 8.
    lacking = number(step, "CHUNK") * number(step, "PARTS") - problem.columns - 14
    assert lacking <= number(step, "WARPS") * 128 * number(step, "HALVES")
    asked = LaunchToCompile(family_of(problem).code, step, H200)
    made = compile_launch(asked, problem.operation.partition("-")[0], tmp_path)
    assert made.error == ""
    # What is read from local memory comes behind all rows that are on their way.
    assert (made.local_loads_in_loops, made.local_stores_in_loops) == (0, 0)
    assert (made.spilled_words or 0) <= 4


@pytest.mark.torch
@pytest.mark.parametrize("threads", [32, 256])
def test_copies_to_a_ring_have_no_uniform_part_in_their_address(threads: int) -> None:
    """With a policy they have no room for it, and ptxas 12.8 does not know that: the device finds
    an illegal instruction. Where a row has a single tile, ptxas sees the slot as such a part."""
    problem = Problem("layernorm-backward", 300_000, 511)
    planner, ring_plan = (
        import_module(f"perfcli.kernels._norms.{n}") for n in ("plan", "ring_plan")
    )
    every = ring_plan.candidates(problem, H200, ((threads, 256 // threads),))
    step = ring_of(planner.launches(problem, H200, min(every, key=lambda b: b.tiles), ""))
    assert step.constants["KEEP"] == "evict_last"
    copies = copies_to_shared_memory(step)
    assert len(copies) >= 2 * number(step, "SLOTS")
    assert not any(map(has_uniform_part, copies))


PAIRS = [
    Problem("layernorm-backward", 22163, 6056),
    Problem("layernorm-backward", 31500, 4261),
    Problem("layernorm-backward", 16384, 14336),
    Problem("layernorm-backward", 5578, 12032, "float32"),
    Problem("layernorm-backward", 20536, 6536, "float16"),
]


@pytest.mark.parametrize("problem", PAIRS, ids=str)
def test_rows_of_layer_norm_are_shared_by_two_blocks_of_a_cluster(problem: Problem) -> None:
    """All clusters are resident at once, and no words have to be marked as missing first. A GPU
    without clusters gets another variant."""
    made = plan(problem)
    assert made.variant == "cluster"
    step, total = made.launches
    assert (step.function, total.function) == ("gradient_ring", "sum_partials")
    assert (step.cluster, step.constants["BLOCKS"], step.constants["PARTS"]) == (2, 2, 1)
    assert "words" not in step.arguments
    assert "launch_cooperative_grid" not in step.options
    assert step.overlaps is False  # it copies rows before it waits for the launch before
    threads = 32 * step.num_warps
    per_sm = min(
        H200.registers_per_sm // (threads * (step.maxnreg or 0)),
        H200.shared_bytes_per_sm
        // ((step.shared_bytes or 0) + H200.reserved_shared_bytes_per_block),
    )
    assert 2 * step.grid[0] <= per_sm * H200.sm_count
    assert step.grid == (number(step, "GROUPS"), 1, 1)
    assert number(step, "GROUPS") % number(step, "SPACING") == 0
    assert number(step, "SLOTS") >= 3
    assert number(step, "BEHIND") == 1  # more would take more mailboxes
    assert made.portable is not None
    assert made.portable.variant == "split"
    assert plan(problem, "a100").variant != "cluster"


def test_other_gradients_have_no_clusters_unless_they_are_asked_for() -> None:
    for operation in ("rmsnorm-backward", "layernorm-residual-backward"):
        problem = Problem(operation, 31500, 4261)
        assert plan(problem).variant != "cluster"
        assert plan(problem, variant="cluster").variant == "cluster"
    with pytest.raises(PerfcliError, match="cluster cuts no row of 50257 columns"):
        plan(Problem("layernorm-backward", 2048, 50257), variant="cluster")
    with pytest.raises(PerfcliError, match="a100 has no clusters"):
        plan(Problem("layernorm-backward", 31500, 4261), "a100", "cluster")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("l40s", Problem("layernorm-residual-backward", 1342, 200000, "float32")),
        ("a100", Problem("layernorm-residual-backward", 1024, 262144, "float32")),
        ("h200", Problem("rmsnorm-backward", 447, 600000, "float32")),
    ],
    ids=str,
)
def test_rows_that_take_a_whole_device_are_streamed_too(target: str, problem: Problem) -> None:
    """Two launches would read them twice from memory."""
    made = plan(problem, target)
    assert made.variant == "ring"
    assert 100 < number(ring_of(made), "PARTS") <= 160


@pytest.mark.torch
@pytest.mark.parametrize("problem", PAIRS, ids=str)
def test_a_pair_of_blocks_spills_nothing_in_its_loop(problem: Problem, tmp_path: Path) -> None:
    step = ring_of(plan(problem))
    made = compile_launch(
        LaunchToCompile(registry.family("layernorm").code, step, H200), "layernorm", tmp_path
    )
    assert made.error == ""
    assert made.shared_bytes == step.shared_bytes  # where it begins is known then
    assert (made.local_loads_in_loops, made.local_stores_in_loops) == (0, 0)


@pytest.mark.parametrize(
    ("columns", "dtype"), [(128256, "bfloat16"), (66196, "bfloat16"), (48816, "float32")]
)
def test_programs_of_a_row_have_whole_sectors_of_it_where_that_can_be(
    columns: int, dtype: str
) -> None:
    """Parts that end within one were read and written twice there, for 4 to 5 points of a copy."""
    problem = Problem("rmsnorm-backward", 1024, columns, dtype)
    assert number(ring_of(plan(problem)), "CHUNK") * (4 if dtype == "float32" else 2) % 32 == 0


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(1045, 64178, "float16"), (648, 103431, "bfloat16")]
)
def test_a_cut_into_whole_sectors_is_taken_before_others(
    rows: int, columns: int, dtype: str
) -> None:
    ring_plan, elements = (
        import_module(f"perfcli.kernels.{n}") for n in ("_norms.ring_plan", "_elements")
    )
    problem = Problem("rmsnorm-backward", rows, columns, dtype)
    blocks = import_module("perfcli.kernels._norms.blocks").Blocks(
        "ring", 32, 1, 256, 16, 8, per_sm=8
    )
    cuts = [
        made
        for count in ring_plan.ways_to_group(problem, H200, blocks)
        if (made := ring_plan.share(problem, H200, replace(blocks, groups=count)))
    ]
    assert cuts
    for made in cuts:
        chunk = ring_plan._chunk(problem, made, made.parts)
        assert chunk % elements.sector_of(problem) == 0


def test_odd_rows_that_are_too_long_for_all_kinds_are_mixed_in_one_launch() -> None:
    """Eight groups of programs with a row each would not all be resident."""
    made = plan(Problem("layernorm-residual-backward", 636, 211055))
    assert made.variant == "ring"
    step = ring_of(made)
    groups = number(step, "GROUPS")
    assert number(step, "SPACING") == 8 and groups < 8
    assert number(step, "PARTIALS") == groups + 7
    assert made.workspace_bytes >= 4 * 2 * (groups + 7) * 211055


@pytest.mark.parametrize(
    ("rows", "groups", "expected"),
    [
        # Kinds of 3, 3, 3, 2, 2, 2, 2 and 2 rows, in this order; shares of 7, 6 and 6.
        (19, 3, [(3, 3, 1), (2, 2, 2, 0), (2, 2, 2)]),
        # The second and the fourth share lie within a kind.
        (40, 9, [(5, 0), (5, 0), (5, 0), (5, 0), (4,), (1, 3), (2, 2), (3, 1), (4,)]),
        # Shares and kinds begin together: a kind of which there is no row parts them.
        (16, 4, [(2, 2, 0), (2, 2, 0), (2, 2, 0), (2, 2)]),
        # Without kinds of which there is no row at all.
        (5, 2, [(1, 1, 1, 0), (1, 1)]),
        (5, 7, [(1, 0), (1, 0), (1, 0), (1, 0), (1,), (0,), (0,)]),
        # A kind for each group: as it always was.
        (19, 8, [(3,), (3,), (3,), (2,), (2,), (2,), (2,), (2,)]),
        (5, 16, [*[(1,)] * 5, *[(0,)] * 11]),
    ],
)
def test_groups_have_equal_shares_of_the_rows(
    rows: int, groups: int, expected: list[tuple[int, ...]]
) -> None:
    ring_plan = import_module("perfcli.kernels._norms.ring_plan")
    blocks = import_module("perfcli.kernels._norms.blocks").Blocks("ring", 32, align=8)
    problem = Problem("layernorm-backward", rows, 1023)
    found = ring_plan.segments(problem, replace(blocks, groups=groups))
    assert found == expected
    assert sum(map(sum, found)) == rows


def test_groups_have_rows_of_several_kinds_where_that_saves_rounds() -> None:
    ring_plan = import_module("perfcli.kernels._norms.ring_plan")
    blocks = import_module("perfcli.kernels._norms.blocks").Blocks(
        "ring", 32, tile=256, align=8, per_sm=8
    )
    for rows, expected in ((5, [8]), (19, [24]), (1000, [208]), (99999, [208, 211])):
        problem = Problem("layernorm-backward", rows, 1023)
        assert list(ring_plan.ways_to_group(problem, H200, blocks)) == expected
    even = Problem("layernorm-backward", 1000, 1024)
    assert list(ring_plan.ways_to_group(even, H200, blocks)) == [264]


def test_rows_of_several_kinds_are_planned_where_the_next_kind_costs_less_than_it_saves() -> None:
    """The weight of a further kind: on an H200, 88.8 percent of a copy instead of 85.7, and 93.0
    instead of 88.7; with a mean, as much as it was before."""
    for operation, rows, columns, groups, kinds in (
        ("rmsnorm-backward", 986, 136250, 15, 8),
        ("rmsnorm-residual-backward", 654, 205452, 7, 4),
        ("layernorm-backward", 986, 136250, 12, 4),
    ):
        step = ring_of(plan(Problem(operation, rows, columns)))
        assert (number(step, "GROUPS"), number(step, "SPACING")) == (groups, kinds), operation


def test_long_gradients_are_planned_so_where_rows_can_be_copied_in_vectors() -> None:
    for columns in (31648, 103557):
        for operation in ("rmsnorm-backward", "layernorm-residual-backward"):
            problem = Problem(operation, (1 << 27) // columns, columns)
            assert plan(problem).variant == "ring"
            assert plan(problem, "mi300x").variant != "ring"
            shifted = replace(problem, row_stride=columns + 3)
            assert plan(shifted).variant == "split"
            with pytest.raises(PerfcliError, match=f"ring cuts no row of {columns} columns"):
                plan(shifted, variant="ring")


@pytest.mark.parametrize(
    "operation", ["rmsnorm-backward", "layernorm-backward", "layernorm-residual-backward"]
)
@pytest.mark.parametrize(
    ("rows", "columns", "variant"),
    [(18, 210406, "ring"), (64, 65536, "ring"), (17, 16820, "split"), (4, 65536, "split")],
)
def test_a_few_rows_are_streamed_if_they_are_long(
    operation: str, rows: int, columns: int, variant: str
) -> None:
    """Columns are only computed from the L2 cache where that is sooner done than all else."""
    assert plan(Problem(operation, rows, columns)).variant == variant


@pytest.mark.parametrize("target", ["h200", "l40s", "a100"])
def test_long_rows_that_l2_does_not_hold_are_not_read_twice(target: str) -> None:
    problem = Problem("rmsnorm-backward", 100, 131072)
    made = registry.family("rmsnorm").plan(problem, targets.get(target), None)
    assert made.variant == "ring"


@pytest.mark.parametrize(
    ("columns", "policies"), [(43000, ("evict_last", "evict_first")), (41000, ("", ""))]
)
def test_rings_tell_l2_what_to_keep_of_what_is_far_too_large_for_it(
    columns: int, policies: tuple[str, str]
) -> None:
    """Three matrices: 516 MB, and 492."""
    step = ring_of(plan(Problem("rmsnorm-backward", 2000, columns)))
    assert (step.constants["KEEP"], step.constants["DROP"]) == policies


def test_the_end_of_a_single_row_is_told_from_the_gap_behind_it() -> None:
    made = plan(Problem("rmsnorm-backward", 1, 65533, row_stride=65536), variant="ring")
    assert ring_of(made).constants["PEEL"] is True


@pytest.mark.torch
def test_without_gluon_the_portable_plan_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = import_module("perfcli.kernels._norms.code")
    made = plan(Problem("rmsnorm-backward", 4240, 31648))
    assert made.portable is not None and made.portable.variant == "split"
    monkeypatch.setattr(code.triton.knobs.runtime, "interpret", False)
    assert code._runnable(made) is made
    monkeypatch.setattr(import_module("perfcli.kernels._launching"), "find_spec", lambda _: None)
    assert code._runnable(made) is made.portable


@pytest.mark.torch
@pytest.mark.parametrize(
    ("problem", "multiprocessors"),
    [
        (Problem("rmsnorm-backward", 5, 1024), 4),  # whole vectors, four programs to a row
        (Problem("layernorm-backward", 5, 1023), 132),  # a row ends in the last but one program
        (Problem("rmsnorm-residual-backward", 7, 5001, "float16"), 4),
        (Problem("layernorm-backward", 9, 1501, "float32"), 4),
        (Problem("rmsnorm-backward", 6, 1500, row_stride=1508), 3),  # gaps between rows
        # Not as many groups as there are kinds of rows.
        (Problem("layernorm-residual-backward", 11, 3001), 1),
    ],
    ids=str,
)
def test_a_ring_computes_the_gradients(problem: Problem, multiprocessors: int) -> None:
    """Right against float64, each element stored once, and nobody waits for ever."""
    code = import_module("perfcli.kernels._norms.code")
    tensors = code.inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_ring(problem, multiprocessors, tensors))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("problem", "groups", "slots"),
    [
        # Several kinds for each group; rows are stored one round behind or two.
        *((Problem("layernorm-backward", 19, 509), 3, slots) for slots in (3, 4)),
        (Problem("rmsnorm-residual-backward", 40, 509), 9, 4),  # shares within a kind
        (Problem("layernorm-residual-backward", 16, 509), 4, 3),  # shares end where kinds do
        (Problem("rmsnorm-backward", 5, 509, "float16"), 7, 4),  # groups without rows
        (Problem("layernorm-backward", 5, 509), 16, 3),  # and without rows of their kind
        (Problem("layernorm-backward", 9, 301, "float32"), 2, 4),
        (Problem("rmsnorm-backward", 7, 509), 1, 3),
        # As many rows of each kind as there are slots, so that the next come early.
        *((Problem("layernorm-backward", 131, 509), 3, slots) for slots in (3, 4, 5)),
        (Problem("rmsnorm-residual-backward", 60, 509), 7, 3),  # and not where a share has fewer
        (Problem("rmsnorm-backward", 45, 301, "float32"), 2, 5),
    ],
    ids=str,
)
def test_groups_take_rows_of_several_kinds(
    problem: Problem, groups: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, ring_plan = (import_module(f"perfcli.kernels._norms.{n}") for n in ("code", "ring_plan"))
    monkeypatch.setattr(ring_plan, "ways_to_group", lambda *_: (groups,))
    monkeypatch.setattr(ring_plan, "MOST_SLOTS", slots)
    tensors = code.inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_ring(problem, 4, tensors))


@pytest.mark.torch
@pytest.mark.parametrize(("rows", "dry"), [(131, 1), (19, 4)])
def test_a_ring_runs_dry_only_where_kinds_have_few_rows(
    rows: int, dry: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 131 rows in 8 kinds, each has as many as there are slots; of 19, none: there a program
    waits for all copies at the end of each of its up to four segments."""
    code, ring_plan = (import_module(f"perfcli.kernels._norms.{n}") for n in ("code", "ring_plan"))
    monkeypatch.setattr(ring_plan, "ways_to_group", lambda *_: (3,))
    monkeypatch.setattr(ring_plan, "MOST_SLOTS", 3)
    waits: dict[int, int] = {}
    wait = gluon_interpreter._Shared.wait

    def counted(shared: Any, most: int) -> None:
        waits[id(shared)] = waits.get(id(shared), 0) + (most == 0)
        wait(shared, most)

    monkeypatch.setattr(gluon_interpreter._Shared, "wait", counted)
    problem = Problem("rmsnorm-backward", rows, 509)
    run_ring(problem, 4, code.inputs(problem, "cpu", 3))
    assert max(waits.values()) == dry


@pytest.mark.torch
@pytest.mark.parametrize(
    ("problem", "groups", "slots"),
    [
        # Several kinds for each cluster.
        *((Problem("layernorm-backward", 19, 509), 3, slots) for slots in (3, 6)),
        (Problem("layernorm-backward", 40, 509), 9, 3),  # shares within a kind
        (Problem("rmsnorm-backward", 5, 509, "float16"), 7, 6),  # clusters without rows
        (Problem("layernorm-backward", 1, 509), 1, 6),
        (Problem("layernorm-backward", 9, 301, "float32"), 2, 3),
        # The first rows of the next kind come early.
        *((Problem("layernorm-backward", 131, 509), 3, slots) for slots in (3, 6)),
        (Problem("layernorm-backward", 60, 301, "float32"), 3, 6),
    ],
    ids=str,
)
def test_clusters_take_rows_of_several_kinds(
    problem: Problem, groups: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their mailboxes go on in turn from one kind of rows to the next."""
    code, ring_plan = (import_module(f"perfcli.kernels._norms.{n}") for n in ("code", "ring_plan"))
    monkeypatch.setattr(ring_plan, "ways_to_group", lambda *_: (groups,))
    monkeypatch.setattr(ring_plan, "MOST_SLOTS", slots)
    tensors = code.inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_ring(problem, 4, tensors, clusters=True))


@pytest.mark.torch
@pytest.mark.parametrize(("threads", "dtype"), [(64, "float16"), (256, "bfloat16")])
def test_the_warps_of_a_program_add_up(threads: int, dtype: str) -> None:
    code = import_module("perfcli.kernels._norms.code")
    problem = Problem("layernorm-backward", 5, 5001, dtype)
    tensors = code.inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_ring(problem, 4, tensors, threads // 32))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("problem", "multiprocessors", "blocks", "warps"),
    [
        (Problem("layernorm-backward", 45, 2709), 2, 2, 1),
        (Problem("rmsnorm-backward", 45, 2709), 2, 2, 1),
        (Problem("layernorm-backward", 9, 5001, "float16"), 4, 4, 2),
        (Problem("layernorm-residual-backward", 11, 3001), 4, 16, 1),
        (Problem("layernorm-backward", 7, 9001, "float32"), 16, 16, 4),
        (Problem("layernorm-backward", 40, 1236), 1, 2, 1),
        (Problem("rmsnorm-residual-backward", 9, 600, "float32"), 1, 2, 1),
        (Problem("layernorm-backward", 24, 20003), 16, 8, 8),
        (Problem("rmsnorm-backward", 6, 1500, row_stride=1508), 1, 2, 1),
        (Problem("layernorm-backward", 5, 2048), 1, 4, 1),
    ],
    ids=str,
)
def test_clusters_compute_the_gradients(
    problem: Problem,
    multiprocessors: int,
    blocks: int,
    warps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, ring_plan = (import_module(f"perfcli.kernels._norms.{n}") for n in ("code", "ring_plan"))
    monkeypatch.setattr(ring_plan, "BLOCKS", blocks)
    tensors = code.inputs(problem, "cpu", 3)
    assert_right(
        problem, tensors, run_ring(problem, multiprocessors, tensors, warps, clusters=True)
    )


@pytest.mark.torch
@pytest.mark.parametrize("clusters", [False, True])
def test_what_caches_are_told_changes_no_number(
    clusters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies with a policy have addresses of their own."""
    code, ring_plan = (import_module(f"perfcli.kernels._norms.{n}") for n in ("code", "ring_plan"))
    monkeypatch.setattr(ring_plan, "policies", lambda *_: ("evict_last", "evict_first"))
    problem = Problem("layernorm-backward", 5, 1023)
    tensors = code.inputs(problem, "cpu", 3)
    assert_right(problem, tensors, run_ring(problem, 4, tensors, clusters=clusters))


@pytest.mark.torch
@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize(
    ("columns", "dtype"), [(1275, "bfloat16"), (1275, "float16"), (1039, "float32")]
)
def test_a_row_that_is_not_finite_leaves_its_neighbours_alone(
    columns: int, dtype: str, clusters: bool
) -> None:
    """Its elements come along with theirs. Rows end in one of two tiles, by where they begin."""
    code = import_module("perfcli.kernels._norms.code")
    problem = Problem("layernorm-backward", 3, columns, dtype)
    tensors = code.inputs(problem, "cpu", 3)
    for name in ("x", "dy"):
        tensors[name][1] = float("nan")
    found = run_ring(problem, 1, tensors, clusters=clusters)["dx"]
    expected = code.reference(problem, tensors)["dx"]
    assert found[1].isnan().all()
    assert ((found - expected)[::2].abs() < 0.05).all()


def run_ring(
    problem: Problem,
    multiprocessors: int,
    tensors: dict[str, Any],
    warps: int = 1,
    clusters: bool = False,
) -> dict[str, Any]:
    """Return the gradients by the best launches for so few multiprocessors, of programs of so many
    warps, or of clusters of such blocks."""
    import torch

    code, planner, ring_plan = (
        import_module(f"perfcli.kernels._norms.{name}") for name in ("code", "plan", "ring_plan")
    )
    few = replace(H200, sm_count=multiprocessors)
    every = ring_plan.candidates(problem, few, ((32 * warps, 8 if warps == 1 else 1),))
    if clusters:
        every = (each for each in ring_plan.clusters(problem, few) if each.threads == 32 * warps)
    best = max(every, key=lambda each: ring_plan.estimate_efficiency(problem, few, each))
    step = ring_of(planner.launches(problem, few, best, ""))
    x, sums = tensors["x"], 1 + bool(step.constants["MEAN"])
    span = (problem.rows - 1) * problem.stride + problem.columns
    flat = {n: t.as_strided((span,), (1,)) if t.dim() == 2 else t for n, t in tensors.items()}
    outputs = {
        "dx": torch.zeros(problem.rows, problem.columns, dtype=x.dtype),
        "partial": torch.zeros(sums, number(step, "PARTIALS"), number(step, "PITCH")),
    }
    if clusters:
        assert step.constants["words"] is None
    else:
        outputs["words"] = torch.full((problem.rows * number(step, "APART"),), -1)
    given = {**flat, **outputs, "rows": problem.rows, "eps": code._epsilon(problem)}
    ring = Path(str(code.__file__)).with_name("ring.py")
    values = {name: given[name] for name in step.arguments} | dict(step.constants)
    made = gluon_interpreter.run(ring, step.function, step.grid[0], values)
    for name in outputs:
        stored = made[name].stored[: made[name].size]
        if name == "words":  # those of a row's programs, and none of the others up to the next row
            every = stored.reshape(problem.rows, -1, 8)
            assert (every[:, number(step, "PARTS") :] == 0).all()
            stored = every[:, : number(step, "PARTS")]
        elif name == "partial":  # behind their heads
            stored = stored.reshape(-1, number(step, "PITCH"), 4)[:, 4:]
        assert (stored == 1).all(), name
    kept = made["partial"].read(outputs["partial"])
    ends = [4 + int(lead) + problem.columns for lead in kept[0, :, 0]]
    own = [kept[:, n, end - problem.columns : end] for n, end in enumerate(ends)]
    partial = torch.stack(own).sum(0).to(x.dtype)
    found = {"dx": made["dx"].read(outputs["dx"]), "dw": partial[0]}
    return {**found, "db": partial[1]} if sums == 2 else found
