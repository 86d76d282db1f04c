"""What CI sends when it cancels a job is an interrupt; what can't be written is said in a line."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from perfcli import __main__, cli

BOTH = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", BOTH)
def test_a_cancelled_job_is_interrupted(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores one of them
    try:
        with cli._ended_like_an_interrupt(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_the_handlers_of_a_program_that_calls_us_come_back(perfcli: Any) -> None:
    def own(_signal: int, _frame: object) -> None: ...

    before = {n: signal.signal(n, own) for n in BOTH}
    try:
        assert perfcli("runs").code == 0
        assert perfcli("no-such-command").code == 2
        assert [signal.getsignal(n) for n in BOTH] == [own, own]
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with cli._ended_like_an_interrupt():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_before_a_command_starts(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> typer.Typer:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "application", interrupted)
    result = perfcli("runs")
    assert (result.code, result.complaint) == (130, "perfcli: interrupted")


def test_an_interrupt_while_the_command_line_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "perfcli.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "perfcli.cli")
    monkeypatch.delattr("perfcli.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert __main__.main() == 130
    assert capsys.readouterr().err == "perfcli: interrupted\n"


@pytest.mark.parametrize("words", ["rules", "runs --csv -", "--version", "-h", "compare -h"])
def test_a_report_that_goes_to_a_full_disk(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "perfcli", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "perfcli: can't write the report: No space left on device\n"


@pytest.mark.parametrize("words", ["rules", "--version", "compare -h"])
def test_nothing_is_said_of_a_closed_pipe(words: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "perfcli", *words.split()],
        stdout=writes,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (cli.BROKEN_PIPE, "")


def test_a_full_disk_keeps_the_document_that_was_there(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path("page.html")
    page.write_text("before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    perfcli("run", "rmsnorm")
    (run,) = Path(".perfcli/runs").glob("*.json")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit[1]))
    try:
        result = perfcli("report", str(run), "--html", "page.html", "--markdown", "new.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert result.code == 2
    assert "can't write page.html: File too large" in result.complaint
    assert page.read_text() == "before"
    assert not [path.name for path in Path().glob(".*.tmp")]
