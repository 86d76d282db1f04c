"""Histories in every kind of home: added, read back, packed, taken over, damaged, refused."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from handmade import kernel
from handmade import run as make_run
from handmade_history import BLOCK, entry, filled
from history_servers import NotHere, start_postgres, start_s3

from perfcli.errors import PerfcliError
from perfcli.history import history as _history
from perfcli.history.entry import FORMAT, Entry, encode_body, write_line
from perfcli.history.history import History
from perfcli.history.homes import FolderHome, Home, open_home
from perfcli.model import Bundle
from perfcli.storing import runfile

KINDS = ("folder", "sqlite", "memory", "s3", "postgresql")


@pytest.fixture(scope="module", params=KINDS)
def above(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where histories are made, in a home of each kind."""
    folder = tmp_path_factory.mktemp("homes")
    starts = {"s3": start_s3, "postgresql": start_postgres}
    with ExitStack() as stack:
        if request.param in starts:
            try:
                yield stack.enter_context(starts[request.param]())
            except NotHere as error:
                pytest.skip(str(error))
        elif request.param == "memory":
            pytest.importorskip("fsspec")
            yield "memory://perfcli"
        else:
            yield str(folder / ("history.db" if request.param == "sqlite" else "history"))


@pytest.fixture
def place(above: str, request: pytest.FixtureRequest) -> str:
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:8]
    if above.startswith("postgresql"):
        return above
    stem, dot, suffix = above.rpartition(".db")
    return f"{stem}{name}.db" if dot and not suffix else f"{above}/{name}"


def test_what_was_added_is_there_once(place: str) -> None:
    content = b"any file of a run"
    digest = hashlib.sha256(content).hexdigest()
    history = History(open_home(place))
    assert not history.exists
    assert history.add(entry(1), {digest: content})
    assert not history.add(entry(1), {digest: content})
    assert history.add(entry(2))
    again = History(open_home(place))
    assert [each.entry for each in again.entries()] == [entry(1), entry(2)]
    assert [each.sequence for each in again.entries()] == [1, 2]
    assert again.home.list("runs") == {f"{digest}.json"}
    assert again.home.read([f"runs/{digest}.json", "runs/none"]) == {f"runs/{digest}.json": content}


def test_a_home_of_nothing_has_no_entries(tmp_path: Path) -> None:
    for name in ("none", "none.db"):
        history = History(open_home(str(tmp_path / name)))
        assert (history.exists, list(history.entries()), history.read_run("0" * 64)) == (
            *(False, []),
            None,
        )
    assert list(tmp_path.iterdir()) == []


def test_many_entries_are_packed_and_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_history, "PACKED_FROM", 4)
    history = History(FolderHome(tmp_path))
    for number in range(9):
        history.add(entry(number))
    assert len(list((tmp_path / "packs").iterdir())) == 2
    assert len(list((tmp_path / "entries").iterdir())) == 9
    again = History(FolderHome(tmp_path))
    assert [each.entry.commit.title for each in again.entries()] == [
        f"Change {number}" for number in range(9)
    ]
    for pack in (tmp_path / "packs").iterdir():  # a pack is only a faster way to read
        pack.write_bytes(pack.read_bytes()[:100])
    warned: list[str] = []
    assert len(History(FolderHome(tmp_path), warned.append).entries()) == 9
    assert len(warned) == 2


def test_a_damaged_entry_is_left_out_and_told(tmp_path: Path) -> None:
    history = History(FolderHome(tmp_path))
    history.add_all([(entry(number), None) for number in range(3)], {})
    names = [write_line(encode_body(entry(number)), 1, "")[0] for number in range(2)]
    (tmp_path / f"entries/{names[0]}.json").write_bytes(b'{"perfcli":"history-ent')
    changed = tmp_path / f"entries/{names[1]}.json"
    changed.write_bytes(changed.read_bytes().replace(b"Change 1", b"Change 7"))
    warned: list[str] = []
    left = History(FolderHome(tmp_path), warned.append).entries()
    assert [each.entry for each in left] == [entry(2)]
    assert len(warned) == 2
    assert all("damaged" in line for line in warned)


def test_a_newer_format_is_one_clear_error(tmp_path: Path) -> None:
    history = History(FolderHome(tmp_path))
    history.add(entry(1))
    mark = tmp_path / "history.json"
    mark.write_text(f'{{"perfcli":"history","format":{FORMAT + 1}}}')
    with pytest.raises(PerfcliError, match=f"has format {FORMAT + 1}, this perfcli reads up to"):
        History(FolderHome(tmp_path))
    mark.write_text('{"perfcli":"run","format":1}')
    with pytest.raises(PerfcliError, match="no part of a history"):
        History(FolderHome(tmp_path))
    mark.write_text("{")
    with pytest.raises(PerfcliError, match="damaged"):
        History(FolderHome(tmp_path))


def test_two_histories_are_merged_to_their_union(tmp_path: Path) -> None:
    content = b"a run"
    digest = hashlib.sha256(content).hexdigest()
    named = msgspec.structs.replace(entry(3), run=digest)
    ours, theirs = (History(FolderHome(tmp_path / name)) for name in ("ours", "theirs"))
    ours.add_all([(entry(1), None), (entry(2), None)], {})
    theirs.add_all([(entry(2), None), (named, None)], {digest: content})
    assert ours.merge(theirs) == 1
    assert ours.merge(theirs) == 0
    found = History(FolderHome(tmp_path / "ours"))
    assert {each.entry.commit.title for each in found.entries()} == {
        *("Change 1", "Change 2"),
        "Change 3",
    }
    assert found.home.list("runs") == {f"{digest}.json"}
    assert len(History(FolderHome(tmp_path / "theirs")).entries()) == 2


