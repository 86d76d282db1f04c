"""A history as a whole: entries added and listed, runs kept by their content, others taken over.

Nothing is ever changed or deleted. A run is written before the entry that names it, and an entry is
one file that is there whole or not at all, so whatever ends a writer leaves a history that is fine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from perfcli.errors import PerfcliError
from perfcli.history.entry import (
    FORMAT,
    Entry,
    Known,
    Stored,
    Subject,
    check_format,
    decode_entries,
    decode_entry,
    encode_body,
    find_body,
    name_body,
    write_line,
)
from perfcli.history.homes import Home
from perfcli.model import Run
from perfcli.storing.runfile import decode_run

MARK = "history.json"
KIND = "history"
PACKED_FROM = 256
"""So many entries outside of packs are put into one: reading thousands of files is slow, and of
objects in a store it is slower."""


class History:
    """Reads and adds to the history in a home. ``warn`` takes a line about what is left out. Raises
    PerfcliError where the home holds something else, or a newer format."""

    def __init__(self, home: Home, warn: Callable[[str], None] = lambda _: None) -> None:
        self.home = home
        self._warn = warn
        self._entries: list[Stored] | None = None
        self._loose: list[str] = []
        mark = home.read([MARK]).get(MARK)
        self.exists = mark is not None
        if mark is not None:
            check_format(mark, KIND, f"the history in {home.where}")

    # --- reading -----------------------------------------------------------------------------

    def entries(self) -> Sequence[Stored]:
        """Return all entries, each once, in the order in which they were added."""
        if self._entries is None:
            self._entries = self._read_entries()
        return self._entries

    def _read_entries(self) -> list[Stored]:
        if not self.exists:
            return []
        names = {name.removesuffix(".json") for name in self.home.list("entries")}
        packs = [f"packs/{name}" for name in sorted(self.home.list("packs"))]
        found: dict[str, Stored] = {}
        for name, content in self.home.read(packs).items():
            for each in self._read_pack(name, content):
                found.setdefault(each.id, each)
        self._loose = sorted(names - found.keys())
        for name, content in self.home.read(_entry_name(each) for each in self._loose).items():
            if single := self._read_one(name, content):
                found[single.id] = single
        listed = sorted(found.values(), key=lambda each: (each.sequence, each.when, each.id))
        known = Known()
        return [each for each in listed if known.take(each.entry)]

    def _read_pack(self, name: str, content: bytes) -> list[Stored]:
        """Return a pack's entries; none of one that is damaged, since they are kept singly, too."""
        where = f"{self.home.where}/{name}"
        if name != _pack_name(content):
            self._warn(f"{where} is damaged: its entries are read one by one")
            return []
        return decode_entries(content, where)

    def _read_one(self, name: str, content: bytes) -> Stored | None:
        where = f"{self.home.where}/{name}"
        try:
            found = decode_entry(content, where)
            if name != _entry_name(name_body(find_body(content))):
                raise PerfcliError(f"{where} is damaged: it does not match its name")
        except PerfcliError as error:
            if "newer" in str(error) or "upgrade" in str(error):
                raise
            self._warn(f"left out: {error}")
            return None
        return found

    def read_bodies(self, entries: Iterable[Stored]) -> Mapping[str, bytes]:
        """Return the bytes that entries were encoded to when they were stored, by their ids."""
        wanted = {each.id: each.entry for each in entries}
        found = {}
        for content in self.home.read(map(_entry_name, wanted)).values():
            with suppress(ValueError):  # a damaged one stands in a pack as well
                body = find_body(content)
                found[name_body(body)] = body
        return {name: found.get(name) or encode_body(entry) for name, entry in wanted.items()}

    def read_run(self, digest: str) -> Run | None:
        """Return a run by the SHA-256 of its file; None where the history does not have it."""
        name = _run_name(digest)
        content = self.home.read([name]).get(name)
        if content is None:
            return None
        where = f"{self.home.where}/{name}"
        if hashlib.sha256(content).hexdigest() != digest:
            raise PerfcliError(f"{where} is damaged: it does not match its name")
        return decode_run(content, where)

    def check_variant(self, entry: Entry) -> None:
        """Raise PerfcliError where the same commit is in the series already, compiled with other
        options: two ways to compile it would take turns in one series."""
        for each in self.entries():
            known = each.entry
            if known.subject != entry.subject or known.commit.id != entry.commit.id:
                continue
            old, new = (_list_options(found) for found in (known, entry))
            if old != new and entry.commit.id:
                raise PerfcliError(
                    f"{entry.commit.id[:12]} is in this series with {_write(old)} already, not "
                    f"with {_write(new)}: keep them apart with --label NAME"
                )

    # --- adding ------------------------------------------------------------------------------

    def add(self, entry: Entry, runs: Mapping[str, bytes] | None = None) -> bool:
        """Add an entry with the files of its runs, by their SHA-256. Return False where all of it
        was there already. Raises PerfcliError where it can't be written."""
        return self.add_all([(entry, None)], runs or {}) == 1

    def add_all(
        self, entries: Iterable[tuple[Entry, str | None]], runs: Mapping[str, bytes]
    ) -> int:
        """Add entries, each with the time of an earlier addition or None; return how many were
        new."""
        encoded = ((entry, encode_body(entry), when) for entry, when in entries)
        return self._add_encoded(encoded, runs)

    def _add_encoded(
        self, entries: Iterable[tuple[Entry, bytes, str | None]], runs: Mapping[str, bytes]
    ) -> int:
        self._make()
        listed = list(self.entries())
        known = Known(each.entry for each in listed)
        last = max((each.sequence for each in listed), default=0)
        for digest, content in runs.items():
            if not self.home.read([_run_name(digest)]):
                self.home.write(_run_name(digest), content)
        before = len(listed)
        for entry, body, when in entries:
            if not known.take(entry):
                continue
            name, line = write_line(body, last + 1, when or read_clock())
            self.home.write(_entry_name(name), line)
            last += 1
            listed.append(decode_entry(line, name))
            self._loose.append(name)
        self._entries = listed
        self._pack()
        return len(listed) - before

    def merge(self, other: History) -> int:
        """Take over what another history has and this one lacks; return how many entries that
        were. Their order and their names are kept; the other history stays as it is."""
        known = Known(each.entry for each in self.entries())
        missing = [each for each in other.entries() if known.take(each.entry)]
        for digest in {run for each in missing for run in (each.entry.run, each.entry.control)}:
            name = _run_name(digest)
            for content in other.home.read([name] if digest else []).values():
                self._make()
                self.home.write(name, content)
        bodies = other.read_bodies(missing)
        return self._add_encoded(
            [(each.entry, bodies[each.id], each.added) for each in missing], {}
        )

    def _make(self) -> None:
        if not self.exists:
            content = msgspec.json.encode({"perfcli": KIND, "format": FORMAT}) + b"\n"
            self.home.write(MARK, content)
            self.exists = True

    def _pack(self) -> None:
        """Put entries that are in no pack into one, where there are many. The entries stay as they
        are: a pack is what can be read at once."""
        if len(self._loose) < PACKED_FROM:
            return
        found = self.home.read(map(_entry_name, self._loose))
        lines = [line for name, line in sorted(found.items()) if self._read_one(name, line)]
        content = b"".join(lines)
        self.home.write(_pack_name(content), content)
        self._loose = []


def _list_options(entry: Entry) -> dict[str, str]:
    options = entry.circumstances.items()
    return {name.split()[-1]: value for name, value in options if name.startswith("option ")}


def _write(options: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items()) or "default options"


def find_subjects(entries: Iterable[Stored]) -> dict[bytes, tuple[Subject, list[Stored]]]:
    """Return what the entries are about, each with its own, by the key of the subject."""
    found: dict[bytes, tuple[Subject, list[Stored]]] = {}
    for each in entries:
        subject = each.entry.subject
        key = subject.key
        if key not in found:
            found[key] = subject, []
        found[key][1].append(each)
    return found


def read_clock() -> str:
    """Return what time it is: ISO 8601, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _entry_name(digest: str) -> str:
    return f"entries/{digest}.json"


def _run_name(digest: str) -> str:
    return f"runs/{digest}.json"


def _pack_name(content: bytes) -> str:
    return f"packs/{hashlib.sha256(content).hexdigest()}.jsonl"
