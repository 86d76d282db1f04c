"""Work of the C++ compiler that processes share: done once, and again where it failed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.cpp_cache import _UNFINISHED, _keep, keep_cpp_work


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


def test_who_asks_meanwhile_waits_for_the_answer(compiler: Any, tmp_path: Path) -> None:
    other = threading.Thread(target=probe, args=(compiler, tmp_path, "-mavx2", "exp()"))

    def compile_it(isa: Instructions, code: str) -> bool:
        other.start()
        other.join(0.2)
        return other.is_alive()

    assert _keep(compile_it, lambda flags: f"g++ 12 {flags}", tmp_path)(
        Instructions("-mavx2"), "exp()"
    )
    other.join()
    assert compiler.asked == []


def test_a_cache_that_cannot_be_written_is_no_failure(compiler: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert probe(compiler, blocked / "vectors", "-mavx2", "exp()")
    assert probe(compiler, blocked / "vectors", "-mavx2", "exp()")
    assert len(compiler.asked) == 2


class Headers(ModuleType):
    """What Inductor has of headers, of which ``built`` were compiled."""

    def __init__(self, own: Path) -> None:
        super().__init__("torch._inductor.codecache")
        self._HEADER_DIR = str(own)
        self._HEADER_LOCK_DIR = str(own / "locks")
        self.built: list[str] = []

    def _precompile_header(self, name: str) -> str:
        header = Path(self._HEADER_DIR) / name
        assert Path(self._HEADER_LOCK_DIR).is_dir()
        if not Path(f"{header}.gch").exists():
            self.built.append(name)
            Path(f"{header}.gch").write_bytes(b"gpch.013 whole")
        return str(header)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Headers]:
    """Starts a process with a temporary folder of this name, which has the cache of all."""
    (tmp_path / "file").write_text("")

    def start(own: str, cache: str = "cache") -> Headers:
        headers = Headers(tmp_path / own)
        (tmp_path / own / "locks").mkdir(parents=True)
        monkeypatch.setitem(sys.modules, headers.__name__, headers)
        monkeypatch.setitem(sys.modules, "torch._inductor.cpu_vec_isa", ModuleType("none"))
        keep_cpp_work(str(tmp_path / cache))
        return headers

    return start


def test_a_header_is_compiled_once_for_all_processes(start: Callable[..., Headers]) -> None:
    first, second = start("first"), start("second")
    assert first._precompile_header("a.h") == second._precompile_header("a.h")
    assert (first.built, second.built) == (["a.h"], [])


def test_where_nothing_can_be_written_headers_stay_where_they_were(
    start: Callable[..., Headers], tmp_path: Path
) -> None:
    assert start("own", "file")._precompile_header("a.h") == str(tmp_path / "own" / "a.h")


@pytest.mark.parametrize("left", [b"", b"gpcWrite of a part"])
def test_a_header_that_was_not_finished_is_compiled_again(
    start: Callable[..., Headers], left: bytes
) -> None:
    first, second = start("first"), start("second")
    compiled = Path(first._precompile_header("a.h") + ".gch")
    compiled.write_bytes(left)
    assert second._precompile_header("a.h") + ".gch" == str(compiled)
    assert second.built == ["a.h"]
    assert compiled.read_bytes() == b"gpch.013 whole"


def test_gcc_marks_what_it_has_not_finished(tmp_path: Path) -> None:
    """It is killed once the file is there, while it reads twenty thousand structures."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    compiled, text = tmp_path / "a.h.gch", tmp_path / "a.h"
    text.write_text(
        "".join(f"struct A{n} {{ int a; A{n}(int b): a(b) {{}} }};" for n in range(20_000))
    )
    process = subprocess.Popen([compiler, str(text), "-o", str(compiled)], start_new_session=True)
    deadline = time.monotonic() + 60
    while not compiled.exists():
        assert time.monotonic() < deadline
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert _UNFINISHED.startswith(compiled.read_bytes()[: len(_UNFINISHED)])
