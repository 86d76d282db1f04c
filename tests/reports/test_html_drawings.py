"""What the HTML report's drawings are made of, against numbers counted by hand."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import handmade_timing
import pytest
from handmade import H100, kernel, run
from handmade_html import judgement, rendered, source, with_sources

from perfcli.diff.compare import compare
from perfcli.diff.weigh import weigh
from perfcli.model import GraphFacts, GroupTiming, TimeChange

work = import_module("perfcli.facts.source.operations")
scale, roofline, memory, flow, times = (
    import_module(f"perfcli.reports._html.{name}")
    for name in ("scale", "roofline", "memory", "flow", "times")
)

SIZES = {"x": 10, "r0_": 100}
LOOPED = """
@triton.jit
def triton_red_fused_0(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK, R0_BLOCK):
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    x0 = xindex
    _tmp6 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_1 = r0_index
        tmp2 = tl.load(in_ptr0 + (r0_1 + 512*x0), r0_mask, other=0.0).to(tl.float32)
        tmp4 = tmp2 * tmp2
        tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
        tmp7 = _tmp6 + tmp5
        _tmp6 = tl.where(r0_mask, tmp7, _tmp6)
    tmp6 = tl.sum(_tmp6, 1)[:, None]
    tmp8 = tl.full([1, 1], 512.0, tl.float32)
    tmp9 = (tmp6 / tmp8)
    tmp12 = libdevice.rsqrt(tmp9)
    tl.store(out_ptr0 + (x0), tmp12, None)
"""
MIX_ORDER = """
@triton.jit
def triton_per_fused_1(in_ptr0, in_ptr1, ws_ptr, xnumel, r0_numel, XBLOCK, RSPLIT_SIZE):
    accum0 = tl.full([R0_BLOCK], 0, tl.float32)[None, :]
    for _ in tl.range(0, split_size, XBLOCK, num_stages=NUM_STAGES):
        x0 = xindex
        xindex += XBLOCK
        tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), None)
        tmp1 = tl.load(in_ptr1 + (x0), None)
        tmp2 = tmp1 + tmp1
        tmp3 = tmp0 * tmp2
        tmp4 = tl.sum(tmp3, 0)
        tmp5 = accum0 + tmp4
        accum0 = tmp5
    tl.store(ws_ptr + (r0_index), accum0, r0_mask)
"""
WITHOUT_X_BLOCK = """
@triton.jit
def triton_per_fused_2(in_ptr0, out_ptr0, xnumel, r0_numel):
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 64*x0), None)
    tmp1 = tl.broadcast_to(tmp0, [R0_BLOCK])
    tmp2 = triton_helpers.promote_to_tensor(triton_helpers.max2(tmp1, 0))
    tmp3 = tl_math.exp(tmp2)
    tl.store(out_ptr0 + (x0), tmp3, None)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # squared, added up, summed over the row; divided and its root taken once a row
        (LOOPED, 3 * 10 * 100 + 2 * 10),
        # doubled once a row; times each value; summed over the rows; added once a column
        (MIX_ORDER, 10 + 10 * 100 + 10 * 100 + 100),
        (WITHOUT_X_BLOCK, 10 * 100 + 10),
    ],
)
def test_operations_are_counted_once_for_each_value(text: str, expected: int) -> None:
    assert work.operations(text, SIZES) == expected


def test_a_pointwise_kernel_counts_its_operators() -> None:
    assert work.operations(source("triton_poi_fused_add_0", 5), {"x": 1000}) == 5 * 1000


@pytest.mark.parametrize(
    "text", ["", "not python (", "def f(x): pass", LOOPED.replace("_tmp6 + tmp5", "tl.dot(a, b)")]
)
def test_what_cannot_be_counted_is_not_known(text: str) -> None:
    assert work.operations(text, SIZES) is None
    assert work.operations(LOOPED, {}) is None


def test_scales_and_their_ticks() -> None:
    linear = scale.Scale(0.0, 7.9, 100.0, 0.0)
    assert [t.text for t in linear.ticks(lambda v: f"{v:g}", 5)] == ["0", "2", "4", "6"]
    assert linear(7.9) == 0.0
    log = scale.Scale(0.1, 1000.0, 0.0, 400.0, log=True)
    assert [(t.at, t.text) for t in log.ticks(lambda v: f"{v:g}")] == [
        (0, "0.1"), (100, "1"), (200, "10"), (300, "100"), (400, "1000"),
    ]  # fmt: skip


# --- roofline ----------------------------------------------------------------------------------

PEAKED = replace(H100, peak_flops={"fp32": 67e12, "bf16": 989e12})


def test_what_was_not_measured_lies_on_the_roof_what_was_below_it() -> None:
    comparison, texts = with_sources()
    comparison = replace(
        comparison, base=replace(comparison.base, target=PEAKED),
        head=replace(comparison.head, target=PEAKED),
    )  # fmt: skip
    drawn = roofline._roofline(comparison, 0, texts)
    assert drawn is not None and not drawn.measured
    worse = next(p for p in drawn.points if "mul_7" in p.name)
    # 5 operations for each of 1000 values, 1500 bytes at 3.35 TB/s
    assert worse.cells[:4] == ("5 k", "1.5 kB", "3.33", "0.448 ns")
    timing = weigh(*handmade_timing.gpu()).timing
    assert timing is not None
    number = next(n for n, g in enumerate(comparison.groups) if 0 in g.match.head)
    group = GroupTiming(number, "x", TimeChange(None, 4.4776e-9))
    slow = replace(comparison, timing=replace(timing, groups=(group,)))
    drawn = roofline._roofline(slow, 0, texts)
    below = next(p for p in drawn.points if "mul_7" in p.name)
    assert below.measured and below.cells[4:] == ("4.48 ns", "10 %")
    assert (below.x, below.y > worse.y) == (worse.x, True)


