"""Where a history is kept: in a folder, behind an fsspec URL (``s3://``, ``gs://``, ``memory://``),
or in one table of a database, where SQLite needs nothing but Python and PostgreSQL goes through
SQLAlchemy. Homes keep whole texts by name, which are written once and never changed; all else about
a history is in ``history``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from perfcli.errors import PerfcliError
from perfcli.names import suggestion
from perfcli.storing.store import cannot_write, keep_out_of_commits
from perfcli.storing.whole import write_whole


class Home(Protocol):
    """Keeps texts by names such as ``entries/3f…``. All methods raise PerfcliError where the home
    can't be reached or written."""

    where: str
    """How people name it, without a password."""

    def list(self, folder: str) -> set[str]:
        """Return the names of a folder's texts, without the folder."""

    def read(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the texts of these names that are there."""

    def write(self, name: str, content: bytes) -> None:
        """Keep a text, whole or not at all: once this returns it is there to stay."""


class FolderHome:
    """Keeps texts as files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = str(path)

    def list(self, folder: str) -> set[str]:
        try:
            with os.scandir(self.path / folder) as found:
                return {each.name for each in found if not each.name.startswith(".")}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise PerfcliError(f"can't read {self.where}: {error.strerror or error}") from error

    def read(self, names: Iterable[str]) -> Mapping[str, bytes]:
        found = {}
        for name in names:
            try:
                found[name] = (self.path / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                problem = error.strerror or error
                raise PerfcliError(f"can't read {self.path / name}: {problem}") from error
        return found

    def write(self, name: str, content: bytes) -> None:
        path = self.path / name
        try:
            write_whole(path, content, durable=True)
        except OSError as error:
            raise PerfcliError(cannot_write(path, error)) from error
        with suppress(OSError):
            keep_out_of_commits(self.path.parent)


def need(module: str, install: str, what: str) -> Any:
    """Return a module that only some installations have. Raises PerfcliError with what to do."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PerfcliError(
            f"{what} needs more packages: pip install {install} ({error})"
        ) from error


# --- an object store ------------------------------------------------------------------------------


_INSTALL_REMOTE = "fsspec s3fs"
_PROTOCOLS = "s3, gs, abfs, sftp, postgresql, sqlite, or another one that fsspec knows"
"""fsspec knows more than fifty."""


class RemoteHome:
    """Keeps texts as objects: a store shows one when all of it is there, and not before."""

    def __init__(self, url: str) -> None:
        fsspec = need("fsspec", _INSTALL_REMOTE, f"{url.partition(':')[0]}:// as a history")
        self.where = url.rstrip("/")
        # Others write as well: what was listed once is no answer the next time.
        options = {"use_listings_cache": False}
        scheme = self.where.partition("://")[0]
        if scheme not in (known := fsspec.available_protocols()):
            near = suggestion(scheme, known)
            near = near if near.startswith("did") else f"use {_PROTOCOLS}"
            raise PerfcliError(f"{self.where}: there is no protocol {scheme}: {near}")
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.where, **options)
        except (ImportError, ValueError) as error:
            hint = f"; pip install {_INSTALL_REMOTE}" if scheme in ("s3", "s3a") else ""
            raise PerfcliError(f"{self.where}: {error}{hint}") from error

    def list(self, folder: str) -> set[str]:
        try:
            found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return set()
        except Exception as error:
            raise self._explain(error) from error
        return {name.rsplit("/", 1)[-1] for name in found} - {folder, ""}

    def read(self, names: Iterable[str]) -> Mapping[str, bytes]:
        paths = {f"{self._root}/{name}": name for name in names}
        if not paths:
            return {}
        try:  # all at once, where the file system can
            contents: dict[str, Any] = self._files.cat(list(paths), on_error="return")
        except Exception as error:
            raise self._explain(error) from error
        found = {}
        for path, content in contents.items():
            if isinstance(content, bytes):
                found[paths[path]] = content
            elif not isinstance(content, FileNotFoundError):
                raise self._explain(content) from content
        return found

    def write(self, name: str, content: bytes) -> None:
        try:
            self._files.pipe_file(f"{self._root}/{name}", content)
        except Exception as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> PerfcliError:
        """Each kind of store raises classes of its own."""
        said = str(error).strip().splitlines() or [type(error).__name__]
        return PerfcliError(f"{self.where}: {said[0]}")


# --- a database -----------------------------------------------------------------------------------


_INSTALL_SQL = "sqlalchemy 'psycopg[binary]'"
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
        sqlalchemy = need("sqlalchemy", _INSTALL_SQL, f"{self._url.partition(':')[0]} as a history")
        try:
            url = sqlalchemy.engine.make_url(self._url)
            if url.drivername in ("postgresql", "postgres"):
                url = url.set(drivername="postgresql+psycopg")
            self.where = url.render_as_string(hide_password=True)
            self._engine = sqlalchemy.create_engine(url)
        except ImportError as error:
            raise PerfcliError(f"{self.where}: {error}; pip install {_INSTALL_SQL}") from error
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
        import sqlite3  # which some builds of Python lack

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


# --- the one that is meant ------------------------------------------------------------------------


DEFAULT = Path(".perfcli") / "history"
VARIABLE = "PERFCLI_HISTORY"
_SQLITE = (".db", ".sqlite", ".sqlite3")
_SQL = ("sqlite", "postgresql", "postgres")


def open_home(place: str | None) -> Home:
    """Return the home that was named, else the one that PERFCLI_HISTORY names, else
    ``.perfcli/history``. Raises PerfcliError for one that this installation can't reach."""
    place = place or os.environ.get(VARIABLE) or str(DEFAULT)
    scheme, colon, _ = place.partition("://")
    if colon and scheme.partition("+")[0] in _SQL:
        return SqlHome(place)
    if colon and scheme != "file":
        return RemoteHome(place)
    path = Path(place.removeprefix("file://"))
    if path.suffix in _SQLITE:
        return SqlHome(f"sqlite:///{path}")
    _check_folder(path)
    return FolderHome(path)


def _check_folder(path: Path) -> None:
    """Raise PerfcliError where a folder is not one, or one above it is not."""
    there = next((each for each in (path, *path.parents) if os.path.lexists(each)), None)
    if there is not None and not there.is_dir():
        raise PerfcliError(
            f"{there} is not a folder: name one for the history, or a file that ends in "
            f"{' or '.join(_SQLITE[:2])}"
        )
