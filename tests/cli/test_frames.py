"""Tables as CSV and Parquet, held against JSON and docs/frames.md."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from cli.conftest import MAX_READS, Perfcli

from perfcli.frames.known import load_tables, render_page
from perfcli.frames.table import DTYPES

ROOT = Path(__file__).parents[2]


def test_the_page_has_every_column() -> None:
    page = (ROOT / "docs/frames.md").read_text(encoding="utf-8")
    assert page == render_page(page), "run: python -m perfcli.frames.known docs/frames.md"


def test_names_are_used_once_and_an_empty_table_keeps_its_types() -> None:
    tables = list(load_tables())
    assert len({table.name for table in tables}) == len(tables)
    for table in tables:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), table.name
        frame = table.to_frame([])
        assert [str(dtype) for dtype in frame.dtypes] == [
            DTYPES[column.kind] for column in table.columns
        ]


def test_runs(perfcli: Perfcli) -> None:
    import pandas

    perfcli("run", "softmax", "-p", "rows=128", "-q")
    result = perfcli("runs", "--json", "runs.json", "--csv", "-", "--parquet", "runs.parquet")
    (stored,) = json.loads(Path("runs.json").read_text())["runs"]
    assert (result.code, result.out.count("\n")) == (0, 2)
    assert result.out.splitlines()[0].startswith("number,id,created,scenario,params")
    assert "softmax" in result.err
    frame = pandas.read_parquet("runs.parquet")
    (row,) = frame.to_dict("records")
    assert (row["id"], row["kernels"], row["dynamic"]) == (stored["id"], stored["kernels"], False)
    assert row["created"] == pandas.Timestamp(stored["created"])
    assert "rows=128" in row["params"]


def test_a_comparison_and_its_kernels(perfcli: Perfcli) -> None:
    import pandas

    given = ("softmax", "-b", "max_autotune=true", "--csv", "groups.csv", "--parquet", "g.parquet")
    perfcli("compare", *given, "--json", "c.json")
    groups = json.loads(Path("c.json").read_text())["groups"]
    frame = pandas.read_csv("groups.csv", index_col="number")
    stored = pandas.read_parquet("g.parquet")
    assert len(frame) == len(stored) == len(groups)
    moved = [group["changes"]["bytes_moved"]["base"] for group in groups]
    assert list(frame["bytes_moved_base"]) == list(stored["bytes_moved_base"]) == moved
    assert (stored.attrs["table"], stored.attrs["units"]["bytes_moved_base"]) == ("groups", "B")
    assert stored["measured_ratio"].isna().all()


def test_kernels_findings_and_lines(perfcli: Perfcli) -> None:
    import pandas

    perfcli("run", "softmax", "--csv", "kernels.csv", "--json", "run.json")
    kernels = json.loads(Path("run.json").read_text())["run"]["kernels"]
    frame = pandas.read_csv("kernels.csv", index_col="number")
    assert list(frame["name"]) == [kernel["name"] for kernel in kernels]
    assert list(frame["loads"]) == [kernel["source_facts"]["loads"] for kernel in kernels]
    assert perfcli("inspect-kernel", "softmax", "--csv", "k.csv").code == 0
    assert list(pandas.read_csv("k.csv")["name"]) == list(frame["name"])
    assert perfcli("inspect-kernel", "softmax", "0", "--csv", "lines.csv").code == 0
    lines = pandas.read_csv("lines.csv")
    assert lines["global_loads"].sum() == kernels[0]["source_facts"]["loads"]
    source = perfcli("inspect-kernel", "softmax", "0", "--source").out
    assert list(lines["source"].fillna("")) == source.splitlines()
    given = ("softmax", "--csv", "findings.csv", "--json", "findings.json")
    assert perfcli("explain", *given).code == 0
    found = json.loads(Path("findings.json").read_text())["findings"]
    assert list(pandas.read_csv("findings.csv")["code"]) == [each["code"] for each in found]


@pytest.mark.parametrize(
    ("given", "listed", "names"),
    [
        (("targets",), "targets", {"name": "name", "calibrated": "calibrated"}),
        (("scenarios",), "scenarios", {"name": "name", "question": "question"}),
        (("rules",), "rules", {"code": "code", "title": "title"}),
        (("knobs", "fusion"), "options", {"option": "name", "type": "type"}),
        (("knobs", "--performance"), "options", {"option": "name", "devices": "devices"}),
        (("knobs", "--patches"), "patches", {"patch": "name", "fits": "fits"}),
        (("knobs", "--diff", "2.11", "2.13"), "changes", {"option": "name", "change": "kind"}),
        (("kernels",), "families", {"family": "name", "summary": "summary"}),
    ],
)
def test_a_listing_is_that_of_json(
    perfcli: Perfcli, given: tuple[str, ...], listed: str, names: dict[str, str]
) -> None:
    import pandas

    result = perfcli(*given, "--json", "all.json", "--csv", "-")
    assert result.code == 0
    expected = json.loads(Path("all.json").read_text())[listed]
    frame = pandas.read_csv(io.StringIO(result.out), index_col="number")
    assert len(frame) == len(expected) > 0
    for column, field in names.items():
        assert list(frame[column]) == [each[field] for each in expected]


def test_measured_tables(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pandas

    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    given = ("kernels", "bench", "softmax", "--json", "b.json", "--csv", "b.csv")
    assert perfcli(*given, "-p", "rows=64", "--against", "eager").code == 0
    scores = json.loads(Path("b.json").read_text())["problems"]
    frame = pandas.read_csv("b.csv")
    assert len(frame) == sum(len(score["contenders"]) for score in scores)
    assert (frame["low"] <= frame["seconds"]).all()
    searched = ("bisect-config", "softmax", "-m", "spills", "--csv", "c.csv")
    perfcli(*searched, "--bad", f"{MAX_READS}=99", "--bad", "max_fusion_size=32")
    changes = pandas.read_csv("c.csv", index_col="option")
    assert changes.loc[MAX_READS, "group"] == 1
    assert changes.loc["max_fusion_size"].isna()["group"]
    monkeypatch.setenv("PERFCLI_FAKE", "1;noise=0.002")
    noise = ("noise", "softmax", "--device", "cpu", "--budget", "1", "--seed", "1")
    assert perfcli(*noise, "--pairs", "3", "--json", "n.json", "--csv", "n.csv").code == 0
    pairs = json.loads(Path("n.json").read_text())["pairs"]
    assert list(pandas.read_csv("n.csv")["ratio"]) == [pair["ratio"] for pair in pairs]
    assert perfcli("noise", "--show", "--csv", "floors.csv").code == 0
    assert list(pandas.read_csv("floors.csv")["scenario"]) == ["softmax"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("warm", "stop", "--csv", "a"), "warm stop prints no table"),
        (("baseline", "update", "--csv", "a"), "baseline update prints no table"),
        (("noise", "--forget", "--csv", "a"), "leave out --csv"),
        (("runs", "--csv", "-", "--json", "-"), "--json and --csv both write stdout"),
        (("runs", "--csv", "a", "--parquet", "./a"), "--csv and --parquet both write a"),
        (("runs", "--parquet", "-"), "--parquet -: a file is expected; --csv - writes text"),
        (("run", "softmax", "--csv", "no/such.csv"), "can't write no/such.csv: there is no folder"),
        (("inspect-kernel", "softmax", "0", "--ptx", "--csv", "a"), "--ptx prints a text"),
    ],
)
def test_what_can_not_be_written_is_refused_first(
    perfcli: Perfcli, given: tuple[str, ...], line: str
) -> None:
    result = perfcli(*given)
    assert (result.code, result.out) == (2, "")
    assert line in result.complaint
    assert not Path(".perfcli").exists()


def test_parquet_without_pyarrow(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfcli.frames.table.find_spec", lambda name: None)
    result = perfcli("run", "softmax", "--parquet", "a.parquet")
    assert (result.code, result.complaint) == (
        2,
        "perfcli: --parquet needs pyarrow: pip install pyarrow, or use --csv",
    )
