"""A history in an object store or on another machine, by any URL that fsspec knows: ``s3://``,
``gs://``, ``memory://``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.history.homes import need
from perfcli.names import suggestion

INSTALL = "fsspec s3fs"
PROTOCOLS = "s3, gs, abfs, sftp, postgresql, sqlite, or another one that fsspec knows"
"""fsspec knows more than fifty."""


class RemoteHome:
    """Keeps texts as objects: a store shows one when all of it is there, and not before."""

    def __init__(self, url: str) -> None:
        fsspec = need("fsspec", INSTALL, f"{url.partition(':')[0]}:// as a history")
        self.where = url.rstrip("/")
        # Others write as well: what was listed once is no answer the next time.
        options = {"use_listings_cache": False}
        scheme = self.where.partition("://")[0]
        if scheme not in (known := fsspec.available_protocols()):
            near = suggestion(scheme, known)
            near = near if near.startswith("did") else f"use {PROTOCOLS}"
            raise PerfcliError(f"{self.where}: there is no protocol {scheme}: {near}")
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.where, **options)
        except (ImportError, ValueError) as error:
            hint = f"; pip install {INSTALL}" if scheme in ("s3", "s3a") else ""
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
