"""import, and the commands that take traces where they take runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_trace import Traced, TraceWriter, training_step

from perfcli.storing import store

HOSTILE = "triton_poi_fused_\x1b[31m<script>alert(1)</script>\nadd_0"


@pytest.fixture
def traces(tmp_path: Path) -> tuple[str, str]:
    """Two traces of one program; in the second a backward reduction takes twice as long."""
    TraceWriter(training_step(), steps=8, seed=1).write(tmp_path / "before.json.gz")
    TraceWriter(training_step(2.0), steps=8, seed=2).write(tmp_path / "after.json.gz")
    return "before.json.gz", "after.json.gz"


def test_import_stores_a_run_and_shows_its_times(perfcli: Any, traces: tuple[str, str]) -> None:
    result = perfcli("import", traces[0])
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "10 generated kernels, 10 launches, 3 extern calls, 2 graphs"
    assert lines[1:3] == ["imported · training · h200", "before.json.gz · torch unknown"]
    assert lines[3].startswith("step    586 µs, the device idle in 4 % of it, kernels together 560")
    assert lines[5] == "traced  8 steps by ProfilerStep marks, NVIDIA H200, by torch.profiler"
    top = next(line for line in lines if "triton_red_fused_mul_sum_0" in line)
    assert top.split() == [
        "5",
        "triton_red_fused_mul_sum_0",
        "79.9",
        "µs",
        "255",
        "0",
        "B",
        "12.5",
        "%",
    ]
    (stored,) = store.runs()
    assert stored.header.scenario == "imported"
    assert f"stored as .perfcli/runs/{stored.header.id}.json" in result.out


def test_only_options_that_import_has_are_offered(perfcli: Any, traces: tuple[str, str]) -> None:
    lines = perfcli("import", traces[0], "--top", "3").out.splitlines()
    assert "… and 7 more: --top 0 lists all" in lines


@pytest.mark.parametrize(("target", "said"), [("h100", True), ("h200", False)])
def test_a_target_that_is_not_the_traces_is_said(
    perfcli: Any, traces: tuple[str, str], target: str, said: bool
) -> None:
    result = perfcli("import", traces[0], "--target", target)
    assert result.out.splitlines()[1] == f"imported · training · {target}"
    note = "recorded on NVIDIA H200, shown as h100, as --target says"
    assert (note in " ".join(result.out.split())) == said


def test_a_trace_is_no_scenario(perfcli: Any, traces: tuple[str, str]) -> None:
    for command in ("run", "compare"):
        result = perfcli(command, traces[0])
        assert (result.code, result.complaint) == (
            2,
            "perfcli: before.json.gz is a trace, not a scenario: compare takes two of them, "
            "explain and inspect-kernel one",
        )


@pytest.mark.parametrize("cats", [{"kernel"}, {"kernel", "cpu_op", "cuda_driver"}])
def test_kernels_at_impossible_times_are_not_called_missing(perfcli: Any, cats: set[str]) -> None:
    trace = json.loads(TraceWriter([Traced("triton_poi_fused_add_0", 50.0)], steps=6).text())
    for event in trace["traceEvents"]:
        event["dur"] = -1.0 if event["cat"] in cats else event["dur"]
    Path("a.json").write_text(json.dumps(trace))
    result = perfcli("import", "a.json")
    assert (result.code, result.complaint) == (
        2,
        "perfcli: a.json has nothing that a GPU ran at a possible time: 6 events of it left out, "
        "whose times are missing, negative or no numbers; record it again",
    )


def test_what_was_imported_is_not_read_again(perfcli: Any, traces: tuple[str, str]) -> None:
    first = perfcli("import", "--quiet", traces[0]).out
    assert perfcli("import", "--quiet", traces[0]).out == first
    assert perfcli("import", "--quiet", "--fresh", traces[0]).out != first
    assert len(store.runs()) == 2


def test_compare_takes_two_traces(perfcli: Any, traces: tuple[str, str]) -> None:
    result = perfcli("compare", *traces, "--json", "c.json", "--html", "c.html")
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0].startswith("SLOWER  traced kernels 559.9 → 639.6 µs")
    assert lines[1].startswith(
        "kernel  triton_red…d_mul_sum_0 has the same grid and registers, 79.9"
    )
    assert lines[1].endswith("100 % of the change")
    slower = [line.split()[1] for line in lines if line.endswith("slower") or " slower " in line]
    assert "triton_red_fused_mul_sum_0" in slower
    assert "triton_poi_fused_add_0" not in slower
    assert "traced     8 steps of each side; two traces, each recorded in a session" in result.out
    timing = json.loads(Path("c.json").read_text())["timing"]
    (blamed,) = (g for g in timing["groups"] if g["name"] == "triton_red_fused_mul_sum_0")
    assert blamed["ratio"] == pytest.approx(2.0, rel=0.01)
    assert blamed["low"] < 2 < blamed["high"]
    assert "Traced" in Path("c.html").read_text()


def test_the_other_way_round_it_is_faster(perfcli: Any, traces: tuple[str, str]) -> None:
    result = perfcli("compare", traces[1], traces[0])
    assert (result.code, result.out.split()[0]) == (0, "FASTER")


def test_two_sessions_of_the_same_code_are_the_same(perfcli: Any, tmp_path: Path) -> None:
    for name, seed in (("a.json", 1), ("b.json", 2)):
        TraceWriter(training_step(), steps=8, seed=seed).write(tmp_path / name)
    result = perfcli("compare", "a.json", "b.json")
    assert (result.code, result.out.split()[0]) == (0, "SAME")


def test_kernels_are_matched_though_their_numbers_moved(perfcli: Any, tmp_path: Path) -> None:
    TraceWriter(training_step(), steps=8, seed=1).write(tmp_path / "a.json")
    moved = [
        replace(each, name=each.name[:-1] + str(int(each.name[-1]) + 5))
        if each.name.startswith("triton") else each for each in training_step()
    ]  # fmt: skip
    TraceWriter(moved, steps=8, seed=2).write(tmp_path / "b.json")
    result = perfcli("compare", "a.json", "b.json", "--json", "c.json")
    assert result.out.split()[0] == "SAME"
    groups = json.loads(Path("c.json").read_text())["groups"]
    assert {group["relation"] for group in groups} == {"same"}


def test_another_gpu_is_not_comparable(
    perfcli: Any, traces: tuple[str, str], tmp_path: Path
) -> None:
    device = {"id": 0, "name": "Tesla V100-SXM2-32GB", "numSms": 80}
    TraceWriter(training_step(), device=device).write(tmp_path / "v100.json")
    result = perfcli("compare", traces[0], "v100.json")
    assert result.code == 4
    assert "→ Tesla V100-SXM2-32GB (compare anyway: --allow target)" in result.complaint


def test_a_model_without_generated_kernels(perfcli: Any, tmp_path: Path) -> None:
    def eager(micros: float) -> list[Traced]:
        return [Traced(f"gemm_{n}", micros, "aten::mm", (n + 1, 1, 1)) for n in range(9)]

    for name, micros in (("a.json", 100.0), ("b.json", 100.0)):
        step = [*eager(micros), Traced("slow", 300.0 if name == "a.json" else 500.0, "aten::sort")]
        TraceWriter(step, steps=8).write(tmp_path / name)
    result = perfcli("compare", "a.json", "b.json")
    assert result.code == 1
    assert "kernel  aten::sort slow runs extern code, 299." in result.out
    assert perfcli("import", "a.json").out.splitlines()[0] == (
        "none of the trace's kernels was generated by Inductor"
    )


def test_explain_inspect_and_report_take_a_trace(perfcli: Any, traces: tuple[str, str]) -> None:
    explained = perfcli("explain", traces[0])
    assert explained.code == 0
    assert "known from a trace alone" in explained.out
    assert "kernels that take most time" in explained.out
    shown = perfcli("inspect-kernel", traces[0], "triton_red_fused_mul_sum_0")
    assert shown.code == 0
    assert ["traced", "79.9", "µs", "per", "step"] in [
        line.split() for line in shown.out.splitlines()
    ]
    assert "warning: the source is not shown" not in shown.err
    assert not {"sectors", "spilled words"} & {
        line[:13].rstrip() for line in shown.out.splitlines()
    }
    row = shown.out.splitlines()[-1].split()
    assert row[1:6] == ["4", "–", "255", "–", "–"]  # warps, stages, registers, spilled, STL
    assert perfcli("inspect-kernel", traces[0], "5", "--source").complaint == (
        "perfcli: triton_red_fused_mul_sum_0 has no source: it was imported from a trace alone"
    )
    assert perfcli("report", traces[0], "--html", "r.html").code == 0
    assert perfcli("runs").code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"traceEvents": []}', "a trace without events"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}',
         "it was recorded on the CPU alone"),
        ("nonsense", "is none of the files that perfcli import reads: traces"),
        ("PK\x03\x04", "a zip archive"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(perfcli: Any, content: str, said: str) -> None:
    Path("a.json").write_text(content)
    result = perfcli("import", "a.json")
    assert result.code == 2
    assert said in result.complaint
    assert not store.runs()


def test_a_cut_off_trace_says_how_much_is_missing(perfcli: Any, tmp_path: Path) -> None:
    text = TraceWriter(training_step(), steps=8).text()
    (tmp_path / "a.json").write_text(text[: int(len(text) * 0.6)])
    result = perfcli("import", "a.json")
    assert result.code == 0
    assert "the trace is cut off after" in result.out


def test_names_of_kernels_are_text(perfcli: Any, tmp_path: Path) -> None:
    step = [Traced(HOSTILE, 50.0), Traced("void evil\x1b]0;x\x07<b>(int)", 9.0, "aten::\x1b[2Jmm")]
    for name in ("a.json", "b.json"):
        TraceWriter(step, steps=6).write(tmp_path / name)
    for argv in (("import", "a.json"), ("compare", "a.json", "b.json", "--html", "c.html")):
        result = perfcli(*argv)
        assert "\x1b" not in result.out
        assert result.code == 0
    page = Path("c.html").read_text()
    assert "<script>alert(1)" not in page
    assert "\x1b" not in page


def test_options_that_do_not_fit_a_trace_are_refused(perfcli: Any, traces: tuple[str, str]) -> None:
    assert perfcli("compare", *traces, "-a", "x=1").code == 2
    assert perfcli("explain", traces[0], "-o", "x=1").code == 2
    assert "no target 'h900'" in perfcli("import", traces[0], "--target", "h900").complaint
