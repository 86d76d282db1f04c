"""Kernels that could be one: what it costs, why they are two, and what is no finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
from handmade import ENVIRONMENT, candidate
from handmade_fusion import BLOCKS, POINTS, moving, passing, step, tensor

from perfcli.diff.compare import compare
from perfcli.model import (
    Access,
    BreakPlace,
    Buffer,
    ExternCall,
    Finding,
    KernelFacts,
    Launch,
    MemoryAccess,
    OperatorCall,
    OperatorWork,
    OptionValue,
    Origin,
    Run,
    SourceFacts,
    Variant,
)
from perfcli.predict.step import estimate_run
from perfcli.rules._evidence.splits import KERNEL_SECONDS
from perfcli.rules.lost_fusion import RULE

LIMIT = "exceeds max fusion"
SETTINGS: Mapping[str, OptionValue] = {"max_fusion_size": 4, "force_pointwise_cat": False}


def pair(told: str | None = LIMIT, **more: Any) -> tuple[KernelFacts, KernelFacts]:
    """A kernel that writes what the next one reads."""
    first = passing("triton_poi_fused_add_0", "add", reads=["arg0_1"], writes=["buf0"])
    refused = {} if told == "" else None if told is None else {first.name: told}
    second = passing(
        "triton_poi_fused_mul_1", "mul", reads=["buf0"], writes=["result"], refused=refused, **more
    )
    return first, second


def found(*kernels: KernelFacts, **more: Any) -> list[Finding]:
    return list(RULE.of_run(step(*kernels, **{"settings": SETTINGS, **more})))


def seconds(loads: int, stores: int) -> float:
    """A kernel that is made to load and store as much, beside nothing else that is cached."""
    names = [f"arg{n}_1" for n in range(loads)]
    alone = passing("alone", "a", reads=names, writes=["result"])
    config = candidate(
        blocks_per_sm=8, registers=32,
        work=moving([b.argument for b in alone.buffers if b.is_read], stores),
    )  # fmt: skip
    buffers = alone.buffers if stores else alone.buffers[:-1]
    (made,) = step(replace(alone, candidates=(config,), buffers=buffers)).kernels
    assert made.step_seconds is not None
    return made.step_seconds


def test_a_limit_keeps_two_kernels_apart() -> None:
    (finding,) = found(*pair())
    assert finding.kernels == (0, 1)
    assert "16.8 MB go through memory" in finding.headline
    assert finding.evidence[0] == ("why they are not fused: the limit max_fusion_size, which is 4")
    assert "Inductor's scheduler says: exceeds max fusion" in finding.evidence
    assert [dict(cure.options) for cure in finding.cures] == [{"max_fusion_size": 64}]
    assert finding.amount == 4 * POINTS


def test_the_cost_is_a_write_a_read_and_a_launch() -> None:
    (finding,) = found(*pair())
    before = step(*pair())
    now = sum(kernel.step_seconds or 0.0 for kernel in before.kernels)
    # Without what is passed on the first only loads, the second only stores.
    first = seconds(1, 0)
    assert finding.cost is not None
    # What stays of the second one is a kernel that stores 16.8 MB: at the memory's 4.8 TB/s.
    least, most = 4 * POINTS / 4.8e12, now
    stays = now - finding.cost.seconds + KERNEL_SECONDS
    assert first < stays < first + most
    assert least < finding.cost.seconds < now
    assert finding.cost.share == pytest.approx(finding.cost.seconds / now)


def test_what_is_read_in_another_order_costs_no_more_than_its_bytes() -> None:
    """One kernel would have to turn the tensor as well: 16.8 MB there and back, and a launch."""
    first, second = pair(told="no shared data")
    (config,) = first.candidates
    assert config.work is not None
    traffic = replace(
        config.work.traffic, store_sectors=1024.0, warp_store_sectors=1024.0, partial=1024.0
    )
    first = replace(
        first, candidates=(replace(config, work=replace(config.work, traffic=traffic)),)
    )
    turned = replace(second.buffers[0], stride=(1, BLOCKS))
    seen_as_it_is = replace(second, refused={first.name: LIMIT})
    (aligned,) = found(first, seen_as_it_is)
    most = 2 * 4 * POINTS / 4.8e12 + KERNEL_SECONDS
    assert aligned.cost is not None
    assert aligned.cost.seconds > 1.2 * most
    for reader in (
        second,  # another view, whose strides say nothing
        replace(seen_as_it_is, buffers=(turned, *second.buffers[1:])),
    ):
        (finding,) = found(first, reader)
        assert finding.cost is not None
        assert finding.cost.seconds == pytest.approx(most)
        assert finding.cost.low < finding.cost.seconds < finding.cost.high


def test_what_something_else_reads_is_still_written() -> None:
    first, second = pair()
    third = passing("triton_poi_fused_sub_2", "sub", reads=["buf0"], writes=["result2"])
    (alone,), (shared,) = found(first, second), found(first, second, third)
    assert alone.cost is not None and shared.cost is not None
    assert shared.cost.seconds < alone.cost.seconds
    assert not any("nothing else" in line for line in shared.evidence)


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        (pair(None), "a run of an earlier version does not know why"),
        (pair(""), "nothing was refused"),
        (pair("intermediate nodes between node1 & node2"), "it could not be"),
        (pair("Fusion will increase peak memory"), "it is meant"),
        (pair(kind="template"), "a product"),
        (pair(sizes={"x": 8 * POINTS}), "each element is read eight times"),
        (pair(launches=2), "one is launched more often"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_finding(kernels: tuple[KernelFacts, ...], why: str) -> None:
    assert found(*kernels) == []


def test_an_operator_in_between_that_both_need_is_no_finding() -> None:
    first, second = pair()
    second = replace(
        second, buffers=(*second.buffers, tensor("buf9", "input")), bytes_read=8 * POINTS
    )
    given = {"read": tensor("", "input"), "written": tensor("", "output")}
    call = OperatorCall((given["read"], given["written"]))
    extern = ExternCall("aten.mm.out", "forward 0", 1, (call,))
    launches = (
        Launch("forward 0", first.name),
        Launch("forward 0", "aten.mm.out", extern=True, operands=("buf0", "buf9"), call=0),
        Launch("forward 0", second.name),
    )
    assert found(first, second, externs=(extern,), launches=launches) == []
    (finding,) = found(first, second)  # without it there is one
    assert finding.code == "PC501"


def accessing(kernel: KernelFacts, *accesses: MemoryAccess) -> KernelFacts:
    """The kernel, of whose source each access is known."""
    (config,) = kernel.candidates
    assert config.work is not None
    work = replace(config.work, accesses=accesses)
    return replace(kernel, candidates=(replace(config, work=work),))


def access(kind: Literal["load", "store", "atomic"], buffer: Buffer, **more: Any) -> MemoryAccess:
    return MemoryAccess(kind, buffer.argument, 9, 4, 1.0, 4.0, 4.0, 4.0, 4.0, **more)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("atomic", {"indirect": True}), ("atomic", {}), ("store", {"indirect": True}),
     ("store", {"known": False})],
)  # fmt: skip
def test_what_is_written_where_data_says_is_complete_at_the_end_alone(
    kind: Literal["store", "atomic"], more: dict[str, bool]
) -> None:
    """``index_add``, then what is computed of its sums: no one kernel can do both."""
    first, second = pair()
    assert found(accessing(first, access(kind, first.buffers[1], **more)), second) == []
    (finding,) = found(accessing(first, access("store", first.buffers[1])), second)
    assert finding.kernels == (0, 1)


def test_atomics_in_the_source_are_enough() -> None:
    first, second = pair()
    atomic = Access("atomic", first.buffers[1].argument, line=9, loop=0, depth=0)
    facts = SourceFacts(1, 0, 0, 0, 1, 0, 0, (atomic,), {}, 1, 1)
    assert found(replace(first, source_facts=facts), second) == []
    elsewhere = replace(facts, accesses=(replace(atomic, pointer="out_ptr_other"),))
    assert len(found(replace(first, source_facts=elsewhere), second)) == 1


def test_what_is_read_where_data_says_is_no_finding() -> None:
    first, second = pair()
    assert found(first, accessing(second, access("load", second.buffers[0], indirect=True))) == []


def test_a_hundredth_of_the_step_is_none() -> None:
    rest = passing("triton_poi_fused_rest_9", "rest", reads=["arg8_1"], writes=["other"])
    assert len(found(*pair())) == 1
    assert found(*pair(), replace(rest, launches=200)) == []


@pytest.mark.parametrize(
    ("dynamic", "cause", "advice"),
    [
        (("x",), "with dynamic sizes", "keep sizes static"),
        ((), "in another order, or another view", "one layout"),
    ],
)
def test_what_does_not_match(dynamic: tuple[str, ...], cause: str, advice: str) -> None:
    (finding,) = found(*pair("no shared data due to indexing mismatch", dynamic_sizes=dynamic))
    assert cause in finding.evidence[0]
    assert advice in finding.advice


def reducing(length: int, **more: Any) -> tuple[KernelFacts, KernelFacts]:
    """A pointwise kernel, and one that reduces so many elements for each result of its own."""
    sizes = {"x": POINTS // length, "r0_": length}
    return pair("no shared data", kind="reduction", sizes=sizes, **more)


@pytest.mark.parametrize("dynamic", [(), ("r0_",)], ids=["static", "dynamic"])
@pytest.mark.parametrize("length", [BLOCKS, 512], ids=["columns", "columns in chunks"])
def test_a_sum_over_rows_of_what_was_computed_row_by_row_is_none(
    length: int, dynamic: tuple[str, ...]
) -> None:
    """The gradient of a bias: there is no view and no transpose that the model could drop."""
    assert found(*reducing(length, dynamic_sizes=dynamic)) == []


def test_a_batch_norms_sums_over_images_are_none() -> None:
    """Neighbours are read together, but only within one image and channel."""
    first, second = reducing(8192)
    images = (16, 64, 64, 64)
    read = replace(second.buffers[0], shape=images, stride=(262144, 4096, 64, 1))
    second = accessing(
        replace(second, buffers=(read, *second.buffers[1:])), access("load", read, steps={"r0_": 4})
    )
    assert found(first, second) == []


def test_a_sum_of_each_row_is_one_where_the_order_differs() -> None:
    first, second = reducing(256)
    chunks = accessing(second, access("load", second.buffers[0], steps={"r0_": 4}))
    for kernels in (reducing(1024), (first, chunks)):
        (finding,) = found(*kernels)
        assert finding.severity == "warning"
        assert "drop the view or transpose" in finding.advice
    # The innermost dimension in memory need not be the last one.
    first, second = reducing(1024)
    turned = replace(second.buffers[0], shape=(1024, BLOCKS), stride=(1, 1024))
    assert len(found(first, replace(second, buffers=(turned, *second.buffers[1:])))) == 1


def test_as_many_rows_as_columns_are_told_apart_by_the_addresses() -> None:
    side = 2048
    first, second = reducing(side)
    read = replace(second.buffers[0], shape=(side, side), stride=(side, 1))
    second = replace(second, buffers=(read, *second.buffers[1:]))
    assert found(first, second) == []
    for apart, number in ((4, 1), (4 * side, 0)):
        steps = {"r0_": apart}
        assert len(found(first, accessing(second, access("load", read, steps=steps)))) == number


def test_a_reduction_of_rows_and_one_of_columns_are_none() -> None:
    first, second = reducing(BLOCKS)
    rows = replace(first, kind="persistent-reduction", sizes={"x": BLOCKS, "r0_": 1024})
    square = {"x": 2048, "r0_": 2048}
    assert found(rows, replace(second, sizes={"x": 1024, "r0_": BLOCKS})) == []
    rows, columns = replace(rows, sizes=square), replace(second, sizes=square)
    along = access("store", rows.buffers[1], steps={"r0_": 4})
    for apart, number in ((4, 1), (8192, 0)):
        read = accessing(columns, access("load", columns.buffers[0], steps={"r0_": apart}))
        assert len(found(accessing(rows, along), read)) == number


def test_another_axis_is_a_note_where_an_option_keeps_loops_in_order() -> None:
    settings = {**SETTINGS, "loop_ordering_after_fusion": False}
    (finding,) = found(*reducing(BLOCKS), settings=settings)
    assert "reduces along another axis" in finding.evidence[0]
    assert [dict(cure.options) for cure in finding.cures] == [{"loop_ordering_after_fusion": True}]
    # No doubt of a gate about a step that is faster.
    assert (finding.severity, finding.advice) == ("info", "")


def cat(parts: int, node: str = "add") -> tuple[KernelFacts, KernelFacts]:
    shape = (BLOCKS, 1024 // parts)
    written = [
        tensor(f"buf{n}", "output", part_of="buf9", shape=shape, bytes=4 * POINTS // parts)
        for n in range(parts)
    ]
    first = passing(
        "triton_poi_fused_cat_0", node, reads=[], writes=[],
        buffers=[tensor("arg0_1", "input"), *written],
    )  # fmt: skip
    second = passing("triton_poi_fused_mul_1", "mul", reads=["buf9"], writes=["result"], refused={})
    return first, second


def test_a_cat_that_is_put_together_in_memory() -> None:
    (finding,) = found(*cat(2))
    assert "a cat is put together in memory" in finding.evidence[0]
    assert [dict(cure.options) for cure in finding.cures] == [{"force_pointwise_cat": True}]
    assert finding.severity == "warning"


def test_a_cat_of_too_many_parts_names_the_limit() -> None:
    settings = {**SETTINGS, "max_pointwise_cat_inputs": 8}
    (finding,) = found(*cat(16), settings=settings)
    assert [dict(cure.options) for cure in finding.cures] == [{"max_pointwise_cat_inputs": 16}]


def test_what_a_cat_of_costly_parts_gains_is_not_known() -> None:
    (finding,) = found(*cat(2, "sin"))
    assert finding.severity == "info"
    assert finding.cost is None


# --- operators that Inductor can't look into -----------------------------------------------------


def called(op: str, *more: Buffer, shape: tuple[int, ...] = (BLOCKS, 1024)) -> Run:
    """A kernel, and an operator that reads what it wrote and these."""
    first = passing("triton_poi_fused_add_0", "add", reads=["arg0_1"], writes=["buf0"])
    read, written = tensor("", "input"), tensor("", "output", shape=shape, bytes=POINTS)
    work = OperatorWork("other", "fp32", 0.0, read.bytes, written.bytes)
    call = OperatorCall((read, *more, written), work=work)
    operands = ("buf0", *(f"arg{n + 5}_1" for n in range(len(more))), "buf1")
    launches = (
        Launch("forward 0", first.name),
        Launch("forward 0", op, extern=True, operands=operands, call=0),
    )
    return step(first, externs=(ExternCall(op, "forward 0", 1, (call,)),), launches=launches)


def test_a_custom_operator_after_a_kernel() -> None:
    made = called("mine.quantise.default")
    (finding,) = RULE.of_run(made)
    assert finding.headline.startswith("mine.quantise.default is opaque to Inductor")
    assert "it reads 16.8 MB and writes 4.19 MB" in finding.evidence[0]
    assert finding.amount == 5 * POINTS
    (extern,) = made.externs
    assert extern.estimate is not None and finding.cost is not None
    # All of the operator, and three quarters of what the kernel writes.
    assert finding.cost.seconds > extern.estimate.seconds
    assert finding.cost.low <= extern.estimate.seconds


def test_an_operator_after_atomics_is_none() -> None:
    made = called("mine.quantise.default")
    first = accessing(made.kernels[0], access("atomic", made.kernels[0].buffers[1], indirect=True))
    assert list(RULE.of_run(replace(made, kernels=(first,)))) == []


@pytest.mark.parametrize(
    "made",
    [
        called("aten.sort.default"),
        called("mine.grouped_gemm.default"),
        called("mine.flash_attn.default"),
        called("mine.project.default", tensor("", "input", shape=(1024, 1024))),
        called("mine.pool.default", shape=(16, 1024)),
    ],
    ids=["torch's own", "a product", "attention", "a matrix", "other rows"],
)
def test_operators_that_are_no_part_of_a_kernel(made: Run) -> None:
    assert list(RULE.of_run(made)) == []


# --- comparisons ---------------------------------------------------------------------------------


def sides(**options: OptionValue) -> tuple[Run, Run]:
    """One kernel, and the two that it becomes."""
    whole = passing("triton_poi_fused_add_mul_0", "add", "mul", reads=["arg0_1"], writes=["result"])
    base = step(whole, settings={"max_fusion_size": 64})
    head = step(*pair(None), settings={"max_fusion_size": 4}, id="head")
    return base, replace(head, variant=Variant("head", options=options))


def test_one_kernel_that_became_two() -> None:
    base, head = sides(max_fusion_size=4)
    (finding,) = RULE.of_comparison(compare(base, head))
    lost = sum(k.step_seconds or 0 for k in head.kernels) - (base.kernels[0].step_seconds or 0)
    assert finding.cost is not None and finding.cost.seconds == pytest.approx(lost)
    assert finding.headline.startswith("one kernel became 2 kernels, which take ")
    assert finding.headline.endswith("fusion lost, by max_fusion_size")
    assert [dict(cure.options) for cure in finding.cures] == [{"max_fusion_size": 64}]


def named(node: str, op: str) -> Origin:
    return Origin(node, f"aten.{op}.default")


EXP, SUM, DIV = named("exp", "_softmax"), named("sum_1", "_softmax"), named("div", "_softmax")
SOFTMAX = (EXP, SUM, DIV)
ANOTHER = tuple(named(n, "_softmax") for n in ("exp_1", "sum_2", "div_1"))
ADD = named("add", "add")
COPY = named("clone", "clone")
PREPARED = Origin("prepare_softmax_online_default", "prims.prepare_softmax_online.default")


def became(
    *parts: tuple[Origin, ...], before: tuple[Origin, ...] = SOFTMAX, **more: Any
) -> list[Finding]:
    """What is found where one kernel of these nodes became kernels of those."""
    base = passing("triton_0", reads=["arg0_1"], writes=["result"], origins=before)
    first, second = pair(None)
    head = [replace(k, origins=nodes) for k, nodes in zip((first, second), parts, strict=True)]
    options = more.pop("options", {})
    after = replace(step(*head, id="head", **more), variant=Variant("head", options=options))
    comparison = compare(step(base), after, allow=("dynamic",))
    assert [group.match.head for group in comparison.groups] == [(0, 1)]
    return list(RULE.of_comparison(comparison))


@pytest.mark.parametrize(
    "parts",
    [
        ((EXP, SUM), (EXP, DIV, *ANOTHER, ADD)),
        ((EXP, SUM, *ANOTHER), (EXP, DIV)),
        ((EXP, SUM), (EXP, DIV, ADD)),
    ],
    ids=["twice and a sum", "twice", "a sum"],
)
def test_kernels_for_what_was_not_computed_before_are_no_lost_fusion(
    parts: tuple[tuple[Origin, ...], ...],
) -> None:
    assert became(*parts) == []


@pytest.mark.parametrize(
    "parts",
    [
        ((EXP, SUM), (EXP, DIV)),
        ((EXP, SUM, COPY), (EXP, DIV)),
        ((PREPARED, EXP, SUM), (EXP, DIV)),
        ((EXP, SUM), (EXP, DIV, named("amax", "_softmax"))),
        ((EXP, SUM), (EXP, DIV, named("exp_1", "_softmax"))),
    ],
    ids=["the same", "a copy", "Inductor's own", "taken apart in another way", "in part"],
)
def test_the_same_operators_in_more_kernels_are_lost_fusion(
    parts: tuple[tuple[Origin, ...], ...],
) -> None:
    (finding,) = became(*parts)
    assert "one kernel became 2 kernels" in finding.headline


@pytest.mark.parametrize(
    "more",
    [
        {"environment": replace(ENVIRONMENT, torch="2.12.0+cu130")},
        {"settings": {"emulate_precision_casts": True}},
        {"options": {"emulate_precision_casts": True}},
        {"dynamic": True},
    ],
    ids=["torch", "settings", "options", "sizes"],
)
def test_what_else_differs_may_take_the_same_model_apart_in_another_way(
    more: dict[str, Any],
) -> None:
    assert became((EXP, SUM), (EXP, DIV, ADD)) == []
    (finding,) = became((EXP, SUM), (EXP, DIV, ADD), **more)
    assert "fusion lost" in finding.headline


def test_an_operator_that_another_kernel_had_before_is_no_added_work() -> None:
    base = passing("triton_0", reads=["arg0_1"], writes=["result"], origins=SOFTMAX)
    other = passing("triton_far", reads=["arg1_1"], writes=["result2"], origins=(ADD,))
    first, second = (
        replace(k, origins=nodes)
        for k, nodes in zip(pair(None), ((EXP, SUM), (EXP, DIV, ADD)), strict=True)
    )
    comparison = compare(step(base, other), step(first, second, other, id="head"))
    assert any("fusion lost" in finding.headline for finding in RULE.of_comparison(comparison))


def test_a_graph_break_between_two_kernels_is_the_reason() -> None:
    base, head = sides()
    comparison = compare(base, head)
    first, second = comparison.head.kernels
    broken = replace(
        comparison.head,
        kernels=(first, replace(second, graph="inference 1")),
        variant=base.variant,
        graph_breaks={"called graph_break": 1},
        break_places={"called graph_break": (BreakPlace("/home/me/model.py:9"),)},
    )
    (finding,) = RULE.of_comparison(replace(comparison, head=broken))
    reason = "fusion lost, since a graph break at model.py:9 lies between them"
    assert finding.headline.endswith(reason)


def test_two_kernels_that_became_one_for_the_better_are_none() -> None:
    base, head = sides()
    assert list(RULE.of_comparison(compare(head, base))) == []


def test_fusion_overdone_is_named() -> None:
    whole, head = sides()
    slow = passing(
        "triton_poi_fused_add_mul_0", "add", "mul", reads=["arg0_1"], writes=["result"],
        instructions=4000.0,
    )  # fmt: skip
    (finding,) = RULE.of_comparison(compare(head, estimate_run(replace(step(slow), id="slow"))))
    assert finding.headline.startswith("2 kernels became one kernel, which takes ")
    assert "fusion overdone" in finding.headline
    assert whole.kernels[0].step_seconds is not None


def test_a_cat_that_is_inlined_is_named() -> None:
    _, head = sides()
    slow = passing(
        "triton_poi_fused_cat_0", "add", "cat", "mul", reads=["arg0_1"], writes=["result"],
        instructions=4000.0,
    )  # fmt: skip
    (finding,) = RULE.of_comparison(compare(head, replace(step(slow), id="slow")))
    assert "fusion overdone, the cat is inlined into the kernel that reads it" in finding.headline
