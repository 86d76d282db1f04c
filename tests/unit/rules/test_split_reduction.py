from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import origins, run
from handmade_reductions import matrix, reduction

from perfcli.diff.compare import compare
from perfcli.model import Finding, KernelFacts, Origin
from perfcli.rules.split_reduction import RULE

VARIANCE = origins("var_mean")
ON, OFF = {"split_reductions": True}, {"split_reductions": False}


def whole(rows: int, columns: int) -> list[KernelFacts]:
    """Layer norm in one kernel: two sweeps and a write."""
    read = matrix(rows, columns)
    return [
        reduction(
            "triton_red_fused_layer_norm_0",
            (read,),
            {"x": rows, "r0_": columns},
            origins=VARIANCE,
            bytes_swept=3 * read.bytes,
        )
    ]


def split(rows: int, columns: int, chunks: int) -> list[KernelFacts]:
    """The same in two stages and a pointwise kernel."""
    read = matrix(rows, columns)
    partial = matrix(rows, chunks, name="buf0", dtype="float32", role="output")
    return [
        reduction(
            "triton_red_fused_layer_norm_0",
            (read, partial),
            {"x": rows * chunks, "r0_": -(-columns // chunks)},
            origins=VARIANCE,
            bytes_swept=read.bytes,
        ),
        reduction(
            "triton_per_fused_layer_norm_1",
            (replace(partial, role="input"),),
            {"x": rows, "r0_": chunks},
            kind="persistent-reduction",
            origins=VARIANCE,
            bytes_swept=partial.bytes,
        ),
        reduction(
            "triton_poi_fused_layer_norm_2",
            (read,),
            {"x": rows * columns},
            kind="pointwise",
            origins=VARIANCE,
            bytes_swept=2 * read.bytes,
        ),
    ]


def found(
    base: list[KernelFacts], head: list[KernelFacts], settings: dict[str, Any] | None = None
) -> list[Finding]:
    after = run(head, id="head", settings=ON if settings is None else settings)
    return list(RULE.of_comparison(compare(run(base, settings=ON), after)))


def test_few_rows_that_are_no_longer_split() -> None:
    (finding,) = found(split(8, 1048576, 128), whole(8, 1048576), OFF)
    assert finding.severity == "error"
    # 50.3 MB with 8 of 132 multiprocessors; with all of them, and two kernels more.
    assert finding.headline == (
        "triton_red_fused_layer_norm_0 reduces 8 rows of up to 1,048,576 no longer split: "
        "at least 248 µs instead of 20 µs"
    )
    assert finding.evidence == (
        "128 chunks per row where it is split",
        "8 blocks for 132 multiprocessors in head",
    )
    assert [dict(cure.options) for cure in finding.cures] == [{"split_reductions": True}]


def test_rows_enough_for_every_multiprocessor_that_are_now_split() -> None:
    (finding,) = found(whole(263, 50304), split(263, 50304, 4))
    assert finding.severity == "warning"
    assert finding.kernels == (0, 1)
    assert "now split: at least 28.7 µs instead of 23.8 µs" in finding.headline
    assert [dict(cure.options) for cure in finding.cures] == [{"split_reductions": False}]


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (whole(8, 1048576), split(8, 1048576, 128)),
        (split(263, 50304, 4), whole(263, 50304)),
        (split(140, 131072, 8), split(140, 131072, 8)),
        (whole(140, 131072), split(140, 131072, 8)),
        (split(8, 1048576, 128), whole(8, 8192)),
        (split(8, 1048576, 128), whole(16, 1048576)),
    ],
    ids=["better split", "better whole", "same", "one wave too many", "shorter", "other rows"],
)
def test_what_is_fine(base: list[KernelFacts], head: list[KernelFacts]) -> None:
    assert found(base, head) == []


def test_other_nodes_are_another_reduction() -> None:
    other = [replace(k, origins=origins("amax")) for k in whole(8, 1048576)]
    assert found(split(8, 1048576, 128), other) == []


def test_bytes_that_are_not_known_say_nothing() -> None:
    unknown = [replace(k, bytes_swept=None) for k in whole(8, 1048576)]
    assert found(split(8, 1048576, 128), unknown) == []


