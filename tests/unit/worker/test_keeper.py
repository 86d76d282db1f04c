"""A process that stays between commands: whom it serves, with what, and when it ends. In place of
torch it imports one small module, and its workers reply with what they see."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.model import CompileRequest, Variant
from perfcli.worker import keeper, keepers, protocol
from perfcli.worker.channel import Channel
from perfcli.worker.forked_worker import find_place, fork_warm

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux 5.3")

PROGRAM = """
import json, os, signal, sys, types
from pathlib import Path
from perfcli.worker import bootstrap, child, keeper
sys.path.insert(0, {modules!r})
def import_early(device, cache):
    import imported
    return ()
def answer(request, replies):
    exec(request.scenario)
    import edited
    seen = dict(env=dict(os.environ), folder=os.getcwd(), edited=edited.VALUE,
                session=os.getsid(0) == os.getpid(), cores=sorted(os.sched_getaffinity(0)))
    print("said to the log", flush=True)
    child._send(replies, seen)
session = types.SimpleNamespace(import_early=import_early)
sys.modules["perfcli.compile"] = types.SimpleNamespace(session=session)
child._compile = answer
keeper.LOOK_SECONDS = 0.05
asked = keeper.KeepRequest({place!r}, {folder!r}, "cuda", {idle}, "")
def work(requests, replies):
    bootstrap.watch_parent()
    child.serve(requests, replies)
