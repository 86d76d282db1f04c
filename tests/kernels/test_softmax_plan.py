"""What softmax plans: by shape, dtype and target; nothing runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelFamily, LaunchPlan, Problem

H200 = targets.get("h200")


@pytest.fixture(scope="module")
def family() -> KernelFamily:
    return registry.family("softmax")


def planned(family: KernelFamily, *problem: object, variant: str | None = None) -> LaunchPlan:
    return family.plan(Problem(*problem), H200, variant)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "columns", "variant"),
    [
        (32768, 64, "cached"),  # less than a vector for each lane of a warp
        (32768, 512, "tiled"),
        (32768, 16384, "tiled"),
        (7, 1023, "tiled"),
        (32768, 5120, "tiled"),
        (32768, 16381, "tiled"),
        (16384, 32768, "tiled"),
        (8192, 65536, "cluster"),
        (8192, 65528, "cluster"),
        (32768, 50257, "cluster"),
        (4, 4096, "tiled"),
        (4, 8192, "cluster"),  # few rows: a block each would be few blocks
        (4, 32768, "cluster"),
        (17, 16820, "cluster"),
        (300, 16384, "cluster"),
        (397, 16384, "tiled"),  # three blocks for each multiprocessor
        (4, 65536, "cluster"),
        (64, 131072, "cluster"),
        (1, 1048589, "split"),
        (2, 1048576, "cooperative"),
        (4, 1048576, "cooperative"),
        (2048, 262144, "cluster"),
        (2048, 600000, "streamed"),  # more than a cluster keeps
    ],
)
def test_the_variant_follows_the_shape(
    family: KernelFamily, rows: int, columns: int, variant: str
) -> None:
    assert planned(family, "softmax", rows, columns).variant == variant


@pytest.mark.parametrize(
    ("rows", "columns", "variant"),
    [
        (32, 8192, "tiled"),
        (32, 16376, "tiled"),
        (32, 32768, "cluster"),
        (4, 65536, "cluster"),
        (8192, 32000, "tiled"),
        (4, 3000000, "split"),  # more than a cluster keeps
    ],
)
def test_cross_entropy_of_few_rows_is_cut_among_clusters_from_32_kib_on(
    family: KernelFamily, rows: int, columns: int, variant: str
) -> None:
    assert planned(family, "cross-entropy", rows, columns).variant == variant


def test_short_rows_share_a_block(family: KernelFamily) -> None:
    """A warp keeps a row: 512 halves are two vectors of each lane."""
    (step,) = planned(family, "softmax", 32768, 512).launches
    found = {name: step.constants[name] for name in ("ROWS", "LANES", "TILES", "FULL")}
    assert found == {"ROWS": 4, "LANES": 128, "TILES": 2, "FULL": 2}
    assert step.grid == (8192, 1, 1)


@pytest.mark.parametrize(("tiles", "said"), [(1, "1 vector of each"), (2, "2 vectors of each")])
def test_why_counts_one_vector(family: KernelFamily, tiles: int, said: str) -> None:
    assert said in planned(family, "softmax", 32768, 256 * tiles).why


def test_a_last_block_with_fewer_rows_is_masked(family: KernelFamily) -> None:
    (step,) = planned(family, "softmax", 32767, 512).launches
    assert step.constants["FULL"] == 0
    assert step.grid == (8192, 1, 1)


@pytest.mark.parametrize("operation", ["softmax", "cross-entropy", "log-softmax-backward"])
@pytest.mark.parametrize("stride", [1 << 20, (1 << 24) + 8, (1 << 31) - 8])
def test_offsets_within_a_block_have_32_bits(
    family: KernelFamily, operation: str, stride: int
) -> None:
    """Of a few columns of a large matrix a block has many rows."""
    (step,) = planned(family, operation, 4096, 8, "bfloat16", stride).launches
    rows = step.constants["ROWS"]
    assert isinstance(rows, int) and step.grid[0] * rows >= 4096
    assert (rows - 1) * stride + 8 <= 1 << 31


@pytest.mark.parametrize(
    ("dtype", "vector", "columns"), [("bfloat16", 8, 65536), ("float32", 4, 32768)]
)
def test_a_tile_has_the_same_bytes_in_every_dtype(
    family: KernelFamily, dtype: str, vector: int, columns: int
) -> None:
    (step,) = planned(family, "softmax", 8192, columns, dtype, variant="online").launches
    assert (step.constants["VECTOR"], step.constants["LANES"]) == (vector, 4096)
    assert step.constants["ITEM"] == 16 // vector


@pytest.mark.parametrize(
    ("columns", "threads", "tiles", "whole"),
    [(5120, 128, 5, True), (7168, 128, 7, True), (14336, 256, 7, True), (5119, 128, 5, False)],
)
def test_rows_of_any_width_fill_their_tiles(
    family: KernelFamily, columns: int, threads: int, tiles: int, whole: bool
) -> None:
    (step,) = planned(family, "softmax", 65536, columns).launches
    found = (step.constants["LANES"], step.num_warps * 32, step.constants["TILES"])
    assert found == (threads, threads, tiles)
    assert step.constants["EDGE"] is not whole
    assert step.constants["FULL"] == (tiles if whole else tiles - 1)


@pytest.mark.parametrize("operation", ["softmax", "log-softmax"])
def test_the_plan_follows_the_device(family: KernelFamily, operation: str) -> None:
    """Without clusters, rows that L2 holds until they are read again are; those that it does not,
    are kept."""
    problem = Problem(operation, 4096, 65536)
    older = replace(H200, capability=(8, 0))
    small = replace(older, l2_bytes=H200.l2_bytes // 2)
    assert family.plan(problem, older, None).variant == "online"
    assert family.plan(problem, small, None).variant == "streamed"
    few = replace(H200, registers_per_sm=16384)
    assert family.plan(Problem(operation, 4096, 14336), few, None).variant != "tiled"


def test_cross_entropy_takes_few_threads_and_long_rows_in_parts(family: KernelFamily) -> None:
    """Half a warp keeps a row of 646 halves, a warp one of 2458, 256 threads one of 12822; without
    clusters, 50257 are nine parts, added up by a second kernel."""
    (step,) = planned(family, "cross-entropy", 207768, 646).launches
    assert (step.constants["ROWS"], step.constants["TILES"], step.num_warps) == (8, 6, 4)
    for columns, rows, tiles, warps in ((1088, 4, 5, 4), (2458, 1, 10, 1), (12822, 1, 7, 8)):
        (step,) = planned(family, "cross-entropy", 2**27 // columns, columns).launches
        found = (step.constants["ROWS"], step.constants["TILES"], step.num_warps)
        assert found == (rows, tiles, warps)
    assert planned(family, "cross-entropy", 2671, 50257).variant == "cluster"
    older = replace(H200, capability=(8, 0))
    plan = family.plan(Problem("cross-entropy", 2671, 50257), older, None)
    assert [step.function for step in plan.launches] == ["parts_statistics", "split_loss"]
    assert [step.grid[0] for step in plan.launches] == [9 * 2671, 2671]
    assert plan.launches[0].constants["KEEP"] == "evict_first"
    assert plan.launches[0].constants["PEEL"] is True


@pytest.mark.parametrize(("columns", "parts"), [(3_000_000, 977), (100_000_000, 12208)])
def test_a_very_long_row_has_few_parts(family: KernelFamily, columns: int, parts: int) -> None:
    """One block adds up all of them: of more than 1024, each has 16 vectors of a thread."""
    last = planned(family, "cross-entropy", 4, columns, "float32").launches[-1]
    assert last.function == "split_loss"
    assert last.constants["PARTS"] == 1 << (parts - 1).bit_length()


def test_a_row_has_many_threads_where_few_rows_hide_what_it_waits_for(family: KernelFamily) -> None:
    few, many = (planned(family, "softmax", rows, 7168).launches[0] for rows in (16, 65536))
    assert (few.constants["TILES"], many.constants["TILES"]) == (2, 7)


def test_split_has_a_block_per_chunk_and_counts_its_workspace(family: KernelFamily) -> None:
    plan = planned(family, "softmax", 4, 1048589, variant="split")
    first, last = plan.launches
    chunk = int(str(first.constants["CHUNK"]))
    chunks = -(-1048589 // chunk)
    assert first.grid == last.grid == (4, chunks, 1)
    assert plan.workspace_bytes == 2 * 4 * 4 * (chunks + 1)
    assert first.constants["PEEL"] is True  # rows of 1048589 start anywhere


def test_many_chunks_are_combined_by_a_kernel_of_their_own(family: KernelFamily) -> None:
    names = [s.function for s in planned(family, "softmax", 1, 1 << 26, variant="split").launches]
    assert names == ["split_statistics", "split_combine", "split_write"]


@pytest.mark.parametrize("name", sorted({**targets.TARGETS, **targets.KERNEL_TARGETS}))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_plan_fits_every_target(family: KernelFamily, name: str, dtype: str) -> None:
    target = targets.get_for_kernels(name)
    for case in family.cases:
        problem = case.problem
        plan = family.plan(
            Problem(problem.operation, problem.rows, problem.columns, dtype), target, None
        )
        for step in plan.launches:
            assert 1 <= step.num_warps * target.warp_size <= target.max_threads_per_block
            assert step.grid[1] <= 65535
            assert "opaque" not in step.constants.values() or target.vendor == "nvidia"


def test_arguments_that_are_multiples_of_16_are_named(family: KernelFamily) -> None:
    (step,) = family.plan(Problem("softmax", 5, 760, row_stride=768), H200, "cached").launches
    assert set(step.divisible_by_16) == {"x_ptr", "y_ptr", "x_stride"}


def test_peeled_falls_back_where_no_output_is_aligned_as_its_input(family: KernelFamily) -> None:
    plan = family.plan(Problem("softmax", 5, 4097, row_stride=4104), H200, "peeled")
    assert plan.variant == "online"
    assert "4104 apart" in plan.instead_of


def test_nothing_is_launched_for_nothing(family: KernelFamily) -> None:
    assert planned(family, "softmax", 0, 64).launches == ()
    assert planned(family, "softmax", 64, 0).launches == ()


@pytest.mark.parametrize(
    ("problem", "variant", "message"),
    [
        (Problem("softmin", 1, 1), None, "no operation 'softmin'"),
        (Problem("softmax", 1, 1, "float64"), None, "found float64: convert"),
        (Problem("softmax", 1, 1), "woven", "no variant 'woven' of softmax; known: three-pass"),
        (Problem("softmax", 1, 1 << 20), "cached", "up to 65536 bfloat16 in registers"),
        (Problem("cross-entropy", 1, 8), "streamed", "streamed cannot do cross-entropy: use one"),
        (Problem("softmax", 1, 1 << 20), "tiled", "1048576 bfloat16 are too many"),
        (Problem("softmax", 2, 8, row_stride=4), None, "8 or more elements apart, found 4"),
        (Problem("cross-entropy", 2, 0), None, "one class or more"),
        (Problem("softmax", 1, 1 << 31), None, "reshape to more rows"),
    ],
)
def test_what_cannot_be_done_is_refused(
    family: KernelFamily, problem: Problem, variant: str | None, message: str
) -> None:
    with pytest.raises(PerfcliError, match=message):
        family.plan(problem, H200, variant)


def test_bytes_are_counted_as_quack_does(family: KernelFamily) -> None:
    assert family.moved_bytes(Problem("softmax", 3, 5)) == 2 * 15 * 2
    assert family.moved_bytes(Problem("log-softmax-backward", 3, 5, "float32")) == 3 * 15 * 4
    assert family.moved_bytes(Problem("cross-entropy", 3, 5)) == 15 * 2 + 12 * 3
    assert family.moved_bytes(Problem("cross-entropy-backward", 3, 5)) == 2 * 15 * 2 + 16 * 3
    assert family.flops(Problem("softmax", 3, 5)) == 5 * 15


@pytest.mark.parametrize(
    ("operation", "rows", "columns", "policies"),
    [
        ("softmax", 4096, 65536, ("evict_last", "evict_first")),
        ("softmax-backward", 20349, 6596, ("evict_last", "evict_first")),
        ("cross-entropy-backward", 31866, 4212, ("evict_last", "evict_first")),
        ("softmax", 32768, 4096, ("evict_last", "evict_first")),  # 537 MB are moved
        ("softmax", 30000, 4096, ("", "")),  # 492
        ("softmax", 4096, 8192, ("", "")),  # 134
        ("log-softmax-backward", 4096, 8192, ("", "")),
        ("softmax", 1024, 4096, ("", "")),  # L2 holds all of it
        ("cross-entropy", 31866, 4212, ("evict_first", "")),
        ("cross-entropy", 32768, 4096, ("evict_first", "")),  # 268 MB are read
        ("cross-entropy", 823, 163272, ("evict_first", "")),
        ("cross-entropy", 25088, 8192, ("", "")),  # 411
        ("cross-entropy", 8192, 32000, ("", "")),
        ("cross-entropy", 4096, 4096, ("", "")),
    ],
)
def test_what_l2_is_to_keep(
    family: KernelFamily, operation: str, rows: int, columns: int, policies: tuple[str, str]
) -> None:
    constants = planned(family, operation, rows, columns).launches[0].constants
    assert (constants["KEEP"], constants.get("DROP", "")) == policies


@pytest.mark.parametrize(("rows", "skips"), [(64, False), (128, False), (129, True)])
def test_small_logits_are_read_before_it_is_known_whether_their_targets_count(
    family: KernelFamily, rows: int, skips: bool
) -> None:
    """Of 8 MiB and less, each row would wait for its target first."""
    (step,) = planned(family, "cross-entropy-backward", rows, 32768).launches
    assert step.constants["SKIP"] is skips


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "blocks", "tiles"),
    [
        (6, 5303, "float32", 66, 1),  # 18 blocks of 4 vectors a thread took 4.37 instead of 4.1 µs
        (40, 1000, "bfloat16", 40, 1),  # as one warp's rows, 10 blocks
        (64, 16000, "bfloat16", 256, 4),
        (200, 9001, "float32", 1000, 4),
    ],
)
def test_a_gradient_of_few_logits_leaves_no_multiprocessor_idle(
    family: KernelFamily, rows: int, columns: int, dtype: str, blocks: int, tiles: int
) -> None:
    (step,) = planned(family, "cross-entropy-backward", rows, columns, dtype).launches
    assert (step.grid[0], step.constants["TILES"]) == (blocks, tiles)
