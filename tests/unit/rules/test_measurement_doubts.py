from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import handmade_timing as made
import pytest
from handmade import H100, kernel, run

from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare
from perfcli.model import (
    Comparison,
    DeviceState,
    Finding,
    Floor,
    GroupTiming,
    MeasuredLaunch,
    OutputCheck,
    Prepared,
    Timing,
)
from perfcli.rules.measurement_doubts import RULE

QUIET = {
    "base": DeviceState(1965.0, 3201.0, 512.0, 51.0, (), 0.0),
    "head": DeviceState(1960.0, 3201.0, 512.0, 52.0, (), 0.03),
}


def gpu(**changes: Any) -> Comparison:
    """A clean measurement on a GPU, 3 % slower, but for ``changes`` of its timing."""
    comparison, timing = made.gpu()
    return replace(comparison, timing=replace(timing, **{"states": QUIET, **changes}))


def cpu(**changes: Any) -> Comparison:
    comparison, timing = made.cpu()
    quiet = {side: DeviceState(others_utilisation=0.02) for side in ("base", "head")}
    return replace(comparison, timing=replace(timing, **{"states": quiet, **changes}))


def found(comparison: Comparison) -> dict[str, Finding]:
    return {finding.subject: finding for finding in RULE.of_comparison(comparison)}


def sides(change: Callable[[Prepared], Prepared], *which: str, cpu: bool = False) -> Any:
    _, timing = made.cpu() if cpu else made.gpu()
    return tuple(change(p) if p.side in which else p for p in timing.prepared)


def states(base: DeviceState, head: DeviceState) -> dict[str, DeviceState]:
    return {"base": base, "head": head}


# --- nothing to doubt --------------------------------------------------------------------------


@pytest.mark.parametrize("comparison", [gpu(), cpu()], ids=["gpu", "cpu"])
def test_a_clean_measurement_raises_nothing(comparison: Comparison) -> None:
    assert found(comparison) == {}


def test_what_was_not_measured_raises_nothing() -> None:
    assert found(replace(gpu(), timing=None)) == {}


def test_a_bare_measurement_says_only_that_it_has_few_rounds() -> None:
    step = replace(gpu().timing.step, rounds=3)  # type: ignore[union-attr]
    bare = Timing(step, Floor(0.01, "assumed"))
    assert set(found(replace(gpu(), timing=bare))) == {"few rounds"}


# --- the machine -------------------------------------------------------------------------------


def test_throttling_of_one_side() -> None:
    head = replace(QUIET["head"], throttle=("power cap", "thermal"))
    (finding,) = found(gpu(states=states(QUIET["base"], head))).values()
    assert finding.headline == "the head alone was slowed down by power cap, thermal"
    assert (finding.code, finding.severity, finding.doubt) == ("PC902", "warning", True)


def test_throttling_of_both_sides_alike() -> None:
    both = [replace(state, throttle=("thermal",)) for state in QUIET.values()]
    assert found(gpu(states=states(*both))) == {}


@pytest.mark.parametrize(("head", "doubted"), [(1965 * 0.992, False), (1965 * 0.985, True)])
def test_clocks_beyond_the_floor(head: float, doubted: bool) -> None:
    slower = replace(QUIET["head"], sm_clock_mhz=head)
    assert ("clocks" in found(gpu(states=states(QUIET["base"], slower)))) is doubted


def test_others_work_is_told_with_its_share() -> None:
    busy = DeviceState(others_utilisation=0.31)
    (finding,) = found(cpu(states=states(busy, DeviceState()))).values()
    assert finding.headline == "other processes kept 31 % of the cores busy"
    (finding,) = found(gpu(states=states(busy, busy))).values()
    assert finding.headline == "other processes kept 31 % of the GPU busy"


@pytest.mark.parametrize(("ratio", "severity"), [(1.03, "warning"), (1.42, "info")])
def test_random_addresses_on_the_cpu(ratio: float, severity: str) -> None:
    def random(p: Prepared) -> Prepared:
        return replace(p, machine=replace(p.machine, facts={"fixed_layout": False}))

    step = made.changed(361e-6, 361e-6 * ratio, 0.004)
    prepared = sides(random, "base", "head", cpu=True)
    (finding,) = found(cpu(prepared=prepared, step=step, unexplained=None)).values()
    assert (finding.subject, finding.severity) == ("random addresses", severity)
    assert found(gpu(prepared=sides(random, "base", "head"))) == {}


def test_another_winner_of_the_autotuner_for_equal_source() -> None:
    def won(config: str, source: str = "s") -> Callable[[Prepared], Prepared]:
        launch = MeasuredLaunch("triton_red_0", source_hash=source, config=config)
        return lambda p: replace(p, launches=(launch,))

    base = sides(won("XBLOCK: 8"), "base")[0]
    head = sides(won("XBLOCK: 16"), "head")[1]
    (finding,) = found(gpu(prepared=(base, head))).values()
    assert finding.evidence == ("triton_red_0: XBLOCK: 8 → XBLOCK: 16",)
    other = sides(won("XBLOCK: 16", "other source"), "head")[1]
    assert found(gpu(prepared=(base, other))) == {}


# --- what was timed ----------------------------------------------------------------------------


