"""The whole command line with the fake executor, in an empty folder, 100 columns wide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfcli.cli import main

MAX_READS = "triton.mix_order_reduction_max_reads"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line of an error, wherever progress stands."""
        (line,) = (line for line in self.err.splitlines() if line.startswith("perfcli: "))
        assert "Traceback" not in line
        return line


Perfcli = Callable[..., Result]


@pytest.fixture
def perfcli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Perfcli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("PERFCLI_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv: str) -> Result:
        code = main(list(argv))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
