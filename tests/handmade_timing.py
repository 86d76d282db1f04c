"""Hand-made measurements for tests: a GPU's and a CPU's, and what can become of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.diff.verdict.conclude import conclude
from perfcli.model import (
    Comparison,
    DeviceState,
    ExternCall,
    Floor,
    GroupTiming,
    Machine,
    MeasuredLaunch,
    MemoryUse,
    OutputCheck,
    Prepared,
    SideName,
    TimeChange,
    TimeVerdict,
    Timing,
    Variant,
)


def conclude_timed(comparison: Comparison, timing: Timing) -> Comparison:
    return conclude(replace(comparison, timing=timing))


H200 = Machine(
    device="NVIDIA H200",
    torch="2.11.0+cu130",
    triton="3.6.0",
    ptxas="13.0",
    python="3.12.1",
    driver="580.65.06",
    device_index=0,
    facts={"max_sm_clock_mhz": 1980, "power_limit_watts": 700, "fixed_layout": True},
)
XEON = Machine(
    device="Intel(R) Xeon(R) Platinum 8481C",
    torch="2.13.0+cpu",
    python="3.11.7",
    threads=1,
    cpus=(0,),
    facts={"cores": 2, "governor": "performance", "fixed_layout": True},
)


def changed(
    base: float | None,
    head: float | None,
    half: float = 0.005,
    verdict: TimeVerdict | None = None,
    **more: Any,
) -> TimeChange:
    """Head over base, with an interval of ``half`` to both sides; the verdict at a floor of 1 %."""
    if not base or not head:
        return TimeChange(base, head, verdict="slower" if head else "faster", rounds=60)
    ratio = head / base
    if verdict is None:
        verdict = "same" if abs(ratio - 1) + half <= 0.01 else "unsure"
        if abs(ratio - 1) - half > 0 and abs(ratio - 1) > 0.01:
            verdict = "slower" if ratio > 1 else "faster"
    return TimeChange(base, head, ratio, ratio - half, ratio + half, 0.5, verdict, 60, **more)


def prepared(side: SideName, machine: Machine, **more: Any) -> Prepared:
    given: dict[str, Any] = {
        "process": 0,
        "step_seconds": 12.3e-3,
        "compile_seconds": 21.4 if side == "base" else 23.9,
        "launch_count": 44 if side == "base" else 42,
        "check": OutputCheck(2.1e-3, 1e-2, "the model run eagerly"),
    }
    return Prepared(side, machine=machine, **{**given, **more})


# --- on a GPU --------------------------------------------------------------------------------


def gpu_runs() -> Comparison:
    """Three kernels fused into one that spills, a changed and a new one, one that is identical."""
    base = [
        kernel("triton_red_fused__to_copy_mul_sum_4", "1", "2", loads=6, registers=40),
        kernel("triton_red_fused_add_mul_5", "3", "4", loads=5, registers=36),
        kernel("triton_per_fused_add_native_layer_norm_backward_sum_6", "5", "6", loads=3),
        kernel("triton_poi_fused_neg_8", "10", registers=20),
        kernel("triton_poi_fused_kept_10", "12", launches=11),
    ]
    head = [
        kernel(
            "triton_red_fused__to_copy_add_mul_native_layer_norm_backward_sum_4",
            *("1", "2", "3", "4", "5", "6"),
            loads=17,
            stores=3,
            stack=368,
            registers=255,
            read=9 * 10**8,
        ),
        kernel("triton_poi_fused_neg_7", "10", registers=22, text="changed"),
        kernel("triton_poi_fused_new_8", "13"),
        kernel("triton_poi_fused_kept_9", "12", launches=11, text="triton_poi_fused_kept_10"),
    ]
    externs = (ExternCall("aten.mm", "forward 0", 12),)
    option = {"triton.mix_order_reduction_max_reads": 1000}
    variant = Variant("triton.mix_order_reduction_max_reads=1000", option)
    return compare(
        run(base, id="base-id", variant=Variant("default"), externs=externs, peak=10**9),
        run(head, id="head-id", variant=variant, externs=externs, peak=10**9),
    )


def group_of(comparison: Comparison, head: str) -> int:
    """The group that holds a kernel of the head."""
    kernels = comparison.head.kernels
    groups = enumerate(comparison.groups)
    return next(n for n, g in groups if any(kernels[k].name == head for k in g.match.head))


def gpu_timing(comparison: Comparison) -> Timing:
    """The fused kernel costs 360 of the step's 390 µs."""
    fused, neg, new, kept = (k.name for k in comparison.head.kernels)
    known: dict[str, Any] = {
        "base_bandwidth": 2.62e12,
        "head_bandwidth": 2.41e12,
        "peak_share": 0.502,
        "copy_share": 0.584,
    }
    groups = (
        GroupTiming(
            group_of(comparison, fused),
            fused,
            changed(3.104e-3, 3.464e-3),
            share_of_step=0.261,
            share_of_change=0.923,
            **known,
        ),
        GroupTiming(
            group_of(comparison, neg),
            neg,
            changed(812e-6, 809e-6, 0.012, why="its times spread by 2.4 %"),
            share_of_step=0.068,
            share_of_change=-0.008,
        ),
        GroupTiming(
            group_of(comparison, new),
            new,
            changed(None, 11e-6),
            share_of_step=0.001,
            share_of_change=0.028,
        ),
        GroupTiming(
            group_of(comparison, kept),
            kept,
            changed(6.02e-3, 6.03e-3, 0.003),
            control=True,
            share_of_step=0.506,
            share_of_change=0.026,
            **known,
        ),
        GroupTiming(
            None,
            "aten::mm",
            changed(1.951e-3, 1.955e-3, 0.004),
            share_of_step=0.164,
            share_of_change=0.010,
        ),
    )
    timeline = ((0.0, 1_073_741_824), (0.0041, 1_502_000_000), (0.0123, 1_073_741_824))
    memory = MemoryUse(1_502_000_000, 1_610_612_736, "caching allocator", timeline)
    launches = (MeasuredLaunch(fused, "forward 0", grid=(64, 1, 1), block=(256, 1, 1)),)
    return Timing(
        changed(12.31e-3, 12.70e-3, 0.0055, "slower"),
        Floor(0.01, "assumed", 0.02),
        wall=changed(12.52e-3, 12.91e-3, 0.008),
        kernels_total=changed(11.89e-3, 12.27e-3, 0.003),
        groups=groups,
        unexplained=8e-6,
        prepared=(
            prepared("base", H200, memory=memory, copy_bandwidth=4.13e12),
            prepared("head", H200, memory=memory, launches=launches, copy_bandwidth=4.13e12),
        ),
        seconds=18.4,
        seed=7,
        method="a pair of workers, interleaved",
        stopped="precise enough",
        measurement="261121-190000-abcd",
        joined=(53, 53),
        states={
            "base": DeviceState(1965.0, 3201.0, 512.0, 51.0),
            "head": DeviceState(1935.0, 3201.0, 540.0, 52.0, ("power cap",), 0.02),
        },
        notes=("2 rounds were taken back: the clock jumped",),
    )


