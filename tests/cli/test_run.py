"""run, runs, scenarios, and the command line itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import rewrite

import perfcli as package
from perfcli import cli, commands
from perfcli.commands import compare
from perfcli.console.notes import STARTING, Notes, Reporter
from perfcli.machine import environment, own_code
from perfcli.machine.environment import hash_value
from perfcli.model import Bundle
from perfcli.predict.step import estimate_step
from perfcli.storing import store
from perfcli.worker.roles import Progress
from perfcli.workflow import fingerprint as _fingerprint
from perfcli.workflow import obtain
from perfcli.workflow import request as _request
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import _name_run

MAX_READS = "triton.mix_order_reduction_max_reads"


def test_run_lists_its_kernels_and_where_it_is(perfcli: Any) -> None:
    result = perfcli("run", "rmsnorm", "-p", "rows=4", "--target", "a100")
    (stored,) = store.runs()
    assert result.code == 0
    assert result.out.startswith("15 generated kernels, 15 launches, 0 spilled words, 36 extern")
    assert "rmsnorm · training · a100 · rows=4" in result.out
    assert f"stored as {stored.path}" in result.out
    assert stored.header.target == "a100"


def test_quiet_gives_a_name_to_go_on_with(perfcli: Any) -> None:
    result = perfcli("run", "rmsnorm", "--quiet")
    (stored,) = store.runs()
    assert (result.out, result.err) == (f"{stored.header.id}\n", "")


def test_a_run_that_cannot_be_stored_is_an_error(perfcli: Any) -> None:
    Path(".perfcli").write_text("a file is in the way")
    result = perfcli("run", "rmsnorm", "--quiet")
    assert result.code == 2
    assert "/.perfcli can't be written: Not a directory: what is compiled is" in result.err
    assert result.out.strip() == ""


def test_a_run_that_cannot_be_stored_is_told_before_it_is_compiled(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".perfcli").write_text("a file is in the way")
    said: list[str] = []
    warn, compile_ = Notes.warn, obtain._compile

    def compiling(*args: Any, **more: Any) -> Any:
        said.append("compiles")
        return compile_(*args, **more)

    def warning(self: Notes, text: str) -> None:
        said.append(text)
        warn(self, text)

    monkeypatch.setattr(Notes, "warn", warning)
    monkeypatch.setattr(obtain, "_compile", compiling)
    result = perfcli("run", "rmsnorm")
    warned, then = said
    assert "can't be written: Not a directory" in warned
    assert then == "compiles"
    assert result.code == 2
    assert "generated kernel" in result.out


def test_an_interpreter_is_named_as_typed_and_started_by_its_path() -> None:
    found = environment.Interpreter(
        "/env/bin/python", "3.11.9", "2.13.0", Path(), "3.7.1", None, None, ""
    )
    sides = [_request.Side(python="env")]
    (job,) = _request.make_jobs(_request.Question("rmsnorm"), sides, lambda _: found)
    assert job.request.variant.python == "/env/bin/python"
    assert job.request.variant.name == "python env"


def test_only_kernels_for_a_gpu_need_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.delenv("PERFCLI_FAKE", raising=False)
    monkeypatch.setattr(environment, "probe", lambda _, needs_triton: asked.append(needs_triton))
    for device in ("cpu", "cuda", None):
        Context(Notes(quiet=True)).choose_probe(device)(None)
    assert asked == [False, True, True]


def test_run_as_json(perfcli: Any) -> None:
    document = json.loads(perfcli("run", "rmsnorm", "--json", "-").out)
    assert document["perfcli"] == "run"
    assert len(document["run"]["kernels"]) == 15


def test_options_and_variables_reach_the_run(perfcli: Any) -> None:
    perfcli("run", "rmsnorm", "-o", f"{MAX_READS}=12", "-o", "TORCHINDUCTOR_ONLINE_SOFTMAX=0")
    (stored,) = store.runs()
    variant = store.read(stored.path).variant
    assert variant.options == {MAX_READS: 12}
    assert variant.env == {"TORCHINDUCTOR_ONLINE_SOFTMAX": "0"}
    assert stored.header.variant == f"{MAX_READS}=12 TORCHINDUCTOR_ONLINE_SOFTMAX=0"


def test_a_preset_is_the_parameters_it_stands_for(perfcli: Any) -> None:
    perfcli("run", "gqa-transformer", "--preset", "full")
    assert "nothing changed" in perfcli("run", "gqa-transformer").err


def test_a_users_file_keeps_its_parameters_as_text(perfcli: Any) -> None:
    Path("model.py").write_text("def build(layers=4): ...\n")
    perfcli("run", "model.py:build", "-p", "layers=2", "--preset", "smoke")
    (stored,) = store.runs()
    assert stored.header.params == {"layers": "2"}


def test_runs_lists_filters_and_is_empty(perfcli: Any) -> None:
    assert "no stored runs in .perfcli/runs" in perfcli("runs").out
    perfcli("run", "rmsnorm")
    perfcli("run", "softmax")
    ids = [stored.header.id for stored in store.runs()]
    listed = perfcli("runs")
    assert all(identity in listed.out for identity in ids)
    assert max(map(len, listed.out.splitlines())) <= 100
    assert perfcli("runs", "softmax", "--quiet").out == f"{ids[1]}\n"
    document = json.loads(perfcli("runs", "--json", "-").out)
    assert [run["id"] for run in document["runs"]] == ids


def test_runs_names_a_run_that_is_cut_off_and_goes_on(perfcli: Any) -> None:
    perfcli("run", "rmsnorm")
    perfcli("run", "softmax")
    cut, whole = store.runs()
    text = cut.path.read_bytes()
    cut.path.write_bytes(text[: len(text) // 2])
    listed = perfcli("runs")
    assert listed.code == 0
    assert whole.header.id in listed.out
    assert f"damaged: {cut.path} is cut off; delete it and compile again" in listed.out
    assert perfcli("runs", "--quiet").out == f"{whole.header.id}\n"
    document = json.loads(perfcli("runs", "--json", "-").out)
    assert [run["id"] for run in document["runs"]] == [whole.header.id]
    assert document["damaged"] == [str(cut.path)]


def test_a_stored_run_names_what_its_times_were_estimated_with(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    perfcli("run", "rmsnorm", "--target", "h200")
    (stored,) = store.runs()
    made = store.read(stored.path)
    assert (made.weighed, made.estimated_with) == (False, "")  # it has no estimates
    weighed = replace(made, weighed=True)
    step = estimate_step(weighed)
    assert step is not None
    named = _name_run(Bundle(weighed, {}), "fingerprint").run
    assert named.estimated_with == step.constants != ""
    bundle = Bundle(replace(weighed, estimated_with="0123456789ab"), {})
    store.write(bundle, stored.path)
    for arguments in (["explain"], ["inspect-kernel"], ["compare", stored.header.id]):
        said = perfcli(*arguments, stored.header.id).err
        assert (
            f"{stored.header.id}: its times are estimated anew (constants {step.constants}); when "
            "it was stored, others were used (0123456789ab)"
        ) in said


def test_runs_of_a_file_are_all_that_it_declares(perfcli: Any) -> None:
    Path("sub").mkdir()
    for path in ("breaks.py", "other.py"):
        Path(path).write_text("def build(): ...\ndef one(): ...\ndef two(): ...\n")
    for name in ("breaks.py:one", "./breaks.py:two", "breaks.py", "other.py:one"):
        assert perfcli("run", name).code == 0
    headers = {stored.header.id: stored.header.scenario for stored in store.runs()}

    def listed(*wanted: str) -> list[str]:
        result = perfcli("runs", "-q", *wanted)
        assert result.code == 0
        return sorted(headers[id] for id in result.out.split())

    assert listed("breaks.py") == ["./breaks.py:two", "breaks.py", "breaks.py:one"]
    assert listed("breaks.py:one") == ["breaks.py:one"]
    assert listed("sub/../other.py") == ["other.py:one"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("rmsnrm", "no scenario 'rmsnrm': did you mean rmsnorm?"),
        ("gone.py:build", "there is no file gone.py, and no stored run of it"),
    ],
)
def test_runs_of_what_is_not_there(perfcli: Any, wanted: str, said: str) -> None:
    result = perfcli("runs", wanted)
    assert (result.code, result.complaint) == (2, f"perfcli: {said}")
    assert perfcli("runs", "softmax").code == 0  # there is one, only no run of it


LONG = "some/very/long/folder/of_models/my_model.py:transformer_block"


@pytest.mark.parametrize("columns", [50, 60, 80, 100])
def test_runs_tells_runs_of_one_scenario_apart(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    perfcli("run", "softmax", "-p", "rows=32768", "-p", "mode=forward")
    perfcli("run", "softmax", "--preset", "smoke")
    perfcli("run", "softmax", "-p", "mode=training", "--dynamic", "-o", f"{MAX_READS}=9")
    Path(LONG).parent.mkdir(parents=True)
    path, _, name = LONG.partition(":")
    Path(path).write_text(f"def {name}(rows=1): ...\n")
    perfcli("run", LONG, "-p", "rows=32768")
    out = perfcli("runs").out
    assert max(map(len, out.splitlines())) <= columns
    ids = [stored.header.id for stored in store.runs()]
    softmax, smoke, training, mine = re.split("|".join(ids), out)[1:]
    assert "=" not in softmax
    assert "\n  rows=128 columns=2048\n" in smoke
    told = " ".join(training.split())
    assert told.endswith(f"mode=training · dynamic shapes · {MAX_READS}=9")
    assert mine.endswith("\n  rows=32768\n")
    assert "former_block" in mine  # a name gives way in its middle, and is not broken


def test_scenarios_and_one_of_them(perfcli: Any) -> None:
    assert "gqa-transformer" in perfcli("scenarios").out
    detail = perfcli("scenarios", "gqa-transformer").out
    assert "kv-heads" in detail
    assert "smoke" in detail
    document = json.loads(perfcli("scenarios", "--json", "-").out)
    assert {"rmsnorm", "softmax"} <= {each["name"] for each in document["scenarios"]}
    assert perfcli("scenarios", "rmsnrm").code == 2


# --- the command line ------------------------------------------------------------------------


def test_version(perfcli: Any) -> None:
    assert perfcli("--version").out == f"perfcli {package.__version__}\n"


def test_help_lists_the_commands_in_groups(perfcli: Any) -> None:
    groups: dict[str, dict[str, str]] = {}
    for line in perfcli("--help").out.partition("--help  ")[2].splitlines()[1:]:
        if line.endswith(":"):
            group = groups.setdefault(line[:-1], {})
        elif line:
            name, _, said = line.strip().partition("  ")
            group[name] = said.strip()
    assert groups == cli.COMMANDS


def test_every_command_is_in_one_group() -> None:
    folder = Path(commands.__file__).parent
    modules = {path.stem.rstrip("_").replace("_", "-") for path in folder.glob("[!_]*.py")}
    assert sorted(cli.NAMES) == sorted(modules)


@pytest.mark.parametrize("name", cli.NAMES)
def test_every_command_explains_itself(perfcli: Any, name: str) -> None:
    result = perfcli(name, "--help")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 100
    (listed,) = (group[name] for group in cli.COMMANDS.values() if name in group)
    assert result.out.partition("\n\n")[2].startswith(f"  {listed}\n")


def test_a_command_builds_itself_alone() -> None:
    code = "import sys; from perfcli.cli import main; main(['rules']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name for name in done.stdout.split() if name.startswith("perfcli.commands.")}
    assert "perfcli.commands.rules" in loaded
    assert not {f"perfcli.commands.{name}" for name in ("compare", "gate", "kernels")} & loaded


def test_a_mistyped_command(perfcli: Any) -> None:
    result = perfcli("compair")
    assert result.code == 2
    assert "No such command 'compair'. Did you mean 'compare'?" in result.err


@pytest.mark.parametrize(
    "argv", [["model.py"], ["model.py:block"], ["m.py:block@HEAD", "-p", "rows=4"]]
)
def test_a_file_in_place_of_a_command(perfcli: Any, argv: list[str]) -> None:
    result = perfcli(*argv)
    assert result.code == 2
    assert result.err == (
        f"perfcli: {argv[0]} is no command: perfcli run {' '.join(argv)} compiles it\n"
    )


def test_an_error_of_ours_is_one_line(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(_request, "make_jobs", broken)
    result = perfcli("run", "rmsnorm")
    assert result.code == 2
    assert "internal error: ZeroDivisionError: by zero (test_run.py:" in result.complaint
    assert "Traceback" not in result.err
    monkeypatch.setenv("PERFCLI_DEBUG", "1")
    assert "Traceback" in perfcli("run", "rmsnorm").err


def test_ctrl_c_anywhere(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "runs", interrupted)
    result = perfcli("runs")
    assert (result.code, result.complaint) == (130, "perfcli: interrupted")


# --- fingerprints ----------------------------------------------------------------------------


def fingerprint(*argv: str, jobs: int | None = None, **settings: Any) -> str:
    from perfcli.fake.executor import fake_interpreter

    question = _request.Question("rmsnorm", **settings)
    side = _request.Side(argv)
    (job,) = _request.make_jobs(question, [side], fake_interpreter, jobs)
    return job.fingerprint


def test_what_decides_a_run_is_in_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fingerprint()
    assert fingerprint() == plain
    others = {
        plain,
        fingerprint(f"{MAX_READS}=9"),
        fingerprint("TRITON_X=1"),
        fingerprint(params=("rows=3",)),
        fingerprint(target="a100"),
        fingerprint(device="cpu"),
        fingerprint(dynamic=True),
    }
    monkeypatch.setattr(_fingerprint, "hash_code", lambda: "other code")
    others.add(fingerprint())
    assert len(others) == 8


def test_what_does_not_decide_a_run_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fingerprint(target="h100")
    assert fingerprint(jobs=7) == plain
    assert fingerprint(preset="full") == plain
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")  # workers do not get it
    assert fingerprint() == plain


def test_other_packages_are_another_fingerprint() -> None:
    from dataclasses import replace

    from perfcli.fake.executor import fake_interpreter

    (job,) = _request.make_jobs(_request.Question("rmsnorm"), [_request.Side()], fake_interpreter)
    for change in ({"torch": "2.15.0"}, {"triton": "3.9.0"}, {"distributions": "x"}):
        other = replace(fake_interpreter(), **change)  # type: ignore[arg-type]
        assert _fingerprint._fingerprint(job.request, other) != job.fingerprint


def test_a_target_is_in_the_fingerprint_with_all_of_its_data() -> None:
    from dataclasses import replace

    from perfcli.fake.executor import fake_interpreter

    question = _request.Question("rmsnorm", target="h100")
    (job,) = _request.make_jobs(question, [_request.Side()], fake_interpreter)
    target = job.request.target
    assert target is not None
    for change in (
        {"sm_count": 1},
        {"shared_bytes_per_sm": 1},
        {"peak_flops": {**target.peak_flops, "float32": 1.0}},
    ):
        other = replace(job.request, target=replace(target, **change))
        assert _fingerprint._fingerprint(other, job.interpreter) != job.fingerprint


def test_the_code_hash_reads_the_code() -> None:
    files = {path.name for path in own_code.list_code()}
    assert {"kernel.py", "capture.py", "gqa_transformer.py", "shim.cpp"} <= files
    assert not {"cli.py", "terminal.py", Path(compare.__file__).name} & files


def test_the_default_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from perfcli.machine import targets

    gpu = targets.get("a100")
    monkeypatch.setattr(targets, "this_gpu", lambda: gpu)
    for has_gpu, expected in ((True, "a100"), (False, "h100")):
        monkeypatch.setattr(targets, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        device, target = _request.choose_device(None, None)
        assert target is not None
        assert (device, target.name) == ("cuda", expected)
    assert _request.choose_device("cpu", None) == ("cpu", None)
    assert _request.choose_device("cuda", "b200")[1] == targets.get("b200")


# --- progress --------------------------------------------------------------------------------


def test_progress_keeps_quiet_for_two_seconds_then_says_each_phase_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr("perfcli.console.notes.time.monotonic", lambda: clock[0])
    with Reporter(["base", "head"], Notes(False)) as progress:
        progress(Progress(0, "import"))
        clock[0] = 3.0
        progress(Progress(0, "trace"))
        progress(Progress(0, "trace"))
        clock[0] = 9.0
        progress(Progress(1, "kernels", 1, 20))
        progress(Progress(1, "kernels", 2, 20))
    assert capsys.readouterr().err.splitlines() == [
        "base: building and tracing the model (3 s)",
        "head: compiling kernels (9 s)",
    ]


@pytest.mark.parametrize(("quiet", "terminal"), [(False, False), (False, True), (True, False)])
def test_what_is_waited_for_is_said_before_anything_is_told(
    quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfcli.console.notes.FIRST_WORD_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with Reporter(["base"], Notes(quiet), STARTING) as progress:
        waited = progress._first
        assert waited is not None
        waited.join()
    said = capsys.readouterr().err
    assert said == "" if quiet else "starting Python with torch" in said
    assert terminal or said in ("", "starting Python with torch\n")


def test_nothing_is_waited_for_once_something_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfcli.console.notes.PATIENCE_SECONDS", 0.0)
    with Reporter(["base"], Notes(False), STARTING) as progress:
        waited = progress._first
        progress(Progress(0, "trace"))
        assert waited is not None
        waited.join()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("base: building and tracing the model")


def test_a_side_that_sets_no_parameter_has_a_name(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfcli.console.notes.PATIENCE_SECONDS", 0.0)
    Path("model.py").write_text("def net(wide=False):\n    return print, (1,)\n")
    said = perfcli("compare", "model.py:net", "--b-param", "wide=true").err.splitlines()
    names = {line.partition(":")[0] for line in said if "compiling kernels" in line}
    assert names == {"default", "wide=true"}


def test_what_takes_long_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(["base", "head"], Notes(False)) as progress:
        progress(Progress(1, "kernels", note="ptxas has been assembling k for 30 s"))
    with Reporter(["base", "head"], Notes(True)) as progress:
        progress(Progress(1, "kernels", note="ptxas has been assembling k for 30 s"))
    assert capsys.readouterr().err == "head: ptxas has been assembling k for 30 s\n"


def test_notes_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Scenarios and workers' notes hold what users' files say."""
    notes = Notes(False)
    notes.say("measured \x1b[2J")
    notes.warn("of \x1b[1A\r")
    assert capsys.readouterr().err.splitlines() == ["measured �[2J", "warning: of �[1A�"]


