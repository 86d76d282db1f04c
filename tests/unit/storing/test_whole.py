"""Files are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.storing.whole import spare, write_whole


def test_the_content_and_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_whole(path, b"one")
    write_whole(path, b"two", 0o755)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_the_earlier_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"before")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_nobody_can_put_a_link_in_its_way(tmp_path: Path) -> None:
    """The temporary name is not this process's number, which others know."""
    path, other = tmp_path / "file", tmp_path / "other"
    other.write_bytes(b"somebody else's")
    (tmp_path / f"file.{os.getpid()}").symlink_to(other)
    write_whole(path, b"mine")
    assert other.read_bytes() == b"somebody else's"


def test_what_will_be_written_is_not_read_however_it_is_named(tmp_path: Path) -> None:
    path, link = tmp_path / "run.json", tmp_path / "link"
    path.write_text("{}")
    os.symlink(path, link)
    spare(path, {})
    spare(path, {tmp_path / "other.json": "--json other.json"})
    for name in (path, link):
        with pytest.raises(PerfcliError) as raised:
            spare(name, {path.resolve(): "--json run.json"})
        assert str(raised.value) == (
            f"--json run.json would overwrite {name}, which is read: name another file"
        )
