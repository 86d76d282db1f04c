"""compare with a measurement: made-up workers, and everything that can go wrong."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli.fake import executor, measuring
from perfcli.machine import driver, noise_floors, targets
from perfcli.machine.environment import Interpreter
from perfcli.model import Measurement, Rule
from perfcli.storing import store, timings
from perfcli.workflow import bench

MIX = ("-b", "triton.mix_order_reduction=false")
CPU = ("compare", "gqa-transformer", "-p", "layers=3", "--device", "cpu", *MIX)


@pytest.fixture
def timed(perfcli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """perfcli, with what the workers do as the first argument."""
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))

    def run(plan: str, *argv: str) -> Any:
        monkeypatch.setenv("PERFCLI_FAKE", f"1;{plan}")
        return perfcli(*argv)

    return run


def files() -> list[Path]:
    return sorted(timings.FOLDER.glob("*.jsonl"))


def measurement() -> Measurement:
    (path,) = files()
    return timings.read(path)


def ids() -> list[str]:
    return [stored.header.id for stored in store.runs()]


# --- verdicts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "code", "word"),
    [
        ("ratio=1.05", 1, "SLOWER"),
        ("ratio=0.9", 0, "FASTER"),
        ("ratio=1.001", 0, "SAME"),
        ("ratio=1.015;noise=0.03", 3, "UNSURE"),
    ],
)
def test_the_verdict_is_that_of_the_times(timed: Any, plan: str, code: int, word: str) -> None:
    result = timed(plan, *CPU, "--seed", "7")
    assert (result.code, result.out.split()[0]) == (code, word)


def test_the_estimate_is_the_planted_ratio(timed: Any) -> None:
    timed("ratio=1.05;noise=0.002", *CPU, "--seed", "7", "--json", "out.json")
    text = Path("out.json").read_text()
    step = json.loads(text)["timing"]["step"]
    assert step["ratio"] == pytest.approx(1.05, abs=0.002)
    assert step["low"] <= 1.05 <= step["high"]


def test_every_launch_is_joined_to_its_kernel(timed: Any) -> None:
    timed("ratio=1.05", *CPU, "--json", "out.json")
    joined = json.loads(Path("out.json").read_text())["timing"]["joined"]
    number = sum(len(store.read(stored.path).launches) for stored in store.runs())
    assert joined == {"known": number, "launches": number}


def test_the_same_seed_gives_the_same_report(timed: Any) -> None:
    first = timed("ratio=1.02", *CPU, "--seed", "7")
    (one,) = files()
    second = timed("ratio=1.02", *CPU, "--seed", "7")
    (other,) = set(files()) - {one}
    assert first.out == second.out
    assert timings.read(one).rounds == timings.read(other).rounds
    third = timed("ratio=1.02", *CPU, "--seed", "8")
    assert third.out != first.out


# --- what is asked of the workers ------------------------------------------------------------


def started(monkeypatch: pytest.MonkeyPatch) -> list[measuring.FakeStarter]:
    """Every starter that the commands make from now on."""
    made: list[measuring.FakeStarter] = []

    def make(plan: measuring.FakePlan) -> measuring.FakeStarter:
        made.append(measuring.FakeStarter(plan))
        return made[-1]

    monkeypatch.setattr(bench, "FakeStarter", make)
    return made


def test_both_sides_get_one_seed_one_thread_and_one_core(
    timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = started(monkeypatch)
    timed("ratio=1", *CPU)
    (starter,) = made
    base, head = starter.started
    assert (base.side, head.side) == ("base", "head")
    assert base.seed == head.seed == measurement().seed
    last = max(os.sched_getaffinity(0))
    assert (base.threads, base.cpus) == (head.threads, head.cpus) == (1, (last,))
    assert (base.compile.threads, base.compile.device) == (1, "cpu")
    assert head.compile.variant.options == {"triton.mix_order_reduction": False}
    assert replace(head, side="base", compile=base.compile) == base
    assert [store.read(stored.path).threads for stored in store.runs()] == [1, 1]


def test_threads_are_as_many_cores(timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 4, 6})
    made = started(monkeypatch)
    timed("ratio=1", *CPU, "--threads", "3", "--seed", "11", "--budget", "3.5")
    base, head = made[0].started
    assert (base.threads, base.cpus, base.seed) == (3, (2, 4, 6), 11)
    assert head.cpus == base.cpus
    assert base.compile.threads == 3
    assert measurement().budget_seconds == 3.5


def test_another_number_of_threads_is_another_run(timed: Any) -> None:
    timed("ratio=1", *CPU)
    timed("ratio=1", *CPU, "--no-time")
    assert len(ids()) == 4
    timed("ratio=1", *CPU)
    assert len(ids()) == 4


# --- when nothing is measured ----------------------------------------------------------------


def test_no_time_and_targets_measure_nothing(timed: Any) -> None:
    for argv in ((*CPU, "--no-time"), ("compare", "rmsnorm", *MIX, "--target", "h100")):
        result = timed("ratio=1.5", *argv)
        assert "slower" not in result.out.lower()
    assert files() == []


def test_without_a_plan_the_fake_measures_nothing(perfcli: Any) -> None:
    perfcli(*CPU)
    assert files() == []


def test_the_same_code_is_not_measured(timed: Any) -> None:
    same = ("compare", "rmsnorm", "--device", "cpu", "-b", "triton.unique_kernel_names=false")
    result = timed("ratio=1.5", *same)
    assert "same code on both sides: nothing to measure" in result.err
    assert (result.code, result.out[:4]) == (0, "SAME")
    assert files() == []


@pytest.mark.parametrize(
    "acts_at_run_time",
    [
        ("-b", "TORCHINDUCTOR_ONLINE_SOFTMAX=1"),
        ("-b", "triton.cudagraphs=true"),
        ("-b", "dynamo.cache_size_limit=3"),
        ("-b", "coordinate_descent_tuning=true"),
    ],
)
def test_the_same_code_run_in_another_way_is_measured(
    timed: Any, acts_at_run_time: tuple[str, ...]
) -> None:
    result = timed("ratio=1", "compare", "rmsnorm", "--device", "cpu", *acts_at_run_time)
    assert "nothing to measure" not in result.err
    assert result.code == 0
    assert len(files()) == 1


# --- stored ----------------------------------------------------------------------------------


def test_stored_runs_show_their_newest_measurement(timed: Any) -> None:
    timed("ratio=1.05", *CPU)
    base, head = ids()
    again = timed("", "compare", base, head)
    assert (again.code, again.out[:6]) == (1, "SLOWER")
    timed("ratio=0.9", *CPU)
    again = timed("", "compare", base, head)
    assert (again.code, again.out[:6]) == (0, "FASTER")
    assert "FASTER" not in timed("", "compare", base, head, "--no-time").out


def test_the_floor_that_noise_stored_counts(timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed("ratio=1.05", *CPU).code == 1
    monkeypatch.setattr(noise_floors, "load_floor", lambda *_: (0.08, "perfcli noise, then"))
    result = timed("ratio=1.05", *CPU)
    assert result.code != 1
    assert "floor 8 %" in result.out


def test_the_stored_floor_is_found_by_machine_and_scenario(
    timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def find(machine: Any, scenario: str, params: Any) -> None:
        asked.append((machine.device, scenario))
        assert params["layers"] == 3

    monkeypatch.setattr(noise_floors, "load_floor", find)
    timed("ratio=1.05", *CPU)
    assert set(asked) == {("made-up processor", "gqa-transformer")}


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dies", "hangs", "garbage"])
@pytest.mark.parametrize("side", ["base", "head"])
def test_a_worker_that_fails_in_the_middle(timed: Any, kind: str, side: str) -> None:
    result = timed(f"fail={kind}:{side}:14", *CPU)
    assert result.code == 2
    assert result.out == ""
    assert f"the {side}'s worker" in result.complaint
    assert f"; 11 rounds are kept in {files()[0]}" in result.complaint
    kept = measurement()
    assert len(kept.rounds) == 11
    assert kept.stopped.startswith("failed: ")


def test_a_worker_that_fails_before_a_round_leaves_no_measurement(timed: Any) -> None:
    result = timed("fail=dies:head:prepare", *CPU)
    assert result.code == 2
    assert "kept" not in result.complaint
    assert files() == []
    assert len(ids()) == 2  # the runs stay


@pytest.mark.parametrize(
    ("side", "code", "outcome"), [("head", 1, "worse"), ("base", 3, "unknown")]
)
def test_wrong_outputs_are_a_finding_and_no_timing(
    timed: Any, side: str, code: int, outcome: str
) -> None:
    result = timed(f"fail=wrong:{side}:prepare", *CPU, "--json", "out.json")
    assert result.code == code
    what = f"the {side}'s outputs are wrong: 3 of 4096 values are NaN"
    assert f"PC903: {what}" in " ".join(result.out.split())
    document = json.loads(Path("out.json").read_text())
    assert document["outcome"] == outcome
    (finding,) = [f for f in document["findings"] if f["code"] == "PC903"]
    assert (finding["severity"], finding["headline"]) == ("error", what)
    assert document["timing"] is None
    assert files() == []


def test_wrong_outputs_are_told_though_a_rule_fails(
    timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(comparison: Any) -> None:
        raise ValueError("planted")

    broken = Rule("PC999", "planted", "", of_comparison=fail)  # type: ignore[arg-type]
    monkeypatch.setattr("perfcli.diagnosis.rules", lambda: (broken,))
    result = timed("fail=wrong:head:prepare", *CPU)
    assert "WORSE" in result.out
    assert "the head's outputs are wrong" in " ".join(result.out.split())


def test_out_of_memory_together_is_measured_in_turns_of_processes(timed: Any) -> None:
    result = timed("fail=crowded:head:prepare;ratio=1.05", *CPU, "--budget", "600")
    assert (result.code, result.out[:6]) == (1, "SLOWER")
    kept = measurement()
    assert kept.method == "alternating fresh processes"
    (note,) = kept.notes
    assert "do not fit into memory" in note
    assert "alternating fresh processes" in " ".join(result.out.split())


def test_out_of_memory_alone_says_what_is_smaller(timed: Any) -> None:
    result = timed("fail=oom:base:prepare", *CPU)
    assert result.code == 2
    assert result.complaint.startswith("perfcli: the base's gqa-transformer does not fit")
    assert "tried: both sides at once, then the base alone; try --preset smoke" in result.complaint
    assert "-p layers=3" in result.complaint
    Path("model.py").write_text("def build():\n    return abs, (1,)\n")
    own = timed("fail=oom:head:prepare", "compare", "model.py", "--device", "cpu", *MIX)
    assert own.complaint.endswith("smaller parameters (-p NAME=VALUE) need less")


def test_ctrl_c_with_enough_rounds_is_a_verdict(timed: Any) -> None:
    result = timed("fail=interrupt:base:20;ratio=1.05;step=0.03", *CPU)
    assert (result.code, result.out[:6]) == (1, "SLOWER")
    assert measurement().stopped == "interrupted"


def test_ctrl_c_within_the_first_second_is_no_verdict(timed: Any) -> None:
    result = timed("fail=interrupt:base:15;ratio=1.05", *CPU)
    assert result.code == 130
    assert result.out.startswith("UNSURE")
    assert "too short" in result.out


def test_ctrl_c_with_few_rounds_reports_them_and_is_130(timed: Any) -> None:
    result = timed("fail=interrupt:head:5;ratio=1.05", *CPU)
    assert result.code == 130
    assert result.out.startswith("UNSURE")
    assert len(measurement().rounds) == 2
    runs = re.escape(
        "; ".join(f"{name} is stored as .perfcli/runs/{id}.json" for name, id in sides())
    )
    kept = rf"2 rounds are kept in {files()[0]}, (perfcli compare \S+ \S+) shows them"
    said = re.fullmatch(f"perfcli: interrupted; {kept}; {runs}", result.complaint)
    assert said
    shown = timed("", *said[1].split()[1:])
    assert (shown.code, shown.out[:6], shown.err) == (3, "UNSURE", "")


def test_what_shows_the_rounds_allows_other_parameters(timed: Any) -> None:
    own = (*CPU, "--b-param", "layers=2")
    result = timed("fail=interrupt:head:5;ratio=1.05", *own)
    said = re.search(r"perfcli (compare \S+ \S+ --allow params) shows them", result.complaint)
    assert said
    shown = timed("", *said[1].split())
    assert (shown.code, shown.out[:6], shown.err) == (3, "UNSURE", "")


@pytest.mark.parametrize(
    "during", ["perfcli.workflow.pair.gather_evidence", "perfcli.workflow.bench.open_bench"]
)
def test_ctrl_c_between_compiling_and_measuring_says_what_is_stored(
    timed: Any, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    monkeypatch.setattr(during, _interrupt)
    result = timed("ratio=1.05", *CPU)
    assert (result.code, result.out) == (130, "")
    runs = [f"{name} is stored as .perfcli/runs/{id}.json" for name, id in sides()]
    assert result.complaint == f"perfcli: interrupted; {'; '.join(runs)}"


@pytest.mark.parametrize("during", ["perfcli.workflow.pair.derive", "perfcli.diagnosis.judge"])
def test_ctrl_c_after_the_last_round_says_what_is_stored(
    timed: Any, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    monkeypatch.setattr(during, _interrupt)
    result = timed("ratio=1.05", *CPU)
    assert (result.code, result.out) == (130, "")
    number = len(measurement().rounds)
    assert f"interrupted; {number} rounds are kept in {files()[0]}" in result.complaint
    assert all(f"is stored as .perfcli/runs/{id}.json" in result.complaint for _, id in sides())


def _interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def sides() -> list[tuple[str, str]]:
    """Return the name of the variant and the id of both stored runs, the base first."""
    found = [store.read(stored.path) for stored in store.runs()]
    return sorted([(run.variant.name, run.id) for run in found], key=lambda s: s[0] != "default")


@pytest.mark.parametrize("when", ["prepare", "1"])
def test_ctrl_c_before_a_round(timed: Any, when: str) -> None:
    result = timed(f"fail=interrupt:head:{when}", *CPU)
    assert result.code == 130
    assert result.complaint.startswith("perfcli: interrupted before anything was measured")
    assert result.out == ""
    assert files() == []


def test_a_folder_that_cannot_be_written_still_gives_the_report(timed: Any) -> None:
    Path(".perfcli").write_text("a file is in the way")
    result = timed("ratio=1.05", *CPU)
    assert (result.code, result.out[:6]) == (1, "SLOWER")
    assert "the measurement is not stored" in result.err


def test_workers_on_unlike_machines_are_exit_code_4(
    timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = measuring._machine

    def unlike(request: Any) -> Any:
        return replace(machine(request), driver="570" if request.side == "base" else "580")

    monkeypatch.setattr(measuring, "_machine", unlike)
    result = timed("ratio=1", *CPU)
    assert result.code == 4
    assert "570 in the base, 580 in the head" in result.complaint
    assert "--allow-env driver" in result.complaint
    assert files() == []
    allowed = timed("ratio=1", *CPU, "--allow-env", "driver")
    assert allowed.code == 0
    assert "allowed to differ: the driver" in " ".join(allowed.out.split())


# --- bad input -------------------------------------------------------------------------------

BAD = [
    ((*CPU, "--threads", "4000"), "--threads 4000: only"),
    ((*CPU, "--a-device", "1"), "--a-device is about GPUs"),
    ((*CPU, "--b-device", "1"), "--b-device is about GPUs"),
    ((*CPU, "--cuda-graph"), "--cuda-graph is about GPUs"),
    ((*CPU, "--flush-l2"), "--flush-l2 is about GPUs"),
    (("compare", "rmsnorm", "--device", "cpu:0"), "--device cpu:0: cuda, cpu, or two GPUs"),
    (("compare", "rmsnorm", "--device", "cuda:1,cuda:1"), "two GPUs for base and head"),
    (("compare", "rmsnorm", "--device", "cuda:0,cpu:1"), "two GPUs for base and head"),
    (("compare", "rmsnorm", "--device", "cpu:0,cpu:4000"), "no such core 4000, there is"),
    ((*CPU[:5], "cpu:0,cpu:1", "--threads", "2"), "leave out --threads"),
    ((*CPU, "--allow-env", "everything"), "--allow-env takes gpu, driver"),
    ((*CPU, "--no-time", "--budget", "3"), "--no-time measures nothing: leave out --budget"),
    ((*CPU, "--budget", "0"), "--budget takes a number of 0.1 or more, got 0\n"),
    ((*CPU, "--budget", "soon"), "--budget takes a number of 0.1 or more, got soon\n"),
    (("compare", "rmsnorm", *MIX, "--target", "a100", "--budget", "3"), "leave out --budget"),
    (("compare", "rmsnorm", *MIX, "--target", "a100", "--seed", "0"), "leave out --seed"),
    (("compare", "rmsnorm", *MIX, "--threads", "1"), "no GPU here to measure on"),
    (("compare", "rmsnorm", *MIX, "--device", "cuda"), "no NVIDIA GPU found here"),
    (("compare", "a.json", "b.json", "--budget", "3"), "leave out --budget"),
    (("compare", "a.json", "b.json", "--threads", "1", "--seed", "2"), "--threads, --seed"),
]


@pytest.mark.parametrize(("argv", "says"), BAD)
def test_bad_input_is_one_line_before_anything_is_compiled(
    timed: Any, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], says: str
) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: 0)
    result = timed("ratio=1", *argv)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert "Traceback" not in result.err
    assert store.runs() == []


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs in this machine, as far as the command line asks."""
    monkeypatch.setattr(driver, "device_count", lambda: 2)
    monkeypatch.setattr(targets, "this_gpu", lambda: targets.get("h100"))


