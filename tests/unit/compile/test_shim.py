"""Building the device shim, with stand-ins for the compiler."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfcli.compile.stand_in import shim
from perfcli.compile.stand_in.shim import TorchInstallation, build, library_path
from perfcli.errors import CompileFailed, PerfcliError


@pytest.fixture
def torch(tmp_path: Path) -> TorchInstallation:
    return TorchInstallation(tmp_path / "torch", "2.13.0+cpu")


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def use_compiler(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = folder / "compiler"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return script


@pytest.fixture
def compiler(tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes ``library`` to the file after -o, and its arguments to ``calls``."""
    body = f"""echo "$@" >> {calls}
while [ $# -gt 0 ]; do [ "$1" = -o ] && printf library > "$2"; shift; done"""
    use_compiler(tmp_path, body, monkeypatch)


def test_no_compiler(
    torch: TorchInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileFailed) as raised:
        build(torch, tmp_path / "cache")
    assert "apt-get install g++" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "cache").exists()


def test_a_compiler_of_ones_own_that_is_missing(
    torch: TorchInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    with pytest.raises(CompileFailed, match="set CXX"):
        build(torch, tmp_path / "cache")


def test_a_compiler_that_refuses(
    torch: TorchInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use_compiler(tmp_path, "echo 'shim.cpp:1: no such header' >&2; exit 1", monkeypatch)
    with pytest.raises(CompileFailed) as raised:
        build(torch, tmp_path / "cache")
    assert str(raised.value).startswith(f"{script} cannot build the device shim for torch 2.13.0")
    assert raised.value.detail == "shim.cpp:1: no such header\n"
    assert list((tmp_path / "cache" / "shim").iterdir()) == []


def test_built_once_and_found_again(
    torch: TorchInstallation, tmp_path: Path, calls: Path, compiler: None
) -> None:
    cache = tmp_path / "cache"
    path = build(torch, cache)
    assert path.read_text() == "library"
    assert path.name.startswith("2.13.0+cpu-")
    assert sorted(path.parent.iterdir()) == [path.with_suffix(".sha256"), path]
    assert [oct(each.stat().st_mode & 0o777) for each in sorted(path.parent.iterdir())] == [
        "0o644",
        "0o755",
    ]
    assert build(torch, cache) == path
    (line,) = calls.read_text().splitlines()
    assert f"-I{torch.folder}/include" in line
    assert f"-Wl,-rpath,{torch.folder}/lib" in line


@pytest.mark.parametrize("content", ["", "lib", "librarz"])
@pytest.mark.parametrize("suffix", [".so", ".sha256"])
def test_a_damaged_one_is_built_anew(
    torch: TorchInstallation,
    tmp_path: Path,
    calls: Path,
    compiler: None,
    content: str,
    suffix: str,
) -> None:
    """Cut off, empty as after a power cut, or with a flipped bit."""
    path = build(torch, tmp_path / "cache")
    path.with_suffix(suffix).write_text(content)
    assert build(torch, tmp_path / "cache").read_text() == "library"
    assert build(torch, tmp_path / "cache") == path
    assert len(calls.read_text().splitlines()) == 2


def test_one_without_a_digest_is_built_anew(
    torch: TorchInstallation, tmp_path: Path, calls: Path, compiler: None
) -> None:
    path = build(torch, tmp_path / "cache")
    path.with_suffix(".sha256").unlink()
    build(torch, tmp_path / "cache")
    assert len(calls.read_text().splitlines()) == 2


def test_a_changed_source_is_built_anew(
    torch: TorchInstallation,
    tmp_path: Path,
    calls: Path,
    compiler: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path / "cache"
    before = build(torch, cache)
    source = tmp_path / "shim.cpp"
    source.write_bytes(shim.SOURCE.read_bytes() + b"\n// changed\n")
    monkeypatch.setattr(shim, "SOURCE", source)
    after = build(torch, cache)
    assert after != before
    assert len(calls.read_text().splitlines()) == 2


def test_each_torch_has_its_own(tmp_path: Path) -> None:
    one = TorchInstallation(tmp_path / "a" / "torch", "2.13.0")
    other_place = TorchInstallation(tmp_path / "b" / "torch", "2.13.0")
    other_version = TorchInstallation(tmp_path / "a" / "torch", "2.14.0")
    paths = {library_path(t, tmp_path) for t in (one, other_place, other_version)}
    assert len(paths) == 3


def test_a_cache_folder_that_cannot_be_written(
    torch: TorchInstallation, tmp_path: Path, compiler: None
) -> None:
    # A file where a folder must be: the superuser may write into read-only folders.
    (tmp_path / "cache").write_text("")
    with pytest.raises(PerfcliError) as raised:
        build(torch, tmp_path / "cache")
    assert "PERFCLI_CACHE_DIR" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write into read-only folders")
def test_a_read_only_cache_folder(torch: TorchInstallation, tmp_path: Path, compiler: None) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o500)
    with pytest.raises(PerfcliError, match="Permission denied"):
        build(torch, cache)


def test_a_compiler_that_says_yes_and_writes_nothing_useful(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("no library")
    with pytest.raises(CompileFailed, match="does not load"):
        shim.Shim(broken)
