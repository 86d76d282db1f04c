"""Which kernels a process of the pool takes at once, and what becomes of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from handmade import H100

pytest.importorskip("torch")

from perfcli.compile.binaries import binaries, pool
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.pool import KernelPool
from perfcli.compile.capture.definition import Definition
from perfcli.errors import WorkerFailed

pytestmark = pytest.mark.torch


def kernel(number: int) -> Definition:
    return Definition(f"triton_poi_{number}", "triton", f"source {number}", "pointwise")


def taken_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int) -> list[str]:
    """Of each of 21 kernels, with which others it is compiled. The first graph has four of them;
    all wait for the first."""
    ready = multiprocessing.get_context("fork").Event()

    def compile_them(given: Sequence[Definition], _target: Any, _cache: Path) -> list[Compiled]:
        assert ready.wait(60)
        together = " ".join(each.source.split()[1] for each in given)
        return [Compiled((), {}, together)] * len(given)

    monkeypatch.setattr(pool, "compile_kernels", compile_them)
    kernels = [kernel(number) for number in range(21)]
    made = KernelPool(jobs, H100, tmp_path)
    try:
        for number, each in enumerate(kernels):
            made.submit(each)
            if number == 3:
                made.begin()
        ready.set()
        return [made.result(each).compiled.error for each in kernels]
    finally:
        made.close(wait=True)


def test_what_waits_is_taken_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = taken_at_once(monkeypatch, tmp_path, jobs=1)
    together = ["0 1 2 3", "4 5 6 7 8 9 10 11", "12 13 14 15 16 17 18 19", "20"]
    assert found == [each for each in together for _ in each.split()]


def test_processes_share_what_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each takes half of the first graph. Of the 17 that are left one takes eight, the other half
    of what then is left."""
    found = taken_at_once(monkeypatch, tmp_path, jobs=2)
    assert found[:4] == ["0 1", "0 1", "2 3", "2 3"]
    assert found[4:12] == ["4 5 6 7 8 9 10 11"] * 8
    assert found[12] == "12 13 14 15 16"


def test_a_process_that_is_killed_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(pool, "compile_kernels", die)
    made = KernelPool(1, H100, tmp_path)
    try:
        for number in range(6):
            made.submit(kernel(number))
        for number in range(6):
            with pytest.raises(WorkerFailed, match="was killed"):
                made.result(kernel(number))
    finally:
        made.close(wait=True)


def test_one_run_reads_the_binaries_of_all_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first asks for three in two steps, the second fails after its first, the third asks for
    one."""
    asks = {0: [["a", "b"], ["c"]], 1: [["d"]], 2: [["e"]]}

    def compile_it(definition: Definition, _target: Any) -> Generator[Any, Any, Compiled]:
        number = int(definition.source.split()[1])
        told: list[str] = []
        for asked in asks[number]:
            told += yield asked
        if number == 1:
            raise ValueError("refused")
        return Compiled((), {"told": " ".join(told)})

    runs: list[list[str]] = []

    def read(asked: list[str], _tools: Path) -> list[str]:
        runs.append(list(asked))
        return [text.upper() for text in asked]

    monkeypatch.setattr(binaries, "_compile", compile_it)
    monkeypatch.setattr(binaries, "read_cubins", read)
    kernels = [kernel(number) for number in range(3)]
    found = binaries.compile_kernels(kernels, H100, tmp_path)
    assert runs == [["a", "b", "d", "e"], ["c"]]
    assert [made.blobs.get("told") for made in found] == ["A B C", None, "E"]
    assert found[1].error == "ValueError: refused"
    # What was compiled is kept, what was refused is not.
    binaries.compile_kernels(kernels, H100, tmp_path)
    assert runs[2:] == [["d"]]
