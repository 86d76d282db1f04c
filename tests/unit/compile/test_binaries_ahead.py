"""Binaries that other processes compile while code is generated."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from handmade_triton import KERNEL

from perfcli.compile.binaries import ahead
from perfcli.compile.binaries.ahead import BinariesAhead
from perfcli.compile.binaries.pool import KernelPool
from perfcli.compile.capture.captured import CapturedKernel
from perfcli.compile.capture.definition import Definition
from perfcli.errors import CompileFailed
from perfcli.machine import targets

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def inductor() -> SimpleNamespace:
    """Two of its classes, imported once a test needs them: that takes seconds."""
    pytest.importorskip("torch")
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    return SimpleNamespace(AsyncCompile=AsyncCompile, CachingAutotuner=CachingAutotuner)


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    return tmp_path


def kernel(text: str) -> CapturedKernel:
    return CapturedKernel("double", Definition("double", "triton", text.strip(), "pointwise"))


def load(
    inductor: Any, made: BinariesAhead, monkeypatch: pytest.MonkeyPatch, look: Path, *texts: str
) -> list[int]:
    """How many binaries there are whenever a kernel is loaded, which is when it is launched first:
    it has two launch configurations."""
    counted: list[int] = []

    def make(_its: object, name: str, source: str, **_options: object) -> Any:
        tuner = SimpleNamespace(source=source, inductor_meta={"kernel_name": name})
        inductor.CachingAutotuner.precompile(tuner, warm_cache_only=False)
        return tuner

    def count(_tuner: object, warm_cache_only: bool = True) -> None:
        assert not warm_cache_only
        counted.append(len(list(look.glob("*/*.cubin"))))

    monkeypatch.setattr(inductor.AsyncCompile, "triton", make)
    monkeypatch.setattr(inductor.CachingAutotuner, "precompile", count)
    with made.loading():
        tuners = [
            inductor.AsyncCompile().triton("double", text, device_str="cuda") for text in texts
        ]
        assert counted == []
        for tuner in tuners:
            tuner.precompile()  # as its first launch does
            assert not hasattr(tuner, "precompile")
    return counted


def test_a_kernel_is_loaded_once_its_binary_is_there(
    inductor: Any, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BinariesAhead(1, targets.get("h200"))
    try:
        made.submit(kernel(KERNEL))
        assert load(inductor, made, monkeypatch, caches / "triton", KERNEL) == [2]
    finally:
        made.close()


def test_a_kernel_that_nobody_compiles_ahead_is_loaded_at_once(
    inductor: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(
        inductor.AsyncCompile, "triton", lambda *_: inductor.CachingAutotuner.precompile("kernel")
    )
    monkeypatch.setattr(inductor.CachingAutotuner, "precompile", loaded.append)
    made = BinariesAhead(1, targets.get("h200"))
    try:
        with made.loading():
            inductor.AsyncCompile().triton("double", KERNEL)
        assert loaded == ["kernel"]
    finally:
        made.close()


def test_a_kernel_that_cannot_be_loaded_is_named(
    inductor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_tuner: object) -> None:
        raise ValueError("no registers\nat all")

    tuner: Any = SimpleNamespace(inductor_meta={"kernel_name": "double"})
    monkeypatch.setattr(
        inductor.AsyncCompile, "triton", lambda *_: inductor.CachingAutotuner.precompile(tuner)
    )
    monkeypatch.setattr(inductor.CachingAutotuner, "precompile", fail)
    made = BinariesAhead(1, targets.get("h200"))
    made._begun[KERNEL.strip()] = (kernel(KERNEL).definition, Future())
    made._begun[KERNEL.strip()][1].set_result(True)
    try:
        with made.loading():
            inductor.AsyncCompile().triton("double", KERNEL)
        said = "Inductor could not compile double: ValueError: no registers$"
        with pytest.raises(CompileFailed, match=said):
            tuner.precompile()
    finally:
        made.close()


def test_a_kernel_that_two_graphs_have_is_loaded_once(
    inductor: Any, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of layers that DDP's buckets or graph breaks part: Inductor finds the module of the first
    graph's kernel, and so the same object, before and after it was launched."""
    loaded: list[object] = []
    tuner: Any = SimpleNamespace(inductor_meta={"kernel_name": "double"})

    def make(*_: object) -> Any:
        tuner.precompile(warm_cache_only=False, static_triton_bundle_key="k")
        return tuner

    def first(*_: object) -> Any:
        inductor.CachingAutotuner.precompile(tuner, warm_cache_only=False)
        return tuner

    monkeypatch.setattr(
        inductor.CachingAutotuner, "precompile", lambda its, **_: loaded.append(its)
    )
    made = BinariesAhead(1, targets.get("h200"))
    try:
        made.submit(kernel(KERNEL))
        monkeypatch.setattr(inductor.AsyncCompile, "triton", first)
        with made.loading():
            inductor.AsyncCompile().triton("double", KERNEL)
        monkeypatch.setattr(inductor.AsyncCompile, "triton", make)
        with made.loading():
            inductor.AsyncCompile().triton("double", KERNEL)
        assert loaded == []
        tuner.precompile()
        assert loaded == [tuner]
    finally:
        made.close()


