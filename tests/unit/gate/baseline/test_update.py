"""What is said of a baseline that is made anew, and what is shown of one."""

from __future__ import annotations

import datetime
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.gate.baseline import facts, update
from perfcli.gate.baseline.file import BaselineCheck
from perfcli.gate.baseline.reading import Made
from perfcli.gate.baseline.update import _changed, _revision, _row, _totals
from perfcli.model import Change, KernelFacts, Run


def kept(base: Run, revision: str = "abc") -> BaselineCheck:
    return BaselineCheck(Made("2026-11-20", "first", revision), facts._plain(base, ()))


def of(loads: int) -> list[KernelFacts]:
    return [kernel("add_0", "add", loads=loads, text=f"{loads}")]


def test_the_revision_is_that_of_the_repository(tmp_path: Path) -> None:
    assert _revision(tmp_path / "nowhere") == ""
    author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    ask = ["git", "-C", str(tmp_path), "rev-parse", "HEAD"]
    whole = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    assert _revision(tmp_path) == whole[:12]


def test_totals_that_changed_are_listed() -> None:
    changes = (
        Change("loads", 2, 3, "worse"),
        Change("stores", 3, 3, "same"),
        Change("launches", 0, 3, "worse"),
        Change("bytes_moved", 2000, 1000, "better"),
        Change("graphs", None, 3, "unknown"),
    )
    comparison = replace(compare(run(of(2)), run(of(2), id="head")), totals=changes)
    assert list(_totals(comparison)) == [
        "loads 2 → 3 (+50 %)",
        "launches 0 → 3",
        "bytes moved 2 kB → 1 kB (−50 %)",
        "graphs – → 3",
    ]


def test_what_becomes_of_a_check() -> None:
    assert list(_changed("a@h100", None, run(of(2)))) == ["a@h100: new, 1 kernel"]
    first, *others = _changed("a@h100", kept(run(of(2))), run(of(3), id="head"))
    assert first.startswith("a@h100: same than on 2026-11-20: 1 group of kernels changed")
    assert others == ["  loads 2 → 3 (+50 %)", "  changed: add → add_0"]


@pytest.mark.parametrize(
    ("check", "configured", "row"),
    [
        (None, True, ["a", "–", "", "", "", "", "", "not in the baseline"]),
        (
            kept(run(of(2))),
            True,
            ["a", "2026-11-20", "2 days", "1", "2.13.0", "3.7.1", "abc", "first"],
        ),
        (
            kept(run(of(2)), ""),
            False,
            [
                *["a", "2026-11-20", "2 days", "1", "2.13.0", "3.7.1", "–"],
                "first (not configured any more)",
            ],
        ),
    ],
)
def test_a_row_for_each_check(
    check: BaselineCheck | None, configured: bool, row: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "today", lambda: datetime.date(2026, 11, 22))
    assert _row("a", check, configured) == row