def test_a_side_without_texts_is_named() -> None:
    comparison, texts = with_sources()
    comparison = replace(comparison, head=replace(comparison.head, target=PEAKED))
    both = roofline._roofline(comparison, 0, texts)
    assert both is not None and (both.sides, both.unread) == (("base", "head"), ())
    of_head = {kernel.source for kernel in comparison.head.kernels}
    of_base = {kernel.source for kernel in comparison.base.kernels} - of_head
    alone = roofline._roofline(comparison, 0, {k: v for k, v in texts.items() if k not in of_base})
    assert alone is not None and (alone.sides, alone.unread) == (("head",), ("base",))
    page = rendered(judgement(comparison, {k: v for k, v in texts.items() if k not in of_base}))
    caption = page[page.index("Peaks of") - 200 : page.index("Peaks of") + 200]
    assert '"key head"' in caption and '"key base"' not in caption
    assert "Of the base nothing is drawn" in caption


def test_no_peaks_or_no_texts_no_roofline() -> None:
    comparison, texts = with_sources()
    assert roofline._roofline(comparison, 0, texts) is None  # H100 of tests: no fp32
    head = replace(comparison.head, target=PEAKED)
    assert roofline._roofline(replace(comparison, head=head), 0, {}) is None
    assert (
        roofline._roofline(replace(comparison, head=replace(head, target=None)), 0, texts) is None
    )


# --- memory ------------------------------------------------------------------------------------


def test_live_memory_over_the_schedule_and_its_peak() -> None:
    comparison, _ = with_sources()
    (drawn,) = memory._memories(comparison)
    base, head = drawn.curves
    assert (base.peak, base.estimate, head.peak, head.estimate) == ("900 B", "", "700 B", "900 B")
    assert base.peak_x == pytest.approx((memory.LEFT + memory.RIGHT) / 2)
    ys = scale.Scale(0, 900 * 1.12, memory.BOTTOM, memory.TOP)
    assert base.path == (
        f"M{memory.LEFT:g},{ys(100):g}H{base.peak_x:g}V{ys(900):g}"
        f"H{memory.RIGHT:g}V{ys(300):g}H{memory.RIGHT:g}"
    )
    assert not drawn.one


def test_no_estimate_no_curve() -> None:
    graph = (GraphFacts("forward 0", "forward", 0, 10, 900),)
    one = run([kernel("a", "1")], graphs=graph)
    assert list(memory._memories(compare(one, one))) == []


# --- kernels that were fused and split ---------------------------------------------------------


def test_edges_are_as_wide_as_bytes_and_join_kernels_with_common_work() -> None:
    comparison, _ = with_sources()
    (fused,) = flow._flows(comparison, 0)
    assert [b.link for b in fused.boxes] == [
        "#kernel-0-base-1",
        "#kernel-0-base-2",
        "#kernel-0-head-1",
    ]
    assert [e.width for e in fused.edges] == [22.0, round(22 * 1500 / 5500, 1)]
    assert fused.boxes[0].facts == "2 loads · 0 spilled · 32 regs · 5.5 kB"


def test_regrouped_kernels_are_joined_by_their_nodes() -> None:
    base = [kernel("a", "1"), kernel("b", "2", "3")]
    head = [kernel("c", "1", "2"), kernel("d", "3")]
    comparison = compare(run(base), run(head))
    (drawn,) = flow._flows(comparison, 0)
    assert drawn.headline.startswith("regrouped 2 → 2")
    assert [e.text.partition(":")[0] for e in drawn.edges] == ["a → c", "b → c", "b → d"]


def test_kernels_without_nodes_are_all_joined() -> None:
    comparison, _ = with_sources()
    nameless = [replace(k, origins=()) for k in comparison.base.kernels[1:3]]
    assert flow._pairs(nameless, nameless) == [(0, 0), (0, 1), (1, 0), (1, 1)]


# --- times -------------------------------------------------------------------------------------


def test_bars_have_the_interval_and_the_floor() -> None:
    drawn = times._forest(weigh(*handmade_timing.gpu()), 0)
    step = drawn.bars[0]
    assert (step.name, step.verdict, step.link) == ("step", "slower", "")
    unit = (drawn.zero - drawn.floor[0]) / 0.01  # for a change of 1
    assert (step.low - drawn.zero) / unit == pytest.approx(12.70 / 12.31 - 1 - 0.0055, abs=1e-4)
    assert (step.high - drawn.zero) / unit == pytest.approx(12.70 / 12.31 - 1 + 0.0055, abs=1e-4)
    assert drawn.zero - drawn.floor[0] == pytest.approx(drawn.floor[1] - drawn.zero)
    new = next(bar for bar in drawn.bars if bar.verdict == "new")
    assert (new.at, new.low) == (None, None)
