"""One process that imports torch for the workers of a command: whom it forks, and what becomes of
them where it fails. In place of torch it imports one small module that counts its imports."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_worker import HEAD, WORKS

from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.measure import before_cuda
from perfcli.model import CompileRequest, MeasureRequest, Prepared, Variant
from perfcli.worker import import_ahead, starting
from perfcli.worker.channel import Channel
from perfcli.worker.fork_server import ForkServers
from perfcli.worker.live import LiveWorker

PROGRAM = """
import os, sys, types
from perfcli.worker import bootstrap, child
def import_early(device):
    with open({imports!r}, "a") as file:
        file.write("x")
    exec({body!r})
def answer(request, questions, replies):
    child._send(replies, dict(type="seen", parent=os.getppid(), pid=os.getpid(),
                              env=dict(os.environ), folder=os.getcwd()))
    questions.readline()
sys.modules["perfcli.measure.side"] = types.SimpleNamespace(import_early=import_early)
import perfcli.measure
perfcli.measure.side = sys.modules["perfcli.measure.side"]
child._measure = answer
bootstrap.watch_parent()
child.serve(int(sys.argv[1]), int(sys.argv[2]), bootstrap.watch_parent)
"""
SCRIPT = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
exec {python} -P -X faulthandler {program} "$@"
"""


class Commands:
    """Starts workers as a command does, with an interpreter that imports something small."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.imports = root / "imports"
        self.imports.touch()
        self.servers = ForkServers("measure")
        self.channels: list[Channel] = []
        self.request = self.ask("pass")

    def ask(self, body: str, env: dict[str, str] | None = None) -> CompileRequest:
        """Return a request whose interpreter runs ``body`` when it imports torch."""
        number = len(list(self.root.glob("python*")))
        program = self.root / f"program{number}.py"
        program.write_text(PROGRAM.format(imports=str(self.imports), body=body))
        script = self.root / f"python{number}"
        script.write_text(SCRIPT.format(python=sys.executable, program=program))
        script.chmod(0o755)
        variant = Variant("", env=env or {}, python=str(script))
        return CompileRequest("softmax", {}, None, variant, "cpu", None)

    def start(self, asked: CompileRequest | None = None, **variables: Any) -> dict[str, Any]:
        """Return what a worker says of itself, with whether it was forked."""
        request = asked or self.request
        root = Path(__file__).parents[3]
        environment = {**os.environ, "PYTHONPATH": str(root), **variables}
        forked: list[bool] = []

        def fork(descriptors: tuple[int, int, int]) -> Any:
            worker = self.servers.fork(request, environment, descriptors)
            forked.append(worker is not None)
            return worker

        folder = Path(tempfile.mkdtemp(dir=self.root))
        channel = Channel(request.variant.python, environment, folder, fork=fork)
        self.channels.append(channel)
        measure = MeasureRequest(request, "base", 7)
        channel.give(30)
        channel.send(json.dumps({"measure": measure}, default=_plain).encode() + b"\n")
        return {**json.loads(channel.receive()), "forked": forked[0]}

    def close(self) -> None:
        for channel in self.channels:
            channel.close()
        self.servers.close()


def _plain(value: Any) -> Any:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    monkeypatch.delenv("PERFCLI_FORK", raising=False)
    root = Path(tempfile.mkdtemp(prefix="fork-"))  # pytest's own is too long for a socket
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    made = Commands(root)
    yield made
    made.close()


def test_both_workers_come_from_one_import(commands: Commands) -> None:
    base = commands.start(SIDE="base", TMPDIR="/one")
    head = commands.start(SIDE="head", TMPDIR="/two")
    assert commands.imports.read_text() == "x"
    assert base["forked"]
    assert head["forked"]
    assert base["parent"] == head["parent"] != os.getpid()
    assert base["pid"] != head["pid"]
    own = [(each["env"]["SIDE"], each["env"]["TMPDIR"]) for each in (base, head)]
    assert own == [("base", "/one"), ("head", "/two")]
    assert base["folder"] == os.getcwd()
    (phase,) = commands.servers.list_phases()
    assert (phase.of, phase.name) == ("command", "import")


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED"])
def test_what_is_read_at_the_import_has_to_be_the_same(commands: Commands, name: str) -> None:
    found = [commands.start(None, **{name: value}) for value in "121"]
    assert [each["env"][name] for each in found] == ["1", "2", "1"]
    assert commands.imports.read_text() == "xx"
    assert found[0]["parent"] == found[2]["parent"] != found[1]["parent"]


@pytest.mark.parametrize("how", ["switch", "variables"])
def test_what_is_not_forked(commands: Commands, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = commands.ask("pass", {"A": "1"} if how == "variables" else {})
    if how == "switch":
        monkeypatch.setenv("PERFCLI_FORK", "0")
    assert not commands.start(request)["forked"]
    assert commands.imports.read_text() == ""


@pytest.mark.parametrize(
    "body",
    [
        "raise ImportError('none')",
        "raise child.PerfcliError('importing torch has begun to use CUDA')",
        "os.kill(os.getpid(), 11)",
        "os._exit(0)",
    ],
)
def test_where_the_import_fails_workers_start_by_themselves(commands: Commands, body: str) -> None:
    request = commands.ask(body)
    found = [commands.start(request) for _ in range(2)]
    assert [each["forked"] for each in found] == [False, False]
    assert {each["parent"] for each in found} == {os.getpid()}
    assert commands.imports.read_text() == "x"  # it is not tried again
    assert commands.servers.list_phases() == []


def test_where_it_was_killed_the_next_worker_starts_by_itself(commands: Commands) -> None:
    base = commands.start()
    os.kill(base["parent"], signal.SIGKILL)
    head = commands.start()
    assert (base["forked"], head["forked"]) == (True, False)
    commands.channels[0]._requests.close()  # the worker that it forked goes on, to its end
    assert await_end(base["pid"])


def test_a_path_too_long_for_a_socket_is_no_failure(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = commands.root / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert not commands.start()["forked"]


def test_who_waits_for_it_is_told_when_it_is_closed(commands: Commands) -> None:
    begun = commands.root / "begun"
    os.mkfifo(begun)
    request = commands.ask(f"open({str(begun)!r}, 'w').close(); import time; time.sleep(60)")
    found: list[BaseException] = []

    def start() -> None:
        try:
            commands.start(request)
        except PerfcliError as error:
            found.append(error)

    waiting = threading.Thread(target=start)
    waiting.start()
    begun.open().close()
    commands.servers.close()
    waiting.join(30)
    assert "not wanted" in str(found[0])
    with pytest.raises(PerfcliError, match="not wanted"):
        commands.start()


def test_nothing_is_left_when_the_command_is_killed(commands: Commands) -> None:
    """It and its worker hold a pipe, which ends when the last that holds it does."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    program = f"""
