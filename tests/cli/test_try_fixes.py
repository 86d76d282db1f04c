"""--try-fixes: cures compiled, judged, reused, and everything that can go wrong."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from handmade import rewrite
from planted import MAX_READS, MIX_ORDER, RULES, USELESS

from perfcli import diagnosis
from perfcli.model import Finding, Rule, Run
from perfcli.storing import store

OPTIONS = ("gqa-transformer", "-p", "layers=3")
WORSE = ("compare", *OPTIONS, "-b", f"{MAX_READS}=1000")
EXPLAIN = ("explain", *OPTIONS, "-o", f"{MAX_READS}=1000")


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "rules", lambda: RULES)


def stored_ids() -> list[str]:
    return [stored.header.id for stored in store.runs()]


def variants() -> list[str]:
    return [stored.header.variant for stored in store.runs()]


def trials(document: Any, code: str = "PC901") -> dict[str, dict[str, Any]]:
    finding = next(f for f in document["findings"] if f["code"] == code)
    return {next(iter(trial["options"])): trial for trial in finding["trials"]}


def test_compare_shows_what_helps_what_it_costs_and_what_does_not(perfcli: Any) -> None:
    result = perfcli(*WORSE, "--try-fixes", "--json", "out.json")
    assert result.code == 1
    assert (
        f"    tried {MAX_READS}=10: helps: spilled words 46 → 0, time not measured\n" in result.out
    )
    assert f'torch.compile(model, options={{"{MIX_ORDER}": False}})' in " ".join(result.out.split())
    assert "spilled words 46 → 0, time not measured costs +1.01 GB bytes moved (+12 %)" in " ".join(
        result.out.split()
    )
    assert f"tried {USELESS}=false: does not help: spilled words 46 → 46" in result.out
    assert "--try-fixes" not in result.out
    found = trials(json.loads(Path("out.json").read_text()))
    assert {name: trial["outcome"] for name, trial in found.items()} == {
        USELESS: "does not help",
        MAX_READS: "helps",
        MIX_ORDER: "helps at a cost",
    }
    assert found[MIX_ORDER]["changes"]["bytes_moved"]["outcome"] == "worse"
    assert found[MAX_READS]["run"] in stored_ids()


def test_each_set_of_options_is_compiled_once_and_kept(perfcli: Any) -> None:
    """PC901 and PC902 propose the same; what both sides have (PC903) is not tried."""
    perfcli(*WORSE, "--try-fixes")
    tried = [f"{MAX_READS}=1000 {USELESS}=false", f"{MAX_READS}=1000 {MIX_ORDER}=false"]
    # The same options as the base's have another fingerprint only because they are spelled out.
    assert variants() == ["default", f"{MAX_READS}=1000", tried[0], f"{MAX_READS}=10", tried[1]]
    again = perfcli(*WORSE, "--try-fixes")
    assert len(stored_ids()) == 5
    assert again.err.count("nothing changed since run") == 5
    perfcli(*WORSE, "--try-fixes", "--fresh")
    assert len(stored_ids()) == 7


def test_one_cure_is_judged_for_every_finding(perfcli: Any) -> None:
    perfcli(*EXPLAIN, "--try-fixes", "--json", "out.json")
    document = json.loads(Path("out.json").read_text())
    assert trials(document, "PC902")[MAX_READS]["outcome"] == "helps"
    assert trials(document, "PC903")[USELESS]["outcome"] == "does not help"


def test_without_it_the_report_ends_with_the_command(perfcli: Any) -> None:
    result = perfcli(*WORSE)
    base, head = stored_ids()
    command = f"perfcli compare {base} {head} --try-fixes"
    last = result.out.splitlines()[-1]
    assert last == f"{command}  # compiles 3 proposed changes"
    assert "tried" not in result.out
    stored = perfcli(*command.split()[1:])
    assert f"tried {MAX_READS}=10: helps" in stored.out
    assert stored.code == 1
    better = perfcli("compare", *OPTIONS, "-a", f"{MAX_READS}=1000")
    assert "--try-fixes" not in better.out
    assert "fixed PC901  3 triton_red_fuse" in better.out


def test_the_command_allows_what_was_typed_to_differ(perfcli: Any) -> None:
    typed = ("compare", OPTIONS[0], "-b", f"{MAX_READS}=1000")
    result = perfcli(*typed, "--a-param", "layers=2", "--b-param", "layers=3")
    base, head = stored_ids()
    command = f"perfcli compare {base} {head} --allow params --try-fixes"
    assert result.out.splitlines()[-1].startswith(f"{command}  # compiles ")
    stored = perfcli(*command.split()[1:])
    assert "not comparable" not in stored.err
    assert f"tried {MAX_READS}=10: helps" in stored.out
    assert "--allow" not in perfcli("compare", base, base).out


def moved_runs() -> list[str]:
    """The stored runs, in a folder that needs quotes."""
    Path("my runs").mkdir()
    paths = [stored.path for stored in store.runs()]
    return [str(path.rename(Path("my runs") / path.name)) for path in paths]


def suggested(out: str) -> list[list[str]]:
    """The commands of a report, as a shell takes them apart."""
    found = [line[line.index("perfcli ") :] for line in out.splitlines() if "perfcli " in line]
    return [shlex.split(command, comments=True)[1:] for command in found]


def test_commands_quote_what_a_shell_would_take_apart(perfcli: Any) -> None:
    perfcli(*WORSE)
    base, head = moved_runs()
    result = perfcli("compare", base, head)
    commands = suggested(result.out)
    assert ["compare", base, head, "--try-fixes"] in commands
    assert ["explain", head] in commands
    assert ["inspect-kernel", head, "3"] in commands
    of_run = perfcli("explain", head)
    assert ["inspect-kernel", head, "3"] in suggested(of_run.out)
    for argv in [*commands, *suggested(of_run.out)]:
        assert perfcli(*argv).code in (0, 1), argv


def test_inspect_kernel_tries_what_names_the_kernel(perfcli: Any) -> None:
    result = perfcli("inspect-kernel", *EXPLAIN[1:], "3", "--try-fixes")
    assert result.code == 0
    assert f"tried {MAX_READS}=10: helps" in result.out
    assert "PC903" not in result.out
    (run, *_) = stored_ids()
    assert "PC90" not in perfcli("inspect-kernel", run, "2", "--try-fixes").out
    hinted = perfcli("inspect-kernel", run, "3", "--json", "out.json")
    assert f"perfcli inspect-kernel {run} 3 --try-fixes  # compiles 3" in hinted.out
    document = json.loads(Path("out.json").read_text())
    assert [finding["code"] for finding in document["findings"]] == ["PC901", "PC902"]


def test_a_cure_that_does_not_compile_costs_no_report(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"compile:{MIX_ORDER}")
    result = perfcli(*WORSE, "--try-fixes")
    assert result.code == 1
    text = " ".join(result.out.split())
    assert f"tried {MIX_ORDER}=false: failed: Inductor could not compile forward 0" in text
    assert f"tried {MAX_READS}=10: helps" in text


def test_an_option_that_this_torch_lacks_is_a_failed_cure(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perfcli.model import Cure

    def check(made: Run) -> Iterable[Finding]:
        yield Finding("PC904", "info", "x", cures=(Cure({"triton.nosuch": True}),))

    monkeypatch.setattr(diagnosis, "rules", lambda: (Rule("PC904", "", "", of_run=check),))
    result = perfcli(*EXPLAIN, "--try-fixes")
    assert result.code == 0
    assert "tried triton.nosuch=true: failed: torch" in result.out
    assert "has no option 'triton.nosuch'" in " ".join(result.out.split())


def test_ctrl_c_says_what_is_stored(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"interrupt:{MIX_ORDER}")
    result = perfcli(*WORSE, "--try-fixes")
    assert result.code == 130
    assert len(stored_ids()) == 4
    kept = [f".perfcli/runs/{id}.json" for id in stored_ids()]
    assert result.complaint.startswith("perfcli: interrupted; default is stored as ")
    assert all(path in result.complaint for path in kept)


def test_quiet_stays_one_line(perfcli: Any) -> None:
    result = perfcli(*WORSE, "--try-fixes", "--quiet")
    assert (result.out.count("\n"), result.err) == (1, "")


def test_nothing_to_try_compiles_nothing(perfcli: Any) -> None:
    result = perfcli("compare", *OPTIONS, "-b", f"{MAX_READS}=9", "--try-fixes")
    assert result.code == 0
    assert len(stored_ids()) == 2


# --- stored runs that can't be compiled again ------------------------------------------------


def edit(**changes: Any) -> str:
    """The one stored run, changed; its id."""
    (path,) = [stored.path for stored in store.runs()]
    document = json.loads(path.read_text())
    for name, value in changes.items():
        known = document["run"].get(name)
        document["run"][name] = {**known, **value} if isinstance(known, dict) else value
    rewrite(path, document)
    return path.stem


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"environment": {"torch": "2.11.0"}}, "the run was compiled with torch 2.11.0, "),
        ({"environment": {"triton": "3.6.0"}}, "the run was compiled with triton 3.6.0, "),
        ({"scenario": "models/gone.py:block"}, "there is no file models/gone.py here"),
        ({"scenario": "removed"}, "there is no scenario removed any more"),
        ({"sources": {"/no/such/model.py": "beef"}}, "/no/such/model.py is not what it was"),
    ],
)
def test_one_line_says_why_and_the_report_comes(perfcli: Any, changes: Any, why: str) -> None:
    perfcli("run", *EXPLAIN[1:])
    result = perfcli("explain", edit(**changes), "--try-fixes")
    assert result.code == 0
    (warning,) = result.err.splitlines()
    assert warning.startswith(f"warning: fixes are not tried: {why}")
    assert "error PC901" in result.out
    assert "tried" not in result.out
    assert len(stored_ids()) == 1


def test_an_interpreter_that_is_gone(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfcli.fake import executor
    from perfcli.machine import environment

    perfcli("run", *EXPLAIN[1:])
    id = edit(variant={"python": "/no/such/python"})
    monkeypatch.setattr(executor, "fake_interpreter", environment.probe)
    result = perfcli("explain", id, "--try-fixes", "--trust-run")
    assert result.code == 0
    assert "fixes are not tried: no Python interpreter at '/no/such/python'" in result.err


# --- programs and variables that only a run's file names -------------------------------------


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A program that leaves a mark; its mark has the program's name and ``.log``."""
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\necho started > {program}.log\n")
    program.chmod(0o755)
    return program


