"""compare: two variants, two stored runs, and everything that can go wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import rewrite

from perfcli.fake import executor
from perfcli.loading.userfile import FORWARD_ONLY
from perfcli.model import Bundle, CompileRequest, Run
from perfcli.storing import store

MAX_READS = "triton.mix_order_reduction_max_reads"
WORSE = ("compare", "gqa-transformer", "-p", "layers=3", "-b", f"{MAX_READS}=1000")


def stored_ids() -> list[str]:
    return [stored.header.id for stored in store.runs()]


# --- what it says ----------------------------------------------------------------------------


def test_a_regression_is_exit_code_1_and_the_first_line(perfcli: Any) -> None:
    result = perfcli(*WORSE)
    assert result.code == 1
    assert result.out.startswith(
        "WORSE  spilled words 0 → 46: triton_red_fused_add_mul_rms_norm_sum_0 fuses 3 kernels"
    )
    assert "fused 3 → 1" in result.out
    assert "12 kernels did not change" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    assert not any(line != line.rstrip() for line in result.out.splitlines())


def test_an_improvement_and_no_change_are_exit_code_0(perfcli: Any) -> None:
    better = perfcli("compare", "rmsnorm", "-a", f"{MAX_READS}=1000")
    assert (better.code, better.out[:6]) == (0, "BETTER")
    same = perfcli("compare", "rmsnorm", "-b", f"{MAX_READS}=9")
    assert (same.code, same.out[:4]) == (0, "SAME")


def test_a_side_set_to_the_default_is_told(perfcli: Any) -> None:
    for way in (["-b", f"{MAX_READS}=10"], ["--toggle", f"{MAX_READS}=10"]):
        result = perfcli("compare", "rmsnorm", *way)
        assert (result.code, result.out[:4]) == (0, "SAME")
        said = f"both sides are the same: {MAX_READS}=10 is the default of torch 2.13.0 already"
        assert said in result.err
    both = perfcli("compare", "rmsnorm", "-a", f"{MAX_READS}=10", "-b", f"{MAX_READS}=1000")
    assert "default of torch" not in both.err
    other = perfcli("compare", "rmsnorm", "-b", f"{MAX_READS}=9")
    assert "default of torch" not in other.err


def test_all_toggles_are_applied(perfcli: Any) -> None:
    toggles = ("--toggle", "online_softmax=false", "--toggle", "split_reductions")
    assert perfcli("compare", "rmsnorm", *toggles).code == 0
    base, head = (stored.header.variant for stored in store.runs())
    assert base == "split_reductions=true"
    assert head == "online_softmax=false split_reductions=false"


def test_the_report_names_the_runs_and_the_next_command(perfcli: Any) -> None:
    result = perfcli(*WORSE)
    base, head = stored_ids()
    assert f"base  .perfcli/runs/{base}.json" in result.out
    assert f"perfcli inspect-kernel {head} 3" in result.out
    closer = perfcli("inspect-kernel", head, "3")
    assert closer.out.startswith("3  triton_red_fused_add_mul_rms_norm_sum_0")


def test_stored_runs_by_path_id_and_beginning(perfcli: Any, tmp_path: Path) -> None:
    first = perfcli(*WORSE)
    base, head = stored_ids()
    by_id = perfcli("compare", base, head)
    assert by_id == perfcli("compare", base[:-1], head[:-1])
    assert by_id.code == 1
    assert by_id.out == first.out
    moved = tmp_path / "base.json"
    moved.write_bytes(Path(f".perfcli/runs/{base}.json").read_bytes())
    by_path = perfcli("compare", str(moved), f".perfcli/runs/{head}.json")
    assert by_path.code == 1
    assert f"perfcli inspect-kernel {moved} 3" in by_path.out


def test_json_into_a_file_and_onto_stdout(perfcli: Any) -> None:
    result = perfcli(*WORSE, "--json", "out.json")
    document = json.loads(Path("out.json").read_text())
    assert result.out.startswith("WORSE")
    assert document["perfcli"] == "comparison"
    assert document["outcome"] == "worse"
    assert document["totals"]["spilled_words"] == {
        "base": 0,
        "head": 46,
        "delta": 46,
        "outcome": "worse",
    }
    piped = perfcli("compare", *stored_ids(), "--json", "-")
    assert json.loads(piped.out) == document
    assert piped.err.startswith("WORSE")


def test_quiet_is_one_line_and_no_notes(perfcli: Any) -> None:
    result = perfcli(*WORSE, "--quiet")
    assert result.out.startswith("WORSE")
    assert len(result.out.splitlines()) == 1
    assert result.err == ""


def test_no_colours_in_a_pipe_but_where_forced(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in perfcli(*WORSE).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;31mWORSE" in perfcli(*WORSE).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in perfcli(*WORSE).out


def test_toggle_of_a_switch_and_with_a_value(perfcli: Any) -> None:
    switched = perfcli("compare", "rmsnorm", "--toggle", "triton.cudagraphs")
    assert "triton.cudagraphs=false" in switched.out
    assert "triton.cudagraphs=true" in switched.out
    valued = perfcli("compare", "rmsnorm", "--toggle", f"{MAX_READS}=1000")
    assert valued.code == 1


# --- nothing twice, nothing lost -------------------------------------------------------------


def test_nothing_changed_means_nothing_is_compiled(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = perfcli(*WORSE)
    monkeypatch.setenv("PERFCLI_FAKE", "killed:0")
    again = perfcli(*WORSE)
    assert again.out == first.out
    assert again.err.count("nothing changed since run") == 2
    assert "--fresh compiles again" in again.err
    assert perfcli(*WORSE, "--fresh").code == 2


def test_another_parameter_is_compiled_again(perfcli: Any) -> None:
    perfcli(*WORSE)
    perfcli(*WORSE, "-p", "layers=2")
    assert len(stored_ids()) == 4


def test_an_edited_file_is_compiled_again(perfcli: Any) -> None:
    model = Path("model.py")
    model.write_text("def build(): ...\n")
    for _ in range(2):
        perfcli("run", "model.py")
    assert len(stored_ids()) == 1
    model.write_text("def build(): return None\n")
    perfcli("run", "model.py")
    assert len(stored_ids()) == 2


def test_an_edited_import_is_compiled_again(perfcli: Any) -> None:
    """The run itself says which files it read; the fake can't, so the stored run is edited."""
    imported = Path("layers.py")
    imported.write_text("one = 1\n")
    perfcli("run", "rmsnorm")
    (path,) = [stored.path for stored in store.runs()]
    document = json.loads(path.read_text())
    digest = "2b7a7d1d5b9fc3bd1d5b8a5b0c3a4c0f0000000000000000000000000000beef"
    document["run"]["sources"] = {str(imported.absolute()): digest}
    rewrite(path, document)
    perfcli("run", "rmsnorm")
    assert len(stored_ids()) == 2