def small(read: int, launches: int = 1, flushed: bool = False) -> Comparison:
    kernels = [kernel("k", "add", read=read, written=0, launches=launches, text="a")]
    head = [replace(kernels[0], source_hash="b")]
    facts = {**made.H200.facts, "flush_l2": True} if flushed else made.H200.facts
    prepared = tuple(
        made.prepared(side, replace(made.H200, facts=facts), launch_count=launches)
        for side in ("base", "head")
    )
    timing = Timing(
        made.changed(1e-4, 1.2e-4),
        Floor(0.01, "assumed"),
        kernels_total=made.changed(1e-4, 1.2e-4),
        prepared=prepared,
    )
    return replace(compare(run(kernels), run(head, id="head")), timing=timing)


def test_a_working_set_that_l2_holds() -> None:
    inside = 3 * H100.l2_bytes - 1
    assert set(found(small(inside))) == {"warm cache"}
    assert found(small(inside + 1)) == {}
    assert found(small(inside // 3 + 1, launches=3)) == {}
    assert found(small(1000, launches=4)) == {}
    kernels = [replace(small(inside).base.kernels[0], finishing_bytes=1)]
    finished = replace(small(inside), base=run(kernels), head=run(kernels, id="head"))
    assert found(finished) == {}
    assert found(small(inside, flushed=True)) == {}


def test_a_step_that_waits_for_its_host() -> None:
    total = made.changed(5e-3, 5.3e-3)
    (finding,) = found(gpu(kernels_total=total)).values()
    assert finding.headline.startswith("the GPU is busy for 40.6 % of the step")
    assert "--cuda-graph" in finding.advice
    (finding,) = found(cpu(kernels_total=made.changed(100e-6, 251e-6))).values()
    assert "--cuda-graph" not in finding.advice


def test_a_change_that_is_no_kernels() -> None:
    assert found(gpu(unexplained=0.19e-3)) == {}
    (finding,) = found(gpu(unexplained=0.30e-3)).values()
    assert finding.subject == "unexplained"
    same = made.changed(12.31e-3, 12.32e-3, 0.003)
    assert found(gpu(unexplained=0.30e-3, step=same)) == {}


def test_cuda_graphs_are_advised_where_there_is_a_gpu() -> None:
    def advice(comparison: Comparison) -> str:
        (finding,) = [f for f in found(comparison).values() if f.subject == "unexplained"]
        return finding.advice

    assert advice(gpu(unexplained=0.30e-3)).endswith("; --cuda-graph leaves both out")
    step = made.changed(361e-6, 380e-6, 0.004)
    assert advice(cpu(step=step, unexplained=18e-6)) == "look at launches and the host's time"


def test_launches_that_belong_to_no_kernel() -> None:
    (finding,) = found(gpu(joined=(50, 53))).values()
    assert finding.headline.startswith("3 of 53 launches of generated kernels belong to no known")


@pytest.mark.parametrize(
    ("which", "where", "severity"),
    [(("head",), "on the head alone", "warning"), (("base", "head"), "on both sides", "info")],
)
def test_a_cuda_graph_that_was_refused(which: tuple[str, ...], where: str, severity: str) -> None:
    note = (
        "the step could not be taken as a CUDA graph (no reason given): launched kernel by kernel"
    )
    prepared = sides(lambda p: replace(p, notes=(note,)), *which)
    (finding,) = found(gpu(prepared=prepared)).values()
    assert where in finding.headline
    assert finding.severity == severity


def test_outputs_that_were_not_compared() -> None:
    why = "not compared: the model draws random numbers"
    prepared = sides(lambda p: replace(p, check=OutputCheck(None, None, why)), "base", "head")
    (finding,) = found(gpu(prepared=prepared)).values()
    assert finding.headline == "the base's and the head's outputs were not held against a reference"
    unasked = sides(lambda p: replace(p, check=None), "base", "head")
    assert found(gpu(prepared=unasked)) == {}


def test_a_side_that_runs_almost_nothing_of_inductors() -> None:
    comparison = gpu()
    assert comparison.timing is not None
    eager = GroupTiming(None, "aten::mm", made.changed(11.5e-3, 2e-3))
    groups = (*(g for g in comparison.timing.groups if g.group is not None), eager)
    (finding,) = found(gpu(groups=groups)).values()
    assert finding.headline.startswith("96.7 % of the base's kernel time is not in code that")


# --- the verdict ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1.031, 1.0005, 0.96])
def test_doubts_do_not_change_what_was_measured(ratio: float) -> None:
    """All warnings there are, and the verdict stays that of the clean measurement."""
    step = made.changed(12.31e-3, 12.31e-3 * ratio, 0.003)
    clean = gpu(step=step)
    busy = DeviceState(1500.0, throttle=("thermal",), others_utilisation=0.9)
    doubted = gpu(
        step=step,
        states=states(QUIET["base"], busy),
        unexplained=1e-3,
        kernels_total=made.changed(1e-3, 1.01e-3),
        joined=(0, 53),
    )
    outcomes = []
    for comparison in (clean, doubted):
        assert comparison.timing is not None
        outcomes.append(diagnose(comparison).outcome)
    assert outcomes[0] == outcomes[1]
    warned = [f for f in diagnose(doubted).findings if f.code == "PC902"]
    assert len(warned) >= 4
