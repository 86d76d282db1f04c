"""Real compilations without torch's import before each, which takes longer than most of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

import perfcli
from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.model import Bundle, CompileRequest, KernelFacts, KernelText, Run, Variant
from perfcli.worker import protocol
from perfcli.worker.channel import Channel
from perfcli.worker.forked_worker import ForkedWorker, _read_line
from perfcli.worker.kernels import _Worker
from perfcli.worker.roles import Compiled, Made, Progress
from perfcli.worker.starting import VISIBLE_GPUS, worker_environment
from perfcli.worker.template import TemplateProcess, WarmWorker
from perfcli.worker.weighing import weigh

BOOTSTRAP = Path(perfcli.__file__).parent / "worker" / "bootstrap.py"
USUAL = "h100"
INTERPRETER = {
    "TRITON_INTERPRET": "1",
    VISIBLE_GPUS: "",
    "OMP_NUM_THREADS": "1",  # threads wait longer than such tensors take
}
FOLDER, RUN = "PERFCLI_TEST_FOLDER", "PERFCLI_TEST_RUN"
"""Variables that tell a program which a test starts what a ``WarmProcess`` is made of."""


class WarmProcess:
    """Compiles each request in a fork of one process for its device (``warm_worker``): of one for
    the target that most tests have, or of one for all others. One more runs kernels in Triton's
    interpreter. All workers of a run of the tests share them."""

    def __init__(self, folder: Path, run: int | None = None) -> None:
        """``folder`` is that of the run; their own temporary files go there. ``run``: the process
        that started the workers, or that runs all tests."""
        self._folder = folder
        self._run = run or (os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid())

    def compile(self, request: CompileRequest) -> Bundle:
        with _make_folder() as folder:
            asked = json.loads(protocol.encode(protocol.plain(request)))
            self._ask(folder, _first_request(request), {"compile": asked}, request.folder)
            return weigh(_read_bundle(folder / "replies"), Path(request.cache_dir))

    def call(self, request: CompileRequest, program: Path, *arguments: Any) -> Any:
        """Return what the program's function ``answer`` returns, called in a fork that is prepared
        for the request. Arguments and answer are JSON."""
        return self._call(_first_request(request), program, arguments)

    def interpret(self, program: Path, *arguments: Any) -> Any:
        """Return what ``call`` does, in a fork whose Triton interprets kernels, as
        ``perfcli.handwritten.interpreter`` has it."""
        return self._call(None, program, arguments)

    def fork(self, request: CompileRequest, folder: Path, files: Sequence[int]) -> ForkedWorker:
        """Return a worker for the request that reads, replies and logs at these descriptors."""
        environment = worker_environment(request, folder)
        places = [f"/proc/{os.getpid()}/fd/{number}" for number in files]
        asked = {"work": [environment, *places]}
        current = request.folder or os.getcwd()
        connection = self._connect(_first_request(request))
        line = json.dumps([str(folder), current, asked]) + "\n"
        connection.sendall(line.encode())
        return ForkedWorker(_read_line(connection)["pid"], connection)

    def prepare(self, request: CompileRequest) -> dict[str, str]:
        """Start what forks for the request, and return the variables by which another program finds
        it (``warm_given``)."""
        self._connect(_first_request(request)).close()
        return {FOLDER: str(self._folder), RUN: str(self._run)}

    def _call(self, first: CompileRequest | None, program: Path, arguments: Sequence[Any]) -> Any:
        with _make_folder() as folder:
            self._ask(folder, first, {"call": [str(program), *arguments]})
            return json.loads((folder / "replies").read_bytes())

    def _ask(
        self, folder: Path, first: CompileRequest | None, asked: Any, current: str | None = None
    ) -> None:
        with self._connect(first) as connection:
            line = json.dumps([str(folder), current or os.getcwd(), asked]) + "\n"
            connection.sendall(line.encode())
            status = connection.makefile().readline()
        log = (folder / "log").read_text(errors="replace") if status else "it ended"
        assert status == "0\n", log[-3000:]

    def _connect(self, first: CompileRequest | None) -> socket.socket:
        """Start the process where nobody has yet. ``first``: what it is prepared for; None: to
        interpret."""
        kind = f"{first.device} {first.target and first.target.name}" if first else "interpreter"
        # A path can be too long for a socket; a name of this kind goes with who listens.
        address = f"\0perfcli-test {self._run} {kind}"
        connection = socket.socket(socket.AF_UNIX)
        with open(self._folder / f"{kind}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                connection.connect(address)
            except ConnectionRefusedError:
                _start(first, self._folder, address, self._run)
                connection.connect(address)
        return connection

    def compile_each(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[tuple[int, Compiled]]:
        """Compile as an ``Executor`` does."""
        for number, request in enumerate(requests):
            made: Compiled
            try:
                made = self.compile(request)
            except PerfcliError as error:
                made = error
            progress(Progress(number, "done"))
            yield number, made


class WarmFork(WarmWorker):
    """A fork of that process that stays, and forks for each request itself; a fresh one where an
    interpreter or variables of its own are asked for."""

    def __init__(
        self, process: WarmProcess, request: CompileRequest, timeout_seconds: float | None
    ) -> None:
        self._process = process
        super().__init__(request, timeout_seconds)

    def _begin(self) -> None:
        request = self._request
        if request.variant.python or request.variant.env or request.threads is not None:
            super()._begin()
            return
        fork = partial(self._process.fork, request, self._folder)
        self._channel = Channel(None, {}, self._folder, fork=fork)
        self._channel.doing = "importing torch"
        for _ in self.ask({"template": request}):
            pass


class WarmKernels(_Worker):
    """A fork of that process that compiles hand-written kernels without a device; a fresh one for
    all else."""

    def __init__(
        self,
        process: WarmProcess,
        request: CompileRequest,
        python: str | None,
        timeout_seconds: float | None,
        own: Mapping[str, str],
    ) -> None:
        self._process, self._request = process, request
        super().__init__(python, timeout_seconds, own)

    def _begin(self) -> None:
        if self._python or set(self._own) != {VISIBLE_GPUS}:
            super()._begin()
            return
        fork = partial(self._process.fork, self._request, self._folder)
        self._channel = Channel(None, {}, self._folder, fork=fork)


class Templates:
    """A ``TemplateProcess`` for each device and target, where each question has the current folder
    of who asks."""

    def __init__(self) -> None:
        self._made: dict[str, TemplateProcess] = {}

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        here = list(map(_here, requests))
        return self.of(here[0]).generate(here, base and _here(base))

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        return self.of(request).with_binaries(kernels, request, weighs)

    def close(self) -> None:
        for each in self._made.values():
            each.close()

    def of(self, request: CompileRequest) -> TemplateProcess:
        kind = f"{request.device} {request.target and request.target.name}"
        if kind not in self._made:
            self._made[kind] = TemplateProcess(timeout_seconds=300)
        return self._made[kind]


def _here(request: CompileRequest) -> CompileRequest:
    return replace(request, folder=request.folder or os.getcwd())


def make_request(cache_dir: Path, device: Literal["cuda", "cpu"] = "cuda") -> CompileRequest:
    """What a fork for an H100, or for the CPU, is prepared for that compiles nothing by itself."""
    target = targets.get(USUAL) if device == "cuda" else None
    return CompileRequest("", {}, None, Variant(""), device, target, cache_dir=str(cache_dir))


@contextlib.contextmanager
def _make_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="perfcli-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_request(request: CompileRequest) -> CompileRequest:
    """Return what the process is prepared for that will compile the request."""
    usual = request.target is None or request.target.name == USUAL
    target = request.target if usual else None
    return replace(request, scenario="", params={}, preset=None, target=target, variant=Variant(""))


def _start(first: CompileRequest | None, folder: Path, address: str, run: int) -> None:
    """It ends with the run."""
    program = str(Path(__file__).with_name("warm_worker.py"))
    asked = protocol.encode(protocol.plain(first)).decode() if first else "null"
    environment = worker_environment(first or make_request(folder, "cpu"), folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        number = listener.fileno()
        subprocess.Popen(
            [sys.executable, "-P", program, str(BOOTSTRAP), asked, str(number), str(run)],
            env=environment if first else environment | INTERPRETER,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[number],
        )


def _read_bundle(replies: Path) -> Bundle:
    last = json.loads(replies.read_bytes().splitlines()[-1])
    if last["type"] == "error":
        raise protocol.error(last["kind"], last["message"], last["detail"])
    run, blobs = json.dumps(last["run"]), last["blobs"]
    return Bundle(msgspec.json.decode(run, type=Run), blobs)
