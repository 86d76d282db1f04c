"""compare --with-kernel: Inductor's made-up run beside hand-written kernels, made-up too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfcli.loading import registry
from perfcli.storing import store

DEFAULTS = {"rows": 64, "columns": 256, "dtype": "bfloat16"}
SMALL = ("compare", "softmax", "--with-kernel", "--preset", "smoke")


def row(text: str, title: str) -> list[str]:
    """The cells of a row of the first table that has it."""
    line = next(line for line in text.splitlines() if line.startswith(title))
    return line.removeprefix(title).split()


def test_both_sides_stand_in_one_report(perfcli: Any) -> None:
    result = perfcli(*SMALL, "--target", "h200")
    assert result.code == 0
    assert "head  kernel softmax/tiled · torch 2.13.0" in result.out
    assert row(result.out, "launches") == ["15", "1"]
    assert row(result.out, "passes over the input")[1] == "1"
    assert row(result.out, "loaded 16 bytes at a time") == ["100", "%", "88.9", "%"]
    assert row(result.out, "bytes moved")[2:] == ["1.05", "MB"]  # 2 × 128 × 2048 × 2 B
    assert "kernels       softmax/tiled: " in result.out
    assert "--target h200 compiles without a device" in result.out
    assert max(map(len, result.out.splitlines())) <= 100


@pytest.mark.parametrize(("scenario", "eps"), [("rmsnorm", 1e-6), ("layernorm", 1e-5)])
def test_norms_stand_beside_kernels_of_the_same_epsilon(
    perfcli: Any, scenario: str, eps: float
) -> None:
    asked = ("compare", scenario, "--with-kernel", "--preset", "smoke", "--target", "h200")
    result = perfcli(*asked, "-p", "mode=training")
    assert result.code in (0, 1)
    assert f"head  kernel {scenario}/" in result.out and f" + {scenario}/" in result.out
    handwritten = registry.scenario(scenario).handwritten
    assert handwritten is not None
    problems = handwritten({**DEFAULTS, "mode": "training"})
    assert [(p.problem.operation, p.problem.settings, p.backward) for p in problems] == [
        (scenario, {"eps": eps}, False),
        (f"{scenario}-backward", {"eps": eps}, True),
    ]


def test_the_head_is_a_run_like_any_other(perfcli: Any) -> None:
    first = perfcli(*SMALL, "--target", "h200")
    base, head = (stored.header.id for stored in store.runs())
    again = perfcli("compare", base, head)
    assert again.out.splitlines()[0] == first.out.splitlines()[0]
    assert "Beside hand-written" not in again.out
    shown = perfcli("inspect-kernel", head, "0", "--source")
    assert "def tiled_forward(x_ptr" in shown.out


def test_times_are_taken_in_turns_where_there_is_a_device(perfcli: Any) -> None:
    result = perfcli(*SMALL, "--seed", "7", "--json", "out.json")
    inductor, _, ours, _ = row(result.out, "of a copy's speed")
    assert (float(inductor), float(ours)) == pytest.approx((100 / 1.5, 100 / 1.03), rel=0.005)
    (race,) = json.loads(Path("out.json").read_text())["beside"]["times"]
    assert race["problem"] == "softmax 128 × 2048 bfloat16"
    assert race["inductor"] / race["copy"] == pytest.approx(1.5, rel=0.01)
    assert race["rounds"] == 40


def test_training_is_a_problem_for_each_direction(perfcli: Any) -> None:
    result = perfcli(*SMALL, "-p", "mode=training")
    assert "time, softmax " in result.out
    assert "time, softmax-backward" in result.out
    (_, head) = (store.read(stored.path) for stored in store.runs())
    assert [kernel.graph for kernel in head.kernels] == ["forward 0", "backward 0"]
    assert {origin for kernel in head.kernels for origin in kernel.origins}


def test_what_the_scenario_computes_besides_is_said(perfcli: Any) -> None:
    result = perfcli("compare", "cross-entropy", "--with-kernel", "--preset", "smoke")
    assert "left out      the mean of the losses" in result.out


def test_json_has_both_sides(perfcli: Any) -> None:
    perfcli(*SMALL, "--target", "h200", "--json", "out.json")
    beside = json.loads(Path("out.json").read_text())["beside"]
    assert beside["kernels"] == ["softmax/tiled"]
    assert beside["hand_written"]["bytes_moved"] == 2 * 128 * 2048 * 2
    assert beside["hand_written"]["launches"] == 1
    assert beside["inductor"]["launches"] == 15
    assert beside["times"] == []
    assert beside["untimed"].startswith("--target h200")
    perfcli("compare", "rmsnorm", "--toggle", "split_reductions", "--json", "usual.json")
    assert "beside" not in json.loads(Path("usual.json").read_text())


def test_a_contender_that_fails_leaves_the_rest_of_the_report(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1;missing=inductor")
    result = perfcli(*SMALL)
    assert result.code == 0
    assert "is not timed: inductor: inductor is not installed" in result.err
    assert "of a copy's speed" not in result.out


def test_a_kernel_that_triton_refuses_is_an_error(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1;refuses=tiled_forward")
    result = perfcli(*SMALL, "--target", "h200")
    assert result.code == 2
    assert "can't be launched: tiled_forward does not compile for h200" in result.complaint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("accumulate",),
            "nobody wrote kernels for the scenario accumulate: --with-kernel is for ",
        ),
        (("accumulate",), "cross-entropy, layernorm, rmsnorm, softmax"),
        (("model.py:block",), "a file of your own: --with-kernel is for shipped scenarios"),
        (("softmaks",), "did you mean softmax?"),
        (("softmax", "-p", "dtype=float64"), "can't do these parameters: "),
        (("softmax", "--device", "cpu"), "for GPUs: leave out --device cpu"),
        (("softmax", "-b", "online_softmax=false"), "leave out -b"),
        (("softmax", "run.json"), "leave out RUN"),
        (("softmax", "--try-fixes"), "leave out --try-fixes"),
        (("softmax", "--cuda-graph"), "leave out --cuda-graph"),
        (("softmax", "--target", "h100", "--budget", "5"), "measures nothing: leave out --budget"),
        (("softmax", "--no-time", "--seed", "5"), "measures nothing: leave out --seed"),
    ],
)
def test_what_it_can_not_do_is_refused_before_anything_is_compiled(
    perfcli: Any, arguments: tuple[str, ...], words: str
) -> None:
    result = perfcli("compare", *arguments, "--with-kernel")
    assert result.code == 2
    assert words in result.complaint
    assert not store.runs()


def test_options_and_dynamic_shapes_are_not_timed(perfcli: Any) -> None:
    options = perfcli(*SMALL, "-a", "split_reductions=false")
    assert "not timed     Inductor is timed with its default options alone" in options.out
    dynamic = perfcli(*SMALL, "--dynamic")
    assert "not timed     Inductor is timed with sizes that it knows" in dynamic.out
