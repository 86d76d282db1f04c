"""The texts that runs name, for documents that show them: unpacked when somebody reads one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from perfcli import store
from perfcli.blobs import unpack
from perfcli.commands._obtain import Obtained
from perfcli.errors import PerfcliError
from perfcli.model import BlobId


class Texts(Mapping[BlobId, str]):
    """Texts of several runs by their SHA-256. A run's file is read with the first of them.

    Looking one up raises KeyError where no run holds it, PerfcliError where a file can't be read
    or a text is damaged.
    """

    def __init__(self, *runs: Obtained) -> None:
        self._runs = runs

    def __getitem__(self, blob: BlobId) -> str:
        try:
            return unpack(self._packed[blob])
        except ValueError as error:
            raise PerfcliError(f"the text {blob[:12]}… of a run is damaged: {error}") from error

    def __iter__(self) -> Iterator[BlobId]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    @functools.cached_property
    def _packed(self) -> Mapping[BlobId, str]:
        found: dict[BlobId, str] = {}
        for run in self._runs:
            if run.path is not None:
                found |= store.read_blobs(run.path)
            elif run.bundle is not None:
                found |= run.bundle.blobs
        return found
