"""Stages that leave no trace in the shared nodes are found by the buffers between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel

from perfcli.diff.match import match
from perfcli.model import Buffer, KernelFacts


def buffer(name: str, role: str) -> Buffer:
    return Buffer(f"{role}_{name}", name, role, "float32", (8,), (1,), 32)  # type: ignore[arg-type]


def stages(middle: str = "partial") -> list[KernelFacts]:
    """A reduction in two stages and the pointwise kernel that uses it, as Inductor names their
    nodes: the last one's include those of the stages."""
    first = kernel("stage_0", "cast", "var_mean", text="1")
    second = kernel("stage_1", "cast", "var_mean", text="2")
    last = kernel("use", "cast", "var_mean", "sub", "mul", text="3")
    return [
        replace(first, buffers=(buffer("x", "input"), buffer("partial", "output"))),
        replace(second, buffers=(buffer(middle, "input"), buffer("statistics", "output"))),
        replace(last, buffers=(buffer("statistics", "input"), buffer("y", "output"))),
    ]


def whole() -> list[KernelFacts]:
    made = kernel("all", "cast", "var_mean", "sub", "mul", text="4")
    return [replace(made, buffers=(buffer("x", "input"), buffer("y", "output")))]


@pytest.mark.parametrize("nodes_agree", [True, False])
def test_both_stages_are_fused_into_the_kernel_that_used_them(nodes_agree: bool) -> None:
    (found,) = match(stages(), whole(), nodes_agree)
    assert (found.base, found.head, found.relation) == ((0, 1, 2), (0,), "fused")


def test_the_other_way_round_it_is_a_split() -> None:
    (found,) = match(whole(), stages())
    assert (found.base, found.head, found.relation) == ((0,), (0, 1, 2), "split")


def test_a_kernel_whose_result_nobody_of_the_group_reads_is_gone() -> None:
    found = match(stages(middle="something else"), whole())
    assert [(m.base, m.head, m.relation) for m in found] == [
        ((0,), (), "gone"),
        ((1, 2), (0,), "fused"),
    ]


def test_a_kernel_that_stayed_the_same_took_nothing_in() -> None:
    found = match(stages(), stages()[2:])
    assert [(m.base, m.head, m.relation) for m in found] == [
        ((0,), (), "gone"),
        ((1,), (), "gone"),
        ((2,), (0,), "same"),
    ]


def renamed(kernels: list[KernelFacts]) -> list[KernelFacts]:
    """The same operators, of nodes that another torch numbers in another way."""
    return [
        replace(each, origins=tuple(replace(o, node=f"{o.node}_7") for o in each.origins))
        for each in kernels
    ]


def test_across_torch_versions_operators_tell_the_stages() -> None:
    (found,) = match(stages(), renamed(whole()), nodes_agree=False)
    assert (found.base, found.head, found.relation) == ((0, 1, 2), (0,), "fused")
    # Of one version other nodes are other work, whatever their operators are.
    last = stages()[2]
    mixed = [*renamed(stages()[:2]), last]
    assert [(m.base, m.head, m.relation) for m in match(mixed, whole())] == [
        ((0,), (), "gone"),
        ((1,), (), "gone"),
        ((2,), (0,), "changed"),
    ]


def test_a_stage_that_was_met_twice_does_not_end_the_search() -> None:
    """The first writes two buffers that the second reads; the fourth writes for the third, too."""
    first, second, last = stages()
    (all_,) = whole()
    other = kernel("scale", "cast", text="5")
    given = [
        replace(first, buffers=(*first.buffers, buffer("count", "output"))),
        replace(second, buffers=(buffer("count", "input"), *second.buffers)),
        replace(last, buffers=(buffer("scale", "input"), *last.buffers)),
        replace(other, buffers=(buffer("scale", "output"),)),
    ]
    (found,) = match(given, [all_])
    assert (found.base, found.head, found.relation) == ((0, 1, 2, 3), (0,), "fused")
