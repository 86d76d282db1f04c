"""Entries of a history for tests, without runs and without a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcli.history.entry import Commit, Entry, Kind, Point, Stored, Subject, encode_points
from perfcli.history.history import History
from perfcli.history.series import Series, make_series

BLOCK = Subject("model.py:block", {"rows": 8}, target="h100")
ROOT = "0" * 40


class Memory:
    """A home in this process."""

    def __init__(self) -> None:
        self.where = "memory"
        self.texts: dict[str, bytes] = {}

    def list(self, folder: str) -> set[str]:
        return {n.split("/")[1] for n in self.texts if n.startswith(f"{folder}/")}

    def read(self, names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self.texts[name] for name in names if name in self.texts}

    def write(self, name: str, content: bytes) -> None:
        self.texts[name] = content


def entry(
    number: int,
    value: float = 1.0,
    *,
    kind: Kind = "static",
    metric: str = "spilled_words",
    subject: Subject = BLOCK,
    depth: int | None = None,
    created: str = "",
    about: Mapping[str, str] | None = None,
    kernel: str = "",
    basis: str = "",
) -> Entry:
    """An entry with one point, of commit ``number``."""
    point = Point(kind, kernel, metric, value, basis)
    commit = Commit(f"{number:040x}", f"Change {number}", depth=depth, repository=ROOT)
    return Entry(
        subject,
        commit,
        created or f"2026-01-01T00:00:{number % 60:02d}Z",
        about or {"torch": "2.13.0"},
        points=() if kernel else (point,),
        kernels=encode_points([point] if kernel else []),
    )


def filled(*entries: Entry) -> History:
    history = History(Memory())  # type: ignore[arg-type]
    history.add_all([(each, f"2026-02-01T00:00:00.{n:06d}Z") for n, each in enumerate(entries)], {})
    return history


def listed(*entries: Entry) -> list[Stored]:
    return list(filled(*entries).entries())


def series(values: Sequence[float], kind: Kind = "measured", metric: str = "device_time") -> Series:
    """One series with these values, a commit each."""
    made = [entry(n, v, kind=kind, metric=metric, depth=n + 1) for n, v in enumerate(values)]
    (found,) = make_series(listed(*made))
    return found
