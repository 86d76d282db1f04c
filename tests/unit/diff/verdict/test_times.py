"""What measured times make of a verdict."""

from __future__ import annotations

from dataclasses import replace

import handmade_timing as made
import pytest

from perfcli.diff.verdict.conclude import conclude
from perfcli.diff.verdict.times import _compare_memory
from perfcli.model import (
    Change,
    Comparison,
    DeviceState,
    Finding,
    Floor,
    MemoryUse,
    Outcome,
    Severity,
    TimeChange,
    TimeVerdict,
    Timing,
)

MB = 10**6


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