kept = keeper.Keeper(asked, work)
os.write(1, b"ready")
kept.serve()
"""


class Kept:
    """A keeper for the current folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.modules = root, root / "modules"
        self.modules.mkdir()
        (self.modules / "imported.py").write_text("VALUE = 1\n")
        (self.modules / "edited.py").write_text("VALUE = 1\n")
        self.place = find_place(os.getcwd(), None, "cuda")

    def start(self, idle: float = 60.0) -> subprocess.Popen[bytes]:
        self.place.mkdir(parents=True, mode=0o700)
        self.place.parent.chmod(0o700)
        program = PROGRAM.format(
            modules=str(self.modules), place=str(self.place), folder=os.getcwd(), idle=idle
        )
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 5) == b"ready"
        return process

    def ask(
        self,
        request: CompileRequest,
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return what a worker sees; where none is forked, why."""
        environment = {**os.environ} if environment is None else environment
        refused: list[str] = []

        def fork(descriptors: tuple[int, int, int]) -> Any:
            worker, why = fork_warm(request, environment, descriptors)
            refused.append(why)
            return worker

        folder = Path(tempfile.mkdtemp(dir=self.root))
        # Where none is forked, this one is started, and fails at once.
        channel = Channel("/bin/false", {}, folder, fork=fork)
        try:
            channel.give(30)
            channel.send(protocol.encode({"compile": request}), last=True)
            found: dict[str, Any] = json.loads(channel.receive())
        except WorkerFailed as error:
            found = {"failed": str(error)}
        finally:
            channel.close()
        return {**found, "refused": refused[0], "log": (folder / "log").read_text()}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    root = Path(tempfile.mkdtemp(prefix="keep-"))  # pytest's own is too long for a socket
    (root / "project").mkdir()
    monkeypatch.chdir(root / "project")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root))
    monkeypatch.delenv("PERFCLI_WARM", raising=False)
    made = Kept(root)
    yield made
    keepers.stop_keeper(made.place)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def request_() -> CompileRequest:
    return CompileRequest("pass", {}, None, Variant(""), "cuda", None)


def ends(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
        return True
    return False


def test_a_worker_has_the_commands_own_environment_folder_and_log(
    kept: Kept, request_: CompileRequest
) -> None:
    process = kept.start()
    (kept.root / "other").mkdir()
    there = replace(request_, folder=str(kept.root / "other"))
    environment = {**os.environ, "HERE": "now"}
    environment.pop("PATH")
    found = kept.ask(there, environment)
    own = {name: value for name, value in found["env"].items() if name != "PERFCLI_PARENT"}
    assert own == environment
    assert found["folder"] == str((kept.root / "other").resolve())
    assert found["session"]
    assert found["cores"] == sorted(os.sched_getaffinity(0))
    assert found["log"].splitlines()[0] == "said to the log"
    assert process.poll() is None


def test_files_that_are_not_kept_are_imported_anew_each_time(
    kept: Kept, request_: CompileRequest
) -> None:
    kept.start()
    assert kept.ask(request_)["edited"] == 1
    (kept.modules / "edited.py").write_text("VALUE = 22\n")
    assert kept.ask(request_)["edited"] == 22


def test_it_ends_where_a_file_that_it_imported_is_another_one(
    kept: Kept, request_: CompileRequest
) -> None:
    process = kept.start()
    (kept.modules / "imported.py").write_text("VALUE = 22\n")
    assert "installed anew" in kept.ask(request_)["refused"]
    assert ends(process)
    assert not kept.place.exists()


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_PRELOAD", "OMP_NUM_THREADS", "CUDA_HOME"])
def test_variables_that_are_read_at_the_import_are_refused(
    kept: Kept, request_: CompileRequest, name: str
) -> None:
    process = kept.start()
    found = kept.ask(request_, {**os.environ, name: "/other"})
    assert found["refused"] == f"it was started with another {name}"
    assert process.poll() is None


@pytest.mark.parametrize("what", ["off", "variables", "on_device", "interpreter", "device"])
def test_what_a_kept_process_is_not_asked_for(
    kept: Kept, request_: CompileRequest, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    kept.start()
    if what == "off":
        monkeypatch.setenv("PERFCLI_WARM", "0")
    variant = request_.variant
    asked = {
        "variables": replace(request_, variant=replace(variant, env={"A": "1"})),
        "on_device": replace(request_, on_device=True),
        "interpreter": replace(request_, variant=replace(variant, python="/bin/false")),
        "device": replace(request_, device="cpu", target=None),
    }.get(what, request_)
    found = kept.ask(asked)
    assert found["refused"] == ""
    assert "exit code 1" in found["failed"]


def test_how_a_worker_ended_is_known(kept: Kept, request_: CompileRequest) -> None:
    kept.start()
    dies = kept.ask(replace(request_, scenario="os.kill(os.getpid(), signal.SIGSEGV)"))
    assert "killed by SIGSEGV" in dies["failed"]
    exits = kept.ask(replace(request_, scenario="os._exit(7)"))
    assert "exit code 7" in exits["failed"]


def test_a_kept_process_that_was_killed_is_forgotten(kept: Kept, request_: CompileRequest) -> None:
    process = kept.start()
    (kept.place / "about.json").write_text("{}")
    process.kill()
    process.wait()
    assert kept.ask(request_)["refused"] == ""
    assert list(keepers.list_keepers()) == []
    assert not kept.place.exists()


@pytest.mark.parametrize("why", ["idle", "folder", "socket"])
def test_it_ends_when_nobody_needs_it(kept: Kept, why: str) -> None:
    process = kept.start(idle=0.1 if why == "idle" else 60.0)
    if why == "folder":
        Path.cwd().rmdir()
    elif why == "socket":
        (kept.place / keeper.SOCKET).unlink()
    assert ends(process)


def test_a_worker_ends_with_its_command(kept: Kept, request_: CompileRequest) -> None:
    """Its request never comes; it holds the log, which ends when the last that holds it does."""
    kept.start()
    waiting, never = os.pipe()
    reading, writing = os.pipe()
    command = f"""
import os, signal
from perfcli.model import CompileRequest, Variant
from perfcli.worker.forked_worker import fork_warm
request = CompileRequest("", {{}}, None, Variant(""), "cuda", None)
worker, _ = fork_warm(request, os.environ, ({waiting}, {writing}, {writing}))
assert worker and worker.poll() is None
os.kill(os.getpid(), signal.SIGKILL)
"""
    passed = (waiting, writing)
    done = subprocess.run([sys.executable, "-c", command], pass_fds=passed, check=False)
    assert done.returncode == -signal.SIGKILL
    os.close(writing)
    while select.select([reading], [], [], 30)[0]:
        if not os.read(reading, 1 << 10):
            break
    else:
        pytest.fail("something still lives")
    for number in (reading, waiting, never):
        os.close(number)


def test_nobody_else_can_ask(kept: Kept, request_: CompileRequest) -> None:
    kept.start()
    assert kept.place.parent.stat().st_mode & 0o777 == 0o700
    kept.place.parent.chmod(0o755)
    assert "exit code 1" in kept.ask(request_)["failed"]
    with pytest.raises(PerfcliError, match="only you can enter"):
        keepers._make_private(kept.place.parent)
    kept.place.parent.chmod(0o700)


def test_nonsense_ends_nothing(kept: Kept, request_: CompileRequest) -> None:
    process = kept.start()
    for text in (b"\n", b"{}\n", b'{"environment": {}}\n', b"[" * 100 + b"\n", b""):
        connection = keeper.connect(kept.place)
        assert connection is not None
        connection.sendall(text)
        connection.close()
    assert kept.ask(request_)["edited"] == 1
    assert process.poll() is None


def test_it_is_listed_and_stopped(kept: Kept) -> None:
    process = kept.start()
    about = {"folder": os.getcwd(), "python": sys.executable, "device": "cuda"}
    (kept.place / "about.json").write_text(json.dumps(about))
    (listed,) = keepers.list_keepers()
    assert (listed.pid, listed.folder, listed.running) == (process.pid, os.getcwd(), 0)
    assert listed.memory_bytes > 1 << 20
    assert keepers.stop_keeper(kept.place)
    assert ends(process)
    assert process.returncode == 0
    assert not keepers.stop_keeper(kept.place)


@pytest.mark.parametrize("how", ["stop", "signal", "changed"])
def test_what_is_being_compiled_goes_on_when_it_ends(
    kept: Kept, request_: CompileRequest, how: str
) -> None:
    """The worker says that it runs, and goes on when the keeper has taken its socket away."""
    process = kept.start()
    running, go = kept.root / "running", kept.root / "go"
    os.mkfifo(running)
    os.mkfifo(go)
    waits = f"open({str(running)!r}, 'w').close(); open({str(go)!r}).close()"
    found: list[dict[str, Any]] = []
    command = threading.Thread(
        target=lambda: found.append(kept.ask(replace(request_, scenario=waits)))
    )
    command.start()
    running.open().close()
    if how == "stop":
        assert keepers.stop_keeper(kept.place)
    elif how == "signal":
        process.terminate()
    else:
        (kept.modules / "imported.py").write_text("VALUE = 22\n")
        assert "installed anew" in kept.ask(request_)["refused"]
    deadline = time.monotonic() + 30
    while kept.place.exists():
        assert time.monotonic() < deadline
    assert keeper.connect(kept.place) is None
    assert process.poll() is None
    kept.place.mkdir()  # a successor's
    go.open("w").close()
    command.join()
    assert found[0].get("edited") == 1, found
    assert ends(process)
    assert kept.place.exists()


def test_a_worker_whose_command_gave_up_is_killed_and_forgotten(
    kept: Kept, request_: CompileRequest
) -> None:
    """The command is gone before it can be told which process is its worker."""
    process = kept.start()
    order = keeper.Order({**os.environ}, os.getcwd(), (0,), os.getpid())
    requests, never = os.pipe()
    process.send_signal(signal.SIGSTOP)
    connection = keeper.connect(kept.place)
    assert connection is not None
    text = json.dumps(protocol.plain(order)).encode() + b"\n"
    with open(os.devnull, "w") as log:
        socket.send_fds(connection, [text], (requests, log.fileno(), log.fileno()))
    connection.close()
    process.send_signal(signal.SIGCONT)
    assert kept.ask(request_)["edited"] == 1
    deadline = time.monotonic() + 30
    while keepers._ask(kept.place, {"status": True})["running"]:
        assert time.monotonic() < deadline
    assert find_children(process.pid) == []
    os.close(requests)
    os.close(never)


def find_children(parent: int) -> list[int]:
    """Return the processes, also those that have ended, for which this one has not waited."""
    found = []
    for about in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(about.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(about.parent.name))
    return found
