from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from handmade_trace import Traced, TraceWriter, training_step

from perfcli.importing.traces.chrome import read_chrome_trace
from perfcli.importing.traces.steps import MOST_STEPS, observe, sum_communication
from perfcli.model import Observed, ObservedWork

STEP = training_step()
PERIOD = sum(each.micros for each in STEP) + 2.0 * len(STEP)
"""Microseconds from one step to the next: each launch is followed by a gap of two."""


def look(folder: Path, writer: TraceWriter) -> Observed:
    return observe(read_chrome_trace(writer.write(folder / "trace.json")))


def test_steps_are_what_was_launched_between_marks(tmp_path: Path) -> None:
    seen = look(tmp_path, TraceWriter(STEP, noise=0))
    assert seen.marks == "ProfilerStep marks"
    assert [step.name for step in seen.steps] == [f"ProfilerStep#{n}" for n in range(7, 12)]
    # The end of the last one is not recorded.
    assert seen.step_seconds == pytest.approx([PERIOD * 1e-6] * 4)
    assert seen.steps[-1].seconds is None
    assert seen.idle_share == pytest.approx(2.0 * len(STEP) / PERIOD)


def test_each_thing_that_a_step_launches_has_its_times(tmp_path: Path) -> None:
    seen = look(tmp_path, TraceWriter(STEP, noise=0))
    assert {w.name: w.seconds for w in seen.works} == {
        each.name: pytest.approx((each.micros * 1e-6,) * 5) for each in STEP
    }
    assert [seen.works[n].name for n in seen.order] == [each.name for each in STEP]
    product = next(w for w in seen.works if w.operator == "aten::mm")
    assert (product.grid, product.block, product.registers) == ((132, 1, 1), (384, 1, 1), 168)


def test_graphs_are_named_by_direction_in_the_order_of_their_calls(tmp_path: Path) -> None:
    seen = look(tmp_path, TraceWriter(STEP))
    graphs = {w.name: w.graph for w in seen.works}
    assert graphs["triton_poi_fused_add_0"] == "forward 0"
    assert graphs["triton_red_fused_mul_sum_0"] == "backward 0"
    assert graphs["nvjet_tst_128x256_64x4_1x2_h_bz_NNT"] == ""


def test_a_kernel_that_runs_late_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    seen = look(tmp_path, TraceWriter(STEP, noise=0, lag=1.7 * PERIOD))
    assert {w.launches for w in seen.works} == {1}
    assert seen.step_seconds == pytest.approx([PERIOD * 1e-6] * 4)


def test_what_was_launched_before_the_recording_is_left_out(tmp_path: Path) -> None:
    early = {
        "ph": "X", "cat": "kernel", "name": "early", "ts": 4545587604390.0, "dur": 500.0,
        "args": {"correlation": 3, "device": 0},
    }  # fmt: skip
    seen = look(tmp_path, TraceWriter(STEP, noise=0, extra=[early]))
    assert "early" not in {w.name for w in seen.works}
    assert seen.step_seconds == pytest.approx([PERIOD * 1e-6] * 4)


# --- without marks ------------------------------------------------------------------------------


def test_without_marks_steps_are_what_repeats(tmp_path: Path) -> None:
    layers = [*STEP[:5] * 3, *STEP[5:]]  # kernels that a step launches three times repeat as well
    seen = look(tmp_path, TraceWriter(layers, noise=0, marks=False))
    assert seen.marks == "launches that repeat"
    assert len(seen.steps) == 5
    assert {w.name: w.launches for w in seen.works}["triton_poi_fused_add_0"] == 3


def test_a_warm_up_of_something_else_is_no_step(tmp_path: Path) -> None:
    writer = TraceWriter(STEP, noise=0, marks=False, steps=6)
    other = TraceWriter([Traced("setup", 9.0)], steps=1, marks=False)
    events = [*other.events(), *writer.events()]
    seen = look(tmp_path, TraceWriter([], steps=0, extra=events))
    assert seen.marks == "launches that repeat"
    assert len(seen.steps) in (5, 6)


