"""Compiles in one process what many variants have in common, and forks it for each where it
branches off (``compile/branching``). At most ``jobs`` of them run at once, the trunk counted.

To the template it writes lines of JSON: ``{"number": n}``, the reply to that request is there;
``{"forked": pid}``; ``{"unread": [n, …]}``, requests with the code of the base. What is missing at
its end has to be compiled from the start.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

Line = Mapping[str, Any]
_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 0.5
_READ_BYTES = 1 << 16


class Trunk:
    """Holds this process and those that it forks. ``keep``: as in ``code.generate``."""

    def __init__(self, jobs: int, keep: tuple[Any, ...], pipe: int) -> None:
        self._jobs = max(jobs, 1)
        self._keep = keep
        self._pipe = pipe
        self._running: set[int] = set()
        _start_engine(keep)

    def fork(self, number: int) -> bool:
        """Fork as ``branching.Forks`` says. While it waits for another process, it counts for none.
        Where the system has no room for one nothing branches off: the trunk's own compilation goes
        on."""
        self._until_fewer_than(self._jobs)
        gc.freeze()  # what is there by now is not looked at again, neither here nor in the fork
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid:
            self._running.add(pid)
            self.tell({"forked": pid})
            return False
        self._running.clear()
        _start_engine(self._keep)
        return True

    def go_on(self, wanted: bool) -> None:
        if not wanted:
            self.end()
            os._exit(0)
        self._until_fewer_than(self._jobs)

    def end(self) -> None:
        """Wait until all that were forked have ended."""
        self._until_fewer_than(1)

    def tell(self, line: Line) -> None:
        os.write(self._pipe, json.dumps(line).encode() + b"\n")

    def _until_fewer_than(self, most: int) -> None:
        # Each by its own id: other processes may have been started here, by whom they are awaited.
        while len(self._running) >= most:
            ended = {pid for pid in self._running if os.waitpid(pid, os.WNOHANG)[0]}
            self._running -= ended
            if not ended:
                # Until one ends, whoever started it: then that one is asked for again and again.
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                time.sleep(_POLL_SECONDS)


def _start_engine(keep: tuple[Any, ...]) -> None:
    """Start autograd's engine, after a fork and before the next one."""
    for part in keep:
        if hasattr(part, "start_engine_without_threads"):
            part.start_engine_without_threads()


def lines(pipe: int, trunk: int) -> Iterator[Line]:
    """Yield what the process ``trunk`` and those that it forked wrote, until it ends. Where it dies
    they are killed: nobody waits for them any more."""
    os.set_blocking(pipe, False)
    rest, forked = b"", []
    status: int | None = None
    while status is None:
        select.select([pipe], [], [], _PATIENCE_SECONDS)
        pid, ended = os.waitpid(trunk, os.WNOHANG)
        status = ended if pid else None
        *whole, rest = (rest + _available(pipe)).split(b"\n")
        for text in whole:
            line = json.loads(text)
            if "forked" in line:
                forked.append(line["forked"])
            yield line
    if status:
        _kill(forked)


def _available(pipe: int) -> bytes:
    found = b""
    while True:
        try:
            chunk = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return found
        if not chunk:
            return found
        found += chunk


def _kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            # Its group: a number that somebody else's process has by now is left alone.
            if os.getpgid(pid) == os.getpgrp():
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
