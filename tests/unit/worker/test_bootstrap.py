"""The start of a worker: its descriptors, and an address space layout that stays the same."""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
from pathlib import Path

import pytest

from perfcli.worker.starting import BOOTSTRAP


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


PARENT = """
import subprocess, sys, os
child = f"import sys; sys.path.insert(0, {sys.argv[1]!r})\\n" + sys.argv[2]
environment = {**os.environ, "PERFCLI_PARENT": str(os.getpid())}
command = [sys.executable, "-c", child]
subprocess.Popen(command, env=environment, start_new_session=True).wait()
"""
CHILD = """
import bootstrap, os, time
sys.argv[1:] = []
bootstrap.watch_parent()
assert "PERFCLI_PARENT" not in os.environ
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    os.fork()  # what a worker starts
    os.write(1, b"busy ")
    time.sleep(300)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux 5.3")
def test_a_busy_worker_and_what_it_started_end_with_a_parent_that_was_killed() -> None:
    """All of them hold the pipe: it ends when the last one has."""
    command = [sys.executable, "-c", PARENT, str(BOOTSTRAP.parent), CHILD]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert parent.stdout is not None
    assert os.read(parent.stdout.fileno(), 5) == b"busy "
    parent.kill()
    while select.select([parent.stdout], [], [], 60)[0]:
        if not os.read(parent.stdout.fileno(), 100):
            break
    else:
        pytest.fail("something still lives")
    parent.wait()
    parent.stdout.close()


def test_a_worker_whose_parent_is_gone_already_does_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = subprocess.run(
        [sys.executable, "-P", str(BOOTSTRAP), "0", "1"],
        env={"PERFCLI_PARENT": str(gone.pid)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


IMPORTING = """
import sys
sys.path[:0] = sys.argv[1:]
import bootstrap
bootstrap._keep_bytecode()
"""


@pytest.mark.parametrize(
    ("written", "kept"),
    [("", "cache"), ("import torch", "cache"), ("import torch._inductor.compile_fx", "site")],
)
def test_bytecode_of_torch_is_kept_where_inductors_is_not_written_beside_it(
    tmp_path: Path, written: str, kept: str
) -> None:
    package = tmp_path / "site" / "torch" / "_inductor"
    package.mkdir(parents=True)
    for each in (
        package.parent / "__init__.py",
        package / "__init__.py",
        package / "compile_fx.py",
    ):
        each.write_text("")
    folders = [str(tmp_path / "site"), str(BOOTSTRAP.parent), str(BOOTSTRAP.parents[2])]
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(program: str, **variables: str) -> None:
        command = [sys.executable, "-c", program, *folders]
        subprocess.run(command, env=environment | variables, check=True)

    run(f"import sys\nsys.path[:0] = sys.argv[1:]\n{written}")
    worker = f"{IMPORTING}import torch._inductor.compile_fx"
    run(worker, PYTHONDONTWRITEBYTECODE="1")
    found = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("compile_fx.*.pyc")}
    assert found == {kept}
