"""What can't come to anything is refused before anything is compiled or measured, in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfcli.machine import noise_floors as floors
from perfcli.storing import store, timings

CPU = ("--device", "cpu")
COMPARE = ("compare", "rmsnorm", *CPU, "-b", "triton.mix_order_reduction=false")
NOISE = ("noise", "rmsnorm", *CPU)
RUN = ("run", "rmsnorm", *CPU)
EXPLAIN = ("explain", "rmsnorm", *CPU)
INSPECT = ("inspect-kernel", "rmsnorm", *CPU)
TOO_LARGE = "99999999999999999999999"

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, perfcli: Any) -> None:
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFCLI_FAKE", "1;ratio=1.05")


@pytest.fixture
def refused(perfcli: Any) -> Refused:
    """Runs a command that must refuse; its one line."""

    def run(*argv: str) -> str:
        result = perfcli(*argv)
        assert (result.code, result.out) == (2, "")
        assert len(result.err.splitlines()) == 1
        assert store.runs() == []
        assert not timings.FOLDER.exists()
        return str(result.complaint)

    return run


# --- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["inf", "1e9", "1000000.5"])
@pytest.mark.parametrize("command", [COMPARE, NOISE])
def test_a_budget_without_end(refused: Refused, command: tuple[str, ...], budget: str) -> None:
    said = refused(*command, "--budget", budget)
    assert said.startswith("perfcli: --budget ")
    assert "seconds up to 1,000,000 is expected" in said


@pytest.mark.parametrize("seed", [str(2**63), TOO_LARGE])
@pytest.mark.parametrize("command", [COMPARE, NOISE])
def test_a_seed_that_torch_does_not_take(
    refused: Refused, command: tuple[str, ...], seed: str
) -> None:
    assert f"--seed {seed}: a number from 0 to 2^63 − 1" in refused(*command, "--seed", seed)


def test_the_largest_numbers_are_taken(perfcli: Any) -> None:
    for command in (COMPARE, NOISE):
        assert perfcli(*command, "--seed", str(2**63 - 1), "--budget", "1e6").code in (0, 1)
    seeds = {timings.read(path).seed for path in timings.FOLDER.iterdir()}
    assert 2**63 - 1 in seeds


@pytest.mark.parametrize(("cores", "told"), [({3}, "1 core can"), ({0, 3}, "2 cores can")])
def test_cores_are_counted_in_plain_words(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, cores: set[int], told: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    assert f"--threads 3: only {told} be used here" in refused(*COMPARE, "--threads", "3")


# --- targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run", "compare", "explain", "inspect-kernel", "tune"])
def test_two_targets_are_not_taken_for_the_last_one(refused: Refused, name: str) -> None:
    said = refused(name, "rmsnorm", "--target", "h100", "--target=a100")
    assert said == (
        f"perfcli: {name} takes one target, got --target h100 --target a100: give one --target "
        "per command (sweep takes a list: --target h100,a100)"
    )


def test_a_target_typed_twice(refused: Refused) -> None:
    said = refused("run", "rmsnorm", "--target", "h100", "--target", "h100")
    assert said.endswith("got --target h100 --target h100: give one --target per command")


def test_sweep_takes_its_targets_in_one_list(refused: Refused) -> None:
    said = refused("sweep", "rmsnorm", "--target", "h100,h200", "--target", "a100")
    assert said == (
        "perfcli: sweep takes one list of targets, got --target h100,h200 --target a100: "
        "give --target h100,h200,a100"
    )


@pytest.mark.parametrize("words", ["", "--epochs 3"])
def test_a_target_of_a_script_is_not_counted(perfcli: Any, words: str) -> None:
    Path("train.py").write_text("import torch\n")
    own = ("run", "train.py", *words.split(), "--target", "h100")
    assert "takes one target" not in perfcli(*own, "--", "--target", "a100").err
    assert "run takes one target" in perfcli(*own, "--target", "a100").complaint


# --- where JSON goes ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", [COMPARE, NOISE, RUN, EXPLAIN, INSPECT])
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("missing/out.json", "there is no folder missing"),
        ("folder", "it is a folder"),
        ("file/out.json", "Not a directory"),
        (f"{'x' * 300}.json", "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written(
    refused: Refused, command: tuple[str, ...], path: str, told: str
) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    said = refused(*command, "--json", path)
    assert said.startswith(f"perfcli: can't write {path}: ")
    assert told in said


def test_a_file_without_permission(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def access(path: Any, mode: int) -> bool:
        return mode == os.R_OK or str(path) not in ("own.json", "locked")

    monkeypatch.setattr(os, "access", access)
    Path("own.json").touch()
    Path("locked").mkdir()
    for path in ("own.json", "locked/out.json"):
        assert f"can't write {path}: no permission" in refused(*COMPARE, "--json", path)


@pytest.mark.parametrize("command", [COMPARE, RUN, NOISE])
def test_a_file_that_can_be_written_is(perfcli: Any, command: tuple[str, ...]) -> None:
    Path("folder").mkdir()
    for path in ("new.json", "folder/new.json", "new.json"):
        assert perfcli(*command, "--json", path).code in (0, 1)
        assert json.loads(Path(path).read_text())


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (COMPARE, "SLOWER"),
        (NOISE, "noise floor"),
        (RUN, "rmsnorm"),
        (EXPLAIN, "rmsnorm"),
        (INSPECT, "loads"),
        ((*INSPECT, "0"), "loads"),
        ((*INSPECT, "0", "--source"), "@triton.jit"),
    ],
)
def test_the_report_is_shown_though_the_disk_is_full(
    perfcli: Any, command: tuple[str, ...], told: str
) -> None:
    result = perfcli(*command, "--json", "/dev/full")
    assert result.code == 2
    assert "perfcli: can't write /dev/full: No space left on device" in result.err
    assert told in result.out


# --- noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        ("-p", "rows=8"),
        ("--preset", "full"),
        ("--device", "cpu"),
        ("-o", "max_autotune=true"),
        ("--python", "python3"),
        ("--budget", "3"),
        ("--pairs", "3"),
        ("--threads", "1"),
        ("--seed", "0"),
        ("--slow-head", "3"),
        ("--timeout", "9"),
    ],
)
@pytest.mark.parametrize("action", ["--show", "--forget"])
def test_options_that_stored_floors_do_not_have(
    perfcli: Any, action: str, option: tuple[str, str]
) -> None:
    assert perfcli("noise", "rmsnorm", "--device", "cpu", "-q").code == 0
    result = perfcli("noise", action, *option)
    assert (result.code, result.out) == (2, "")
    assert result.complaint.startswith(f"perfcli: {action} ")
    short = {"-p": "--param", "-o": "--option"}
    assert f"leave out {short.get(option[0], option[0])}" in result.complaint
    ((_, known),) = floors.load_floors()
    assert known is not None


def test_forget_names_whose_floors_would_go(refused: Refused) -> None:
    said = refused("noise", "softmax", "--preset", "full", "--forget", "--json", "x.json")
    assert "--forget removes all floors of softmax, whatever their parameters" in said
    assert said.endswith("leave out --preset, --json")


def test_show_takes_no_scenario(refused: Refused) -> None:
    assert "--show lists all stored floors: leave out softmax" in refused(
        "noise", "softmax", "--show"
    )


def test_a_gpu_that_is_not_there_cannot_be_measured(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfcli.machine.targets.has_gpu", lambda: False)
    said = refused("noise", "softmax", "--device", "cuda")
    assert "no NVIDIA GPU found here to measure on" in said
    assert "--device cpu" in said
    assert "--target" not in said


@pytest.mark.parametrize(
    ("param", "said"),
    [
        ("rows=abc", "parameter rows needs a whole number (int), not 'abc'"),
        ("row=4", "model.py:block has no parameter 'row': did you mean rows?"),
    ],
)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_wrong_parameter_of_a_file(refused: Refused, command: str, param: str, said: str) -> None:
    """Comparing has nothing that differs either."""
    Path("model.py").write_text("def block(rows=128):\n    return abs, (rows,)\n")
    assert refused(command, "model.py:block", "-p", param) == f"perfcli: {said}"