def test_kernels_that_use_the_sum_have_blocks_of_their_own() -> None:
    """A mean over few losses, beside the kernel over all logits that shares its FX node."""
    logits = reduction(
        "triton_red_fused_log_softmax_0",
        (matrix(32768, 50257),),
        {"x": 32768, "r0_": 50257},
        origins=VARIANCE,
        bytes_swept=3_290_000_000,
    )
    assert found([logits, *split(1, 32768, 4)], [logits, *whole(1, 32768)], OFF) == []


def test_what_the_reduction_reads_from_is_no_matter_of_its_split() -> None:
    """Without online softmax the logits are read twice, whether the mean of losses is split or
    not."""
    largest = replace(matrix(32768, 1, name="buf9", role="output"))

    def logits(sweeps: int) -> KernelFacts:
        return reduction(
            "triton_red_fused_log_softmax_0",
            (matrix(32768, 50257), largest),
            {"x": 32768, "r0_": 50257},
            origins=VARIANCE,
            bytes_swept=sweeps * 3_290_000_000,
        )

    def reading(kernels: list[KernelFacts]) -> list[KernelFacts]:
        first, *others = kernels
        read = replace(largest, role="input")
        return [replace(first, buffers=(*first.buffers, read)), *others]

    base = [logits(1), *reading(whole(1, 32768))]
    head = [logits(2), *reading(split(1, 32768, 4))]
    assert found(base, head) == []


def test_a_small_part_of_the_step_is_no_error() -> None:
    far = reduction(
        "triton_red_fused_far_0",
        (matrix(8, 8),),
        {"x": 8, "r0_": 8},
        origins=origins("far"),
        lower_bound_seconds=0.1,
    )
    (finding,) = found([*split(8, 1048576, 128), far], [*whole(8, 1048576), far], OFF)
    assert finding.severity == "warning"


def test_splits_that_cooperative_reductions_keep_off() -> None:
    settings = {"split_reductions": True, "triton.cooperative_reductions": True}
    (finding,) = found(split(8, 1048576, 128), whole(8, 1048576), settings)
    assert [dict(c.options) for c in finding.cures] == [{"triton.cooperative_reductions": False}]


CAST = Origin("convert_element_type", "aten._to_copy.default")


def numbered(kernels: list[KernelFacts], name: str, number: int) -> list[KernelFacts]:
    """The same kernels of another call of the operator, after a cast that all calls share."""
    nodes = (CAST, Origin(name, "aten.var_mean.correction"))
    return [replace(k, name=f"{k.name}{number}", origins=nodes) for k in kernels]


def test_another_reduction_that_is_split_beside_the_old_one_is_none() -> None:
    """It comes first in the head, so that it has the name of the base's only node."""
    base = numbered(whole(263, 50304), "var_mean", 0)
    added = numbered(split(263, 50304, 4), "var_mean", 1)
    kept = numbered(whole(263, 50304), "var_mean_1", 2)
    assert found(base, added)
    assert found(base, [*added, *kept]) == []


def test_another_reduction_that_was_split_and_is_gone_is_none() -> None:
    head = numbered(whole(8, 1048576), "var_mean", 0)
    gone = numbered(split(8, 1048576, 128), "var_mean", 1)
    kept = numbered(whole(8, 1048576), "var_mean_1", 2)
    assert found(gone, head)
    assert found([*gone, *kept], head) == []


def test_one_of_two_that_is_split_is_found_beside_the_other() -> None:
    both = [
        *numbered(whole(263, 50304), "var_mean", 0),
        *numbered(whole(263, 50304), "var_mean_1", 1),
    ]
    (finding,) = found(both, [*numbered(split(263, 50304, 4), "var_mean", 2), both[1]])
    assert "now split" in finding.headline


def test_what_uses_the_result_of_a_split_is_no_reduction_of_its_own() -> None:
    """The largest value of a normalised row is found in one stage, by a kernel of the same node."""
    base = numbered(whole(263, 50304), "var_mean", 0)
    using = numbered(whole(263, 50304), "var_mean", 2)
    (finding,) = found(base, [*numbered(split(263, 50304, 4), "var_mean", 1), *using])
    assert "now split" in finding.headline
