"""``compare`` and ``report``: which documents are written, where, and if they can't be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli.conftest import Perfcli
from handmade import run as make_run
from handmade_fusion import passing
from handmade_judgement import HOSTILE, hostile

from perfcli.console import output
from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.model import Bundle
from perfcli.storing import store

WORSE = ("compare", "gqa-transformer", "--preset", "smoke", "-b", "triton.mix_order_reduction=0")
SUMMARY = "GITHUB_STEP_SUMMARY"


@pytest.fixture(autouse=True)
def outside_of_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY, raising=False)


def runs() -> list[str]:
    """Ids of the stored runs, the base first."""
    stored = sorted(Path(".perfcli/runs").glob("*.json"))
    headers = [json.loads(path.read_text())["header"] for path in stored]
    return [h["id"] for h in sorted(headers, key=lambda h: h["variant"] != "default")]


def test_all_documents_of_one_comparison(perfcli: Perfcli) -> None:
    names = ("markdown", "junit", "sarif", "html", "json")
    options = [text for name in names for text in (f"--{name}", f"report.{name}")]
    result = perfcli(*WORSE, *options)
    assert result.code == 1
    assert result.out.startswith("WORSE  bytes moved")
    texts = {name: Path(f"report.{name}").read_text() for name in names}
    assert texts["markdown"].startswith("## WORSE `gqa-transformer@h100`\n")
    assert ElementTree.fromstring(texts["junit"]).get("failures") != "0"
    assert json.loads(texts["sarif"])["runs"][0]["results"]
    assert "</html>" in texts["html"]
    assert json.loads(texts["json"])["outcome"] == "worse"


@pytest.mark.parametrize("option", ["--markdown", "--html", "--junit", "--sarif", "--json"])
@pytest.mark.parametrize("path", ["nowhere/report", "."])
def test_a_path_that_cannot_be_written_is_said_before_compiling(
    perfcli: Perfcli, option: str, path: str
) -> None:
    result = perfcli(*WORSE, option, path)
    assert result.code == 2
    assert result.complaint.startswith(f"perfcli: can't write {path}: ")
    assert not Path(".perfcli").exists()


def test_two_documents_for_one_file(perfcli: Perfcli) -> None:
    result = perfcli(*WORSE, "--markdown", "a", "--junit", "./a")
    assert (result.code, result.complaint) == (
        2, "perfcli: --markdown and --junit both write a: name two files"
    )  # fmt: skip
    result = perfcli(*WORSE, "--markdown", "-", "--json", "-")
    assert "both write stdout" in result.complaint


def test_a_document_on_stdout_moves_the_report_to_stderr(perfcli: Perfcli) -> None:
    result = perfcli(*WORSE, "--junit", "-")
    assert ElementTree.fromstring(result.out).tag == "testsuites"
    assert "WORSE  bytes moved" in result.err


def test_the_others_are_written_where_one_fails_at_the_end(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = output.write_text

    def full(text: str, path: Path) -> None:
        if path.name in ("b.md", "d.sarif"):
            raise PerfcliError(f"can't write {path}: No space left on device")
        write(text, path)

    monkeypatch.setattr(output, "write_text", full)
    options = ("--json", "a.json", "--markdown", "b.md", "--junit", "c.xml", "--sarif", "d.sarif")
    result = perfcli(*WORSE, *options)
    assert result.code == 2
    assert result.complaint == "perfcli: can't write b.md: No space left on device"
    assert "warning: can't write d.sarif: No space left on device" in result.err
    assert Path("a.json").exists()
    assert Path("c.xml").exists()
    assert result.out.startswith("WORSE")


# --- GitHub ------------------------------------------------------------------------------------


def test_the_summary_is_appended_and_annotations_are_printed(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("summary").write_text("before\n")
    monkeypatch.setenv(SUMMARY, "summary")
    result = perfcli(*WORSE, "--github")
    assert Path("summary").read_text().startswith("before\n## WORSE `gqa-transformer@h100`\n")
    errors = [line for line in result.out.splitlines() if line.startswith("::error ")]
    assert len(errors) == 1
    assert "file=model.py,line=" in errors[0]


def test_the_terminals_report_holds_no_commands(perfcli: Perfcli) -> None:
    out = perfcli(*WORSE, "--github").out
    stopped = re.search(r"^::stop-commands::(\w{32})\n(.*)^::\1::\n", out, re.S | re.M)
    assert stopped is not None
    assert "WORSE  bytes moved" in stopped[2]
    assert "::error" not in stopped[2]


def test_outside_of_github_there_is_no_summary(perfcli: Perfcli) -> None:
    result = perfcli(*WORSE, "--github")
    assert result.code == 1
    assert f"--github: {SUMMARY} is not set" in result.err


def test_a_summary_that_is_nearly_full_gets_the_shorter_text(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, says in ((1024 * 1024 - 3, "full"), (0, "")):
        path = Path(f"summary{size}")
        path.write_bytes(b"x" * size)
        monkeypatch.setenv(SUMMARY, str(path))
        result = perfcli(*WORSE, "--github")
        assert ("the step summary is full" in result.err) == bool(says)
        assert path.stat().st_size <= 1024 * 1024


def test_a_summary_that_cannot_be_written(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SUMMARY, "nowhere/summary")
    result = perfcli(*WORSE, "--github")
    assert (result.code, Path(".perfcli").exists()) == (2, False)
    assert "nowhere" in result.complaint


# --- report ------------------------------------------------------------------------------------


def test_report_says_what_compare_says(perfcli: Perfcli) -> None:
    perfcli(*WORSE)
    base, head = runs()
    formats = ("markdown", "junit", "sarif", "html")
    for command in ("compare", "report"):
        options = [t for name in formats for t in (f"--{name}", f"{command}.{name}")]
        assert perfcli(command, base, head, *options).code == 1
    for name in formats:
        assert Path(f"compare.{name}").read_text() == Path(f"report.{name}").read_text()


def test_report_takes_a_stored_measurement(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(Path("cache").absolute()))
    monkeypatch.setenv("PERFCLI_FAKE", "1;ratio=1.05")
    perfcli(*WORSE, "--device", "cpu", "--budget", "5")
    base, head = runs()
    assert perfcli("report", base, head, "--markdown", "timed.md").code == 1
    timed = Path("timed.md").read_text()
    assert timed.startswith("## SLOWER")
    assert "<summary>How it was measured</summary>" in timed
    perfcli("report", base, head, "--markdown", "code.md", "--no-time")
    assert "How it was measured" not in Path("code.md").read_text()


def test_a_run_alone(perfcli: Perfcli) -> None:
    perfcli(*WORSE)
    base, _ = runs()
    result = perfcli("report", base, "--markdown", "a.md", "--junit", "a.xml", "--sarif", "a.sarif")
    assert (result.code, result.out) == (0, "no findings in 10 kernels\n")
    text = Path("a.md").read_text()
    assert text.startswith("## `gqa-transformer@h100`\n")
    assert "<summary>Kernels: 10</summary>" in text
    assert "SAME" not in text
    assert ElementTree.parse("a.xml").getroot().get("failures") == "0"


def test_a_run_alone_has_the_findings_that_explain_has(perfcli: Perfcli) -> None:
    """Rules that weigh costs need the estimates, which no stored run has. The costliest kernel
    comes first in the page, as ``run`` lists it."""
    first = passing("triton_poi_fused_add_0", "add", reads=["arg0_1"], writes=["buf0"])
    second = passing(
        "triton_poi_fused_mul_1", "mul", reads=["buf0"], writes=["result"],
        refused={first.name: "exceeds max fusion"},
    )  # fmt: skip
    often = passing("triton_poi_fused_often_2", "often", reads=["arg1_1"], writes=["b"], launches=3)
    settings = {"max_fusion_size": 4}
    kernels, target = [first, second, often], targets.get("h200")
    made = make_run(kernels, target=target, settings=settings, weighed=True)
    assert not any(kernel.estimate for kernel in made.kernels)
    store.save(Bundle(made, {}))
    perfcli("explain", "base", "--json", "e.json")
    found = [finding["code"] for finding in json.loads(Path("e.json").read_text())["findings"]]
    assert found == ["PC501"]
    names = ("html", "markdown", "junit", "sarif")
    options = [text for name in names for text in (f"--{name}", f"r.{name}")]
    assert perfcli("report", "base", *options).out == "1 warning in 3 kernels\n"
    texts = {name: Path(f"r.{name}").read_text() for name in names}
    for name, text in texts.items():
        assert "could be one kernel (fusion lost)" in text, name
    rows = re.search(r"<tbody.*?</tbody>", texts["html"].partition("estimated time</th>")[2], re.S)
    assert rows is not None
    assert re.findall(r"triton_poi_fused_\w+?_\d", rows[0])[0] == often.name


def test_the_first_of_several_is_the_base_of_each(perfcli: Perfcli) -> None:
    perfcli(*WORSE)
    base, head = runs()
    result = perfcli("report", base, base, head, head, "--markdown", "a.md", "--junit", "a.xml")
    assert result.code == 1
    assert [line.split()[0] for line in result.out.splitlines()] == ["SAME", "WORSE", "WORSE"]
    rows = re.findall(r"^\| (\w+) \| `([^`]*)` \|", Path("a.md").read_text(), re.M)
    other = "gqa-transformer@h100 triton.mix_order_reduction=false"
    assert rows == [
        ("WORSE", f"{other} {head}"),
        ("WORSE", f"{other} {head}"),
        ("SAME", "gqa-transformer@h100 default"),
    ]


def test_groups_of_all_runs_as_a_table(perfcli: Perfcli) -> None:
    import pandas

    perfcli(*WORSE)
    base, head = runs()
    assert perfcli("report", base, base, head, "--csv", "all.csv").code == 1
    perfcli("compare", base, head, "--csv", "one.csv")
    every, one = (pandas.read_csv(name, index_col="number") for name in ("all.csv", "one.csv"))
    assert list(every["head_run"].unique()) == [base, head]
    assert (every["base_run"] == base).all()
    worse = every[every["head_run"] == head].reset_index(drop=True)
    pandas.testing.assert_frame_equal(worse, one.reset_index(drop=True))
    same = every[every["head_run"] == base]
    assert (same["bytes_moved_delta"] == 0).all()


def test_report_is_refused(perfcli: Perfcli) -> None:
    perfcli(*WORSE)
    base, head = runs()
    nothing = perfcli("report", base, head)
    assert (nothing.code, "nothing to write" in nothing.complaint) == (2, True)
    assert "--csv or --parquet, or give --github" in nothing.complaint
    missing = perfcli("report", "nope", "--html", "a.html")
    assert (missing.code, "no stored run 'nope'" in missing.complaint) == (2, True)
    unwritable = perfcli("report", base, "--html", "no/a.html")
    assert (unwritable.code, "can't write no/a.html" in unwritable.complaint) == (2, True)
    perfcli("run", "softmax", "--preset", "smoke")
    other = next(path.stem for path in Path(".perfcli/runs").glob("*.json")
                 if path.stem not in (base, head))  # fmt: skip
    unlike = perfcli("report", base, other, "--html", "a.html")
    assert unlike.code == 4
    assert not os.path.exists("a.html")


def test_report_needs_no_torch(perfcli: Perfcli) -> None:
    perfcli(*WORSE)
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['triton'] = None\n"
        "from perfcli.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    formats = ("markdown", "html", "junit", "sarif")
    options = [t for name in formats for t in (f"--{name}", f"r.{name}")]
    command = [sys.executable, "-c", code, "report", *runs(), *options, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert all(Path(f"r.{name}").stat().st_size > 1000 for name in formats)


# --- names that mean harm ----------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_stored_runs_with_harmful_names(perfcli: Perfcli, number: int) -> None:
    """Through the whole command: nothing of them reaches a terminal or a runner as a command."""
    comparison = hostile(HOSTILE[number]).checks[0].comparison
    assert comparison is not None
    for run in (comparison.base, comparison.head):
        store.save(Bundle(run, {}))
    names = ("markdown", "junit", "sarif", "html")
    options = [text for name in names for text in (f"--{name}", f"r.{name}")]
    result = perfcli("report", "base-id", "head-id", *options, "--github")
    assert result.code == 1, result.err
    assert all(c.isprintable() or c == "\n" for c in result.out + result.err)
    told, _, quoted = result.out.partition("::stop-commands::")
    assert all(re.match(r"::(error|warning|notice) ", line) for line in told.splitlines())
    assert quoted.endswith(f"::{quoted[:32]}::\n")
    texts = {name: Path(f"r.{name}").read_text() for name in names}
    assert all(c.isprintable() or c == "\n" for c in texts["markdown"] + texts["junit"])
    assert "<img src=x" not in texts["html"] + texts["markdown"]
    assert "\x1b" not in texts["html"] + texts["sarif"]
    ElementTree.fromstring(texts["junit"])
    json.loads(texts["sarif"])