def test_a_program_that_a_run_names_is_not_started(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, started: Path
) -> None:
    from perfcli.fake import executor
    from perfcli.machine import environment

    perfcli("run", *EXPLAIN[1:])
    id = edit(variant={"python": str(started)})
    monkeypatch.setattr(executor, "fake_interpreter", environment.probe)
    for command in (["explain", id], ["inspect-kernel", id, "3"], ["compare", id, id]):
        result = perfcli(*command, "--try-fixes")
        assert not Path(f"{started}.log").exists()
        if command[0] != "compare":  # a run beside itself has no findings to cure
            assert f"fixes are not tried: compiling the run again would use the program {started}, "
            assert "--trust-run" in result.err
    perfcli("explain", id, "--try-fixes", "--trust-run")
    assert Path(f"{started}.log").exists()


@pytest.mark.parametrize(
    ("variant", "what"),
    [
        ({"env": {"LD_PRELOAD": "./evil.so"}}, "the variable LD_PRELOAD"),
        ({"options": {"cpp.cxx": "./evil.sh"}}, "the text cpp.cxx=./evil.sh"),
        ({"options": {"cpp.cxx": ["./evil.sh"]}}, "the text cpp.cxx=['./evil.sh']"),
    ],
)
def test_what_a_worker_would_read_is_refused(perfcli: Any, variant: Any, what: str) -> None:
    perfcli("run", *EXPLAIN[1:])
    result = perfcli("explain", edit(variant=variant), "--try-fixes")
    (warning,) = result.err.splitlines()
    assert warning == (
        f"warning: fixes are not tried: compiling the run again would use {what}, which only its "
        "file names: give --trust-run if you trust that file"
    )
    assert len(stored_ids()) == 1