@pytest.mark.parametrize("failure", ["user", "compile", "killed", "hang"])
def test_a_failure_of_the_second_keeps_the_first(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"{failure}:1")
    result = perfcli(*WORSE)
    assert result.code == 2
    assert result.out == ""
    (kept,) = stored_ids()
    assert f"default is stored as .perfcli/runs/{kept}.json" in result.err
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    assert f"nothing changed since run {kept}" in perfcli(*WORSE).err


def test_ctrl_c_says_what_is_stored(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "interrupt:1")
    result = perfcli(*WORSE)
    assert result.code == 130
    (kept,) = stored_ids()
    assert result.complaint == (
        f"perfcli: interrupted; default is stored as .perfcli/runs/{kept}.json"
    )
    monkeypatch.setenv("PERFCLI_FAKE", "interrupt:0")
    result = perfcli(*WORSE, "--fresh")
    assert result.complaint == "perfcli: interrupted; nothing was finished"


def test_a_users_traceback_is_shown_and_ours_is_not(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "user:0")
    result = perfcli(*WORSE)
    assert result.complaint == "perfcli: gqa-transformer raised ValueError: no such layer"
    assert 'File "model.py", line 7' in result.err
    assert "perfcli/" not in result.err


def test_a_store_that_cannot_be_written_still_gives_the_report(perfcli: Any) -> None:
    Path(".perfcli").write_text("a file is in the way")
    result = perfcli(*WORSE)
    assert result.code == 1
    assert result.out.startswith("WORSE")
    assert result.err.count(".perfcli can't be written: Not a directory: ") == 1  # of both runs
    assert "Stored" not in result.out
    assert "inspect-kernel" not in result.out


