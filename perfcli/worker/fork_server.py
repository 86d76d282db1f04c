"""Has one process import torch for the workers of a command, and fork each of them: the parent's
side. It serves workers that have the same interpreter, and the same variables when torch is
imported. Whatever goes wrong with it, a worker is started by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

from perfcli.errors import PerfcliError
from perfcli.machine.scratch import make_scratch
from perfcli.model import CompileRequest, StartPhase
from perfcli.worker import import_ahead, protocol
from perfcli.worker.channel import Channel
from perfcli.worker.forked_worker import Descriptors, ForkedWorker, ask_to_fork
from perfcli.worker.keeper import KeepRequest
from perfcli.worker.starting import Use, list_import_variables

_IMPORT_SECONDS = 120.0

_Place: TypeAlias = "tuple[str | None, str, str]"


class ForkServers:
    """Holds the processes that a command's workers are forked by, each of which starts with the
    first worker. Any thread may ask. ``steps_back``: they, and their workers, have the processors
    that others leave."""

    def __init__(self, use: Use, steps_back: bool = False) -> None:
        self._use: Use = use
        self._steps_back = steps_back
        self._servers: dict[_Place, _ForkServer] = {}
        self._lock = threading.Lock()
        self._closed = False

    def fork(
        self, request: CompileRequest, environment: Mapping[str, str], descriptors: Descriptors
    ) -> ForkedWorker | None:
        """Return a worker once there is one; None where none can be forked. Raises PerfcliError
        after ``close``."""
        if request.variant.env or os.environ.get(import_ahead.SWITCH) == "0":
            return None
        read = json.dumps(list_import_variables(environment), sort_keys=True)
        place = request.variant.python, request.device, read
        with self._lock:
            self._check_open()
            server = self._servers.get(place)
            if server is None:
                server = self._servers[place] = _ForkServer(
                    request, environment, self._use, self._steps_back
                )
        worker = server.fork(environment, request.folder, descriptors)
        if worker is None:
            self._check_open()
        return worker

    def list_phases(self) -> list[StartPhase]:
        """Return how long torch was imported, by the time of the machine's monotonic clock."""
        return [each.phase for each in self._servers.values() if each.phase is not None]

    def close(self) -> None:
        """End all of them; workers go on. Who waits for one that is not forked yet is told."""
        with self._lock:
            self._closed = True
            for server in self._servers.values():
                server.close()

    def _check_open(self) -> None:
        if self._closed:
            raise PerfcliError("the workers are not wanted any more")


class _ForkServer:
    """Holds one such process, which starts at once."""

    def __init__(
        self, request: CompileRequest, environment: Mapping[str, str], use: Use, steps_back: bool
    ) -> None:
        self.phase: StartPhase | None = None
        self._began = time.monotonic()
        self._folder = make_scratch()
        self._place = self._folder / "fork"
        self._channel: Channel | None = None
        self._turn = threading.Lock()
        self._ready: bool | None = None
        own = {**environment, "TMPDIR": str(self._folder)}
        asked = KeepRequest(
            str(self._place), "", request.device, 0.0, request.cache_dir, use, stays=False
        )
        try:
            self._place.mkdir(mode=0o700)
            python = request.variant.python
            made = import_ahead.take(use, python, own)
            if made is not None:
                self._began = made.began
            self._channel = Channel(python, own, self._folder, made=made)
            if steps_back:
                self._channel.step_back()
            self._channel.give(_IMPORT_SECONDS)
            self._channel.send(protocol.encode({"keep": asked}))
        except (OSError, PerfcliError):
            self._ready = False

    def fork(
        self, environment: Mapping[str, str], current: str, descriptors: Descriptors
    ) -> ForkedWorker | None:
        with self._turn:
            if self._ready is None:
                self._ready = self._wait()
            if not self._ready:
                return None
            worker, _ = ask_to_fork(self._place, environment, current, descriptors)
            return worker

    def _wait(self) -> bool:
        """Wait until torch is imported; return whether it is."""
        assert self._channel is not None
        try:
            reply: dict[str, Any] = json.loads(self._channel.receive())
        except (OSError, ValueError, PerfcliError):
            return False
        if reply.get("type") != "done":
            return False
        seconds = round(time.monotonic() - self._began, 3)
        self.phase = StartPhase("command", "import", self._began, seconds)
        return True

    def close(self) -> None:
        if self._channel is not None:
            self._channel.kill()  # who waits for it notices
        with self._turn:
            self._ready = False
            if self._channel is not None:
                self._channel.close()
                self._channel = None
        shutil.rmtree(self._folder, ignore_errors=True)
