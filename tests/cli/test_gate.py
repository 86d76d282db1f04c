"""perfcli gate and perfcli baseline, with the fake executor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli import diagnosis
from perfcli.gate import bases
from perfcli.model import Finding, Judgement, Rule, Run, TimeEstimate
from perfcli.workflow import pair

MAX_READS = "triton.mix_order_reduction_max_reads"
CONFIG = """
[[checks]]
name = "norm"
scenario = "rmsnorm"
[[checks]]
scenario = "softmax"
targets = ["h100", "a100"]
"""
SPILLING = CONFIG + f'options = {{ "{MAX_READS}" = 12 }}\n'
BASELINE = Path("perfcli-baseline.toml")


@pytest.fixture
def gated(perfcli: Any) -> Any:
    """A configuration with its baseline."""
    configure(CONFIG)
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    return perfcli


def configure(text: str) -> None:
    Path("perfcli.toml").write_text(text, encoding="utf-8")


# --- the baseline ----------------------------------------------------------------------------


def test_without_a_baseline_the_command_that_makes_one(perfcli: Any) -> None:
    configure(CONFIG)
    result = perfcli("gate")
    assert result.code == 4
    assert result.complaint == (
        "perfcli: there is no baseline perfcli-baseline.toml: make it with "
        'perfcli baseline update --reason "first baseline"'
    )
    assert not Path(".perfcli").exists()  # nothing was compiled for it


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"rmsnorm"', '"models/gone.py:block"', "there is no file models/gone.py"),
        ('"rmsnorm"', '"rmsnorm"\nparams = { rowz = 64 }', "rowz"),
    ],
)
def test_a_missing_baseline_does_not_hide_what_else_is_wrong(
    perfcli: Any, old: str, new: str, said: str
) -> None:
    assert old in CONFIG
    configure(CONFIG.replace(old, new, 1))
    result = perfcli("gate")
    assert result.code == 2
    assert said in result.complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"format = 1\nx = " + b"[" * 100_000, "is nested too deeply"),
        (b"#" * ((16 << 20) + 1), "is larger than 16 MiB"),
    ],
)
def test_a_baseline_that_nobody_wrote(perfcli: Any, content: bytes, said: str) -> None:
    configure(CONFIG)
    Path("perfcli-baseline.toml").write_bytes(content)
    result = perfcli("gate")
    assert result.code == 2
    assert said in result.complaint
    assert "perfcli baseline update" in result.complaint


def test_an_update_needs_a_reason(perfcli: Any) -> None:
    configure(CONFIG)
    for reason in ((), ("--reason", " ")):
        result = perfcli("baseline", "update", *reason)
        assert (result.code, "for a reason" in result.complaint) == (2, True)
    assert not BASELINE.exists()


def test_an_update_without_changes_changes_no_byte(
    gated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = BASELINE.read_bytes()
    result = gated("baseline", "update", "--reason", "again", "--fresh")
    assert BASELINE.read_bytes() == before
    assert result.out.splitlines()[-1] == "perfcli-baseline.toml is up to date"
    assert b"first" in before


def test_only_the_check_that_changed_gets_the_new_reason(gated: Any) -> None:
    configure(SPILLING)
    result = gated("baseline", "update", "--reason", "more reads", "softmax@h100")
    assert "softmax@h100: worse than on" in result.out
    assert "  spilled words 0 → 46" in result.out
    text = BASELINE.read_text()
    assert (text.count('reason = "first"'), text.count('reason = "more reads"')) == (2, 1)
    assert gated("gate", "softmax@h100", "norm").code == 0
    assert gated("gate", "softmax").code == 1  # a100's is the old one


def test_checks_that_are_not_configured_any_more_are_dropped(gated: Any) -> None:
    configure(CONFIG.partition("[[checks]]\nscenario")[0])
    result = gated("baseline", "update", "--reason", "fewer", "norm")
    assert "dropped" not in result.out
    result = gated("baseline", "update", "--reason", "fewer")
    assert "softmax@a100: dropped, it is not configured any more" in result.out
    assert "softmax" not in BASELINE.read_text()


def test_show_says_where_the_numbers_come_from(gated: Any) -> None:
    configure(CONFIG + '[[checks]]\nname = "new"\nscenario = "softmax"\n')
    lines = gated("baseline", "show").out.splitlines()
    assert lines[1].split()[0] == "norm@h100"
    assert "2.13.0" in lines[1]
    assert lines[1].endswith("first")
    assert lines[-1].endswith("not in the baseline")
    assert gated("baseline", "shwo").complaint.endswith("did you mean show?")


def test_a_baseline_that_cannot_be_written_is_said_before_compiling(perfcli: Any) -> None:
    configure(CONFIG)
    result = perfcli("baseline", "update", "--reason", "x", "--baseline", "nowhere/base.toml")
    assert (result.code, "there is no folder nowhere" in result.complaint) == (2, True)
    assert not Path(".perfcli").exists()


def test_a_broken_baseline_is_only_made_anew_as_a_whole(gated: Any) -> None:
    BASELINE.write_text("format = 1\n[checks")
    assert "is not TOML" in gated("gate").complaint
    assert gated("gate").code == 2
    assert gated("baseline", "update", "norm", "--reason", "x").code == 2
    assert BASELINE.read_text() == "format = 1\n[checks"
    result = gated("baseline", "update", "--reason", "x")
    assert (result.code, "made anew" in result.err) == (0, True)
    assert gated("gate").code == 0


# --- the gate --------------------------------------------------------------------------------


def test_the_same_code_passes(gated: Any) -> None:
    result = gated("gate")
    assert result.code == 0
    assert result.out.splitlines() == [
        "PASS  3 checks: 3 passed",
        "",
        "  PASS    norm@h100     all 15 kernels are identical",
        "  PASS    softmax@h100  all 15 kernels are identical",
        "  PASS    softmax@a100  all 15 kernels are identical",
    ]


def test_a_kernel_that_spills_fails_with_its_name(gated: Any) -> None:
    configure(SPILLING)
    result = gated("gate")
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0] == "FAIL  3 checks: 2 failed, 1 passed"
    big = "triton_red_fused_add_mul_rms_norm_sum_0"
    assert f"  broken: spilled words 0 → 46, at most +0: {big} fuses 3 kernels" in lines
    assert any(line.startswith(f"  broken: PC103 {big}") for line in lines)
    assert "softmax@h100: perfcli explain " in result.err


def test_quiet_is_one_line(gated: Any) -> None:
    result = gated("gate", "--quiet")
    assert (result.out, result.err) == ("PASS  3 checks: 3 passed\n", "")


def test_improvements_are_a_refresh_and_not_red(gated: Any) -> None:
    configure(SPILLING)
    gated("baseline", "update", "--reason", "worse")
    configure(CONFIG)
    result = gated("gate", "softmax@h100")
    assert result.code == 0
    assert (
        "warning: softmax@h100 is better than the baseline (spilled words 46 → 0): take it over "
        'with perfcli baseline update softmax@h100 --reason "…"'
    ) in result.out


def test_the_same_bytes_in_another_folder(gated: Any, tmp_path: Path, monkeypatch: Any) -> None:
    configure(SPILLING)
    first = gated("gate", "--json", "gate.json")
    other = tmp_path / "another" / "folder"
    other.mkdir(parents=True)
    for name in ("perfcli.toml", str(BASELINE)):
        shutil.copy(name, other)
    monkeypatch.chdir(other)
    second = gated("gate", "--json", "gate.json")
    assert (first.code, first.out) == (second.code, second.out) == (1, second.out)
    assert Path("gate.json").read_bytes() == (tmp_path / "gate.json").read_bytes()


def test_json_of_a_gate(gated: Any) -> None:
    configure(SPILLING)
    result = gated("gate", "--json", "-")
    assert result.err.startswith("triton.") or "FAIL" in result.err
    document = json.loads(result.out)
    assert (document["perfcli"], document["format"], document["exit_code"]) == ("gate", 1, 1)
    checks = {check["name"]: check for check in document["checks"]}
    assert {name: check["outcome"] for name, check in checks.items()} == {
        "norm@h100": "pass",
        "softmax@h100": "fail",
        "softmax@a100": "fail",
    }
    failed = checks["softmax@h100"]
    assert failed["baseline"]["reason"] == "first"
    broken = {each["metric"]: each for each in failed["limits"] if each["state"] == "broken"}
    assert (broken["spilled_words"]["base"], broken["spilled_words"]["head"]) == (0, 46)
    assert broken["spilled_words"]["allowed"] == 0
    assert failed["comparison"]["totals"]["spilled_words"]["delta"] == 46
    assert "id" not in failed["comparison"]["head"]


def test_every_document_of_one_judgement(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(SPILLING)
    files = ("--markdown", "a.md", "--junit", "a.xml", "--sarif", "a.sarif", "--json", "a.json")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    assert gated("gate", *files, "--github").code == 1
    for name in ("a.md", "a.xml", "a.sarif", "a.json", "summary.md"):
        assert "spilled" in Path(name).read_text(), name


def test_a_document_that_cannot_be_written_is_said_before_compiling(perfcli: Any) -> None:
    configure(CONFIG)
    result = perfcli("gate", "--junit", "nowhere/a.xml")
    assert (result.code, "there is no folder nowhere" in result.complaint) == (2, True)
    assert not Path(".perfcli").exists()


def test_the_configuration_of_a_folder_above(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("deep").mkdir()
    monkeypatch.chdir("deep")
    assert gated("gate").code == 0
    assert gated("gate", "--config", "../perfcli.toml", "norm").code == 0


def test_no_configuration_says_what_to_write(perfcli: Any) -> None:
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n")
    result = perfcli("gate")
    assert result.code == 2
    assert "Write [[tool.perfcli.checks]]" in result.complaint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("limits.spiled_words = 0", "no metric 'spiled_words': did you mean spilled_words?"),
        ("on_unsure = 'warn'", "unknown key 'on_unsure': did you mean on-unsure?"),
    ],
)
def test_mistakes_in_the_configuration(perfcli: Any, text: str, says: str) -> None:
    configure(f"{text}\n{CONFIG}")
    result = perfcli("gate")
    assert (result.code, says in result.complaint) == (2, True)


def test_an_unknown_check(gated: Any) -> None:
    result = gated("gate", "sotfmax")
    assert (result.code, "did you mean softmax" in result.complaint) == (2, True)


def test_an_option_that_torch_does_not_know_is_a_fault_of_one_check(gated: Any) -> None:
    configure(CONFIG + 'options = { "triton.no_such_thing" = 1 }\n')
    result = gated("gate")
    assert result.code == 2
    assert result.out.splitlines()[0] == "ERROR  3 checks: 2 could not be judged, 1 passed"


# --- faults ----------------------------------------------------------------------------------


def test_a_model_that_does_not_compile_keeps_nobody_else(
    gated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(SPILLING)
    monkeypatch.setenv("PERFCLI_FAKE", f"compile:{MAX_READS}")
    result = gated("gate", "--fresh", "--junit", "a.xml", "--json", "a.json")
    assert result.code == 2
    lines = result.out.splitlines()
    assert lines[0] == "ERROR  3 checks: 2 could not be judged, 1 passed"
    assert "Inductor could not compile forward 0 of softmax" in lines[3]
    checks = json.loads(Path("a.json").read_text())["checks"]
    assert [check["outcome"] for check in checks] == ["pass", "fault", "fault"]
    assert Path("a.xml").read_text().count("<error") == 2


def test_a_fault_outweighs_a_regression(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(SPILLING + '[[checks]]\nname = "bad"\nscenario = "nowhere.py"\n')
    result = gated("gate")
    assert result.code == 4  # not in the baseline
    assert "bad@h100" in result.out
    assert "there is no file nowhere.py" in gated("baseline", "update", "--reason", "x").complaint


def test_a_users_error_is_shown(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "user:all")
    result = gated("gate", "--fresh")
    assert result.code == 2
    assert 'File "model.py", line 7, in forward' in result.err


def test_interrupted_is_interrupted(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "interrupt:all")
    assert gated("gate", "--fresh").code == 130


def test_no_kernels_is_a_fault(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from perfcli.fake import executor
    from perfcli.fake import run as made_up

    def empty(request: Any) -> Any:
        bundle = made_up.make_up_run(request)
        return replace(bundle, run=replace(bundle.run, kernels=(), launches=()))

    monkeypatch.setattr(executor, "make_up_run", empty)
    result = gated("gate", "--fresh")
    assert (result.code, "nothing to compare" in result.out) == (2, True)


# --- another torch, target, parameters -------------------------------------------------------


@pytest.mark.parametrize(("tool", "version"), [("torch", "2.12.0"), ("triton", "3.6.0")])
def test_a_baseline_of_other_compilers(gated: Any, tool: str, version: str) -> None:
    text = BASELINE.read_text()
    old = f'{tool} = "{"2.13.0" if tool == "torch" else "3.7.1"}"'
    assert old in text
    BASELINE.write_text(text.replace(old, f'{tool} = "{version}"'))
    result = gated("gate", "norm")
    assert result.code == 4
    assert f"of another {tool}: {tool} {version} instead of" in result.out
    assert f"--allow {tool}" in result.out
    allowed = gated("gate", "norm", "--allow", tool)
    assert allowed.code == 0


def test_another_build_of_the_same_torch_is_the_same(gated: Any) -> None:
    text = BASELINE.read_text()
    BASELINE.write_text(text.replace('torch = "2.13.0"', 'torch = "2.13.0+cu130"'))
    assert gated("gate").code == 0


def test_a_target_that_the_baseline_lacks(gated: Any) -> None:
    configure(CONFIG.replace('"a100"]', '"a100", "l40s"]'))
    result = gated("gate")
    assert result.code == 4
    assert (
        "perfcli-baseline.toml has no check softmax@l40s (it has softmax@a100, softmax@h100): take "
        'it in with perfcli baseline update softmax@l40s --reason "…"'
    ) in result.out


def test_other_parameters_are_another_question(gated: Any) -> None:
    configure(CONFIG.replace('"rmsnorm"', '"rmsnorm"\nparams = { rows = 64 }'))
    result = gated("gate", "norm")
    assert result.code == 4
    assert "parameter rows 32768 → 64" in result.out
    assert gated("gate", "norm", "--allow", "params").code == 0


def test_another_target_is_allowed_and_said(gated: Any) -> None:
    text = BASELINE.read_text()
    BASELINE.write_text(text.replace("h100 (sm_90, 132 SMs)", "h100 (sm_90, 114 SMs)"))
    result = gated("gate", "norm")
    assert (result.code, "of another target" in result.out) == (4, True)
    assert gated("gate", "norm", "--allow", "target", "--json", "a.json").code == 0
    (check,) = json.loads(Path("a.json").read_text())["checks"]
    assert check["comparison"]["differences"] == [
        "target h100 (sm_90, 114 SMs) → h100 (sm_90, 132 SMs)"
    ]


def test_what_cannot_be_allowed(gated: Any) -> None:
    assert "can't allow 'tritn' to differ" in gated("gate", "--allow", "tritn").complaint


# --- limits and exceptions -------------------------------------------------------------------


def allow(limit: str, expires: str, kernel: str = "*") -> str:
    return (
        f'\n[[allow]]\nkernel = "{kernel}"\nlimit = "{limit}"\nreason = "known"\n'
        f'owner = "me"\nexpires = {expires}\n'
    )


def test_exceptions_and_what_became_of_them(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    big = "triton_red_fused_add_mul_rms_norm_sum"
    text = SPILLING + "".join(
        allow(limit, "2099-01-01", big)
        for limit in ("spilled_words", "bytes_moved", "loads", "occupancy", "PC103")
    )
    configure(text)
    result = gated("gate")
    assert result.code == 0
    assert "  allowed: spilled words 0 → 46, at most +0" in result.out
    assert "    known (me)" in result.out
    configure(text.replace("2099-01-01", "2020-01-01", 1))
    result = gated("gate")
    assert result.code == 1
    assert f"exception for spilled_words of {big} (me: known) expired on 2020-01-01" in result.out


def test_an_exception_that_is_not_needed_is_warned_of(gated: Any) -> None:
    configure(CONFIG + allow("loads", "2099-01-01"))
    assert "excepts nothing any more: take it out" in gated("gate").out
    assert "excepts nothing" not in gated("gate", "norm").out  # another check may need it


def test_limits_of_ones_own(gated: Any) -> None:
    configure('limits.kernels = 14\n[kernels."triton_red_*"]\nregisters = 20\n' + CONFIG)
    result = gated("gate", "norm")
    assert result.code == 1
    assert "  broken: kernels 15, at most 14" in result.out
    assert "triton_red_fused_mul_0: registers 26, at most 20" in result.out


def test_unsure_by_configuration(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spilling = f'fail-on = "error"\nlimits = {{ spilled_words = "any", bytes_moved = "any", \
loads = "any" }}\n{SPILLING}'.replace('name = "norm"', 'name = "norm"\nkernels."*".occupancy="any"')
    spilling += 'kernels."*".occupancy = "any"\n'
    for policy, code in (("pass", 0), ("warn", 0), ("fail", 3)):
        configure(f'on-unsure = "{policy}"\n{spilling}')
        result = gated("gate", "softmax@h100")
        assert (result.code, result.out.startswith("UNSURE")) == (code, True), result.out
        assert ("is unsure: PC103" in result.out) == (policy == "warn")


def test_an_old_baseline_is_warned_of(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BASELINE.read_text()
    created = next(line for line in text.splitlines() if line.startswith("created"))
    BASELINE.write_text(text.replace(created, 'created = "2020-01-01"'))
    result = gated("gate", "norm")
    assert (result.code, "days old (of 2020-01-01, first): renew it" in result.out) == (0, True)
    configure(f"baseline-max-age-days = 100000\n{CONFIG}")
    assert "days old" not in gated("gate", "norm").out


# --- another revision, another interpreter ---------------------------------------------------


def git(*arguments: str) -> str:
    user = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ["git", *user, *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
    return done.stdout


@pytest.fixture
def repository(perfcli: Any) -> Any:
    configure('[[checks]]\nscenario = "models/model.py:build"\n')
    Path("models").mkdir()
    Path("models/model.py").write_text("def build(): ...\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return perfcli


def test_against_a_revision(repository: Any) -> None:
    Path("models/model.py").write_text("def build(): pass  # edited\n")
    Path(".gitignore").write_text(".perfcli\n")
    before = git("status", "--porcelain")
    result = repository("gate", "--base-rev", "HEAD", "--json", "a.json")
    Path("a.json").rename(".perfcli/a.json")
    assert (result.code, "build@h100  all 15 kernels are identical" in result.out) == (0, True)
    assert git("status", "--porcelain") == before
    assert git("worktree", "list").count("\n") == 1
    assert Path("models/model.py").read_text() == "def build(): pass  # edited\n"
    (check,) = json.loads(Path(".perfcli/a.json").read_text())["checks"]
    assert check["baseline"]["kind"] == "revision"
    assert check["baseline"]["revision"] == git("rev-parse", "HEAD").strip()


def test_a_file_that_the_revision_lacks_is_a_new_check(repository: Any) -> None:
    git("rm", "--quiet", "--cached", "models/model.py")
    git("commit", "--quiet", "-m", "without")
    result = repository("gate", "--base-rev", "HEAD")
    assert result.code == 0
    assert "build@h100 is new: HEAD has no models/model.py" in result.out


def test_a_failing_base_leaves_no_worktree(
    repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "user:all")
    assert repository("gate", "--base-rev", "HEAD").code == 2
    assert git("worktree", "list").count("\n") == 1


def test_revisions_that_are_none(repository: Any, tmp_path: Path) -> None:
    result = repository("gate", "--base-rev", "nope")
    assert (result.code, "has no revision 'nope'" in result.complaint) == (2, True)
    assert repository("gate", "--base-rev=--help").code == 2
    shutil.rmtree(".git")
    result = repository("gate", "--base-rev", "HEAD")
    assert (result.code, "is in no repository" in result.complaint) == (2, True)


def test_options_that_contradict_each_other(gated: Any) -> None:
    for options, says in (
        (("--base-rev", "HEAD", "--baseline", "x.toml"), "--baseline is a base already"),
        (("--no-time",), "a baseline has no times"),
        (("--allow-env", "driver"), "a baseline has no times"),
    ):
        result = gated("gate", *options)
        assert (result.code, says in result.complaint) == (2, True)


@pytest.fixture
def measuring(repository: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Both sides have the same code here, and are measured all the same."""
    configure('device = "cpu"\n[[checks]]\nscenario = "models/model.py:build"\n')
    monkeypatch.setattr(pair, "has_same_code", lambda *_: False)

    def run(plan: str, *more: str) -> Any:
        monkeypatch.setenv("PERFCLI_FAKE", plan)
        return repository("gate", "--base-rev", "HEAD", *more)

    return run


