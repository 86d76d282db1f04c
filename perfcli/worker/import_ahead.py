"""Starts the processes that import torch for a command's workers before the command line is
imported, where its words say that it will probably measure on a GPU. ``fork_server`` takes them
over; one that nobody wants ends with the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perfcli.worker.starting import (
    IMPORTS,
    PARENT,
    Use,
    find_kept_folder,
    list_command,
    list_import_variables,
    make_import_environment,
)

SWITCH = "PERFCLI_FORK"
"""0: each worker imports torch by itself."""
MANY_CORES = 4
"""With fewer, workers that get ready ahead would only take them from those that compile."""
_OTHERS = (
    "--no-time", "--target", "--fake", "--script", "--with-kernel", "--help", "-h", "--world",
    "--a-python", "--b-python", "--device=cpu", "cpu",
)  # fmt: skip
"""How words begin of commands that measure nothing, or elsewhere, or with another interpreter."""
_GPU = Path("/dev/nvidiactl")
_USES: tuple[Use, ...] = ("measure", "compile")


@dataclass(frozen=True, slots=True)
class Importing:
    """Holds such a process, the descriptors to it and from it, and since when it runs, by the
    machine's monotonic clock."""

    process: subprocess.Popen[bytes]
    requests: int
    replies: int
    environment: Mapping[str, str]
    began: float

    def end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        os.close(self.requests)
        os.close(self.replies)
        self.process.wait()


_begun: dict[Use, Importing] = {}


def start(words: Sequence[str]) -> None:
    """Start them for a command of these words, or do nothing. Where one can't be started, whoever
    wants it will say so."""
    if _will_measure(words):
        # Both at once: while code is generated, nothing else should run.
        for use in _USES:
            _start(use)


def _start(use: Use) -> None:
    began, environment = time.monotonic(), make_import_environment(use)
    reads, requests = os.pipe()
    replies, writes = os.pipe()
    try:
        process = subprocess.Popen(
            list_command(None, reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**environment, IMPORTS: use, PARENT: str(os.getpid())},
            pass_fds=(reads, writes),
            start_new_session=True,
        )
        _begun[use] = Importing(process, requests, replies, environment, began)
    except OSError:
        os.close(requests)
        os.close(replies)
    finally:
        os.close(reads)
        os.close(writes)


def take(use: Use, python: str | None, environment: Mapping[str, str]) -> Importing | None:
    """Return the process for a use where it imports with this interpreter and these variables;
    else end it. It is returned once."""
    found = _begun.pop(use, None)
    if found is None:
        return None
    wanted, given = map(list_import_variables, (environment, found.environment))
    if wanted == given and python in (None, sys.executable) and found.process.poll() is None:
        return found
    found.end()
    return None


def _will_measure(words: Sequence[str]) -> bool:
    if words[:1] != ["compare"] or any(word.startswith(_OTHERS) for word in words):
        return False
    if os.environ.get(SWITCH) == "0" or os.environ.get("PERFCLI_FAKE"):
        return False
    if any(find_kept_folder().glob("*")):  # they may be forked by what is kept
        return False
    return len(os.sched_getaffinity(0)) >= MANY_CORES and _GPU.exists()
