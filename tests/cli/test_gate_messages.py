"""What perfcli gate says where something is wrong: what it is, and what to do."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli.gate import compiled
from perfcli.gate.checks import Check
from perfcli.model import Run

CHECK = '[[checks]]\nscenario = "softmax"\n'
BASELINE = Path("perfcli-baseline.toml")


def configure(text: str) -> None:
    Path("perfcli.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targets = ["h101"]\n' + CHECK, "perfcli.toml: targets: no target 'h101': did you mean h"),
        (CHECK + 'target = "h101"\n', "perfcli.toml: checks[1].target: no target 'h101'"),
        ('device = "cudda"\n' + CHECK, "perfcli.toml: device is cuda or cpu, not 'cudda'"),
        (CHECK + 'name = "a\\nb"\n', "perfcli.toml: checks[1].name is 'a\\nb'"),
        (CHECK + 'name = "a\\u001bb"\n', "a name is one line"),
        ('limits.kernels = "10 %"\n' + CHECK, "perfcli.toml: limits.kernels is '10 %'"),
        ('limits.bytes_moved = "10 %"\n' + CHECK, 'or "+10 %" in a line'),
        ('limits.kernels.most = "10 %"\n' + CHECK, "perfcli.toml: limits.kernels.most is '10 %'"),
        ('limits.kernels.growth = "-5"\n' + CHECK, "needs a plain number, not '-5'"),
        ("limit.kernels = 3\n" + CHECK, "did you mean limits?"),
        ("[tool.perfcli]\nlimit.kernels = 3\n", "perfcli.toml: tool.perfcli has no checks"),
    ],
)
def test_mistakes_are_said_before_anything_is_compiled(perfcli: Any, text: str, said: str) -> None:
    configure(text)
    result = perfcli("gate")
    assert (result.code, said in result.complaint) == (2, True), result.complaint
    assert not Path(".perfcli").exists()


@pytest.mark.parametrize("empty", ["reason", "owner"])
def test_an_exception_with_an_empty_reason_or_owner(perfcli: Any, empty: str) -> None:
    keys = {"reason": "it has to be", "owner": "ada"} | {empty: " "}
    lines = [f'{name} = "{value}"' for name, value in keys.items()]
    allow = '[[allow]]\nlimit = "kernels"\nexpires = 2100-01-01\n'
    configure(CHECK + allow + "\n".join(lines))
    result = perfcli("gate")
    assert (result.code, f"allow[1].{empty} is empty" in result.complaint) == (2, True)


def test_growth_in_a_table_is_written_as_in_a_line(perfcli: Any) -> None:
    configure('limits.bytes_moved = { growth = "+5 MB", growth-share = "+1 %" }\n' + CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    assert perfcli("gate").code == 0


def test_a_share_of_a_kernel_may_be_a_percentage(perfcli: Any) -> None:
    configure('kernels."*".occupancy = { most = "1 %" }\n' + CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    assert perfcli("gate").code == 0


SPILLING = CHECK + 'options = { "triton.mix_order_reduction_max_reads" = 12 }\n'


def test_quiet_says_what_is_not_a_pass(perfcli: Any) -> None:
    configure(CHECK + '[[checks]]\nscenario = "rmsnorm"\n')
    assert perfcli("baseline", "update", "--reason", "x", "rmsnorm").code == 0
    result = perfcli("gate", "-q")
    lines = result.out.splitlines()
    assert (result.code, lines[0]) == (4, "ERROR  2 checks: 1 could not be judged, 1 passed")
    assert lines[1].startswith("  ERROR   softmax@h100  perfcli-baseline.toml has no check softmax")
    assert len(lines) == 2
    configure('[[checks]]\nscenario = "rmsnorm"\n')
    assert perfcli("gate", "-q").out.splitlines() == ["PASS  1 check: 1 passed"]


def test_a_broken_limit_is_said_quietly(perfcli: Any) -> None:
    configure(CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    configure(SPILLING)
    lines = perfcli("gate", "-q").out.splitlines()
    assert [line[:28] for line in lines[1:]] == ["  FAIL    softmax@h100  spil"]


def test_suggested_commands_name_the_files_that_were_given(perfcli: Any) -> None:
    Path("my config.toml").write_text(CHECK + 'name = "a \'b"\n', encoding="utf-8")
    files = ("--config", "my config.toml", "--baseline", "base.toml")
    typed = "--config 'my config.toml' --baseline base.toml"
    complaint = perfcli("gate", *files).complaint
    assert complaint.endswith(f'perfcli baseline update {typed} --reason "first baseline"')
    Path("base.toml").write_text("format = 1\n")
    said = perfcli("gate", *files, "-q").out
    assert f"perfcli baseline update 'a '\"'\"'b@h100' {typed} --reason \"…\"" in said
    document = Path("report.md")
    perfcli("gate", *files, "--markdown", str(document))
    assert f"perfcli gate {typed}" in document.read_text()


def test_other_parameters_with_the_command_that_takes_them(perfcli: Any) -> None:
    configure(CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    configure(CHECK + "params = { rows = 64 }\n")
    result = perfcli("gate", "-q")
    assert result.code == 4
    assert "--allow params" in result.out
    assert result.out.rstrip().endswith('perfcli baseline update softmax@h100 --reason "…"')


def test_what_a_gate_may_allow(perfcli: Any) -> None:
    configure(CHECK)
    complaint = perfcli("gate", "--allow", "foo").complaint
    assert complaint.endswith("target, dynamic, torch, triton, ptxas")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it has no format = 1; take it back with git, or make it anew with"),
        (b"\xff\x00", "is not text: "),
        (b"format = 1\n[checks.a]\n", "check a is broken ('created' is missing): take it back"),
    ],
)
def test_what_is_no_baseline(perfcli: Any, content: bytes, said: str) -> None:
    configure(CHECK)
    BASELINE.write_bytes(content)
    result = perfcli("gate")
    assert (result.code, said in result.complaint) == (2, True), result.complaint
    assert 'make it anew with perfcli baseline update --reason "…"' in result.complaint
    assert perfcli("baseline", "update", "--reason", "x").code == 0


def test_a_baseline_that_is_a_folder(perfcli: Any) -> None:
    configure(CHECK)
    BASELINE.mkdir()
    result = perfcli("gate")
    assert (result.code, "is a folder: the baseline is a file" in result.complaint) == (2, True)


def test_a_check_without_kernels_keeps_no_other_from_being_taken_in(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(CHECK + '[[checks]]\nname = "empty"\nscenario = "rmsnorm"\n')
    checked = compiled._check_kernels

    def none(run: Run, check: Check) -> None:
        checked(replace(run, kernels=()) if check.name == "empty@h100" else run, check)

    monkeypatch.setattr(compiled, "_check_kernels", none)
    result = perfcli("baseline", "update", "--reason", "x")
    assert result.code == 2
    assert result.complaint.startswith("perfcli: empty@h100: nothing to compare: rmsnorm has no")
    assert "take the check out" in result.complaint
    assert "softmax@h100" in BASELINE.read_text()
    assert "empty" not in BASELINE.read_text()


def test_what_got_better_is_said_of_a_check_that_is_no_pass(perfcli: Any) -> None:
    configure(SPILLING)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    configure("limits.kernels = 1\n" + CHECK)
    result = perfcli("gate")
    assert result.code == 1
    (line,) = (line for line in result.out.splitlines() if line.startswith("  better: "))
    assert "spilled words 46 → 0" in line


def test_an_exceeded_exception_is_not_to_be_taken_out(perfcli: Any) -> None:
    configure(CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    configure(
        SPILLING + '[[allow]]\nlimit = "spilled_words"\nmost = 1\nreason = "r"\nowner = "o"\n'
        "expires = 2100-01-01\n"
    )
    result = perfcli("gate")
    assert result.code == 1
    assert "is exceeded: 46, excepted up to 1" in result.out
    assert "take it out" not in result.out


def test_init_ci_writes_perfcli_toml_as_documented_and_has_it_added(perfcli: Any) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    assert perfcli("init-ci", "--install", "git+https://example.com/perfcli@v1").code == 0
    text = Path("perfcli.toml").read_text()
    assert "tool.perfcli" not in text
    assert tomllib.loads(text)["targets"] == ["h100"]
    assert "[[checks]]" in text
    again = perfcli("init-ci", "--install", "git+https://example.com/perfcli@v1").out
    assert "git add perfcli.toml perfcli-baseline.toml, and commit" in again
    BASELINE.write_text("format = 1\n")
    subprocess.run(["git", "add", "perfcli.toml"], check=True)
    assert (
        "git add perfcli-baseline.toml, and commit"
        in perfcli("init-ci", "--install", "git+https://example.com/perfcli@v1").out
    )
    subprocess.run(["git", "add", "perfcli-baseline.toml"], check=True)
    assert (
        "git add" not in perfcli("init-ci", "--install", "git+https://example.com/perfcli@v1").out
    )
