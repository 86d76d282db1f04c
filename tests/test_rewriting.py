"""Asserts are rewritten before the workers of a run collect them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion import rewrite
from rewriting import rewrite_asserts


def test_pytest_finds_what_was_rewritten(
    tmp_path: Path, pytestconfig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "below").mkdir()
    tests = [tmp_path / "test_a.py", tmp_path / "below" / "conftest.py", tmp_path / "other.py"]
    for each in tests:
        each.write_text("def test():\n    assert 1 == 2\n")
    asked = SimpleNamespace(
        args=[str(tmp_path)], stash=pytestconfig.stash, getini=pytestconfig.getini
    )
    rewrite_asserts(asked, 2)  # type: ignore[arg-type]
    found = [
        rewrite._read_pyc(each, rewrite.get_cache_dir(each) / f"{each.stem}{rewrite.PYC_TAIL}")
        for each in tests
    ]
    assert found[2] is None
    for code in found[:2]:
        assert code is not None
        assert "@pytest_ar" in code.co_names