def test_slower_twice_fails(measuring: Any) -> None:
    result = measuring("1;ratio=1.05")
    assert result.code == 1
    assert "measured once more, in fresh processes" in result.err
    assert "at most +0 %, confirmed in fresh processes" in result.out
    assert result.out.count("broken: step ") == 1


@pytest.mark.parametrize(("ratio", "word"), [("1.0", "PASS"), ("0.9", "PASS")])
def test_not_slower_passes_at_once(measuring: Any, ratio: str, word: str) -> None:
    result = measuring(f"1;ratio={ratio}")
    assert (result.code, result.out.split()[0]) == (0, word)
    assert "once more" not in result.err


def test_a_limit_on_time(measuring: Any) -> None:
    text = Path("perfcli.toml").read_text()
    configure(f'limits.time = "+10%"\n{text}')
    assert measuring("1;ratio=1.05").code == 0
    assert measuring("1;ratio=1.15").code == 1


def test_slower_once_is_unsure(measuring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = pair.measure_times
    plans = iter(("1;ratio=1.05", "1;ratio=1.0"))

    def changing(comparison: Any, setting: Any, *rest: Any) -> Any:
        from dataclasses import replace

        from perfcli.fake import measuring as fake_measuring

        plan = fake_measuring.parse(next(plans))
        return measured(comparison, replace(setting, fake=plan), *rest)

    monkeypatch.setattr(bases, "measure_times", changing)
    result = measuring("1;ratio=1.05")
    assert (result.code, result.out.split()[0]) == (0, "UNSURE")
    assert "but not confirmed in fresh processes" in result.out
    assert "warning: build@cpu is unsure" in result.out


def test_wrong_results_and_a_dying_worker(measuring: Any) -> None:
    wrong = measuring("1;fail=wrong:head:prepare")
    assert (wrong.code, "the head's outputs are wrong" in wrong.out) == (1, True)
    died = measuring("1;fail=dies:head:prepare")
    assert (died.code, died.out.split()[0]) == (2, "ERROR")


def test_no_time_measures_nothing(measuring: Any) -> None:
    assert measuring("1;ratio=1.5", "--no-time").code == 0


def test_contract(gated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What documents get: every check in the configuration's order, with its provenance."""
    from perfcli.console import documents

    seen: list[Judgement] = []
    monkeypatch.setattr(documents, "write", lambda judgement, *_: seen.append(judgement))
    gated("gate")
    (judgement,) = seen
    assert [check.name for check in judgement.checks] == [
        *("norm@h100", "softmax@h100", "softmax@a100"),
    ]
    assert judgement.command == "perfcli gate"
    source = judgement.checks[0].provenance
    assert source is not None
    assert (source.kind, source.where, source.reason, source.torch) == (
        *("baseline", "perfcli-baseline.toml", "first", "2.13.0"),
    )


# --- estimated time --------------------------------------------------------------------------


def test_the_estimated_step_is_held_where_the_baseline_has_times(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    configure(CONFIG)
    perfcli("baseline", "update", "--reason", "first")
    assert "estimated_us" in BASELINE.read_text()
    assert perfcli("gate").code == 0
    configure(SPILLING)
    result = perfcli("gate", "softmax@h100")
    assert result.code == 1
    assert "estimated kernels " in result.out
    assert ", at most +3 %: triton_red_fused_add_mul_rms_norm_sum_0 fuses 3 kernels" in result.out
    assert "broken: spilled words" not in result.out
    configure(SPILLING + 'limits = { step_time = "any" }\n')
    assert "broken: spilled words" in perfcli("gate", "softmax@h100").out


def test_with_a_baseline_of_before_counts_decide_and_the_gate_says_so(
    gated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    configure(SPILLING)
    result = gated("gate", "softmax@h100", "--fresh")
    assert result.code == 1
    assert "broken: spilled words" in result.out
    (line,) = [line for line in result.out.splitlines() if "counts decide" in line]
    assert "perfcli baseline update softmax@h100" in line


def test_what_the_estimate_can_not_tell_passes_unless_strict(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit within the interval of the change."""
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    configure(CONFIG)
    perfcli("baseline", "update", "--reason", "first")
    configure(SPILLING + 'limits = { step_time = "100 %" }\n')
    result = perfcli("gate", "softmax@h100")
    assert (result.code, "UNSURE" in result.out) == (0, True)
    assert "--device cuda" in result.out
    assert perfcli("gate", "softmax@h100", "--strict").code == 3


def _find_slow(run: Run) -> Iterator[Finding]:
    """Find what only a run with estimated times can show."""
    for number, kernel in enumerate(run.kernels):
        if kernel.estimate is not None:
            yield Finding("PC999", "warning", f"{kernel.name} is slow", kernels=(number,), amount=1)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rule, and times for made-up kernels, as ``estimate_run`` gives them to real ones."""
    found = (Rule("PC999", "slow kernel", "Slow.\n", of_run=_find_slow),)
    estimate = TimeEstimate(1e-6, 5e-7, 2e-6)

    def estimate_run(run: Run) -> Run:
        return replace(run, kernels=tuple(replace(k, estimate=estimate) for k in run.kernels))

    monkeypatch.setattr(diagnosis, "rules", lambda: found)
    monkeypatch.setattr(diagnosis, "estimate_run", estimate_run)


@pytest.mark.usefixtures("slow")
def test_what_the_baseline_had_by_estimate_is_not_new(gated: Any) -> None:
    assert 'code = "PC999"' in BASELINE.read_text()
    configure('fail-on = "warning"\n' + SPILLING)
    gated("gate", "--json", "gate.json")
    (norm, *_) = json.loads(Path("gate.json").read_text())["checks"]
    found = [f["appearance"] for f in norm["comparison"]["findings"] if f["code"] == "PC999"]
    assert set(found) == {"same"}


@pytest.mark.usefixtures("slow")
def test_a_newer_rule_finds_nothing_new_in_the_same_code(gated: Any) -> None:
    text = BASELINE.read_text()
    older = "\n".join(line for line in text.splitlines() if "PC999" not in line) + "\n"
    assert older != text
    BASELINE.write_text(older)
    configure('fail-on = "warning"\n' + CONFIG)
    result = gated("gate")
    assert (result.code, "PC999" in result.out) == (0, False)