def test_a_full_disk_still_gives_the_report(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = perfcli(*WORSE)
    assert result.code == 1
    assert "warning: no space left to write .perfcli/runs/" in result.err
    assert stored_ids() == []


def test_a_json_file_that_cannot_be_written(perfcli: Any) -> None:
    result = perfcli(*WORSE, "--json", "no/such/folder.json")
    assert result.code == 2
    assert "can't write no/such/folder.json" in result.complaint


# --- bad input -------------------------------------------------------------------------------

BAD = [
    (["compare", "gqa-transfomer", "-b", f"{MAX_READS}=9"], "did you mean gqa-transformer?"),
    (["compare", "rmsnorm"], "both sides are the same: say what differs"),
    (["compare", "rmsnorm", "-b", "triton.mix_order_reductoin=false"], "mix_order_reduction"),
    (["compare", "rmsnorm", "-b", f"{MAX_READS}=many"], "a whole number"),
    (["compare", "rmsnorm", "-b", "no-equals"], "NAME=VALUE"),
    (["compare", "rmsnorm", "-p", "rows", "-b", f"{MAX_READS}=9"], "NAME=VALUE"),
    (["compare", "rmsnorm", "-p", "rows=x", "-b", f"{MAX_READS}=9"], "whole number"),
    (["compare", "rmsnorm", "-p", "colums=9", "-b", f"{MAX_READS}=9"], "did you mean columns?"),
    (["compare", "rmsnorm", "--preset", "huge", "-b", f"{MAX_READS}=9"], "no preset 'huge'"),
    (["compare", "rmsnorm", "--target", "h1000", "-b", f"{MAX_READS}=9"], "h100"),
    (["compare", "rmsnorm", "--device", "tpu", "-b", f"{MAX_READS}=9"], "cuda or cpu"),
    (["compare", "rmsnorm", "--device", "cpu", "--target", "h100"], "is a GPU"),
    (["compare", "rmsnorm", "--toggle", MAX_READS], "yes-or-no"),
    (["compare", "nowhere.json", "nothing.json"], "no stored run 'nowhere.json'"),
    (["compare", "rmsnorm", "sofmax"], "did you mean softmax?"),
    (["compare", "rmsnorm", "softmax", "more"], "'more' is one word too many"),
    (["compare", "2611", "2612"], "perfcli runs lists them"),
    (["compare", "a.json", "b.json", "-p", "rows=1"], "compared as they are"),
    (["compare"], "Missing argument"),
    (["compare", "rmsnorm", "--no-such-option"], "No such option"),
    (["no-such-command"], "No such command"),
]


@pytest.mark.parametrize(("argv", "says"), BAD)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    perfcli: Any, argv: list[str], says: str
) -> None:
    result = perfcli(*argv)
    assert result.code == 2
    assert result.out == ""
    assert says in result.err
    assert "Traceback" not in result.err
    assert stored_ids() == []


def test_unlike_runs_are_exit_code_4(perfcli: Any) -> None:
    perfcli("run", "rmsnorm", "-p", "rows=4")
    perfcli("run", "rmsnorm", "-p", "rows=8")
    base, head = stored_ids()
    result = perfcli("compare", base, head)
    assert result.code == 4
    assert result.complaint == (
        "perfcli: not comparable: parameter rows 4 → 8 (compare anyway: --allow params)"
    )
    assert perfcli("compare", base, head, "--allow", "params").code == 0
    assert perfcli("compare", base, head, "--allow", "rows").code == 2


@pytest.mark.parametrize(
    ("other", "says", "allow"),
    [
        (("softmax",), "scenario rmsnorm → softmax; parameter ", ("scenario", "params", "mode")),
        (("rmsnorm", "-p", "rows=8"), "parameter rows 32768 → 8", ("params",)),
        (("rmsnorm", "--target", "a100"), "h100 (sm_90, 132 SMs) → a100 (sm_80,", ("target",)),
        (("rmsnorm", "--dynamic"), "dynamic off → on", ("dynamic",)),
        (("rmsnorm", "--target", "a100", "--dynamic"), "; dynamic off", ("target", "dynamic")),
    ],
)
def test_what_differs_and_how_to_compare_anyway(
    perfcli: Any, other: tuple[str, ...], says: str, allow: tuple[str, ...]
) -> None:
    perfcli("run", "rmsnorm")
    perfcli("run", *other)
    base, head = stored_ids()
    result = perfcli("compare", base, head)
    assert (result.code, result.out) == (4, "")
    assert says in result.complaint
    given = result.complaint.partition("(compare anyway: ")[2].rstrip(")").split()
    assert set(given[1::2]) <= set(allow)
    allowed = perfcli("compare", base, head, *given)
    assert allowed.code in (0, 1)
    assert "apart" in allowed.out  # said, though allowed