def test_a_file_outside_this_folder_is_refused(perfcli: Any, started: Path) -> None:
    perfcli("run", *EXPLAIN[1:])
    inside, outside = Path("model.py"), Path("sub/../../model.py")
    Path("sub").mkdir()
    for path in (inside, outside):
        result = perfcli("explain", edit(scenario=f"{path}:block"), "--try-fixes")
        assert ("outside this folder" in result.err) == (path == outside)


def write_script(path: str, *arguments: str, module: bool = False) -> dict[str, Any]:
    """A script as a run's file has it."""
    return {"path": path, "module": module, "arguments": list(arguments), "steps": 2}


EVIL = ("-n1", "-r1", "open('evil', 'w')")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"script": write_script("timeit", *EVIL, module=True)}, "the script timeit -n1 -r1 "),
        (
            {"scenario": "-m timeit", "script": write_script("timeit", module=True)},
            "the script timeit, ",
        ),
        ({"scenario": "train.py", "script": write_script("/tmp/x.py")}, "the script /tmp/x.py, "),
        ({"scenario": "train.py"}, "a script, "),
        (
            {"scenario": "train.py -c x", "script": write_script("train.py", "-c", "x")},
            "the arguments -c x, ",
        ),
        ({"scenario": "model.py 'x"}, "the scenario model.py 'x, "),
        ({"scenario": " model.py"}, "the scenario  model.py, "),
        ({"scenario": "model.py:block@v1"}, "the revision v1 of model.py, "),
        ({"scenario": "env/lib/tool.py:block"}, "the program env/lib/tool.py, outside this "),
        (
            {"scenario": "model.py:block", "params": {"command": "sh -c x"}},
            "the text command=sh -c x, ",
        ),
    ],
)
def test_code_that_only_a_run_names_is_not_run(perfcli: Any, changes: Any, what: str) -> None:
    perfcli("run", *EXPLAIN[1:])
    Path("env/lib").mkdir(parents=True)
    Path("env/pyvenv.cfg").touch()
    for place in ("model.py", "env/lib/tool.py"):
        Path(place).write_text("def block(): ...\n")
    Path("train.py").write_text("if __name__ == '__main__': ...\n")
    result = perfcli("explain", edit(**changes), "--try-fixes")
    (warning,) = result.err.splitlines()
    said = "warning: fixes are not tried: compiling the run again would use "
    assert warning.startswith(f"{said}{what}"), warning
    assert len(stored_ids()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"scenario": "train.py", "script": {**write_script("train.py"), "steps": 5}},
        {"scenario": "model.py:block", "params": {"dtype": "bfloat16", "layers": 3, "mode": ""}},
    ],
)
def test_a_file_of_this_folder_is_compiled_again(perfcli: Any, changes: Any) -> None:
    perfcli("run", *EXPLAIN[1:])
    Path("model.py").write_text("def block(): ...\n")
    Path("train.py").write_text("if __name__ == '__main__': ...\n")
    result = perfcli("explain", edit(**changes), "--try-fixes")
    assert "not tried" not in result.err
    assert len(stored_ids()) > 1