def test_on_a_gpu_it_is_measured_where_it_is_asked_to(
    timed: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = started(monkeypatch)
    gpu = ("compare", "rmsnorm", *MIX, "--b-device", "1", "--cuda-graph", "--flush-l2")
    timed("ratio=1.05", *gpu, "--allow-env", "gpu")
    base, head = made[0].started
    assert (base.device_index, head.device_index) == (None, 1)
    assert base.cuda_graph
    assert head.cuda_graph
    assert base.flush_l2
    assert head.flush_l2
    assert base.compile.on_device
    assert (base.threads, base.cpus) == (None, ())
    other = timed("ratio=1", *gpu[:4], "--a-device", "2")
    assert "--a-device 2: no such GPU, there is 0 to 1" in other.complaint
    threads = timed("ratio=1", *gpu[:4], "--threads", "1")
    assert "--threads is about the CPU" in threads.complaint


GPU = ("compare", "rmsnorm", *MIX)
TWO = (*GPU, "--device", "cuda:0,cuda:1")


@pytest.mark.parametrize(
    ("plan", "code", "word"), [("ratio=1.03", 1, "SLOWER"), ("ratio=1", 0, "SAME")]
)
def test_what_two_gpus_differ_by_cancels(
    timed: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch, plan: str, code: int, word: str
) -> None:
    monkeypatch.setattr(driver, "device_name", lambda index: "NVIDIA H200")
    result = timed(f"{plan};second=1.05;noise=0.002", *TWO, "--seed", "1", "--json", "out.json")
    assert (result.code, result.out.split()[0]) == (code, word)
    said = " ".join(result.out.split())
    assert "base on cuda:0 and head on cuda:1, exchanged half-way: on cuda:1 a step takes" in said
    assert re.search(r"(4\.9\d?|5(\.0\d)?) % more, which cancels out", said)
    timing = json.loads(Path("out.json").read_text())["timing"]
    assert timing["sides"]["base"]["machine"]["device_index"] == 0
    assert timing["sides"]["head"]["machine"]["device_index"] == 1


def test_two_devices_of_different_kinds_are_refused(
    timed: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {0: "NVIDIA H200", 1: "NVIDIA A100-SXM4-80GB"}
    monkeypatch.setattr(driver, "device_name", names.get)
    result = timed("ratio=1", *TWO)
    assert result.code == 2
    assert "NVIDIA H200 and NVIDIA A100-SXM4-80GB are of different kinds" in result.complaint
    missing = timed("ratio=1", *GPU, "--device", "cuda:0,cuda:2")
    assert "--device cuda:0,cuda:2: no such GPU 2, there is 0, 1" in missing.complaint
    fixed = timed("ratio=1", *TWO, "--b-device", "1")
    assert "leave out --b-device" in fixed.complaint


@pytest.mark.parametrize(
    ("plan", "typed", "code", "word", "first", "clock"),
    [
        ("device=1.03", (), 1, "SLOWER", "device ", "step SAME, it waits for the host 60 %"),
        ("device=1.03", ("--time", "step"), 0, "SAME", "step ", ""),
        ("ratio=1.2;device=1", (), 1, "SLOWER", "step ", "device SAME, the step waits for"),
        ("ratio=1.1;device=1", (), 0, "SAME", "device ", "step UNSURE"),  # two hosts differ so
        ("ratio=1.1;device=1", ("--time", "step"), 3, "UNSURE", "step ", ""),
        ("ratio=1.1;device=1", ("--time", "device"), 0, "SAME", "device ", "it waits"),
        ("device=1.03;graph=a reason", (), 1, "SLOWER", "device ", "step SAME, it waits"),
    ],
)
def test_the_verdict_names_the_clock_that_decides(
    timed: Any, a_gpu: None, plan: str, typed: Sequence[str], code: int, word: str, first: str,
    clock: str,
) -> None:  # fmt: skip
    result = timed(f"busy=0.4;{plan}", *GPU, *typed, "--json", "c.json")
    assert result.code == code
    assert result.out.startswith(f"{word}  {first}")
    assert clock in result.out
    told = json.loads(Path("c.json").read_text())["timing"]
    by_profiler, alone = "graph" in plan, "step" in typed
    assert told["clock"] == first.strip()
    longest = 1.2 if "1.2" in plan else 1.0  # of a step of which the device is busy for 0.4
    assert told["waiting"] == (None if alone else pytest.approx(1 - 0.4 / longest, abs=0.05))
    expected = None if alone else "profiler" if by_profiler else "graph"
    assert told["device_clock"] == expected
    assert ("no CUDA graph, a reason" in result.out) == by_profiler
    # Stored raw: another clock may decide later.
    if not typed:
        again = timed("", "compare", *ids(), "--time", "step", "--quiet")
        by_step = {"ratio=1.2": "SLOWER", "ratio=1.1": "UNSURE"}
        assert again.out.startswith(by_step.get(plan.partition(";")[0], "SAME"))


def test_a_clock_that_is_not_there_is_refused(timed: Any, a_gpu: None) -> None:
    wrong = timed("ratio=1", *GPU, "--time", "both of them")
    assert "--time both of them: both, device or step is expected" in wrong.complaint
    cpu = timed("ratio=1", *CPU, "--time", "device")
    assert "--time device is about GPUs: a CPU has one clock" in cpu.complaint
    graph = timed("ratio=1", *GPU, "--time", "device", "--cuda-graph")
    assert "--cuda-graph makes the step's time the device's own" in graph.complaint
    target = timed("ratio=1", *GPU, "--target", "h100", "--time", "step")
    assert "leave out --time" in target.complaint


def test_a_torch_without_cuda_is_not_measured_on_the_gpu(
    timed: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the fake measures is no torch's: the real decision, asked directly."""
    from perfcli.workflow.request import Question, Side, make_jobs
    from perfcli.workflow.setting import MeasuringOptions, Setting, why_not

    def without(python: str | None) -> Interpreter:
        return replace(executor.fake_interpreter(python), cuda=None)

    def with_cuda(python: str | None) -> Interpreter:
        return replace(executor.fake_interpreter(python), cuda="13.0")

    setting = Setting(MeasuringOptions(), "cuda", 20.0, 1, None, ())
    jobs = make_jobs(Question("rmsnorm"), [Side(), Side(python="cpu/bin/python")], without)
    assert "is a build without CUDA" in why_not(jobs, setting)
    assert why_not(make_jobs(Question("rmsnorm"), [Side()], with_cuda), setting) == ""


# --- ranks -----------------------------------------------------------------------------------

RANKS = ("compare", "rmsnorm", *MIX, "--device", "cpu", "--world")


def test_ranks_have_a_core_each_or_a_gpu_with_both_clocks(
    timed: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 4, 6})
    made = started(monkeypatch)
    assert timed("ratio=1.05", *RANKS, "2").code == 1
    base, head = made[0].started
    assert (base.cpus, base.threads, base.compile.world) == ((4, 6), 1, 2)
    assert head.cpus == base.cpus
    assert timed("ratio=1.05", *GPU, "--device", "cuda", "--world", "2").code == 1
    assert (made[1].started[0].clocks, made[1].started[0].cpus) == ("both", ())
    alone = timed(
        "busy=0.4;device=1.03", *GPU, "--device", "cuda", "--world", "2", "--time", "device"
    )
    assert (alone.code, made[2].started[0].clocks) == (1, "device")
    assert alone.out.startswith("SLOWER  device ")


def test_fewer_devices_than_ranks_is_one_line(timed: Any, a_gpu: None) -> None:
    gpu = ("compare", "rmsnorm", *MIX, "--device", "cuda", "--world", "8")
    result = timed("ratio=1", *gpu)
    assert result.out.split()[0] not in ("SLOWER", "FASTER")
    assert (
        "not measured: --world 8 needs a GPU for each rank, and this machine has enough for 2 ranks"
    ) in " ".join(result.err.split())
    assert files() == []
    asked = timed("ratio=1", *gpu, "--budget", "3")
    assert asked.code == 2
    assert "enough for 2 ranks: leave out --budget" in asked.complaint
    cores = timed("ratio=1", *RANKS, "4000", "--threads", "2")
    assert "needs 2 cores for each rank" in cores.complaint


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--cuda-graph",), "leave out --cuda-graph"),
        (("--b-device", "1"), "leave out --b-device"),
    ],
)
def test_what_ranks_can_not_have(timed: Any, a_gpu: None, typed: Any, says: str) -> None:
    result = timed("ratio=1", *GPU, "--device", "cuda", "--world", "2", *typed)
    assert result.code == 2
    assert says in result.complaint


