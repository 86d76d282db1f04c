"""What killed processes leave is taken away, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from perfcli.machine import scratch
from perfcli.machine.scratch import forget_old, left_scratch, make_scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch._sweep_once.cache_clear()
    return tmp_path


def leave(kind: str = "", note: str = "") -> Path:
    """A folder of a process that has ended."""
    made = f"make_scratch({kind!r}, {note!r})"
    code = f"from perfcli.machine.scratch import make_scratch; print({made})"
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


def test_what_a_dead_process_left_goes_and_what_lives_stays() -> None:
    mine = make_scratch()
    dead = leave()
    assert dead.is_dir()
    scratch._sweep_once.cache_clear()
    new = make_scratch()
    assert not dead.exists()
    assert mine.is_dir()
    assert new.is_dir()


def edit(folder: Path, field: int, text: str) -> None:
    path = folder / scratch._OWNER
    first, _, note = path.read_text().partition("\n")
    fields = first.split(" ")
    fields[field] = text
    path.write_text(f"{' '.join(fields)}\n{note}")


def test_a_number_that_another_process_has_now_is_no_owner() -> None:
    dead = leave()
    edit(dead, 0, str(os.getpid()))
    make_scratch()
    assert not dead.exists()


@pytest.mark.parametrize(("field", "text"), [(2, "another-boot"), (3, "pid:[1]"), (0, "x")])
def test_of_another_machine_or_container_nobody_knows(field: int, text: str) -> None:
    dead = leave()
    edit(dead, field, text)
    make_scratch()
    assert dead.is_dir()


def test_a_folder_without_an_owner_or_of_another_user_stays(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = temporary / "perfcli-of-somebody"
    foreign.mkdir()
    dead = leave()
    link = temporary / "perfcli-link"
    link.symlink_to(dead)
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: dead.stat().st_uid + 1)
        make_scratch()
    assert foreign.is_dir()
    assert dead.is_dir()
    assert [folder for folder, _ in left_scratch("")] == [dead]


def test_what_needs_more_is_left_to_who_knows() -> None:
    dead = leave("revision-", "/some/repository")
    make_scratch()
    assert list(left_scratch("revision-")) == [(dead, "/some/repository")]


def test_what_a_cache_has_long_had_is_forgotten(tmp_path: Path) -> None:
    for name, age in (("old", 90), ("new", 30)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.cubin").write_bytes(b"1")
        written = time.time() - age
        os.utime(tmp_path / name, (written, written))
    forget_old(tmp_path, 60)
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]
    forget_old(tmp_path / "none", 60)
