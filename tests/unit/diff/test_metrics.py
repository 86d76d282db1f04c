"""Each number of a kernel, of several together, and by how much it has to change to count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, candidate, digest, kernel, run

from perfcli.diff.metrics import (
    DECIDING,
    KERNEL_METRICS,
    Metric,
    _is_whole,
    _outcome,
    changes,
    fold,
    is_trifling,
    launched_kernels,
    totals,
)
from perfcli.model import (
    Change,
    ExternCall,
    GraphFacts,
    KernelFacts,
    Outcome,
)

METRICS = {metric.name: metric for metric in KERNEL_METRICS}


def counted(facts: KernelFacts, **more: Any) -> KernelFacts:
    assert facts.source_facts is not None
    return replace(facts, source_facts=replace(facts.source_facts, **more))


def value(metric: str, *kernels: KernelFacts) -> float | None:
    return fold(METRICS[metric], kernels).value


# --- one kernel ------------------------------------------------------------------------------


def test_every_number_of_one_kernel() -> None:
    best = candidate(registers=255, stack_bytes=368, shared_bytes=64, occupancy=0.25)
    one = kernel(
        "a_0",
        launches=3,
        read=1000,
        written=500,
        bytes_swept=2000,
        lower_bound_seconds=2.0,
        finishing_bytes=375,
        candidates=(best,),
    )
    one = counted(
        one, loads=7, loads_in_loops=2, stores=4, vector_loads=5, vector_stores=1, reductions=9
    )
    assert {name: value(name, one) for name in METRICS} == {
        "kernels": 1,
        "launches": 3,
        "loads": 7,
        "loads_in_loops": 2,
        "stores": 4,
        "vector_loads": 5,
        "vector_stores": 1,
        "spilled_words": 92,
        "stack_bytes": 368,
        "registers": 255,
        "shared_bytes": 64,
        "occupancy": 0.25,
        "bytes_moved": 3 * 1875,
        "bytes_swept": 3 * 2375,
        "lower_bound_seconds": 3 * 2.5,
    }


def test_what_a_kernel_does_not_know_is_none() -> None:
    bare = kernel("a_0", read=None, registers=None, source_facts=None, lower_bound_seconds=None)
    assert {name for name in METRICS if value(name, bare) is not None} == {"kernels", "launches"}


@pytest.mark.parametrize(
    ("read", "more", "seconds"), [(1000, 0, 2.0), (1000, 750, 3.0), (None, 750, 2.0), (0, 9, 2.0)]
)
def test_a_lower_bound_grows_with_the_bytes(read: int | None, more: int, seconds: float) -> None:
    one = kernel(
        "a_0",
        read=read,
        written=500 if read else 0,
        finishing_bytes=more,
        lower_bound_seconds=2.0,
    )
    assert value("lower_bound_seconds", one) == seconds


# --- several kernels -------------------------------------------------------------------------


def test_sums_leave_out_what_is_not_known_and_say_so() -> None:
    known = kernel("a_0", launches=2)
    unknown = kernel("b_1", read=None, launches=3)
    moved = fold(METRICS["bytes_moved"], [known, unknown, unknown])
    assert moved.value == 3000
    assert moved.unknown == {digest("b_1"): 6}  # of each launch
    loads = fold(METRICS["loads"], [known, replace(unknown, source_facts=None)])
    assert (loads.value, loads.unknown) == (2, {digest("b_1"): 1})
    nothing = fold(METRICS["bytes_moved"], [unknown])
    assert (nothing.value, nothing.unknown) == (None, {digest("b_1"): 3})


def test_the_worst_kernel_counts() -> None:
    kernels = [
        kernel("a_0", registers=32),
        kernel("b_1", registers=64),
        kernel("c_2", registers=None),
        kernel("idle_3", registers=255, launches=0),
    ]
    assert value("registers", *kernels) == 64
    low = [replace(k, candidates=(candidate(occupancy=o),)) for k, o in ((kernels[0], 0.5),)]
    assert value("occupancy", *low, kernel("d_4")) == 0.5
    assert fold(METRICS["registers"], []).value is None
    assert launched_kernels(kernels) == kernels[:3]


def test_a_metric_is_summed_and_better_lower_unless_it_says_otherwise() -> None:
    plain = Metric("x", lambda k: 1)
    assert (plain.fold, plain.better, plain.per_launch) == ("sum", "lower", False)
    assert {m.name for m in KERNEL_METRICS if m.better == "higher"} == {
        "vector_loads",
        "vector_stores",
        "occupancy",
    }
    assert {m.name for m in KERNEL_METRICS if m.per_launch} == {
        "bytes_moved",
        "bytes_swept",
        "lower_bound_seconds",
    }


# --- both sides ------------------------------------------------------------------------------


def changed(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> dict[str, tuple[float | None, float | None, Outcome]]:
    return {c.metric: (c.base, c.head, c.outcome) for c in changes(base, head)}


def test_no_kernels_move_nothing_and_have_no_worst_one() -> None:
    new = changed([], [kernel("a_0")])
    assert new["bytes_moved"] == (0, 1500, "worse")
    assert new["registers"] == (None, 32, "unknown")
    gone = changed([kernel("a_0")], [])
    assert gone["bytes_moved"] == (1500, 0, "better")
    assert gone["occupancy"] == (0.5, None, "unknown")
    idle = changed([kernel("b_1", launches=0)], [kernel("a_0")])
    assert idle["bytes_moved"] == (0, 1500, "worse")


def test_what_neither_side_knows_has_no_row() -> None:
    bare = [kernel("a_0", registers=None, read=None, source_facts=None, lower_bound_seconds=None)]
    assert set(changed(bare, bare)) == {"kernels", "launches"}
    assert changed(bare, [kernel("a_0")])["registers"] == (None, 32, "unknown")
    assert changed([kernel("a_0")], bare)["loads"] == (2, None, "unknown")


def test_sums_that_leave_out_other_kernels_cannot_be_judged() -> None:
    known, unknown = kernel("a_0", "mul"), kernel("b_1", "add", registers=None)
    assert changed([known, unknown], [known])["spilled_words"] == (0, 0, "unknown")
    assert changed([known, unknown], [known, unknown])["spilled_words"] == (0, 0, "same")
    assert changed([known, unknown], [known])["registers"] == (32, 32, "same")


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        # Loads and, of these, vector loads.
        ((4, 4), (4, 2), "worse"),
        ((4, 2), (4, 4), "better"),
        ((4, 4), (2, 2), "same"),  # less to load, all of it in vectors
        ((4, 4), (5, 4), "same"),  # a tail more
        ((4, 2), (2, 2), "same"),
        ((4, 2), (6, 3), "same"),  # more vectors, and more scalars
        ((4, 4), (8, 8), "same"),
    ],
)
@pytest.mark.parametrize("kind", ["loads", "stores"])
def test_vectors_are_weighed_against_scalars(
    kind: str, base: tuple[int, int], head: tuple[int, int], outcome: Outcome
) -> None:
    before, after = (
        [counted(kernel("a_0"), **{kind: every, f"vector_{kind}": vectors})]
        for every, vectors in (base, head)
    )
    assert changed(before, after)[f"vector_{kind}"] == (base[1], head[1], outcome)


@pytest.mark.parametrize(
    ("name", "base", "head", "higher", "sure", "outcome"),
    [
        ("loads", 1, 1, False, True, "same"),
        ("loads", 1, 2, False, True, "worse"),
        ("loads", 2, 1, False, True, "better"),
        ("loads", 1, 2, True, True, "better"),
        ("loads", 2, 1, True, True, "worse"),
        ("loads", 1, 1, False, False, "unknown"),
        ("loads", None, 1, False, True, "unknown"),
        ("loads", 1, None, False, True, "unknown"),
        ("bytes_moved", 1000, 1005, False, True, "same"),
        ("bytes_moved", 1000, 1006, False, True, "worse"),
        ("bytes_moved", 1000, 995, False, True, "same"),
        ("bytes_moved", 1000, 994, False, True, "better"),
        ("bytes_moved", -1000, -995, False, True, "same"),
        ("peak_memory_bytes", 1000, 1010, False, True, "same"),
        ("spilled_words", 1000, 1001, False, True, "worse"),
    ],
)
def test_outcomes(
    name: str, base: Any, head: Any, higher: bool, sure: bool, outcome: Outcome
) -> None:
    assert _outcome(name, base, head, higher, sure) == outcome


@pytest.mark.parametrize("metric", ["bytes_moved", "bytes_swept", "lower_bound_seconds"])
def test_what_is_estimated_has_half_a_percent(metric: str) -> None:
    assert DECIDING[metric] == 0.005
    assert list(DECIDING)[:2] == ["spilled_words", "bytes_moved"]
    assert DECIDING["vector_loads"] == DECIDING["spilled_words"] == 0
    assert DECIDING["peak_memory_bytes"] == 0.01


@pytest.mark.parametrize(
    ("metric", "base", "head", "trifling"),
    [
        ("spilled_words", 100, 84, True),
        ("spilled_words", 100, 83, False),
        ("spilled_words", 0, 16, True),
        ("bytes_moved", 1000, 990, True),
        ("bytes_moved", 1000, 989, False),
        ("bytes_moved", 1000, 1010, True),
        ("bytes_swept", 1000, 990, True),
        ("bytes_swept", 1000, 989, False),
        ("lower_bound_seconds", 1000, 990, True),
        ("lower_bound_seconds", 1000, 989, False),
        ("peak_memory_bytes", 1000, 980, True),
        ("peak_memory_bytes", 1000, 979, False),
        ("vector_loads", 1000, 999, False),
        ("vector_loads", 1000, 1000, True),
        ("bytes_moved", None, 5, True),
    ],
)
def test_trifles(metric: str, base: float | None, head: float, trifling: bool) -> None:
    assert is_trifling(Change(metric, base, head, "better")) is trifling


# --- whole runs ------------------------------------------------------------------------------


def test_totals_of_a_whole_run() -> None:
    calls = (ExternCall("aten.mm", "forward 0", 2), ExternCall("aten.mm", "backward 0", 3))
    base = run([kernel("a_0")], peak=100)
    head = run(
        [kernel("a_0"), kernel("b_1", graph="forward 1")],
        id="head",
        externs=calls,
        graph_breaks={"x": 2, "y": 1},
    )
    found = {c.metric: (c.base, c.head, c.outcome) for c in totals(base, head)}
    assert "occupancy" not in found
    assert found["extern_calls"] == (0, 5, "worse")
    assert found["graphs"] == (1, 2, "worse")
    assert found["graph_breaks"] == (0, 3, "worse")
    assert found["peak_memory_bytes"] == (100, None, "unknown")
    bare = {c.metric for c in totals(run([kernel("a_0")]), run([kernel("a_0")]))}
    assert "peak_memory_bytes" not in bare


def graph(direction: Any, peak: int | None = 100, index: int = 0) -> GraphFacts:
    return GraphFacts(f"{direction} {index}", direction, index, 10, peak)


def test_the_largest_graph_has_the_peak() -> None:
    graphs = (graph("forward", 100), graph("backward", 300), graph("forward", None, 1))
    one = run([kernel("a_0")], graphs=graphs)
    (peak,) = [c for c in totals(one, one) if c.metric == "peak_memory_bytes"]
    assert (peak.base, peak.head, peak.outcome) == (300, 300, "same")


@pytest.mark.parametrize(
    ("mode", "graphs", "more", "whole"),
    [
        ("training", (graph("forward"), graph("backward")), {}, True),
        ("training", (graph("backward"), graph("forward")), {}, True),
        ("training", (graph("forward"),), {}, False),
        ("training", (graph("forward"), graph("backward", None)), {}, False),
        ("training", (graph("forward"), graph("backward")), {"graph_breaks": {"x": 1}}, False),
        ("forward", (graph("forward"),), {}, True),
        ("forward", (graph("inference"),), {}, True),
        ("forward", (graph("forward"), graph("backward")), {}, False),
        ("forward", (graph("inference"), graph("inference", index=1)), {}, False),
        ("forward", (graph("inference", None),), {}, False),
    ],
)
def test_a_step_that_is_whole(
    mode: str, graphs: tuple[GraphFacts, ...], more: dict[str, Any], whole: bool
) -> None:
    assert _is_whole(run([kernel("a_0")], mode=mode, graphs=graphs, **more)) is whole


@pytest.mark.parametrize(
    ("base", "head", "torch", "outcome"),
    [
        ((100, 50), (100, 50), "2.13.0", "same"),
        ((100, 50), (200, 50), "2.13.0", "worse"),
        ((100, 50), (200, 50), "2.12.0", "unknown"),
        ((100, 50, 20), (90, 50), "2.13.0", "better"),
        ((100, 50, 20), (100, 50), "2.13.0", "same"),
        ((100, 50, 20), (110, 50), "2.13.0", "unknown"),
        ((100, 50, 20), (90, 50), "2.12.0", "unknown"),
        ((100, 50), (90, 50, 20), "2.13.0", "unknown"),  # the head is in pieces
    ],
)
def test_peaks_of_other_pieces(
    base: tuple[int, ...], head: tuple[int, ...], torch: str, outcome: Outcome
) -> None:
    ours, theirs = (
        tuple(
            graph("backward" if n == 1 else "forward", peak, n // 2) for n, peak in enumerate(side)
        )
        for side in (base, head)
    )
    environment = replace(ENVIRONMENT, torch=torch)
    one = run([kernel("a_0")], graphs=ours)
    other = run([kernel("a_0")], graphs=theirs, id="head", environment=environment)
    (peak,) = [c for c in totals(one, other) if c.metric == "peak_memory_bytes"]
    assert (peak.base, peak.head, peak.outcome) == (max(base), max(head), outcome)
