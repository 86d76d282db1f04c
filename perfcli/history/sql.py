"""A history in an SQL database: one table of names and texts. SQLite needs nothing but Python;
PostgreSQL goes through SQLAlchemy."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.history.homes import need

INSTALL = "sqlalchemy 'psycopg[binary]'"
_PATIENCE_SECONDS = 60.0
"""How long a writer waits for another one."""
_AT_ONCE = 500
_TABLE = "perfcli_history"
_CREATE = f"CREATE TABLE IF NOT EXISTS {_TABLE} (name TEXT PRIMARY KEY, content {{}} NOT NULL)"
_INSERT = f"INSERT INTO {_TABLE} VALUES (:name, :content) ON CONFLICT (name) DO NOTHING"

Execute = Callable[[str, Mapping[str, Any]], Any]


class SqlHome:
    def __init__(self, url: str) -> None:
        self._url = url
        self._engine: Any = None
        self.where = url
        self._made = False
        if not url.startswith("sqlite:///"):
            self._open_engine()

    def _open_engine(self) -> None:
        sqlalchemy = need("sqlalchemy", INSTALL, f"{self._url.partition(':')[0]} as a history")
        try:
            url = sqlalchemy.engine.make_url(self._url)
            if url.drivername in ("postgresql", "postgres"):
                url = url.set(drivername="postgresql+psycopg")
            self.where = url.render_as_string(hide_password=True)
            self._engine = sqlalchemy.create_engine(url)
        except ImportError as error:
            raise PerfcliError(f"{self.where}: {error}; pip install {INSTALL}") from error
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise PerfcliError(f"{_first_line(error)}") from error

    @contextmanager
    def _connected(self, *, write: bool) -> Iterator[Execute]:
        """Yield what executes a statement; all of a block is one transaction."""
        connect = self._connect_engine if self._engine is not None else self._connect_sqlite
        with connect(write) as execute:
            yield execute

    @contextmanager
    def _connect_engine(self, write: bool) -> Iterator[Execute]:
        from sqlalchemy import text
        from sqlalchemy.exc import SQLAlchemyError

        try:
            if write and not self._made:
                self._make_table(text)
            with self._engine.begin() as connection:
                yield lambda sql, values: connection.execute(text(sql), values)
        except SQLAlchemyError as error:
            if not write and "does not exist" in str(error) and _TABLE in str(error):
                raise _NoTable from error
            raise PerfcliError(f"{self.where}: {_first_line(error)}") from error

    def _make_table(self, text: Any) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine.begin() as connection:
                connection.execute(text(_CREATE.format("BYTEA")))
        except SQLAlchemyError:  # two that make it at once: PostgreSQL refuses one of them
            with self._engine.begin() as connection:
                connection.execute(text(_CREATE.format("BYTEA")))
        self._made = True

    @contextmanager
    def _connect_sqlite(self, write: bool) -> Iterator[Execute]:
        path = Path(self._url.removeprefix("sqlite:///"))
        try:
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise _NoTable
            connection = sqlite3.connect(path, timeout=_PATIENCE_SECONDS)
            try:
                if write:
                    connection.execute("PRAGMA synchronous = FULL")
                    connection.execute(_CREATE.format("BLOB"))
                with connection:
                    yield connection.execute
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            if not write and "no such table" in str(error):
                raise _NoTable from error
            raise PerfcliError(f"{self.where}: {error}") from error

    def list(self, folder: str) -> set[str]:
        first, after = f"{folder}/", f"{folder}0"  # "0" comes right behind "/"
        sql = f"SELECT name FROM {_TABLE} WHERE name >= :first AND name < :after"
        try:
            with self._connected(write=False) as execute:
                rows = execute(sql, {"first": first, "after": after}).fetchall()
        except _NoTable:
            return set()
        return {name.removeprefix(first) for (name,) in rows if name.startswith(first)}

    def read(self, names: Iterable[str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        try:
            with self._connected(write=False) as execute:
                for some in _batched(names, _AT_ONCE):
                    wanted = {f"n{number}": name for number, name in enumerate(some)}
                    listed = ", ".join(f":{key}" for key in wanted)
                    sql = f"SELECT name, content FROM {_TABLE} WHERE name IN ({listed})"
                    rows = execute(sql, wanted).fetchall()
                    found |= {name: bytes(content) for name, content in rows}
        except _NoTable:
            return {}
        return found

    def write(self, name: str, content: bytes) -> None:
        with self._connected(write=True) as execute:
            execute(_INSERT, {"name": name, "content": content})


class _NoTable(Exception):
    """Says that nothing was ever written there."""


def _batched(names: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    listed = list(names)
    return (tuple(listed[n : n + size]) for n in range(0, len(listed), size))


def _first_line(error: Exception) -> str:
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or [repr(error)])[0]