def test_a_run_of_another_mode_is_not_comparable(perfcli: Any) -> None:
    perfcli("run", "rmsnorm")
    (base,) = stored_ids()
    document = json.loads(Path(f".perfcli/runs/{base}.json").read_text())
    assert document["run"]["mode"] == "training"
    document["run"]["mode"] = "forward"
    rewrite(Path("other.json"), document)
    result = perfcli("compare", base, "other.json")
    assert result.code == 4
    assert "mode training → forward (compare anyway: --allow mode)" in result.complaint


def test_kernels_without_provenance_are_matched_by_name_and_said_so(perfcli: Any) -> None:
    perfcli(*WORSE)
    paths = [Path(f".perfcli/runs/{identity}.json") for identity in stored_ids()]
    number = 0
    for path in paths:
        document = json.loads(path.read_text())
        kernels = document["run"]["kernels"]
        number += len(kernels)
        for kernel in kernels:
            kernel["origins"] = []
            if path is paths[1] and "leaky" in kernel["name"]:
                kernel["source_hash"] += "other"
                for candidate in kernel["candidates"]:
                    candidate["binary_hash"] += "other"
        rewrite(path, document)
    result = perfcli("compare", *map(str, paths))
    assert result.code == 1
    assert f"{number} kernels have no provenance: matched by name" in result.out
    assert "changed (a guess, by name)" in result.out


@pytest.mark.parametrize("empty", [0, 1])
def test_no_kernels_on_one_side(perfcli: Any, empty: int) -> None:
    perfcli("run", "gqa-transformer", "-p", f"layers={0 if empty == 0 else 1}")
    perfcli("run", "gqa-transformer", "-p", f"layers={1 if empty == 0 else 0}")
    result = perfcli("compare", *stored_ids(), "--allow", "params")
    assert result.code == 3
    side = "base" if empty == 0 else "head"
    assert f"{side}: torch.compile made no kernels" in result.out


def test_no_kernels_on_either_side_is_exit_code_2(perfcli: Any) -> None:
    perfcli("compare", "gqa-transformer", "-p", "layers=0", "-b", f"{MAX_READS}=9")
    result = perfcli("compare", *stored_ids())
    assert result.code == 2
    assert "nothing to compare" in result.complaint


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"perfcli":"run","format":7,"run":{}}'])
def test_broken_files_are_exit_code_2(perfcli: Any, content: bytes) -> None:
    perfcli("run", "rmsnorm")
    Path("bad.json").write_bytes(content)
    result = perfcli("compare", *stored_ids(), "bad.json")
    assert result.code == 2
    assert "bad.json" in result.complaint


def test_hostile_names_do_not_reach_the_terminal(perfcli: Any) -> None:
    perfcli(*WORSE)
    for number, identity in enumerate(stored_ids()):
        path = Path(f".perfcli/runs/{identity}.json")
        evil = "\\u001b[2J[red]triton\\r\\u202e_red_fused_" + "x" * number
        rewrite(path, json.loads(path.read_text().replace("triton_red_fused_", evil)))
    result = perfcli("compare", *stored_ids())
    assert result.code == 1
    assert not set("\x1b\r\u202e") & set(result.out)
    assert "[red]" in result.out
    listed = perfcli("inspect-kernel", stored_ids()[1])
    assert not set("\x1b\r\u202e") & set(listed.out)


# --- estimated times -------------------------------------------------------------------------


