"""What measured times make of a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import handmade_timing as made
import pytest

from perfcli.diff.verdict.conclude import conclude
from perfcli.diff.verdict.decide import (
    _compare_memory,
    _find_main_cause,
    _is_sure,
    _judge_memory,
    _state_memory,
    decide_by_code,
)
from perfcli.diff.verdict.words import (
    _advise,
    _advise_between,
    _choose_decimals,
    _estimate_seconds,
    _join_times,
    _write_gain,
    _write_share,
    _write_statement,
    _write_time,
)
from perfcli.model import (
    Because,
    Change,
    Comparison,
    DeviceState,
    Finding,
    Floor,
    GroupTiming,
    KernelGroup,
    Match,
    MemoryUse,
    Outcome,
    Severity,
    TimeChange,
    TimeVerdict,
    Timing,
)

MB = 10**6
ONE_PERCENT = Floor(0.01, "assumed")


def with_memory(timing: Timing, base: int, head: int, method: str = "caching allocator") -> Timing:
    peaks = {"base": base, "head": head}
    prepared = (replace(p, memory=MemoryUse(peaks[p.side], None, method)) for p in timing.prepared)
    return replace(timing, prepared=tuple(prepared))


@pytest.mark.parametrize(
    ("verdict", "head", "outcome"),
    [
        ("slower", 1000, "worse"),
        ("slower", 500, "worse"),
        ("unsure", 1000, "unknown"),
        ("unsure", 2000, "unknown"),
        ("same", 1000, "same"),
        ("same", 2000, "worse"),
        ("same", 500, "better"),
        ("faster", 1000, "better"),
        ("faster", 500, "better"),
        ("faster", 2000, "worse"),
    ],
)
def test_time_decides_and_memory_beside_it(
    verdict: TimeVerdict, head: int, outcome: Outcome
) -> None:
    comparison, timing = made.gpu()
    timing = with_memory(timing, 1000 * MB, head * MB)
    timing = replace(timing, step=replace(timing.step, verdict=verdict))
    assert made.conclude_timed(comparison, timing).outcome == outcome


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        (1000, 1009, "same"),
        (1000, 1011, "worse"),
        (1000, 989, "better"),
        (10, 10.9, "same"),  # 9 %, but less than 1 MiB
        (10, 11.2, "worse"),
    ],
)
def test_memory_has_to_change_by_a_percent_and_a_mebibyte(
    base: float, head: float, outcome: Outcome
) -> None:
    comparison, timing = made.gpu()
    found = _compare_memory(comparison, with_memory(timing, int(base * MB), int(head * MB)))
    assert found is not None
    assert found.outcome == outcome


def test_a_processs_resident_set_is_no_judge() -> None:
    comparison, timing = made.gpu()
    timing = with_memory(timing, 500 * MB, 900 * MB, "resident set of the process")
    assert _compare_memory(comparison, timing) == Change("peak_memory_bytes", 1e9, 1e9, "same")


def test_without_any_memory_the_time_decides_alone() -> None:
    comparison, timing = made.cpu()
    assert _compare_memory(comparison, timing) is None
    faster = replace(timing, step=made.changed(2e-3, 1e-3))
    assert made.conclude_timed(comparison, faster).outcome == "better"


def with_finding(severity: Severity) -> Comparison:
    finding = Finding("PC205", severity, "it leaves 124 SMs idle", (0,), appearance="new")
    return conclude(replace(made.gpu_runs(), findings=(finding,)))


def test_what_was_measured_says_nothing_of_the_code() -> None:
    comparison, timing = made.same()
    assert made.conclude_timed(comparison, timing).outcome == "same"
    assert decide_by_code(replace(comparison, timing=timing)) == "worse"


def test_a_sure_time_overrules_what_findings_said() -> None:
    _, timing = made.same()
    severities: tuple[Severity, ...] = ("error", "warning")
    for severity in severities:
        weighed = made.conclude_timed(with_finding(severity), timing)
        assert weighed.outcome == "same"
        assert weighed.reason == (
            "step 12.31 → 12.32 ms, +0.1 % [−0.2, +0.4], floor 1 %, though spilled words 0 → 92"
        )


# --- the reason ------------------------------------------------------------------------------


def test_a_change_just_beyond_the_floor_is_seen_to_be() -> None:
    comparison, timing = made.gpu()
    step = made.changed(12.31e-3, 12.31e-3 * 1.0104, half=0.003, verdict="slower")
    weighed = made.conclude_timed(comparison, replace(timing, step=step))
    assert weighed.because is not None
    assert ", +1.04 % [+0.74, +1.34], floor 1 %" in weighed.because.change


def test_the_reason_keeps_the_static_cause_of_the_kernel_that_adds_most() -> None:
    weighed = made.conclude_timed(*made.gpu())
    name = "triton_red_fused__to_copy_add_mul_native_layer_norm_backward_sum_4"
    assert weighed.reason == (
        f"step 12.31 → 12.70 ms, +3.2 % [+2.6, +3.7], floor 1 %: {name} fuses 3 kernels "
        "(3.104 → 3.464 ms, 92 % of the change; "
        "3 kernels, 14 loads → 1 kernel, 17 loads, +92 spilled words)"
    )
    assert weighed.because is not None
    assert weighed.because.also == ""  # the spilled words are those of this kernel


def test_where_it_got_faster_the_kernel_that_gained_most_is_named() -> None:
    comparison, timing = made.gpu()
    faster = tuple(
        replace(g, change=made.changed(g.change.head, g.change.base)) for g in timing.groups
    )
    weighed = made.conclude_timed(
        comparison, replace(timing, step=made.changed(12.7e-3, 12.31e-3), groups=faster)
    )
    assert weighed.because is not None
    assert weighed.because.kernel.startswith("triton_red_fused__to_copy_add")
    assert weighed.because.though == "spilled words 0 → 92"


def test_an_extern_operator_can_be_to_blame() -> None:
    comparison, timing = made.gpu()
    *others, mm = timing.groups
    mm = replace(mm, change=made.changed(1.951e-3, 2.9e-3))
    weighed = made.conclude_timed(comparison, replace(timing, groups=(*others, mm)))
    assert weighed.because is not None
    assert (weighed.because.kernel, weighed.because.group) == ("aten::mm", None)
    assert weighed.because.also == "spilled words 0 → 92"


def test_a_kernel_that_explains_little_is_not_blamed() -> None:
    comparison, timing = made.gpu()
    bare = made.conclude_timed(comparison, replace(timing, groups=()))
    assert bare.reason == "step 12.31 → 12.70 ms, +3.2 % [+2.6, +3.7], floor 1 %"
    none = tuple(g for g in timing.groups if (g.delta or 0.0) < 50e-6)
    weighed = made.conclude_timed(comparison, replace(timing, groups=none))
    assert weighed.because is not None
    assert weighed.because.kernel == ""
    assert weighed.reason == (
        "step 12.31 → 12.70 ms, +3.2 % [+2.6, +3.7], floor 1 %: no kernel's time explains it"
    )
    assert weighed.because.also == "spilled words 0 → 92"


def test_a_kernel_whose_change_is_sure_is_blamed_before_one_whose_is_not() -> None:
    comparison, timing = made.gpu()
    fused, neg, *others = timing.groups
    noisy = replace(fused, change=replace(fused.change, verdict="unsure"))
    sure = replace(neg, change=made.changed(812e-6, 912e-6))
    weighed = made.conclude_timed(comparison, replace(timing, groups=(noisy, sure, *others)))
    assert weighed.because is not None
    assert weighed.because.kernel == neg.name
    weighed = made.conclude_timed(comparison, replace(timing, groups=(noisy, *others)))
    assert weighed.because is not None
    assert weighed.because.share == "3.104 → 3.464 ms (unsure), 92 % of the change"


def test_memory_that_decides_is_the_reason_and_time_stands_beside_it() -> None:
    comparison, timing = made.same()
    weighed = made.conclude_timed(comparison, with_memory(timing, 1000 * MB, 1500 * MB))
    assert weighed.because is not None
    assert weighed.because.change == "peak memory 1 GB → 1.5 GB (+50 %)"
    assert weighed.because.also == "spilled words 0 → 92"
    assert weighed.because.though == "step 12.31 → 12.32 ms, +0.1 % [−0.2, +0.4], floor 1 %"


# --- what would help -------------------------------------------------------------------------


def helped(step: TimeChange, **more: object) -> str:
    comparison, timing = made.unsure()
    because = made.conclude_timed(comparison, replace(timing, step=step, **more)).because  # type: ignore[arg-type]
    assert because is not None
    return because.help


def test_a_longer_budget_that_makes_the_interval_narrow_enough_is_named() -> None:
    """Half as wide takes four times as long: ±0.6 % in 20 s, ±0.25 % in 115 s."""
    step = made.changed(1e-3, 1.007e-3, 0.006, "unsure")
    assert helped(step) == "--budget 120 may tell"
    assert helped(step, seconds=10.0) == "--budget 60 may tell"


def test_noise_that_no_budget_cures_needs_a_quieter_machine() -> None:
    step = made.changed(1e-3, 1.0e-3, 0.2, "unsure")
    assert helped(step) == "a quieter machine"
    busy = {"base": DeviceState(others_utilisation=0.4)}
    assert helped(step, states=busy) == "a quieter machine (others kept 40 % of it busy)"


def test_a_change_at_the_floor_is_not_told_by_measuring_on() -> None:
    step = made.changed(1e-3, 1.0099e-3, 0.001, "unsure")
    assert "about as large as the floor" in helped(step)
    assert "about as large" in helped(step, floor=Floor(0.01, "assumed"), seconds=20.0)


def test_an_interrupted_measurement_says_so() -> None:
    weighed = made.conclude_timed(*made.interrupted())
    assert weighed.outcome == "unknown"
    assert weighed.because is not None
    assert (weighed.because.why, weighed.because.help) == (
        "3 rounds are too few",
        "let it run to the end",
    )


# --- each part at its bounds -----------------------------------------------------------------


def timed(step: TimeChange, floor: Floor = ONE_PERCENT, **more: Any) -> Timing:
    return Timing(step, floor, **{"seconds": 20.0, **more})


def step(
    ratio: float | None, low: float | None, high: float | None, rounds: int = 60
) -> TimeChange:
    return TimeChange(1e-3, 1e-3, ratio, low, high, rounds=rounds)


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ([0.1], "a quieter machine (others kept 10 % of it busy)"),
        ([0.0999], "a quieter machine"),
        ([None, 0.3, 0.2], "a quieter machine (others kept 30 % of it busy)"),
        ([None], "a quieter machine"),
        ([], "a quieter machine"),
    ],
)
def test_others_are_named_from_a_tenth_on(shares: list[float | None], text: str) -> None:
    states = {str(n): DeviceState(others_utilisation=each) for n, each in enumerate(shares)}
    bare = timed(step(None, None, None), states=states)
    assert _advise(bare) == text
    longer = _advise(timed(step(1.007, 1.001, 1.013), states=states))
    beside = f", or {text}" if "busy" in text else ""
    assert longer == f"--budget 120 may tell{beside}"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "beyond"),
    [
        (1.03, 1.02, 1.04, True),
        (1.03, 1.0101, 1.05, True),
        (1.03, 1.01, 1.05, False),  # exactly the margin
        (0.97, 0.96, 0.99, True),
        (0.97, 0.95, 1 / 1.01, False),
        (1.04, 1.02, 1.06, True),  # exactly the floor
        (1.041, 1.02, 1.06, False),
        (1 / 1.041, 0.95, 0.98, False),
        (1 / 1.039, 0.95, 0.98, True),
        (None, 1.02, 1.04, False),
        (1.03, None, 1.04, False),
        (1.03, 1.02, None, False),
    ],
)
def test_between_margin_and_floor_no_time_helps(
    ratio: float | None, low: float | None, high: float | None, beyond: bool
) -> None:
    floor = Floor(0.04, "perfcli noise", margin=0.01)
    assert _advise_between(timed(step(ratio, low, high), floor)) == (
        "the change is larger than the margin of 1 % and below the floor of 4 %: "
        "a quieter machine lowers the floor"
        if beyond
        else ""
    )


@pytest.mark.parametrize(
    ("change", "floor", "seconds"),
    [
        # As narrow as a quarter of the floor, 0.25 %: ±0.5 % takes four times as long.
        (step(1.0, 0.995, 1.005), Floor(0.01, ""), 80.0),
        (step(1.0, 0.995, 1.005), Floor(0.04, "", margin=0.01), 80.0),
        # A tenth of a change of 10 % is 1 %: a quarter of what was spent.
        (step(1.1, 1.095, 1.105), Floor(0.01, ""), 5.0),
        (step(0.9, 0.895, 0.905), Floor(0.01, ""), 5.0),
        (step(1.0, 0.995, 1.005), Floor(0.0, ""), None),
        (step(None, 0.995, 1.005), Floor(0.01, ""), None),
        # Eight rounds are needed.
        (step(1.0, None, None, 4), Floor(0.01, ""), 40.0),
        (step(1.0, None, 1.005, 1), Floor(0.01, ""), 160.0),
        (step(1.0, 0.995, None, 7), Floor(0.01, ""), 160 / 7),
        (step(1.0, None, None, 8), Floor(0.01, ""), None),
        (step(1.0, None, None, 0), Floor(0.01, ""), None),
    ],
)
def test_how_long_it_would_take(change: TimeChange, floor: Floor, seconds: float | None) -> None:
    expected = None if seconds is None else pytest.approx(seconds)
    assert _estimate_seconds(timed(change, floor)) == expected
    assert _estimate_seconds(timed(change, floor, seconds=0.0)) is None


@pytest.mark.parametrize(
    ("half", "advice"),
    [
        (0.0025, "the change is about as large as the floor: a quieter machine may tell"),
        (0.00251, "--budget 30 may tell"),
        (0.003061, "--budget 30 may tell"),  # 29.98 s
        (0.003063, "--budget 60 may tell"),  # 30.02 s
        (0.0193, "--budget 1200 may tell"),  # 1192 s
        (0.0194, "a quieter machine"),  # 1204 s
    ],
)
def test_the_least_budget_that_is_enough_is_proposed(half: float, advice: str) -> None:
    assert _advise(timed(step(1.0, 1 - half, 1 + half))) == advice


def test_what_is_as_large_as_the_margin_says_so() -> None:
    lower = timed(step(1.0, 0.999, 1.001), Floor(0.04, "", margin=0.01))
    assert "about as large as the margin:" in _advise(lower)


# --- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        (2**20, 2**21, "same"),  # exactly 1 MiB more
        (2**20, 2**21 + 1, "worse"),
        (2**21 + 1, 2**20, "better"),
        (2**21, 2**20, "same"),
        (10**9, 10**9 + 10**7, "same"),  # exactly 1 %
        (10**9, 10**9 + 10**7 + 1, "worse"),
        (10**9, 10**9 - 10**7 - 1, "better"),
        (0, 0, "same"),
    ],
)
def test_least_memory(base: int, head: int, outcome: Outcome) -> None:
    assert _judge_memory(base, head) == outcome


@pytest.mark.parametrize("missing", ["base", "head"])
def test_memory_has_to_be_counted_on_both_sides(missing: str) -> None:
    comparison, timing = made.gpu()
    counted = with_memory(timing, 500 * MB, 900 * MB)
    assert _compare_memory(comparison, counted) == Change(
        "peak_memory_bytes", 500 * MB, 900 * MB, "worse"
    )
    estimate = Change("peak_memory_bytes", 1e9, 1e9, "same")
    for memory in (None, MemoryUse(None, None, "caching allocator")):
        one = (
            replace(p, memory=memory if p.side == missing else p.memory) for p in counted.prepared
        )
        assert _compare_memory(comparison, replace(counted, prepared=tuple(one))) == estimate
    mixed = (
        replace(p, memory=MemoryUse(5, 5, "resident set") if p.side == missing else p.memory)
        for p in counted.prepared
    )
    assert _compare_memory(comparison, replace(counted, prepared=tuple(mixed))) == estimate


@pytest.mark.parametrize(
    ("outcome", "texts"),
    [
        ("worse", ["peak memory 1 kB → 2 kB (+100 %)"]),
        ("better", ["peak memory 1 kB → 2 kB (+100 %)"]),
        ("same", []),
        ("unknown", []),
    ],
)
def test_memory_that_changed_is_stated(outcome: Outcome, texts: list[str]) -> None:
    stated = _state_memory(Change("peak_memory_bytes", 1000, 2000, outcome))
    assert [(_write_statement(each), each.outcome) for each in stated] == [
        (text, outcome) for text in texts
    ]
    assert _state_memory(None) == []


# --- whom to blame ---------------------------------------------------------------------------


def group(
    name: str, base: float | None, head: float | None, sure: bool = True, number: int | None = 0
) -> GroupTiming:
    ratio = None if base is None or head is None else head / base
    verdict: TimeVerdict = "same" if sure else "unsure"
    return GroupTiming(number, name, TimeChange(base, head, ratio, verdict=verdict))


def extern(name: str, base: float, head: float, sure: bool = True) -> GroupTiming:
    return group(name, base, head, sure, None)


def control(name: str, base: float, head: float, sure: bool = True) -> GroupTiming:
    return replace(group(name, base, head, sure), control=True)


@pytest.mark.parametrize(
    ("groups", "name"),
    [
        ([group("a", 1.0, 1.3)], "a"),
        ([group("a", 1.0, 1.2)], None),  # exactly a fifth explains too little
        ([group("a", 1.0, 1.201)], "a"),
        ([group("a", 1.0, 1.3), group("b", 1.0, 1.4)], "b"),
        ([group("a", 1.0, 1.3), group("b", 1.0, 1.4, sure=False)], "a"),
        ([group("a", 1.0, 1.1), group("b", 1.0, 1.4, sure=False)], "b"),
        ([extern("mm", 1.0, 2.2, sure=False), group("a", 1.0, 1.3)], "a"),
        ([extern("mm", 1.0, 2.2, sure=False), group("a", 1.0, 1.1)], None),
        ([extern("mm", 1.0, 2.2, sure=False), group("a", 1.0, 1.3, sure=False)], "a"),
        ([control("b", 1.0, 2.2, sure=False), group("a", 1.0, 1.1)], None),
        ([extern("mm", 1.0, 2.2), group("a", 1.0, 1.3)], "mm"),
        ([control("b", 1.0, 2.2)], "b"),
        ([group("a", 1.0, 0.5)], None),
        ([group("a", None, 0.5, sure=False), group("b", 1.0, 1.9, sure=False)], "a"),
        ([group("a", None, None, sure=False), group("b", 1.0, 1.9, sure=False)], "b"),
        ([], None),
    ],
)
def test_what_explains_more_than_a_fifth_is_blamed(
    groups: list[GroupTiming], name: str | None
) -> None:
    """The step takes a second more."""
    slower = TimeChange(4.0, 5.0, 1.25, verdict="slower")
    cause = _find_main_cause(timed(slower, groups=tuple(groups)))
    assert (cause.name if cause else None) == name
    mirrored = tuple(
        replace(g, change=replace(g.change, base=g.change.head, head=g.change.base, ratio=None))
        for g in groups
    )
    faster = TimeChange(4.0, 3.0, 0.75, verdict="faster")
    cause = _find_main_cause(timed(faster, groups=mirrored))
    assert (cause.name if cause else None) == name
    for verdict in ("same", "unsure"):
        undecided = timed(replace(slower, verdict=verdict), groups=tuple(groups))
        assert _find_main_cause(undecided) is None
    assert _find_main_cause(timed(replace(slower, ratio=1.0), groups=tuple(groups))) is None
    assert _find_main_cause(timed(replace(slower, ratio=None), groups=tuple(groups))) is None


@pytest.mark.parametrize(
    ("base", "head", "sure", "is_sure"),
    [
        (1.0, 2.0, True, True),
        (1.0, 2.0, False, False),
        (None, 2.0, False, True),
        (1.0, None, False, True),
        (None, None, False, False),
    ],
)
def test_what_one_side_alone_launches_is_sure(
    base: float | None, head: float | None, sure: bool, is_sure: bool
) -> None:
    assert _is_sure(group("a", base, head, sure)) is is_sure


def test_the_share_is_of_the_change() -> None:
    assert _write_share(1e-3, 1.5e-3, 0.5) == "1.000 → 1.500 ms, 50 % of the change"
    assert _write_share(1e-3, 1.5e-3, 0.5, sure=False) == (
        "1.000 → 1.500 ms (unsure), 50 % of the change"
    )
    assert _write_share(None, 1e-3, 1 / 3) == "– → 1.000 ms, 33 % of the change"
    assert _write_share(None, None, 0.0) == "– → –, 0 % of the change"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([], ""),
        ([("loads", 1, 5)], ""),  # decides nothing
        ([("bytes_moved", 1000, 3000)], ", +2 kB bytes moved"),
        ([("bytes_moved", 1000, 3000), ("spilled_words", 2, 0)], ", −2 spilled words"),
        ([("spilled_words", 2, 2), ("bytes_moved", 1000, 3000)], ", +2 kB bytes moved"),
        ([("spilled_words", None, 2)], ""),
    ],
)
def test_what_weighs_most_of_a_groups_code_is_said(
    changes: list[tuple[str, float | None, float | None]], text: str
) -> None:
    found = tuple(Change(metric, base, head, "worse") for metric, base, head in changes)
    assert _write_gain(KernelGroup(Match((0,), (0,), "changed", "", 1.0), found)) == text


def test_a_control_and_an_extern_operator_are_said_to_be() -> None:
    comparison, timing = made.gpu()
    kept = next(each for each in timing.groups if each.control)
    slower = replace(kept, change=made.changed(6.02e-3, 6.5e-3))
    because = made.conclude_timed(comparison, replace(timing, groups=(slower,))).because
    assert because is not None
    assert (because.how, because.sums) == ("is the same code on both sides", "")
    *_, mm = timing.groups
    slower = replace(mm, change=made.changed(1.951e-3, 2.9e-3))
    weighed = made.conclude_timed(comparison, replace(timing, groups=(slower,)))
    assert weighed.reason.startswith(
        "step 12.31 → 12.70 ms, +3.2 % [+2.6, +3.7], floor 1 %: aten::mm runs extern code ("
    )


def test_where_nothing_is_timed_by_kernel_nothing_is_said_of_them() -> None:
    comparison, timing = made.gpu()
    untimed = tuple(replace(g, change=TimeChange(None, None)) for g in timing.groups)
    weighed = made.conclude_timed(comparison, replace(timing, groups=untimed))
    assert weighed.because is not None
    assert weighed.because.share == ""


@pytest.mark.parametrize(
    ("ratio", "floor", "decimals"),
    [
        (1.0109, 0.01, 2),
        (1.0111, 0.01, 0),
        (1.0091, 0.01, 2),
        (1.0089, 0.01, 0),
        (1 / 1.0105, 0.01, 2),
        (1 / 1.0115, 0.01, 0),
        (None, 0.0005, 2),
        (None, 0.01, 0),
    ],
)
def test_decimals_that_tell_a_change_from_the_floor(
    ratio: float | None, floor: float, decimals: int
) -> None:
    assert _choose_decimals(timed(step(ratio, None, None), Floor(floor, ""))) == decimals


@pytest.mark.parametrize(
    ("because", "text"),
    [
        (Because("t"), "t"),
        (Because("t", share="s"), "t: s"),
        (Because("t", kernel="k", how="h", share="s", sums="u"), "t: k h (s; u)"),
        (Because("t", kernel="k", how="h", sums="u"), "t: k h (u)"),
        (Because("t", why="w", help="p", though="g"), "t; w; p, though g"),
        (Because("t", help="p"), "t; p"),
    ],
)
def test_a_reason_is_written_of_its_parts(because: Because, text: str) -> None:
    assert _join_times(because) == text


def test_a_step_that_has_no_ratio_is_written_without_one() -> None:
    assert _write_time(timed(TimeChange(1e-3, None))) == "step 1.000 ms → –, floor 1 %"
    assert _write_time(timed(step(1.031, None, None))).endswith("ms, +3.1 %, floor 1 %")
