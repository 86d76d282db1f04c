"""compare with two stored runs: which measurement of them is shown, and what is said of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfcli.storing import store, timings

CPU = ("compare", "gqa-transformer", "-p", "layers=3", "--device", "cpu")
MIX = (*CPU, "-b", "triton.mix_order_reduction=false")
Measured = Callable[[str], Path]


@pytest.fixture
def measured(perfcli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measured:
    """Measures, with what the workers do; gives the new file."""
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))

    def run(plan: str) -> Path:
        before = set(timings.FOLDER.glob("*"))
        monkeypatch.setenv("PERFCLI_FAKE", f"1;{plan}")
        perfcli(*MIX, "--seed", "7")
        (path,) = set(timings.FOLDER.glob("*")) - before
        return path

    return run


def ids() -> list[str]:
    base, head = [stored.header.id for stored in store.runs()]
    return [base, head]


def first_word(result: Any) -> str:
    word: str = result.out.split()[0]
    return word


def damage(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:5], b'{"round": 7}', *lines[6:]]))


@pytest.mark.parametrize("cut_short", ["fail=interrupt:base:20", "fail=dies:head:30"])
def test_one_that_ran_to_its_end_is_preferred(
    perfcli: Any, measured: Measured, cut_short: str
) -> None:
    """The first is precise enough, the second spends its budget."""
    for plan, word in (("ratio=1.05", "SLOWER"), ("ratio=0.8;noise=0.2", "FASTER")):
        measured(plan)
        newer = measured(f"ratio=1;{cut_short}")
        assert not timings.read(newer).stopped.endswith(("enough", "spent"))
        result = perfcli("compare", *ids())
        assert first_word(result) == word
        assert "warning" not in result.err


def test_one_that_was_interrupted_is_shown_where_it_is_the_only_one(
    perfcli: Any, measured: Measured
) -> None:
    measured("ratio=1.05;fail=interrupt:base:30")
    result = perfcli("compare", *ids())
    assert "interrupted" in result.out


def test_the_next_that_can_be_read_is_shown(perfcli: Any, measured: Measured) -> None:
    measured("ratio=1.05")
    later, newest = measured("ratio=0.9"), measured("ratio=0.9")
    damage(newest)
    newer = timings.FORMAT + 1
    later.write_text(later.read_text().replace(f'"format":{newer - 1}', f'"format":{newer}'))
    result = perfcli("compare", *ids())
    assert first_word(result) == "SLOWER"
    (warning,) = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    assert f"{newest} is a broken measurement" in warning
    assert f"{later} has format {newer}, this perfcli reads up to {newer - 1}" in warning
    assert "without times" not in warning


def test_without_any_that_can_be_read(perfcli: Any, measured: Measured) -> None:
    damage(measured("ratio=1.05"))
    result = perfcli("compare", *ids())
    assert "in line 6; measure again; the report follows without times" in result.err
    assert "SLOWER" not in result.out


def test_garbage_is_told_once(perfcli: Any, measured: Measured) -> None:
    for number in range(2):
        measured("ratio=1.05").write_text(f"garbage {number}")
    result = perfcli("compare", *ids())
    first = min(timings.FOLDER.glob("*")).name
    told = f"warning: 2 files in .perfcli/timings can't be read (the first is {first})"
    assert result.err.splitlines().count(told) == 1
    assert result.err.count("warning") == 1


def test_the_other_way_round_is_the_inverse(perfcli: Any, measured: Measured) -> None:
    measured("ratio=1.25;noise=0.01")
    base, head = ids()
    found = []
    for order in ((base, head), (head, base)):
        result = perfcli("compare", *order, "--json", "out.json")
        found.append(json.loads(Path("out.json").read_text())["timing"])
        assert first_word(result) == ("SLOWER" if order == (base, head) else "FASTER")
        assert ("base and head exchanged" in result.out) == (order == (head, base))
    one, other = (each["step"] for each in found)
    assert one["ratio"] == pytest.approx(1.25, rel=0.01)
    assert other["ratio"] == pytest.approx(1 / one["ratio"])
    assert (other["low"], other["high"]) == pytest.approx((1 / one["high"], 1 / one["low"]))
    assert found[0]["measurement"] == found[1]["measurement"]


MODEL = """
import torch
from torch import nn

def old(rows=4): ...
def new(rows=4): ...

class Net(nn.Module):
    def forward(self, x): ...

class Wide(nn.Module):
    def forward(self, x): ...