def test_progress_is_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfcli.console.notes.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with Reporter(["[base]"], Notes(False)) as progress:
        for done in range(4):
            progress(Progress(0, "kernels", done, 3))
        progress(Progress(0, "done", 0, None))
    assert "[base]: " in capsys.readouterr().err


def test_progress_is_silent_when_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfcli.console.notes.PATIENCE_SECONDS", 0.0)
    with Reporter(["base"], Notes(True)) as progress:
        progress(Progress(0, "kernels", 1, 3))
    assert capsys.readouterr().err == ""


def test_an_untested_torch_is_warned_about(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "TESTED_TORCH", ((3, 0), (3, 1)))
    result = perfcli("run", "rmsnorm")
    assert result.code == 0
    assert "warning: torch 2.13.0 is untested" in result.err


# --- foreign text, and runs of nothing -------------------------------------------------------


def test_what_a_run_file_says_is_shown_without_escapes(perfcli: Any) -> None:
    perfcli("run", "rmsnorm")
    (stored,) = store.runs()
    evil = "\\u001b[31m"
    text = stored.path.read_text().replace('"2.13.0"', f'"2.13.0{evil}"')
    text = text.replace(stored.header.id, f"{stored.header.id}{evil}")
    rewrite(stored.path, json.loads(text.replace('"h100"', f'"h100{evil}"')))
    for arguments in (["runs"], ["runs", "--quiet"], ["compare", *[str(stored.path)] * 2]):
        out = perfcli(*arguments).out
        assert stored.header.id in out
        assert "\x1b" not in out
    assert "h100�[31m" in perfcli("runs").out