@pytest.mark.parametrize("of", ["ahead", "pool"])
def test_binaries_are_named_by_the_assembler_that_inductor_has_not_chosen_yet(
    inductor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of: str
) -> None:
    """Inductor names them so: it generates code before it chooses."""
    from torch._inductor.runtime import compile_tasks
    from triton.backends.nvidia.compiler import get_ptxas_version

    other = tmp_path / "ptxas"
    other.write_text("#!/bin/sh\necho Cuda compilation tools, release 99.9")
    other.chmod(0o755)

    def choose() -> None:
        os.environ["TRITON_PTXAS_PATH"] = str(other)

    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", choose, raising=False)
    get_ptxas_version.cache_clear()
    target = targets.get("h200")
    made = BinariesAhead(1, target) if of == "ahead" else KernelPool(1, target, tmp_path / "cache")
    try:
        found = made._executor.submit(get_ptxas_version, 90).result(60)
    finally:
        made.close()
    assert "TRITON_PTXAS_PATH" not in os.environ
    assert "release" in found
    assert "99.9" not in found
    assert found == get_ptxas_version(90)


def test_what_another_process_compiles_is_waited_for(
    inductor: Any, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held, then let go when the kernel is to be loaded: only then it is compiled here."""
    left: list[bool] = []

    @contextmanager
    def waiting() -> Iterator[None]:
        left.append(True)
        yield

    # What it forks shares no claim that comes later.
    made = BinariesAhead(1, targets.get("h200"), waiting)
    folder = caches / "inductor" / "compiling"
    folder.mkdir(parents=True)
    claim = (folder / hashlib.sha256(KERNEL.strip().encode()).hexdigest()).open("w")
    fcntl.flock(claim, fcntl.LOCK_EX)
    try:
        made.submit(kernel(KERNEL))
        (_, work) = made._begun[KERNEL.strip()]
        assert work.result(60) is False
        assert not list((caches / "triton").glob("*/*.cubin"))
        claim.close()
        assert load(inductor, made, monkeypatch, caches / "triton", KERNEL) == [2]
        assert left == [True]
    finally:
        made.close()


def test_a_process_that_dies_keeps_nobody_waiting(
    inductor: Any, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "keep_binaries", lambda *_: os._exit(1))
    made = BinariesAhead(1, targets.get("h200"))
    try:
        made.submit(kernel(KERNEL))
        made.submit(kernel(KERNEL.replace("* 2", "* 3")))
        assert load(inductor, made, monkeypatch, caches / "triton", KERNEL) == [0]
    finally:
        made.close()