"""


def run_and_compare(
    perfcli: Any, made: list[str], *compared: str, base: bool = True
) -> tuple[Any, Any]:
    """Store a run, then compare with it: it is the base, or the head. Return what was said, and the
    run of the other side; None where it was not compiled."""
    Path("model.py").write_text(MODEL)
    before = set(ids_of_all())
    assert perfcli("run", *made, "--fresh").code == 0
    (run,) = set(ids_of_all()) - before
    first, *others = compared
    sides = (run, first) if base else (first, run)
    result = perfcli("compare", *sides, *others, "--fresh")
    new = set(ids_of_all()) - before - {run}
    return result, store.read(store.FOLDER / f"{new.pop()}.json") if new else None


def ids_of_all() -> list[str]:
    return [stored.header.id for stored in store.runs()]


@pytest.mark.parametrize("base", [True, False])
def test_the_other_side_is_compiled_as_the_stored_run_was(perfcli: Any, base: bool) -> None:
    made = ["model.py:old", "--target", "b200", "-p", "rows=8", "-o", "split_reductions=false"]
    result, run = run_and_compare(perfcli, made, "model.py:old", base=base)
    assert result.code == 0
    assert run.target.name == "b200"
    assert str(run.params["rows"]) == "8"
    assert run.variant.options == {"split_reductions": False}
    assert "with --target b200 -p rows=8" in result.err


def test_what_is_typed_counts_instead(perfcli: Any) -> None:
    made = ["model.py:old", "-p", "rows=8", "-o", "split_reductions=false"]
    typed = ["-p", "rows=16", "-b", "split_reductions=true", "--target", "a100"]
    result, run = run_and_compare(perfcli, made, "model.py:old", *typed, "--allow", "target")
    assert result.code == 0
    assert (str(run.params["rows"]), run.target.name) == ("16", "a100")
    assert run.variant.options == {"split_reductions": True}


SCRIPT = "import sys\nif __name__ == '__main__': ...\n"


@pytest.mark.parametrize("base", [True, False])
def test_arguments_of_a_script_are_taken_over(perfcli: Any, base: bool) -> None:
    Path("train.py").write_text(SCRIPT)
    made = ["train.py", "--layers", "8"]
    result, run = run_and_compare(perfcli, made, "train.py", base=base)
    assert result.code == 0, result.err
    assert (run.scenario, run.script.arguments) == ("train.py --layers 8", ("--layers", "8"))
    assert "with --layers 8" in result.err


def test_arguments_that_were_typed_and_those_of_another_script_stay(perfcli: Any) -> None:
    for name in ("train.py", "other.py"):
        Path(name).write_text(SCRIPT)
    made = ["train.py", "--layers", "8"]
    _, run = run_and_compare(perfcli, made, "train.py 4")
    assert run.script.arguments == ("4",)
    _, run = run_and_compare(perfcli, made, "other.py")
    assert run.script.arguments == ()


def test_arguments_that_name_files_need_trust(perfcli: Any) -> None:
    Path("train.py").write_text(SCRIPT)
    made = ["train.py", "--config", "/tmp/a.py"]
    result, run = run_and_compare(perfcli, made, "train.py")
    assert "was called with --config /tmp/a.py, which is not taken over: only its" in result.err
    assert run.script.arguments == ()
    _, run = run_and_compare(perfcli, made, "train.py", "--trust-run")
    assert run.script.arguments == ("--config", "/tmp/a.py")


def test_inputs_are_taken_over(perfcli: Any) -> None:
    made = ["model.py:Net", "--input", "8,64:bf16"]
    _, same = run_and_compare(perfcli, made, "model.py:Net")
    _, needing = run_and_compare(perfcli, made, "model.py:Wide")
    _, building = run_and_compare(perfcli, made, "model.py:new")
    inputs = [run.inputs for run in (same, needing, building)]
    assert inputs == [("8,64:bf16",), ("8,64:bf16",), ()]


def test_another_scenario_has_the_parameters_of_the_same_name(perfcli: Any) -> None:
    made = ["rmsnorm", "-p", "rows=64", "-p", "mode=training", "--vary", "columns=8,16"]
    _, run = run_and_compare(perfcli, made, "softmax")
    assert run.scenario == "softmax"
    assert {name: run.params[name] for name in ("rows", "mode")} == {"rows": 64, "mode": "training"}


def test_what_only_a_runs_file_names_is_not_started(perfcli: Any) -> None:
    made = ["softmax", "-o", "TORCHINDUCTOR_MAX_AUTOTUNE=0", "-o", "split_reductions=false"]
    result, run = run_and_compare(perfcli, made, "softmax")
    assert "the variable TORCHINDUCTOR_MAX_AUTOTUNE, which is not taken over" in result.err
    assert (run.variant.env, run.variant.options) == ({}, {"split_reductions": False})
    trusted, run = run_and_compare(perfcli, made, "softmax", "--trust-run")
    assert "not taken over" not in trusted.err
    assert run.variant.env == {"TORCHINDUCTOR_MAX_AUTOTUNE": "0"}


@pytest.mark.parametrize("typed", [["-a", "split_reductions=false"], ["--toggle", "benchmark"]])
def test_a_stored_run_has_no_options_of_its_own(perfcli: Any, typed: list[str]) -> None:
    result, _ = run_and_compare(perfcli, ["softmax"], "softmax", *typed)
    assert result.code == 2
    assert "is a stored run and stays as it is: give softmax its options" in result.complaint