def test_what_never_repeats_is_one_step(tmp_path: Path) -> None:
    writer = TraceWriter([Traced(f"kernel_{n}", 5.0) for n in range(30)], steps=1, marks=False)
    seen = look(tmp_path, writer)
    assert seen.marks == "the whole trace"
    assert [step.name for step in seen.steps] == ["step 1"]
    assert seen.steps[0].seconds is not None


# --- what is broken -----------------------------------------------------------------------------


def test_events_out_of_order_change_nothing(tmp_path: Path) -> None:
    events = list(TraceWriter(STEP, noise=0).events())
    forth, back = (
        look(tmp_path, TraceWriter([], steps=0, extra=order)) for order in (events, events[::-1])
    )
    for one, other in zip(_by_name(forth), _by_name(back), strict=True):
        assert (one.name, one.launches, one.graph) == (other.name, other.launches, other.graph)
        assert one.seconds == pytest.approx(other.seconds)
    assert forth.step_seconds == pytest.approx(back.step_seconds)


def _by_name(seen: Observed) -> list[ObservedWork]:
    return sorted(seen.works, key=lambda work: work.name)


def test_events_that_stand_there_twice_count_once(tmp_path: Path) -> None:
    events = list(TraceWriter(STEP, noise=0).events())
    seen = look(tmp_path, TraceWriter([], steps=0, extra=[*events, *events]))
    assert {w.launches for w in seen.works} == {1}
    assert seen.notes == (f"{5 * len(STEP)} events repeated, and counted once",)


def test_kernels_that_are_missing_are_counted_and_their_steps_left_out(tmp_path: Path) -> None:
    events = list(TraceWriter(STEP, noise=0).events())
    last = [n for n, event in enumerate(events) if event["cat"] == "kernel"][-6:]
    left = [event for n, event in enumerate(events) if n not in last]
    seen = look(tmp_path, TraceWriter([], steps=0, extra=left))
    assert len(seen.steps) == 4
    micros = [each.micros for each in STEP]
    rest = sum(micros[:6]) + micros[-1]  # of the last step: six kernels and the copy
    part = rest / (4 * sum(micros) + rest)
    assert seen.notes == (
        "6 of 60 kernels that the host launched were not recorded",
        "1 of 5 steps are incomplete and left out",
        f"{part:.0%} of the recorded time lies outside of all whole steps",
    )


def test_of_several_gpus_the_busiest_is_taken(tmp_path: Path) -> None:
    events = list(TraceWriter(STEP, noise=0).events())
    other = [
        {**event, "ts": event["ts"] + 1, "dur": event["dur"] / 2,
         "args": {**event["args"], "device": 1}}
        for event in events if event["cat"] == "kernel"
    ]  # fmt: skip
    seen = look(tmp_path, TraceWriter([], steps=0, extra=[*events, *other]))
    assert {w.launches for w in seen.works} == {1}
    assert seen.notes == ("2 GPUs were recorded; this is number 0",)


def test_many_steps_are_added_up(tmp_path: Path) -> None:
    steps = 2 * MOST_STEPS + 1
    seen = look(tmp_path, TraceWriter(STEP[:2], steps=steps, noise=0.01))
    assert len(seen.steps) == len(seen.works[0].seconds) == -(-steps // 3)
    assert median(seen.works[1].seconds) == pytest.approx(21e-6, rel=0.01)
    assert seen.works[1].launches == 1


def test_a_clock_that_counts_in_microseconds_is_noticed(tmp_path: Path) -> None:
    whole = [Traced("a", 4.0), Traced("b", 11.0)]
    assert look(tmp_path, TraceWriter(whole, noise=0)).resolution == 1e-6
    assert look(tmp_path, TraceWriter(whole, noise=0.01)).resolution == 1e-9


def test_collective_kernels_are_communication(tmp_path: Path) -> None:
    names = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "triton_poi_fused_add_0")
    seen = look(tmp_path, TraceWriter([Traced(name, 30.0) for name in names], noise=0))
    assert sum_communication(seen) == pytest.approx(30e-6)