def as_collected(number: int) -> Entry:
    """An entry as documents give it: its texts are no constants of the program."""
    made = entry(number)
    mode, device = json.loads('["forward", "cuda"]')
    subject = msgspec.structs.replace(made.subject, mode=mode, device=device)
    return msgspec.structs.replace(made, subject=subject)


def keep_as_once(home: Home, made: Entry) -> str:
    """Write an entry into a history as perfcli once encoded it, and return its name."""
    body = msgspec.json.encode(made, order="deterministic")
    assert b'"mode":"forward"' in body
    name, line = write_line(body, 1, "2026-01-01T00:00:00Z")
    home.write("history.json", b'{"perfcli":"history","format":1}\n')
    home.write(f"entries/{name}.json", line)
    return name


def test_an_entry_has_one_name_whatever_way_it_came(place: str, tmp_path: Path) -> None:
    ours, theirs = History(open_home(place)), History(FolderHome(tmp_path))
    for each in (ours, theirs):
        assert each.add(as_collected(100))
    before = list(ours.entries())
    assert ours.merge(theirs) == 0
    assert ours.entries() == before
    again = History(open_home(place))
    assert again.entries() == before
    (name,) = (each.id for each in theirs.entries())
    assert name == write_line(encode_body(theirs.entries()[0].entry), 1, "")[0]
    assert f"{name}.json" in again.home.list("entries")


def test_an_entry_in_the_bytes_of_once_is_the_same(place: str, tmp_path: Path) -> None:
    old = History(FolderHome(tmp_path))
    name = keep_as_once(old.home, as_collected(200))
    old = History(FolderHome(tmp_path))
    assert not old.add(as_collected(200))
    assert [each.id for each in old.entries()] == [name]
    ours = History(open_home(place))
    count = len(ours.entries())
    assert ours.merge(old) == 1
    assert ours.merge(old) == 0
    assert ours.entries()[-1].id == name  # in its own bytes
    back = History(FolderHome(tmp_path))
    back.merge(ours)
    assert [each.id for each in back.entries() if each.entry == entry(200)] == [name]
    # A history that has it in both encodings since it was merged counts it once.
    body = msgspec.json.encode(ours.entries()[-1].entry, order="deterministic")
    new, line = write_line(body, count + 9, "2026-01-01T00:00:00Z")
    assert new != name
    ours.home.write(f"entries/{new}.json", line)
    assert [each.id for each in History(open_home(place)).entries()][count:] == [name]


def test_a_run_comes_back_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    runfile.write(Bundle(made := make_run([kernel("k")]), {}), path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    history = History(FolderHome(tmp_path / "history"))
    history.add(entry(1), {digest: content})
    assert history.read_run(digest) == made
    stored = tmp_path / f"history/runs/{digest}.json"
    stored.write_bytes(content.replace(b"2.13.0", b"2.12.0"))
    with pytest.raises(PerfcliError, match="does not match its name"):
        history.read_run(digest)


def test_one_commit_in_two_variants_asks_for_a_label() -> None:
    history = filled(entry(1, about={"option fast": "true"}))
    with pytest.raises(PerfcliError, match="fast=true already, not with default options"):
        history.check_variant(entry(1, value=2.0))
    history.check_variant(entry(2))
    history.check_variant(entry(1, value=2.0, about={"option fast": "true"}))


def test_a_writer_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    told = 0
    for who in range(5):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            for number in range(10**6):
                History(FolderHome(tmp_path)).add(entry(1000 * who + number))
                os.write(writing, b".")
        os.close(writing)
        told += len(os.read(reading, 3))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told += len(b"".join(iter(lambda: os.read(reading, 4096), b"")))  # noqa: B023
        os.close(reading)
    warned: list[str] = []
    found = History(FolderHome(tmp_path), warned.append).entries()
    assert told <= len(found) <= told + 5
    assert not warned


def test_a_full_disk_is_one_line_and_leaves_what_was_there(tmp_path: Path) -> None:
    history = History(FolderHome(tmp_path))
    history.add(entry(1))
    before = sorted(tmp_path.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(PerfcliError, match="no space left to write"):
            history.add(entry(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(tmp_path.rglob("*")) == before
    assert history.add(entry(2))


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nosuch://bucket/x", "there is no protocol nosuch: use s3, gs, abfs"),
        ("ftp2://bucket/x", "did you mean .*ftp"),
        ("oci://bucket/x", "ocifs[^;]*$"),  # and not what s3:// needs
        ("postgresql://nobody@127.0.0.1:1/none", "127.0.0.1"),
        ("sqlite:////proc/none/x.db", "/proc/none"),
    ],
)
def test_a_home_that_is_not_there_is_one_line(place: str, told: str) -> None:
    with pytest.raises(PerfcliError, match=told) as raised:
        History(open_home(place)).add(entry(1))
    assert "\n" not in str(raised.value)


def test_a_password_is_not_shown() -> None:
    pytest.importorskip("psycopg")
    home = open_home("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in home.where
    with pytest.raises(PerfcliError) as raised:
        home.list("entries")
    assert "secret" not in str(raised.value)


def test_the_place_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFCLI_HISTORY", str(tmp_path / "elsewhere"))
    assert open_home(None).where == str(tmp_path / "elsewhere")
    assert open_home("here").where == "here"
    assert open_home("here.sqlite").where == "sqlite:///here.sqlite"
    assert BLOCK.where == "h100"
