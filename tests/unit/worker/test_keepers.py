"""A kept process with torch: what it compiles is what a fresh one does."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import H100

from perfcli.errors import PerfcliError
from perfcli.machine.environment import cache_dir
from perfcli.model import Bundle, CompileRequest, Run, Variant
from perfcli.worker import keepers
from perfcli.worker.forked_worker import find_place
from perfcli.worker.keeper import KeepRequest
from perfcli.worker.process import ProcessExecutor
from perfcli.worker.roles import Progress

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux 5.3")

MODEL = """
import torch
import helper


def block():
    return (lambda x: helper.act(torch.softmax(x, -1)), (torch.randn(64, 512),))
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="keep-"))  # pytest's own is too long for a socket
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root))
    monkeypatch.delenv("PERFCLI_WARM", raising=False)
    yield root
    keepers.stop_keeper(find_place(str(root), None, "cuda"))
    shutil.rmtree(root, ignore_errors=True)


def ask(python: str | None = None) -> CompileRequest:
    variant = Variant("default", python=python)
    request = CompileRequest("model.py:block", {}, None, variant, "cuda", H100)
    return replace(request, cache_dir=str(cache_dir()))


def compile_block(told: list[Progress]) -> Run:
    request = ask()
    ((_, made),) = ProcessExecutor(300).compile([request], told.append)
    assert isinstance(made, Bundle)
    return made.run


@pytest.mark.torch
def test_its_code_is_that_of_a_fresh_process_and_edits_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fresh one compiles the second version of a file that the kept one has seen before."""
    (folder / "model.py").write_text(MODEL)
    (folder / "helper.py").write_text("def act(x):\n    return x.sin()\n")
    keepers.start_keeper(ask(), 60, 300)
    told: list[Progress] = []
    first = compile_block(told)
    (folder / "helper.py").write_text("def act(x):\n    return x.cos() * 2\n")
    second = compile_block(told)
    monkeypatch.setenv("PERFCLI_WARM", "0")
    fresh = compile_block(told)
    hashes = [[kernel.source_hash for kernel in run.kernels] for run in (first, second, fresh)]
    assert hashes[1] == hashes[2] != hashes[0]
    assert second.sources == fresh.sources
    assert second.environment == fresh.environment
    assert second.launches == fresh.launches
    assert second.compile_seconds["import"] < fresh.compile_seconds["import"] / 2
    assert not [progress.note for progress in told if progress.note]


def test_what_does_not_start_leaves_nothing(folder: Path) -> None:
    python = folder / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(PerfcliError, match="exit code 3"):
        keepers.start_keeper(ask(str(python)), 60, 30)
    assert list((folder / f"perfcli-warm-{os.geteuid()}").iterdir()) == []


def test_a_folder_that_is_too_deep_for_a_socket(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / ("d" * 100)))
    with pytest.raises(PerfcliError, match="set XDG_RUNTIME_DIR to a shorter one"):
        keepers.start_keeper(ask(), 60, 30)


def test_commands_that_start_one_at_once_take_turns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else gets the lock while one of them starts its process."""
    together = threading.Barrier(4)
    alone: list[bool] = []

    def start(asked: KeepRequest, *_: object) -> int:
        other = os.open(Path(asked.place).parent, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone.append(False)
        except BlockingIOError:
            alone.append(True)
        finally:
            os.close(other)
        return 1

    def run() -> None:
        together.wait(60)
        keepers.start_keeper(ask(), 60)

    monkeypatch.setattr(keepers, "_start", start)
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == [True] * 4