import os, signal, sys, tempfile
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import test_fork_server as here
tempfile.tempdir = {str(commands.root)!r}
made = here.Commands(Path({str(commands.root)!r}))
made.request = made.ask("os.dup2(2, 77)")
assert made.start()["forked"]
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        pass_fds=(writing,),
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    os.close(writing)
    assert select.select([reading], [], [], 30)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_live_worker_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its interpreter knows nothing of forks."""
    monkeypatch.setenv("PERFCLI_WARM", "0")
    script = tmp_path / "python"
    script.write_text(HEAD + WORKS)
    script.chmod(0o755)
    compiled = CompileRequest("softmax", {}, None, Variant("", python=str(script)), "cpu", None)
    servers = ForkServers("measure")
    worker = LiveWorker(
        MeasureRequest(compiled, "head", 7), tmp_path, lambda _: None, 30.0, servers
    )
    try:
        assert isinstance(worker.prepare(), Prepared)
    finally:
        worker.close()
        servers.close()


def await_end(process: int) -> bool:
    """Wait until a process that is no child of this one has ended."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 30)[0])
    finally:
        os.close(watched)


# --- an import that began with the command -----------------------------------------------------


@pytest.fixture
def with_gpu(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Return the variables of workers on a machine with a GPU, whose Python is that of
    ``commands``."""
    gpu = commands.root / "gpu"
    gpu.touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(commands.root))
    monkeypatch.setattr(import_ahead, "_GPU", gpu)
    monkeypatch.setattr(import_ahead, "_USES", ("measure",))  # the other one takes real torch
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(import_ahead.MANY_CORES)))
    monkeypatch.setattr(sys, "executable", commands.request.variant.python)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.delenv("PERFCLI_FAKE", raising=False)
    yield starting.make_import_environment("measure")
    for each in import_ahead._begun.values():
        each.end()
    import_ahead._begun.clear()


def test_an_import_that_began_with_the_command_forks_both(
    commands: Commands, with_gpu: dict[str, str]
) -> None:
    import_ahead.start(["compare", "softmax", "-b", "combo_kernels=true"])
    begun = import_ahead._begun["measure"]
    found = [commands.start(None, **with_gpu) for _ in range(2)]
    assert [each["parent"] for each in found] == [begun.process.pid] * 2
    (phase,) = commands.servers.list_phases()
    assert phase.at == begun.began
    commands.close()
    assert begun.process.poll() is not None


def test_an_import_with_other_variables_is_not_used(
    commands: Commands, with_gpu: dict[str, str]
) -> None:
    import_ahead.start(["compare", "softmax"])
    begun = import_ahead._begun["measure"]
    found = commands.start(None, **with_gpu | {"OMP_NUM_THREADS": "99"})
    assert (found["forked"], found["parent"] != begun.process.pid) == (True, True)
    assert begun.process.poll() == -signal.SIGKILL


def test_an_import_that_nobody_wants_ends_with_the_command(with_gpu: dict[str, str]) -> None:
    import_ahead.start(["compare", "softmax"])
    begun = import_ahead._begun.pop("measure")
    os.close(begun.requests)
    os.close(begun.replies)
    assert begun.process.wait(30) is not None


@pytest.mark.parametrize("use", ["measure", "compile"])
def test_it_imports_with_the_variables_of_workers(use: starting.Use, tmp_path: Path) -> None:
    target = targets.get("h200")
    request = CompileRequest("softmax", {}, None, Variant(""), "cuda", target)
    if use == "measure":
        request = replace(request, on_device=True)
        asked = starting.measuring_environment(request, None, tmp_path, tmp_path)
    else:
        asked = starting.worker_environment(request, tmp_path)
    wanted, given = asked, starting.make_import_environment(use)
    assert starting.list_import_variables(wanted) == starting.list_import_variables(given)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "run softmax",
        "compare softmax --no-time",
        "compare softmax --target=h100",
        "compare softmax --device cpu",
        "compare softmax --device=cpu:0,cpu:1",
        "compare softmax --b-python /venv/bin/python",
        "compare --help",
    ],
)
def test_commands_that_measure_on_no_gpu_import_nothing(
    with_gpu: dict[str, str], words: str
) -> None:
    import_ahead.start(words.split())
    assert import_ahead._begun == {}


def test_nothing_is_imported_ahead_where_a_process_is_kept(
    with_gpu: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (starting.find_kept_folder() / "one").mkdir(parents=True)
    import_ahead.start(["compare", "softmax"])
    assert import_ahead._begun == {}


# --- CUDA ------------------------------------------------------------------------------------


def test_cuda_has_not_begun_where_its_library_is_not_loaded(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libcudart.so.13\n")
    assert not before_cuda.has_begun(maps)


@pytest.mark.parametrize(("answer", "begun"), [(3, False), (0, True), (100, True)])
def test_the_driver_says_whether_it_was_initialised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int, begun: bool
) -> None:
    """3 is CUDA_ERROR_NOT_INITIALIZED, 100 CUDA_ERROR_NO_DEVICE."""
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libcuda.so.580.159.04\n")

    class Driver:
        def __init__(self, name: str) -> None:
            assert name == "libcuda.so.1"

        cuDeviceGetCount: Callable[..., int] = staticmethod(lambda _: answer)

    monkeypatch.setattr(ctypes, "CDLL", Driver)
    assert before_cuda.has_begun(maps) is begun


def test_a_driver_that_cannot_be_asked_may_have_begun(tmp_path: Path) -> None:
    assert before_cuda.has_begun(tmp_path / "none")


def test_nvml_is_asked_in_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    for before in (None, "0"):
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
        with before_cuda.without_cuda():
            assert os.environ[name] == "1"
        assert os.environ.get(name) == before


def test_a_context_is_made_of_the_device_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, int]] = []

    class Driver:
        def __init__(self, name: str) -> None:
            assert name == "libcuda.so.1"

        def cuInit(self, flags: int) -> int:
            calls.append(("init", flags))
            return 0

        def cuDeviceGet(self, found: Any, number: int) -> int:
            found._obj.value = 10 + number
            return 0

        def cuDevicePrimaryCtxRetain(self, _context: Any, device: Any) -> int:
            calls.append(("retain", device.value))
            return 0

    monkeypatch.setattr(ctypes, "CDLL", Driver)
    monkeypatch.setattr(before_cuda, "_WANTED_SOON", ("no_such_module", "colorsys"))
    monkeypatch.setenv("CUDA_MODULE_LOADING", "")  # to be taken back
    monkeypatch.delenv("CUDA_MODULE_LOADING")
    before_cuda.begin(1)
    assert calls == [("init", 0), ("retain", 11)]
    assert os.environ["CUDA_MODULE_LOADING"] == "LAZY"
    assert "colorsys" in sys.modules


def test_without_a_driver_torch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", fail)
    monkeypatch.setattr(before_cuda, "_WANTED_SOON", ())
    before_cuda.begin(0)
