"""A trunk that can't fork, and what becomes of the branches of one that dies."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator

import pytest

from perfcli.worker.trunk import Trunk, lines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_where_there_is_no_room_for_a_process_nothing_parts(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    trunk = Trunk(1, (), pipe[1])
    monkeypatch.setattr(os, "fork", refused)
    assert not trunk.fork(0)
    trunk.end()
    os.set_blocking(pipe[0], False)
    with pytest.raises(BlockingIOError):  # nothing was told
        os.read(pipe[0], 1)


def test_the_branches_of_a_trunk_that_dies_are_ended(pipe: tuple[int, int]) -> None:
    pid = os.fork()
    if not pid:
        trunk = Trunk(2, (), pipe[1])
        if trunk.fork(7):
            time.sleep(60)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    ((_, branch),) = (line.popitem() for line in map(dict, lines(pipe[0], pid)))
    assert is_ended(branch)


def is_ended(pid: int) -> bool:
    """Within a second; whoever awaits it in the end may not have done so."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(") ")[2][0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
