"""Probes of vector instructions: made once for a compiler, and again where they failed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.vectors import _keep


class Instructions:
    """What Inductor asks about: flags, and a probe that is counted."""

    def __init__(self, flags: str) -> None:
        self.flags = flags

    def build_arch_flags(self) -> str:
        return self.flags


@pytest.fixture
def compiler() -> Any:
    """A compiler: ``works`` says whether probes succeed, ``asked`` are those it compiled."""
    return SimpleNamespace(version="g++ 12", works=True, asked=[])


def probe(compiler: Any, folder: Path, flags: str, code: str) -> bool:
    def compile_it(isa: Instructions, code: str) -> bool:
        compiler.asked.append((isa.flags, code))
        return bool(compiler.works)

    kept = _keep(compile_it, lambda flags: f"{compiler.version} {flags}", folder)
    return kept(Instructions(flags), code)


def test_what_works_is_asked_once(compiler: Any, tmp_path: Path) -> None:
    assert [probe(compiler, tmp_path, "-mavx2", "exp()") for _ in range(3)] == [True] * 3
    assert compiler.asked == [("-mavx2", "exp()")]


def test_other_flags_code_and_compilers_are_asked(compiler: Any, tmp_path: Path) -> None:
    questions = [("-mavx2", "exp()"), ("-mavx512f", "exp()"), ("-mavx2", "log()")]
    assert all(probe(compiler, tmp_path, *question) for question in questions)
    compiler.version = "g++ 13"
    assert probe(compiler, tmp_path, *questions[0])
    assert compiler.asked == [*questions, questions[0]]


def test_a_failure_is_asked_again(compiler: Any, tmp_path: Path) -> None:
    compiler.works = False
    assert not probe(compiler, tmp_path, "-mavx2", "exp()")
    compiler.works = True
    assert probe(compiler, tmp_path, "-mavx2", "exp()")
    assert len(compiler.asked) == 2


def test_a_cache_that_cannot_be_written_is_no_failure(compiler: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert probe(compiler, blocked / "vectors", "-mavx2", "exp()")
    assert probe(compiler, blocked / "vectors", "-mavx2", "exp()")
    assert len(compiler.asked) == 2
