"""The start of a worker: its descriptors, and an address space layout that stays the same."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

from perfcli.worker.channel import BOOTSTRAP


def reply(limit: int | None) -> dict[str, str]:
    """To a request that nobody can read, of a worker that may open so many files."""
    request_read, request_write = os.pipe()
    reply_read, reply_write = os.pipe()
    os.write(request_write, b"nonsense\n")

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    subprocess.run(
        [sys.executable, "-P", str(BOOTSTRAP), str(request_read), str(reply_write)],
        env={"PERFCLI_FIXED_LAYOUT": "1"},
        pass_fds=(request_read, reply_write),
        preexec_fn=limited,
        check=True,
    )
    for descriptor in (request_read, request_write, reply_write):
        os.close(descriptor)
    with os.fdopen(reply_read, "rb") as replies:
        return dict(json.loads(replies.readline()))


# Under 901 the first of the two descriptors is to be had, and the second is not.
@pytest.mark.parametrize("limit", [None, 902, 901, 900, 100])
def test_few_descriptors_leave_the_layout_as_it_is(limit: int | None) -> None:
    assert reply(limit)["type"] == "error"