def test_a_planted_run_of_other_code_is_not_reused(perfcli: Any) -> None:
    """Its fingerprint is the one of what is asked for."""
    perfcli("run", *EXPLAIN[1:])
    edit(script=write_script("timeit", *EVIL, module=True))
    result = perfcli(*EXPLAIN)
    assert "nothing changed" not in result.err
    assert len(stored_ids()) == 2
    assert "nothing changed" in perfcli(*EXPLAIN).err


def test_what_the_command_line_names_is_trusted(perfcli: Any) -> None:
    variable = ("-o", "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES=1")
    result = perfcli(*EXPLAIN, *variable, "--try-fixes")
    assert f"tried {MAX_READS}=10: helps" in result.out
    hinted = perfcli(*EXPLAIN, *variable)
    (id,) = [s.header.id for s in store.runs() if s.header.variant.endswith("NAMES=1")][:1]
    assert f"perfcli explain {id} --try-fixes --trust-run  # compiles" in hinted.out
    again = perfcli("explain", id, "--try-fixes")
    assert "would use the variable TORCHINDUCTOR_UNIQUE_KERNEL_NAMES" in again.err
    assert "tried" not in again.out


@pytest.mark.parametrize("more", [(), ("3", "--sass")])
def test_inspect_kernel_needs_a_kernel(perfcli: Any, more: tuple[str, ...]) -> None:
    result = perfcli("inspect-kernel", *OPTIONS, *more, "--try-fixes")
    assert result.code == 2
    assert "--try-fixes goes with the report of one KERNEL" in result.complaint
    assert stored_ids() == []


def test_a_rule_that_breaks_costs_the_findings_not_the_report(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Iterable[Finding]:
        raise ValueError("planted")

    bad = Rule("PC999", "bad", "", of_run=broken)
    monkeypatch.setattr(diagnosis, "rules", lambda: (*RULES, bad))
    result = perfcli(*WORSE, "--try-fixes", "--quiet")
    assert result.code == 2
    assert result.out.startswith("WORSE  spilled words 0 → 46")
    assert "internal error: rule PC999 (bad) failed on run" in result.complaint
    explained = perfcli(*EXPLAIN)
    assert (explained.code, explained.out) == (2, "")
    assert "rule PC999" in explained.err
    inspected = perfcli("inspect-kernel", *EXPLAIN[1:], "3")
    assert inspected.code == 2
    assert inspected.out.startswith("3  triton_red_fused_add_mul_rms_norm_sum_0")