def gpu() -> tuple[Comparison, Timing]:
    comparison = gpu_runs()
    return comparison, gpu_timing(comparison)


# --- on a CPU --------------------------------------------------------------------------------


def cpu_runs() -> Comparison:
    made = kernel("cpp_fused_add_0", "1", registers=None, read=4000, written=4000, language="cpp")
    other = kernel("cpp_fused_mul_1", "2", registers=None, language="cpp")
    assert made.source_facts is not None
    vectors = replace(made, source_facts=replace(made.source_facts, vector_loads=2))
    scalars = replace(
        made, source_facts=replace(made.source_facts, vector_loads=0), source_hash="scalar"
    )
    given: dict[str, Any] = {"device": "cpu", "target": None}
    variant = Variant("cpp.simdlen=1", {"cpp.simdlen": 1})
    return compare(
        run([vectors, other], id="base-id", variant=Variant("default"), **given),
        run([scalars, other], id="head-id", variant=variant, **given),
    )


def cpu_timing(comparison: Comparison) -> Timing:
    """Slower by 42 % through the kernel that lost its vectors; one other is a control."""
    slow, kept = (group_of(comparison, k.name) for k in comparison.head.kernels)
    memory = MemoryUse(512_000_000, None, "resident set of the process")
    groups = (
        GroupTiming(
            slow, "cpp_fused_add_0", changed(310e-6, 462e-6, 0.02), False, 0.86, 1.01, 25e9, 17e9
        ),
        GroupTiming(kept, "cpp_fused_mul_1", changed(31e-6, 31.1e-6, 0.004), True, 0.09, 0.001),
    )
    return Timing(
        changed(361e-6, 512e-6, 0.012),
        Floor(0.015, "assumed", 0.03),
        kernels_total=changed(341e-6, 493e-6, 0.015),
        groups=groups,
        unexplained=-1e-6,
        prepared=(prepared("base", XEON, memory=memory), prepared("head", XEON, memory=memory)),
        seconds=6.1,
        seed=11,
        method="a pair of workers, interleaved",
        stopped="precise enough",
        joined=(2, 2),
        states={"base": DeviceState(others_utilisation=0.31), "head": DeviceState()},
    )


def cpu() -> tuple[Comparison, Timing]:
    comparison = cpu_runs()
    return comparison, cpu_timing(comparison)


# --- other ends ------------------------------------------------------------------------------


def unsure() -> tuple[Comparison, Timing]:
    """A change of 0.7 % with an interval of ±0.9 %, in 20 s."""
    comparison, timing = gpu()
    why = "−0.2 % to +1.6 % reaches beyond the noise floor of 1 %"
    step = changed(12.31e-3, 12.396e-3, 0.009, "unsure", why=why)
    return comparison, replace(timing, step=step, seconds=20.0, stopped="budget spent")


def same() -> tuple[Comparison, Timing]:
    comparison, timing = gpu()
    step = changed(12.31e-3, 12.32e-3, 0.003)
    groups = tuple(replace(g, share_of_change=None) for g in timing.groups)
    return comparison, replace(timing, step=step, groups=groups, unexplained=None)


def interrupted() -> tuple[Comparison, Timing]:
    """Three rounds, none with the profiler."""
    comparison, timing = gpu()
    step = TimeChange(12.31e-3, 12.70e-3, rounds=3, why="3 rounds are too few")
    bare = replace(timing, step=step, wall=None, kernels_total=None, groups=(), unexplained=None)
    return comparison, replace(bare, stopped="interrupted", seconds=0.4, joined=(0, 0), notes=())
