"""What the HTML report's drawings are made of, against numbers counted by hand."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import handmade_timing
import pytest
from handmade import H100, kernel, run
from handmade_html import judgement, rendered, with_sources

from perfcli.diff.compare import compare
from perfcli.model import GraphFacts, GroupTiming, Run, TimeChange

scale, roofline, memory, flow, times = (
    import_module(f"perfcli.reports._html.{name}")
    for name in ("scale", "roofline", "memory", "flow", "times")
)


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
    comparison, _ = with_sources()
    comparison = replace(
        comparison, base=replace(comparison.base, target=PEAKED),
        head=replace(comparison.head, target=PEAKED),
    )  # fmt: skip
    drawn = roofline._roofline(comparison, 0)
    assert drawn is not None and not drawn.measured
    worse = next(p for p in drawn.points if "mul_7" in p.name)
    # 5 operations for each of 1000 values, 1500 bytes at 3.35 TB/s
    assert worse.cells[:4] == ("5 k", "1.5 kB", "3.33", "0.448 ns")
    timing = handmade_timing.conclude_timed(*handmade_timing.gpu()).timing
    assert timing is not None
    number = next(n for n, g in enumerate(comparison.groups) if 0 in g.match.head)
    group = GroupTiming(number, "x", TimeChange(None, 4.4776e-9))
    slow = replace(comparison, timing=replace(timing, groups=(group,)))
    drawn = roofline._roofline(slow, 0)
    below = next(p for p in drawn.points if "mul_7" in p.name)
    assert below.measured and below.cells[4:] == ("4.48 ns", "10 %")
    assert (below.x, below.y > worse.y) == (worse.x, True)


def _uncounted(run: Run) -> Run:
    """A run as it was stored before operations were counted."""
    return replace(run, kernels=tuple(replace(k, operations=None) for k in run.kernels))


def test_a_side_without_operations_is_named() -> None:
    comparison, texts = with_sources()
    comparison = replace(comparison, head=replace(comparison.head, target=PEAKED))
    both = roofline._roofline(comparison, 0)
    assert both is not None and (both.sides, both.uncounted) == (("base", "head"), ())
    old = replace(comparison, base=_uncounted(comparison.base))
    alone = roofline._roofline(old, 0)
    assert alone is not None and (alone.sides, alone.uncounted) == (("head",), ("base",))
    assert alone.left_out == 0
    page = rendered(judgement(old, texts))
    caption = page[page.index("Peaks of") - 200 : page.index("Peaks of") + 200]
    assert '"key head"' in caption and '"key base"' not in caption
    assert "Of the base nothing is drawn" in caption


def test_a_kernel_that_cannot_be_counted_is_left_out() -> None:
    comparison, _ = with_sources()
    first, *others = comparison.head.kernels
    head = replace(comparison.head, kernels=(replace(first, operations=None), *others))
    drawn = roofline._roofline(replace(comparison, head=replace(head, target=PEAKED)), 0)
    assert drawn is not None and (drawn.left_out, drawn.uncounted) == (1, ())


def test_no_peaks_or_no_operations_no_roofline() -> None:
    comparison, _ = with_sources()
    assert roofline._roofline(comparison, 0) is None  # H100 of tests: no fp32
    head = replace(comparison.head, target=PEAKED)
    old = replace(comparison, base=_uncounted(comparison.base), head=_uncounted(head))
    assert roofline._roofline(old, 0) is None
    assert roofline._roofline(replace(comparison, head=replace(head, target=None)), 0) is None


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
    drawn = times._forest(handmade_timing.conclude_timed(*handmade_timing.gpu()), 0)
    step = drawn.bars[0]
    assert (step.name, step.verdict, step.link) == ("step", "slower", "")
    unit = (drawn.zero - drawn.floor[0]) / 0.01  # for a change of 1
    assert (step.low - drawn.zero) / unit == pytest.approx(12.70 / 12.31 - 1 - 0.0055, abs=1e-4)
    assert (step.high - drawn.zero) / unit == pytest.approx(12.70 / 12.31 - 1 + 0.0055, abs=1e-4)
    assert drawn.zero - drawn.floor[0] == pytest.approx(drawn.floor[1] - drawn.zero)
    new = next(bar for bar in drawn.bars if bar.verdict == "new")
    assert (new.at, new.low) == (None, None)
