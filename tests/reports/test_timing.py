"""Measured times in reports, against golden files (see test_reports)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import handmade_timing as made
import pytest
from golden import PLACES, check, screen, shown
from handmade import kernel, run
from handmade_timing import conclude_timed

from perfcli.diff.compare import compare
from perfcli.loading import registry
from perfcli.model import Comparison, Finding, GroupTiming, Report, TimeChange, Timing

Made = Callable[[], tuple[Comparison, Timing]]
ALL: dict[str, Made] = {
    "gpu": made.gpu,
    "cpu": made.cpu,
    "unsure": made.unsure,
    "same": made.same,
    "interrupted": made.interrupted,
}


def text_of(name: str, width: int = 100) -> str:
    return shown(screen().comparison(conclude_timed(*ALL[name]()), PLACES), width)


def with_timing(**more: object) -> Comparison:
    comparison, timing = made.gpu()
    return conclude_timed(comparison, replace(timing, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "width"),
    [("gpu", 80), ("gpu", 100), ("gpu", 120), ("cpu", 80), ("cpu", 120)]
    + [(name, 80) for name in ("unsure", "same", "interrupted")],
)
def test_what_was_measured(name: str, width: int) -> None:
    check(f"timing_{name}_{width}.txt", text_of(name, width))


def test_colours() -> None:
    check(
        "timing_colours.txt",
        shown(screen().comparison(conclude_timed(*made.gpu()), PLACES), colour=True),
    )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", range(54, 200, 9))
def test_no_width_breaks_the_layout(name: str, width: int) -> None:
    assert max(map(len, text_of(name, width).splitlines())) <= width


def test_narrow_tables_say_what_they_hide() -> None:
    assert "hidden at this width: of change, of step, rate, peak, copy\n" in text_of("gpu", 80)
    before, _, _ = text_of("gpu", 120).partition("Generated code")
    assert "hidden" not in before


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("gpu", "SLOWER  step 12.31 → 12.70 ms, +3.2 % [+2.6, +3.7], floor 1 %"),
        ("cpu", "SLOWER  step 361.0 → 512.0 µs, +41.8 % [+40.6, +43.0], floor 1.5 %"),
        ("unsure", "UNSURE  step 12.31 → 12.40 ms, +0.7 % [−0.2, +1.6], floor 1 %"),
        ("same", "SAME  step 12.31 → 12.32 ms, +0.1 % [−0.2, +0.4], floor 1 %"),
        ("interrupted", "UNSURE  step 12.31 → 12.70 ms, floor 1 %"),
    ],
)
def test_the_first_line_is_the_verdict_with_its_interval(name: str, first: str) -> None:
    assert text_of(name).splitlines()[0] == first


@pytest.mark.parametrize("name", ALL)
def test_brief_is_one_line(name: str) -> None:
    line = shown(screen().comparison(conclude_timed(*ALL[name]()), PLACES, brief=True), 80)
    assert line.count("\n") == 1
    assert line.startswith(text_of(name).splitlines()[0][:60])


def test_faster_and_worse_by_memory_have_their_words() -> None:
    comparison, timing = made.gpu()
    faster = conclude_timed(comparison, replace(timing, step=made.changed(12.7e-3, 12.3e-3)))
    assert shown(screen().comparison(faster)).startswith("FASTER  step ")
    prepared = tuple(
        replace(p, memory=replace(p.memory, peak_allocated_bytes=10**9))
        for p in timing.prepared
        if p.side == "base" and p.memory
    )
    worse = conclude_timed(
        comparison, replace(timing, step=faster_step(), prepared=(*prepared, timing.prepared[1]))
    )
    text = shown(screen().comparison(worse))
    assert text.startswith("WORSE  peak memory 1 GB → 1.5 GB (+50.2 %)\n")
    assert "though  step 12.70 → 12.30 ms, −3.1 % [−3.6, −2.6], floor 1 %, spilled" not in text


def faster_step() -> TimeChange:
    return made.changed(12.7e-3, 12.3e-3)


def test_the_finding_of_the_kernel_to_blame_is_the_cause() -> None:
    comparison = conclude_timed(*made.gpu())
    name = comparison.head.kernels[0].name
    finding = Finding("PC103", "error", f"{name} fuses 17 reads", (0,), appearance="new")
    text = shown(screen().comparison(replace(comparison, findings=(finding,))))
    lines = text.splitlines()
    assert lines[1].startswith("cause   PC103 triton_")
    assert lines[1].endswith(" fuses 17 reads")
    assert lines[2].startswith("kernel  triton_")


def test_many_kernels_end_in_one_line_and_controls_are_counted() -> None:
    comparison, timing = made.gpu()
    first = timing.groups[0]
    some = [
        replace(first, name=f"k{n}", change=made.changed(1e-3, 1e-3 + n * 1e-6)) for n in range(20)
    ]
    controls = [replace(first, control=True, change=made.changed(1e-3, 1.001e-3))] * 3
    text = shown(
        screen().comparison(conclude_timed(comparison, replace(timing, groups=(*some, *controls))))
    )
    assert "… 8 more, 3 with the same code, together +31 µs: --json FILE has them all" in text
    _, _, table = text.partition("Kernels by time, largest changes first\n")
    names = [line.split()[1] for line in table.splitlines()[2:14]]
    assert names == [f"k{n}" for n in range(19, 7, -1)]


def test_kernels_that_were_not_timed_have_no_row() -> None:
    comparison, timing = made.gpu()
    bare = [replace(g, change=TimeChange(None, None)) for g in timing.groups]
    text = shown(
        screen().comparison(conclude_timed(comparison, replace(timing, groups=(bare[0],))))
    )
    assert "Kernels by time" not in text
    assert "\n… 1 not timed: --json FILE has them all\n" in text
    one = replace(timing, groups=(timing.groups[0], *bare[1:]))
    assert "\n… 4 not timed: --json" in shown(screen().comparison(conclude_timed(comparison, one)))


def test_why_kernels_are_unsure_is_said_once() -> None:
    assert "\nunsure: its times spread by 2.4 %\n" in text_of("gpu")
    comparison, timing = made.gpu()
    neg = timing.groups[1]
    other = replace(neg, change=replace(neg.change, why="7 rounds are too few"))
    text = shown(
        screen().comparison(conclude_timed(comparison, replace(timing, groups=(other, neg, other))))
    )
    assert "\nunsure (2 of 3): 7 rounds are too few\n" in text


def test_a_control_that_is_told_apart_is_shown() -> None:
    comparison, timing = made.gpu()
    kept = replace(timing.groups[3], change=made.changed(6e-3, 6.3e-3))
    text = shown(screen().comparison(conclude_timed(comparison, replace(timing, groups=(kept,)))))
    assert "_kept_9 same code  6.000 → 6.300 ms" in text


def test_joined_launches_are_said() -> None:
    text = shown(screen().comparison(with_timing(joined=(53, 53))))
    assert "joined    53 of 53 launches with their kernel's facts\n" in text
    text = shown(screen().comparison(with_timing(joined=(51, 53))))
    assert "joined    51 of 53 launches with their kernel's facts\n" in text


def test_what_tells_the_time_of_several_devices_is_said() -> None:
    _, timing = made.gpu()
    ranks = tuple(
        replace(side, ranks=(side.machine, replace(side.machine, device_index=1)))
        for side in timing.prepared
    )
    alone = shown(screen().comparison(with_timing(device_clock="profiler"), PLACES), 120)
    several = shown(
        screen().comparison(with_timing(device_clock="profiler", prepared=ranks), PLACES), 120
    )
    assert "by the profiler, all kernels together" in alone
    words = " ".join(several.split())
    assert "with kernels on the rank that waits least for the others" in words
    assert "with each collective on the rank that waits least in it" in words


def test_sides_that_differ_have_a_line_each() -> None:
    comparison, timing = made.gpu()
    base, head = timing.prepared
    head = replace(head, machine=replace(head.machine, device="NVIDIA H100", driver=None))
    text = shown(
        screen().comparison(conclude_timed(comparison, replace(timing, prepared=(base, head))))
    )
    assert "device    base: NVIDIA H200, driver 580.65.06\n" in text
    assert "device    head: NVIDIA H100\n" in text


def test_what_comes_from_outside_is_shown_without_escapes() -> None:
    comparison, timing = made.gpu()
    bad = GroupTiming(None, "aten::\x1b[31mmm", made.changed(1e-3, 2e-3))
    base, head = timing.prepared
    base = replace(base, machine=replace(base.machine, device="H\x1b[31m"), notes=("n\x1b",))
    timing = replace(timing, groups=(bad,), prepared=(base, head), notes=("note\x1b[31m",))
    for brief in (False, True):
        assert "\x1b" not in shown(
            screen().comparison(conclude_timed(comparison, timing), PLACES, brief)
        )


def test_kernels_are_listed_by_time_where_it_was_measured() -> None:
    """The code says that b got worse by more; the clock that a did."""
    base = [kernel("a", "1"), kernel("b", "2")]
    head = [kernel("a", "1", text="x", stack=8), kernel("b", "2", text="y", stack=80)]
    comparison = compare(run(base), run(head, id="head"))
    assert first_changed(comparison) == "b"
    groups = (
        GroupTiming(made.group_of(comparison, "a"), "a", made.changed(1e-3, 2e-3)),
        GroupTiming(made.group_of(comparison, "b"), "b", made.changed(1e-3, 1.1e-3)),
    )
    timing = replace(made.gpu()[1], groups=groups)
    assert first_changed(conclude_timed(comparison, timing)) == "a"


def first_changed(comparison: Comparison) -> str:
    _, _, table = shown(screen().comparison(comparison)).partition("Kernels that changed")
    return next(line.split()[2] for line in table.splitlines() if line.startswith("−"))


# --- JSON ------------------------------------------------------------------------------------


def test_json() -> None:
    text = registry.load_declared("reports", "json", Report).render(conclude_timed(*made.gpu()))
    timing = json.loads(text)["timing"]
    assert timing["step"]["ratio"] == pytest.approx(12.70 / 12.31)
    assert timing["step"]["delta"] == pytest.approx(0.39e-3)
    assert [group["group"] for group in timing["groups"]][-1] is None
    new = timing["groups"][2]
    assert (new["base"], new["ratio"], new["delta"]) == (None, None, 11e-6)
    check("timing.json", json.dumps(timing, indent=1, ensure_ascii=False) + "\n")


def test_json_without_a_measurement() -> None:
    text = registry.load_declared("reports", "json", Report).render(made.gpu_runs())
    assert json.loads(text)["timing"] is None
