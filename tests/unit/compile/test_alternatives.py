"""Which other launch configurations are tried, and for which kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from handmade import H100

from perfcli.compile.binaries.alternatives import (
    MOST,
    needs_alternatives,
    other_configs,
    sort_best_first,
)
from perfcli.model import Candidate, Run


def config(warps: int, stages: int = 1, **kwargs: int) -> Any:
    return SimpleNamespace(kwargs=kwargs, num_warps=warps, num_stages=stages)


def tried(*configs: Any) -> list[tuple[int, dict[str, int]]]:
    return [(c.num_warps, c.kwargs) for c in other_configs(configs, H100)]


def candidate(
    stack: int = 0, registers: int = 64, occupancy: float = 0.5, **more: Any
) -> Candidate:
    return Candidate({}, 4, 1, registers=registers, stack_bytes=stack, occupancy=occupancy, **more)


def test_one_change_at_a_time() -> None:
    assert tried(config(4, XBLOCK=8, R0_BLOCK=512)) == [
        (8, {"XBLOCK": 8, "R0_BLOCK": 512}),
        (4, {"XBLOCK": 8, "R0_BLOCK": 256}),
        (16, {"XBLOCK": 8, "R0_BLOCK": 512}),
        (4, {"XBLOCK": 8, "R0_BLOCK": 128}),
    ]


def test_a_mix_order_kernel() -> None:
    sizes = {"XBLOCK": 4, "RSPLIT_SIZE": 64}
    assert tried(config(8, **sizes, NUM_STAGES=3)) == [
        (16, {**sizes, "NUM_STAGES": 3}),
        (8, {**sizes, "NUM_STAGES": 3, "XBLOCK": 1}),
        (8, {**sizes, "NUM_STAGES": 1}),
        (8, {**sizes, "NUM_STAGES": 3, "XBLOCK": 2}),
    ]  # a quarter is one, and 32 warps are too many


def test_the_row_of_a_persistent_reduction_stays() -> None:
    assert tried(config(16, XBLOCK=1)) == []


def test_what_inductor_compiled_is_not_tried_again() -> None:
    pair = (config(4, XBLOCK=64), config(8, XBLOCK=64))
    assert tried(*pair) == [
        (4, {"XBLOCK": 32}),
        (16, {"XBLOCK": 64}),
        (4, {"XBLOCK": 16}),
        (8, {"XBLOCK": 32}),
        (8, {"XBLOCK": 16}),
    ]
    assert [c.num_warps for c in pair] == [4, 8]


def test_no_more_than_a_few() -> None:
    many = [config(1, XBLOCK=2**n, R0_BLOCK=2**12) for n in range(6)]
    found = tried(*many)
    assert len(found) == MOST
    assert {kwargs["XBLOCK"] for _, kwargs in found[:4]} == {1}


def test_warps_of_a_block_are_limited_by_the_device() -> None:
    small = SimpleNamespace(max_threads_per_block=256, warp_size=32)
    assert [c.num_warps for c in other_configs([config(4)], small)] == [8]  # type: ignore[arg-type]


def test_the_best_candidate_comes_first() -> None:
    found = sort_best_first(
        ["spills", "many", "few", "too large"],
        [
            candidate(stack=8),
            candidate(registers=200),
            candidate(registers=20),
            candidate(registers=10, blocks_per_sm=0),
        ],
    )
    assert found == ["few", "many", "spills", "too large"]


def test_at_fault_when_the_best_spills() -> None:
    assert needs_alternatives([candidate(stack=64), candidate(stack=8)], "reduction")
    assert not needs_alternatives([candidate(stack=64), candidate()], "reduction")
    assert not needs_alternatives([candidate(stack=32, local_array_bytes=28)], "pointwise")
    assert needs_alternatives([candidate(stack=8)], "template")
    assert not needs_alternatives([], "reduction")


@pytest.mark.parametrize(
    ("occupancy", "limit", "kind", "expected"),
    [
        (0.125, "registers", "reduction", True),
        (0.125, "shared memory", "mix-order-reduction", True),
        (0.126, "registers", "reduction", False),
        (0.125, "blocks", "reduction", False),
        (0.125, "shared memory", "template", False),
    ],
)
def test_at_fault_when_the_multiprocessor_stays_empty(
    occupancy: float, limit: str, kind: Any, expected: bool
) -> None:
    assert (
        needs_alternatives([candidate(occupancy=occupancy, occupancy_limit=limit)], kind)
        is expected
    )


@pytest.mark.torch
def test_a_kernel_that_is_fine_has_none(compile_run: Callable[..., Run]) -> None:
    (kernel,) = compile_run("softmax", preset="smoke").kernels
    assert kernel.spilled_words == 0
    assert kernel.alternatives == ()
