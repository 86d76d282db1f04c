from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from handmade import H100, candidate, kernel, run
from handmade_trace import Traced, TraceWriter, training_step

from perfcli.importing.joining import join_sources, make_run
from perfcli.importing.traces.chrome import read_chrome_trace
from perfcli.importing.traces.steps import observe
from perfcli.model import Bundle, ExternCall, KernelFacts, Observed, Run

STEP = training_step()


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    return observe(read_chrome_trace(TraceWriter(STEP, noise=0).write(tmp_path / "a.json")))


def join(observed: Observed, kernels: list[KernelFacts], *externs: ExternCall) -> Run:
    sources = replace(run(kernels, target=H100), externs=externs)
    return join_sources(Bundle(sources, {"text": "packed"}), observed, "a.json code").run


def test_a_kernel_gets_its_times_and_the_configuration_that_ran(observed: Observed) -> None:
    ways = (
        candidate(8, registers=64),
        candidate(4, registers=64, config={"XBLOCK": 7}),
        candidate(4, registers=40),
    )
    made = kernel("triton_red_fused_sum_4", "sum", graph="forward 3", candidates=ways, launches=9)
    joined = join(observed, [made])
    found = next(k for k in joined.kernels if k.name == made.name)
    assert found.source == made.source
    assert found.launches == 1
    assert found.traced_seconds == pytest.approx(55e-6)
    assert [dict(c.config) for c in found.candidates] == [{"XBLOCK": 7}]
    assert (found.grid, found.graph) == ((512, 1, 1), "forward 3")


def test_what_ran_may_be_none_of_the_configurations(observed: Observed) -> None:
    ways = (candidate(2, registers=40), candidate(8, registers=40))
    joined = join(observed, [kernel("triton_red_fused_sum_4", candidates=ways)])
    found = joined.kernels[0]
    assert found.candidates == ways
    assert found.notes == ("which configuration ran can't be told: it had 64 registers",)


def test_another_compiler_gives_what_ran_other_registers(observed: Observed) -> None:
    ways = (candidate(4, registers=40), candidate(8, registers=64))
    joined = join(observed, [kernel("triton_red_fused_sum_4", candidates=ways)])
    assert joined.kernels[0].candidates == ways[:1]
    assert joined.kernels[0].notes == ("it ran with 64 registers; compiled here it has 40",)


def test_fewer_than_sixteen_registers_are_reported_as_sixteen(tmp_path: Path) -> None:
    step = [replace(STEP[4], registers=16)]
    observed = observe(read_chrome_trace(TraceWriter(step).write(tmp_path / "a.json")))
    ways = (candidate(4, registers=10), candidate(4, registers=40))
    joined = join(observed, [kernel("triton_red_fused_sum_4", candidates=ways)])
    assert joined.kernels[0].candidates == ways[:1]
    assert joined.kernels[0].notes == ()


def test_kernels_of_one_name_are_told_apart_by_their_direction(tmp_path: Path) -> None:
    both = [
        replace(STEP[4], name="triton_red_fused_sum_0"),
        replace(STEP[6], name="triton_red_fused_sum_0"),
    ]
    observed = observe(read_chrome_trace(TraceWriter(both, noise=0).write(tmp_path / "a.json")))
    kernels = [
        kernel("triton_red_fused_sum_0", graph="backward 0", text="b"),
        kernel("triton_red_fused_sum_0", graph="forward 0", text="f"),
    ]
    joined = join(observed, kernels)
    assert {k.graph: round((k.traced_seconds or 0) * 1e6) for k in joined.kernels} == {
        "forward 0": 55, "backward 0": 80,
    }  # fmt: skip
    assert {k.graph: k.source_hash for k in joined.kernels} == {
        k.graph: k.source_hash for k in kernels
    }


def test_what_only_one_of_them_has_is_said(observed: Observed) -> None:
    joined = join(observed, [kernel("triton_red_fused_sum_4"), kernel("triton_poi_fused_gone_9")])
    assert joined.notes[-2:] == (
        "generated kernels of the trace without a source here: 9 of 10",
        "kernels of the sources that the trace does not launch: 1 of 2",
    )
    assert [k.name for k in joined.kernels if k.source_hash] == ["triton_red_fused_sum_4"]
    assert len(joined.kernels) == 10


def test_operators_of_the_sources_get_their_times(observed: Observed) -> None:
    product = ExternCall("extern_kernels.mm", "forward 0", 1)
    kernels = [kernel(f"triton_poi_fused_add_{n}") for n in range(4)]
    joined = join(observed, kernels, product)
    times = {e.op: round((e.traced_seconds or 0) * 1e6) for e in joined.externs}
    assert times == {"extern_kernels.mm": 200, "aten.fill_": 3, "aten.copy_": 6}
    assert joined.variant.name == "a.json code"


def test_calls_are_counted_and_not_what_each_of_them_launches(tmp_path: Path) -> None:
    step = [
        Traced("triton_poi_fused_add_0", 20.0),
        *[Traced("gemm_splitk", 30.0, "aten::mm"), Traced("splitk_reduce", 5.0, "aten::mm")] * 3,
        Traced("void fill()", 4.0),  # of no operator that is known
        Traced("void fill()", 4.0),
    ]
    lasts = [each.micros + 2.0 for each in step]
    began = 4545587604379.761  # of TraceWriter's first step
    pairs = [
        (began + n * sum(lasts) + sum(lasts[:at]) - 0.1, sum(lasts[at : at + 2]) - 1.0)
        for n in range(5)
        for at in (1, 3, 5)
    ]
    around = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": ts, "dur": d}
        for ts, d in pairs
    ]
    trace = TraceWriter(step, noise=0, extra=around).write(tmp_path / "a.json")
    run = make_run(observe(read_chrome_trace(trace)), None, "a").run
    assert {e.op: e.count for e in run.externs} == {"aten.linear": 3, "fill": 2}
    works = run.observed.works if run.observed else ()
    assert [(w.label, w.launches, w.calls) for w in works if w.operator] == [
        ("gemm_splitk", 3, 3.0),
        ("splitk_reduce", 3, 0.0),
    ]
