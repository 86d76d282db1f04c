"""explain: the findings of one run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from handmade import rewrite
from planted import MAX_READS, RULES

from perfcli import diagnosis
from perfcli.model import Finding, Rule, Run
from perfcli.storing import store

SCENARIO = ("gqa-transformer", "-p", "layers=3")
BAD = ("explain", *SCENARIO, "-o", f"{MAX_READS}=1000")


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "rules", lambda: RULES)


def test_the_first_line_counts_and_the_gravest_comes_first(perfcli: Any) -> None:
    result = perfcli(*BAD)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "1 error, 1 warning, 1 note in 13 kernels"
    assert lines[1].startswith("gqa-transformer · training · h100 · layers=3")
    assert f"{MAX_READS}=1000 · torch 2.13.0" in lines
    start = lines.index(
        "error PC901  3 triton_red_fused_add_mul_rms_norm_sum_0 spills 46 words per thread"
    )
    assert lines[start - 1 : start + 13] == [
        "",
        lines[start],
        "    255 registers",
        "    46 STL, 46 LDL",
        "    model.py:20  x = mul(x)",
        "        3  tmp0 = tl.load(in_ptr0 + x0)",
        "    → fuse less",
        "    cure triton.persistent_reductions=false: looped reductions hold less",
        f"    cure {MAX_READS}=10: keeps reductions with more reads apart",
        "    cure triton.mix_order_reduction=false: no mix-order reductions",
        "warning PC902  it has few blocks",
        "    12.5 % occupancy",
        "    8 blocks",
        f"    cure {MAX_READS}=10",
    ]


def test_it_ends_with_commands_that_work(perfcli: Any) -> None:
    lines = perfcli(*BAD).out.splitlines()
    (run,) = [stored.header.id for stored in store.runs()]
    assert lines[lines.index("Look closer") + 1 :] == [
        f"perfcli inspect-kernel {run} 3",
        "perfcli rules PC901",
        f"perfcli explain {run} --try-fixes  # compiles 3 proposed changes",
    ]
    again = perfcli("explain", run)
    assert (again.code, again.out.splitlines()) == (0, lines)


def test_no_findings(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "rules", lambda: RULES[:1])
    result = perfcli("explain", *SCENARIO)
    assert result.code == 0
    assert result.out.splitlines()[0] == "no findings in 15 kernels"
    lines = result.out.splitlines()
    closer = lines[lines.index("Look closer") + 1 :]
    assert len(closer) == 3
    for command in closer:
        assert perfcli(*command.split()[1:]).code == 0
    assert "--try-fixes" not in result.out


def test_quiet_is_one_line(perfcli: Any) -> None:
    result = perfcli(*BAD, "--quiet")
    assert (result.out, result.err) == ("1 error, 1 warning, 1 note in 13 kernels\n", "")


def test_json(perfcli: Any) -> None:
    perfcli(*BAD, "--json", "out.json")
    document = json.loads(Path("out.json").read_text())
    assert (document["perfcli"], document["format"]) == ("explanation", 1)
    assert document["run"] == store.runs()[0].header.id
    first = document["findings"][0]
    assert first["code"] == "PC901"
    assert first["location"] == "model.py:20"
    assert first["amount"] == 46
    assert first["cures"][1]["options"] == {MAX_READS: 10}
    assert first["trials"] == []
    assert first["proven"] is None
    piped = perfcli(*BAD, "--json", "-")
    assert json.loads(piped.out) == document
    assert "1 error, 1 warning, 1 note in 13 kernels" in piped.err


def edit(**changes: Any) -> str:
    (path,) = [stored.path for stored in store.runs()]
    document = json.loads(path.read_text())
    document["run"].update(changes)
    rewrite(path, document)
    return path.stem


def test_a_run_without_kernels_is_said_so_and_no_success(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As compare has it: an empty comparison is exit code 2."""
    perfcli("run", *SCENARIO)
    id = edit(kernels=[], launches=[])
    result = perfcli("explain", id)
    assert result.code == 2
    assert "1 note in 0 kernels" in result.out  # what there is to say is said
    assert "torch.compile made no kernels" in result.out
    assert result.complaint == "perfcli: there is no generated kernel to explain"
    assert (result.out + result.err).count("no kernels") == 1


def test_a_run_of_library_operators_alone_names_them(perfcli: Any) -> None:
    perfcli("run", *SCENARIO)
    calls = [{"op": "aten.addmm.default", "graph": "forward 0", "count": 2}]
    id = edit(kernels=[], launches=[], externs=calls)
    first = "torch.compile made no kernels: only library operators"
    said = " ".join(perfcli("explain", id).out.split())
    assert f"{first} (2 × aten.addmm.default)" in said


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_it_fits(perfcli: Any, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    report, _, _ = perfcli(*BAD, "--try-fixes").out.partition("Look closer")
    wrapped = [line for line in report.splitlines() if "to apply: " not in line]
    assert max(map(len, wrapped)) <= columns
    assert "PC902" in report


def test_foreign_text_is_shown_without_escapes(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b[31m"

    def check(made: Run) -> Iterable[Finding]:
        name = made.kernels[0].name
        for headline in (f"{name} is {evil}", f"it is {evil}"):
            yield Finding(
                "PC904",
                "info",
                headline,
                kernels=(0,),
                evidence=(evil,),
                advice=evil,
                subject=evil,
                source_lines={"1": evil},
            )

    monkeypatch.setattr(diagnosis, "rules", lambda: (Rule("PC904", "", "", of_run=check),))
    result = perfcli("explain", *SCENARIO)
    assert "\x1b" not in result.out
    assert "�[31m" in result.out
    assert "    kernel 0\n" not in result.out.split("it is")[0]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["explain", "nosuch"], "no scenario and no stored run 'nosuch'"),
        (["explain", "nosuch.json"], "no stored run 'nosuch.json'"),
        (["explain", "rmsnorm", "-o", "triton.nosuch=1"], "no option 'triton.nosuch'"),
        (["explain"], "Missing argument"),
    ],
)
def test_bad_input(perfcli: Any, argv: list[str], says: str) -> None:
    result = perfcli(*argv)
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_a_stored_run_is_explained_as_it_is(perfcli: Any) -> None:
    perfcli("run", *SCENARIO)
    (run,) = [stored.header.id for stored in store.runs()]
    result = perfcli("explain", run, "--dynamic")
    assert result.code == 2
    assert "leave out the options for compiling" in result.complaint
