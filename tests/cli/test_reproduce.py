"""perfcli reproduce with made-up runs: what is listed, written, refused, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_it_lists_the_claims(perfcli: Any) -> None:
    result = perfcli("reproduce", "--list", "split-softmax")
    assert result.code == 0
    names = [line.split()[0] for line in result.out.splitlines()[1:]]
    assert names
    assert all(name.startswith("split-softmax-") for name in names)


def test_any_beginning_of_a_name_is_taken(perfcli: Any) -> None:
    every = [line.split()[0] for line in perfcli("reproduce", "--list").out.splitlines()[1:]]
    wanted = [name for name in every if name.startswith("split-softmax-4")]
    assert "split-softmax-4" not in every
    assert wanted
    listed = perfcli("reproduce", "--list", "split-softmax-4").out.splitlines()[1:]
    assert [line.split()[0] for line in listed if not line.startswith(" ")] == wanted


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_a_document_on_stdout_has_it_alone(perfcli: Any, option: str) -> None:
    result = perfcli("reproduce", "online-softmax", "--target", "h200", option, "-")
    if option == "-o":
        assert result.out.startswith("# Claims reproduced")
        assert result.out.splitlines()[-1].startswith("| `online-softmax`")
    else:
        assert json.loads(result.out)["perfcli"] == "reproduction"
    assert "not reproduced, in code  online-softmax" in result.err
    assert result.err.splitlines()[-1].startswith("1 claim: ")


def test_two_documents_do_not_share_stdout(perfcli: Any) -> None:
    result = perfcli("reproduce", "online-softmax", "--target", "h200", "-o", "-", "--json", "-")
    assert result.code == 2
    assert "--markdown and --json both write stdout" in result.complaint


def test_a_bad_name_is_refused_with_the_nearest(perfcli: Any) -> None:
    result = perfcli("reproduce", "onlin-softmax")
    assert result.code == 2
    assert "did you mean online-softmax" in result.complaint
    assert not Path(".perfcli").exists()


def test_a_cpu_is_refused(perfcli: Any) -> None:
    result = perfcli("reproduce", "online-softmax", "--device", "cpu")
    assert result.code == 2
    assert "the claims are about a GPU's kernels" in result.complaint


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--budget", "3"), "no GPU here to measure on"),
        (("--target", "h200", "--budget", "3"), "--target h200 compiles without a device"),
        (("--target", "h20"), "h20"),
        (("--python", "no-such-python"), "no-such-python"),
        (("--json", "nowhere/r.json"), "there is no folder nowhere"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_compiled(
    perfcli: Any, given: tuple[str, ...], said: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PERFCLI_FAKE")  # which takes any interpreter
        result = perfcli("reproduce", "online-softmax", *given)
    assert result.code == 2
    assert said in result.complaint
    assert not Path(".perfcli").exists()


def test_every_claim_gets_a_verdict_and_a_row(perfcli: Any) -> None:
    result = perfcli(
        "reproduce", "online-softmax", "split-softmax", "--target", "h200",
        "--json", "r.json", "-o", "r.md",
    )  # fmt: skip
    document = json.loads(Path("r.json").read_text())
    assert document["perfcli"] == "reproduction"
    claims = document["claims"]
    assert claims[0]["name"] == "online-softmax"
    assert len(claims) > 1
    # What the fake executor makes up has no softmax that is read three times.
    assert {claim["verdict"] for claim in claims} == {"not reproduced"}
    rows = [line for line in Path("r.md").read_text().splitlines() if line.startswith("| `")]
    assert len(rows) == len(claims)
    assert result.code == 0
    assert result.out.splitlines()[-1].startswith(f"{len(claims)} claims: ")


def test_a_failing_claim_stops_no_other(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "compile:online_softmax")
    result = perfcli("reproduce", "online-softmax", "split-softmax", "--json", "r.json")
    claims = {c["name"]: c for c in json.loads(Path("r.json").read_text())["claims"]}
    failed = claims["online-softmax"]
    assert failed["verdict"] == "cannot be shown here"
    assert "Inductor could not compile" in failed["reason"]
    assert len(claims) > 1
    assert result.code == 2
    assert "Traceback" not in result.err


def test_an_interrupt_keeps_what_is_finished(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfcli.reproduce import run

    carry_one = run._carry_one
    done: list[Any] = []

    def interrupted(*given: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(given)
        return carry_one(*given)

    monkeypatch.setattr(run, "_carry_one", interrupted)
    result = perfcli("reproduce", "online-softmax", "split-softmax", "--json", "r.json")
    assert result.code == 130
    assert "1 claim finished" in result.complaint
    claims = json.loads(Path("r.json").read_text())["claims"]
    assert [claim["name"] for claim in claims] == ["online-softmax"]


def test_what_is_stored_is_used_again(perfcli: Any) -> None:
    perfcli("reproduce", "online-softmax")
    stored = sorted(Path(".perfcli/runs").iterdir())
    perfcli("reproduce", "online-softmax")
    assert sorted(Path(".perfcli/runs").iterdir()) == stored


def test_json_on_stdout_is_json_alone(perfcli: Any) -> None:
    result = perfcli("reproduce", "online-softmax", "--json", "-")
    assert json.loads(result.out)["claims"][0]["name"] == "online-softmax"


@pytest.mark.torch
def test_claims_compiled_for_real(perfcli: Any, warm_workers: None) -> None:
    """Softmax of 512 × 8192 bf16: three reads and a write in place of two and a write."""
    result = perfcli(
        "reproduce", "online-softmax", "split-softmax-4x1048576", "control-online-short-rows",
        "--smoke", "--target", "h100", "--no-search", "--json", "r.json",
    )  # fmt: skip
    assert result.code == 0, result.err
    claims = {claim["name"]: claim for claim in json.loads(Path("r.json").read_text())["claims"]}
    online = claims["online-softmax"]
    once = 512 * 8192 * 2
    sides = online["found"]["sides"]
    assert (sides["good"]["bytes_swept"], sides["bad"]["bytes_swept"]) == (3 * once, 4 * once)
    assert (sides["good"]["online"], sides["bad"]["online"]) == (1, 0)
    assert (online["verdict"], online["basis"]) == ("reproduced", "code")
    assert online["cures"] == ["online_softmax=true: helps"]
    split = claims["split-softmax-4x1048576"]
    assert split["verdict"] == "fixed in this version"
    assert split["found"]["sides"]["good"]["kernels"] == 3
    assert split["found"]["sides"]["bad"]["kernels"] == 5
    assert claims["control-online-short-rows"]["verdict"] == "reproduced"


@pytest.mark.torch
def test_launches_compiled_for_real(perfcli: Any, warm_kernels: None) -> None:
    """nvFuser's tiles of 7 inputs, 64 × 128 floats and 128 × 128 halves, fill shared memory and
    leave no room for the 8192 bytes of its workspace; ours fit."""
    result = perfcli_real(perfcli, "outer-7-inputs", "tma-32768x4096", "--target", "h200")
    claims = {claim["name"]: claim for claim in json.loads(Path("r.json").read_text())["claims"]}
    outer = claims["outer-7-inputs"]
    assert outer["verdict"] == "reproduced"
    assert outer["found"]["sides"]["bad"]["needed_bytes"] == 7 * 64 * 128 * 4 + 8192
    assert outer["found"]["sides"]["good"]["needed_bytes"] <= 232448
    assert claims["tma-32768x4096"]["verdict"] == "needs a GPU"
    assert result.code == 3


@pytest.mark.torch
def test_the_search_blames_the_option(perfcli: Any, warm_workers: None, one_template: None) -> None:
    result = perfcli_real(perfcli, "dynamic-softmax", "--smoke", "--target", "h100")
    (claim,) = json.loads(Path("r.json").read_text())["claims"]
    assert claim["found"]["blamed"] == ["unroll_reductions_threshold=8"]
    assert claim["verdict"] == "reproduced"
    assert result.code == 0


def perfcli_real(perfcli: Any, *argv: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PERFCLI_FAKE", raising=False)
        return perfcli("reproduce", *argv, "--json", "r.json")
