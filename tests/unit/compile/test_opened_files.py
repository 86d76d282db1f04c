"""Which files that a user's code reads are sources of its run."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from perfcli.compile.opened_files import OpenedFiles


def test_small_files_of_the_folder_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    (work / ".perfcli").mkdir(parents=True)
    monkeypatch.chdir(work)
    for name in ("config.json", "edited.txt", "read.txt", "module.py", ".perfcli/run", "../out"):
        Path(name).write_text("{}")
    Path("data.bin").write_bytes(bytes(2 << 20))
    opened = OpenedFiles()
    json.loads(Path("config.json").read_text())
    with open("edited.txt") as file:
        file.read()
    Path("edited.txt").write_text("{1}")
    with open("log.txt", "w") as file:
        file.write("x")
    Path("log.txt").read_text()
    for name in ("module.py", ".perfcli/run", "../out", "data.bin"):
        Path(name).read_bytes()
    os.close(os.open("read.txt", os.O_RDONLY))
    with pytest.raises(FileNotFoundError):
        Path("absent.txt").read_text()
    monkeypatch.chdir("/")
    (work / "config.json").read_text()
    found = opened.list_sources()
    sha = hashlib.sha256(b"{}").hexdigest()
    assert found == {str(work / "config.json"): sha, str(work / "read.txt"): sha}
    Path(work / "module.py").read_text()
    assert opened.list_sources() == found