def test_a_run_without_kernels_says_so(perfcli: Any) -> None:
    Path("model.py").write_text("def build(layers=4): ...\n")
    result = perfcli("run", "model.py", "-p", "layers=0")
    assert result.code == 0
    first, second, *_ = result.out.splitlines()
    assert first == "torch.compile made no kernels"
    assert second.startswith("0 generated kernels")
    assert "kernel  loads" not in result.out  # no table without rows


def test_a_users_file_is_hashed_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("1")
    Path("model.py:build").write_text("not what is imported")
    assert (
        _fingerprint._hash_scenario("model.py:build")
        == _fingerprint._hash_scenario("model.py")
        != ""
    )


@pytest.mark.parametrize(
    "command", [["knobs", "max_reads"], ["doctor"], ["runs"], ["scenarios"], ["run", "softmax"]]
)
def test_all_json_opens_alike(perfcli: Any, command: list[str]) -> None:
    perfcli(*command, "--json", "out.json")
    text = Path("out.json").read_text()
    assert text.startswith('{\n "perfcli": "')
    assert list(json.loads(text))[:2] == ["perfcli", "format"]


def test_a_long_phase_says_how_far_it_is_and_how_long_it_will_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 s for each of 755 cases; a log hears of it less and less often."""
    clock = [0.0]
    monkeypatch.setattr("perfcli.console.notes.time.monotonic", lambda: clock[0])
    with Reporter(["softmax"], Notes(False)) as progress:
        for done in range(101):
            clock[0] = 3.0 * done
            progress(Progress(0, "check", done, 755, "running cases"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "softmax: running cases (3 s)",
        "softmax: running cases, 6 of 755, about 37 min left (18 s)",  # 749 · 3 s
        "softmax: running cases, 16 of 755, about 37 min left (48 s)",
    ]
    assert len(lines) == 5


def test_steps_are_those_of_a_script(perfcli: Any, tmp_path: Path) -> None:
    from perfcli.fake.executor import fake_interpreter

    train = tmp_path / "train.py"
    train.write_text("import torch\n\nif __name__ == '__main__':\n    torch.compile(print)\n")
    question = _request.Question(f"{train} --lr 1", device="cpu", steps=5)
    (job,) = _request.make_jobs(question, [_request.Side()], fake_interpreter)
    assert job.request.script is not None
    assert (job.request.script.steps, job.request.script.arguments) == (5, ("--lr", "1"))
    result = perfcli("run", "rmsnorm", "--steps", "5")
    assert result.code == 2
    assert "--steps 5 is for scripts, and rmsnorm is none" in result.err


def test_another_value_of_a_variable_that_was_asked_for_makes_another_run(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value counts that the variant sets, where it sets one; so does that there was none."""
    from perfcli.fake.executor import FakeExecutor

    compile_ = FakeExecutor.compile

    def ask(self: FakeExecutor, *arguments: Any) -> Any:
        for number, bundle in compile_(self, *arguments):
            assert isinstance(bundle, Bundle)
            env = {**os.environ, **bundle.run.variant.env}
            asked = {name: hash_value(env.get(name)) for name in ("ROWS", "COLUMNS_OF_IT")}
            yield number, replace(bundle, run=replace(bundle.run, asked_variables=asked))

    monkeypatch.setattr(FakeExecutor, "compile", ask)
    typed = ("run", "softmax")
    monkeypatch.setenv("OTHER", "1")
    assert perfcli(*typed).code == 0
    for name, value, again in (
        ("OTHER", "2", True),
        ("ROWS", "8", False),
        ("ROWS", "8", True),
        ("ROWS", "", False),
        ("COLUMNS_OF_IT", "1", False),
    ):
        monkeypatch.setenv(name, value)
        assert ("nothing changed since run" in perfcli(*typed).err) == again