# --- progress --------------------------------------------------------------------------------


def test_quiet_is_one_line(timed: Any) -> None:
    result = timed("ratio=1.05", *CPU, "-q")
    assert re.fullmatch(r"SLOWER .*\n", result.out)
    assert result.err == ""


def test_a_log_names_what_is_going_on(timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfcli.console.notes.PATIENCE_SECONDS", 0.0)
    said = timed("ratio=1", *CPU).err
    lines = [line.partition(" (")[0] for line in said.splitlines()]
    assert lines[-4:] == [
        "both: importing torch",
        "both: building and tracing the model",
        "both: compiling kernels",
        "both: measuring for up to 20 s",
    ]


def test_a_script_runs_on_the_gpu_that_was_asked_for(a_gpu: None, tmp_path: Path) -> None:
    """It is run there and nowhere else, and its steps are not timed."""
    from perfcli.workflow.request import Question, Side, make_jobs
    from perfcli.workflow.setting import MeasuringOptions, Setting, why_not

    script = tmp_path / "train.py"
    script.write_text("import torch\nf = torch.compile(abs)\nf(torch.ones(3))\n")

    def make(**how: Any) -> Any:
        (job,) = make_jobs(Question(str(script), **how), [Side()], executor.fake_interpreter)
        return job

    asked, usual = make(device="cuda"), make()
    assert asked.request.on_device
    assert not usual.request.on_device
    assert not make(target="h100").request.on_device
    assert asked.fingerprint != usual.fingerprint
    setting = Setting(MeasuringOptions(), "cuda", 20.0, 1, None, ())
    assert "steps of scripts are not timed" in why_not([asked], setting)