def test_the_estimated_step_decides_where_work_is_known(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    result = perfcli(*WORSE, "--target", "h200", "--json", "out.json")
    assert result.code == 1
    assert result.out.startswith("SLOWER  estimated ")
    assert "mul_rms_norm_sum_0 fuses 3 kernels, " in result.out
    found = json.loads(Path("out.json").read_text())
    assert found["estimate"]["verdict"] == "slower"
    assert found["estimate"]["low"] > 1.02
    better = perfcli("compare", "rmsnorm", "--target", "h200", "-a", f"{MAX_READS}=1000")
    assert (better.code, better.out[:6]) == (0, "FASTER")
    same = perfcli("compare", "rmsnorm", "--target", "h200", "-b", f"{MAX_READS}=9")
    assert (same.code, same.out[:4]) == (0, "SAME")


def test_a_run_of_before_has_no_estimate_and_counts_decide(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    perfcli("run", "gqa-transformer", "-p", "layers=3", "--target", "h200")
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    perfcli(
        *("run", "gqa-transformer", "-p", "layers=3", "--target", "h200"),
        *("-o", f"{MAX_READS}=1000", "--fresh"),
    )
    result = perfcli("compare", *stored_ids())
    assert result.out.startswith("WORSE  spilled words 0 → 46")


# --- processes -------------------------------------------------------------------------------


def without(modules: str, argv: list[str]) -> subprocess.CompletedProcess[str]:
    """perfcli in a process where some modules can't be imported."""
    code = f"""
    import sys
    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {modules.split()!r}:
                raise ModuleNotFoundError(name, name=name)
    sys.meta_path.insert(0, Refuse())
    from perfcli.cli import main
    sys.exit(main({argv!r}))
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    environment = {**os.environ, "PERFCLI_FAKE": "0"}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=60
    )


def test_stored_runs_are_compared_without_torch(perfcli: Any) -> None:
    perfcli(*WORSE)
    blocked = "torch triton numpy pandas"
    for argv in (["compare", *stored_ids()], ["inspect-kernel", stored_ids()[1], "3"]):
        done = without(blocked, argv)
        assert done.stderr == ""
        assert done.stdout.startswith(("WORSE", "3  triton_red"))
    assert "has no torch" in without(blocked, ["run", "rmsnorm"]).stderr


def test_help_needs_neither_torch_nor_rich_nor_msgspec() -> None:
    done = without("torch triton rich msgspec numpy hypothesis", ["--help"])
    assert done.returncode == 0, done.stderr
    assert "inspect-kernel" in done.stdout


def test_a_closed_pipe_is_quiet(perfcli: Any) -> None:
    perfcli(*WORSE)
    base, head = stored_ids()
    script = f"{sys.executable} -P -m perfcli compare {base} {head} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.strip() in ("141", "1")


def warnings_of(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, command: str, change: Callable[[Run], Run]
) -> str:
    """What goes to stderr where a model compiles to a run that is changed like this."""
    made_up = vars(executor)["make_up_run"]

    def changed(request: CompileRequest) -> Bundle:
        bundle: Bundle = made_up(request)
        return replace(bundle, run=change(bundle.run))

    monkeypatch.setattr(executor, "make_up_run", changed)
    Path("model.py").write_text("def build():\n    return abs, (1,)\n")
    sides = ["-b", f"{MAX_READS}=9"] if command == "compare" else []
    return str(perfcli(command, "model.py", *sides, "-q").err)


@pytest.mark.parametrize("command", ["compare", "explain", "inspect-kernel", "run"])
def test_a_model_on_the_cpu_is_warned_of_where_a_gpu_was_asked_for(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def on_cpu(run: Run) -> Run:
        return replace(run, kernels=tuple(replace(k, language="cpp") for k in run.kernels))

    printed = warnings_of(perfcli, monkeypatch, command, on_cpu)
    assert printed.count("no kernel was compiled for h100, all are C++") == 1


@pytest.mark.parametrize("command", ["compare", "explain", "inspect-kernel"])
def test_a_model_that_may_be_meant_for_training_is_warned_of(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def noted(run: Run) -> Run:
        return replace(run, notes=(f"inputs {FORWARD_ONLY}",))

    said = "warning: model.py: inputs require gradients, compiled forward only: give -p mode=train"
    assert warnings_of(perfcli, monkeypatch, command, noted).count(said) == 1


@pytest.mark.torch
def test_a_hand_written_kernel_beside_inductors(
    perfcli: Any, warm_workers: None, warm_kernels: None
) -> None:
    """Compiled for real: passes and bytes counted by hand."""
    asked = ("softmax", "--preset", "smoke", "--target", "h100")
    result = perfcli("compare", *asked, "--with-kernel", "--json", "out.json")
    assert result.code == 0, result.err
    beside = json.loads(Path("out.json").read_text())["beside"]
    once = 128 * 2048 * 2
    assert beside["inductor"]["bytes_moved"] == beside["hand_written"]["bytes_moved"] == 2 * once
    assert beside["inductor"]["bytes_swept"] == 3 * once  # a looped reduction
    assert beside["hand_written"]["bytes_swept"] == 2 * once
    assert (beside["inductor"]["passes"], beside["hand_written"]["passes"]) == (2.0, 1.0)
    assert beside["hand_written"]["wide_share"] == 1.0
    assert beside["hand_written"]["spilled_words"] == 0


def test_a_file_that_sets_nothing_is_named(perfcli: Any) -> None:
    Path("tuned.toml").write_text('[options]\n\n[tuned]\nverdict = "default"\n')
    result = perfcli("compare", "softmax", "-b", "tuned.toml")
    assert result.code == 2
    assert result.complaint == "perfcli: both sides are the same: tuned.toml sets no option"
