"""A process that works on hand-written kernels: what it is asked, and its replies."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perfcli.environment import clean_environment
from perfcli.errors import WorkerFailed
from perfcli.worker import protocol
from perfcli.worker.channel import Channel

T = TypeVar("T")


class Reply(msgspec.Struct):
    type: str
    number: int = 0
    total: int = 0
    name: str = ""
    kind: str = ""
    message: str = ""
    detail: str = ""
    found: msgspec.Raw = msgspec.Raw(b"")


class Worker:
    """One process, and a folder for its caches."""

    def __init__(
        self, python: str | None, timeout_seconds: float | None, own: Mapping[str, str]
    ) -> None:
        self._timeout = timeout_seconds
        self._folder = Path(tempfile.mkdtemp(prefix="perfcli-"))
        self._channel: Channel | None = None
        try:
            self._channel = Channel(python, _environment(self._folder, own), self._folder)
            self._channel.doing = "importing torch"
        except BaseException:
            self.close()
            raise

    def doing(self, what: str) -> None:
        self._open().doing = what

    def ask(self, question: Mapping[str, Any]) -> Iterator[Reply]:
        """The replies up to ``done``.

        Raises what the worker says went wrong, and WorkerFailed where it died or hung.
        """
        channel = self._open()
        channel.send(protocol.encode(question))
        while True:
            channel.give(self._timeout)
            reply = channel.receive_as(Reply)
            if reply.type == "done":
                return
            if reply.type == "error":
                raise protocol.error(reply.kind, reply.message, reply.detail)
            yield reply

    def decoded(self, reply: Reply, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(reply.found, type=kind)
        except msgspec.DecodeError as error:
            raise self.failure(f"the worker sent a broken result ({error})") from error

    def failure(self, message: str) -> WorkerFailed:
        return self._open().failure(message)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self) -> Channel:
        if self._channel is None:
            raise WorkerFailed("the worker is closed")
        return self._channel


def _environment(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
    }
    return clean_environment(os.environ, {**private, **own})
