"""A worker that has torch imported and forks for each request, after one small function was
compiled with default options, as ``perfcli.worker.forking`` does: all else happens as in a fresh
worker.

    python -P warm_worker.py BOOTSTRAP REQUEST SOCKET PROCESS

REQUEST names the device, and a target where all later requests have it; without one, each fork
takes its own. It is null where Triton interprets kernels, which the environment says. Who connects
to the socket writes a line ``[folder, current, asked]``; the fork works in ``current`` and leaves
its replies in ``folder/replies``. ``asked`` is ``{"compile": REQUEST}``, or ``{"call": [PROGRAM,
…]}`` for what the program's function ``answer`` returns for the arguments. Says the exit status of
each, and ends when the process does.

``{"work": [ENVIRONMENT, FILE, FILE, FILE]}`` asks for a worker that reads, replies and logs at
these files: first its id is said, at its end ``{"status": n}``, as ``perfcli.worker.keeper`` does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    # A run lists the files that its model imports, and this is none of them.
    del sys.modules["__main__"].__file__
    runpy.run_path(sys.argv[1])["_load_perfcli"]()
    from perfcli.compile import processor, session
    from perfcli.model import CompileRequest
    from perfcli.worker import protocol

    # No test asks how fast a compilation is: to measure the processor takes a tenth of a small one.
    processor._PARTS, processor._ROUNDS = 1, 1000
    plain = json.loads(sys.argv[2])
    if plain is None:
        _import_interpreter()
    elif plain["device"] == "cuda" and plain["target"] is None:
        _import_torch(Path(plain["cache_dir"]))
    else:
        request = protocol.decode_dataclass(CompileRequest, plain)
        keep = session.import_torch(request)
        _warm_up(request)
        session.import_torch = lambda request: keep
    if plain is not None:
        _import_what_compiles()
    # The collector would copy these pages in each fork.
    gc.collect()
    gc.freeze()
    listener = socket.socket(fileno=int(sys.argv[3]))
    listener.set_inheritable(False)
    _serve(listener, int(sys.argv[4]))
    os._exit(0)  # nothing that torch would take down is needed


def _serve(listener: socket.socket, whole_run: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(os.pidfd_open(whole_run), selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    asking, _ = listener.accept()
                    if made := _fork_for(asking):
                        ended = os.pidfd_open(made[0])
                        selector.register(ended, selectors.EVENT_READ, (asking, *made))
                elif key.data is None:
                    return
                else:
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    _say_how_it_ended(*key.data)


def _fork_for(asking: socket.socket) -> tuple[int, bool] | None:
    """Return the process that answers, and whether it works for long; None where nothing is
    asked."""
    with asking.makefile() as lines:
        line = lines.readline()
    if not line:
        return None
    folder, current, asked = json.loads(line)
    files = _open_files(*asked["work"][1:]) if "work" in asked else ()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(current)
        if files:
            _work(asked["work"][0], *files)
        _answer(Path(folder), asked)
    for each in files:
        os.close(each)
    if files:
        asking.sendall(json.dumps({"pid": child}).encode() + b"\n")
    return child, bool(files)


def _open_files(requests: str, replies: str, log: str) -> tuple[int, int, int]:
    """Open them before who asked closes them."""
    write = os.O_WRONLY | os.O_APPEND
    return os.open(requests, os.O_RDONLY), os.open(replies, write), os.open(log, write)


def _say_how_it_ended(asking: socket.socket, child: int, works: bool) -> None:
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # the processes that compiled its kernels
    said = json.dumps({"status": os.waitstatus_to_exitcode(status)}) if works else str(status)
    with asking, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it
        asking.sendall(f"{said}\n".encode())


def _import_interpreter() -> None:
    """Import what kernels of families, and those that Inductor generates, import."""
    importlib.import_module("torch._inductor.runtime.triton_helpers")
    from perfcli.handwritten import data, interpreter  # noqa: F401

    interpreter.prepare()


def _import_what_compiles() -> None:
    """Import what every compilation imports when it comes to it, and each fork would again."""
    for name in (
        "perfcli.worker.child",
        "perfcli.compile.building",
        "perfcli.compile.recompiling",
        "perfcli.compile.binaries.pool",
        "perfcli.compile.capture.eager_operators",
        "perfcli.compile.ranks.group",
        "perfcli.compile.scripts.calls",
        "perfcli.compile.stand_in.choices",
        "perfcli.compile.stand_in.optimizers",
    ):
        importlib.import_module(name)


def _import_torch(cache: Path) -> None:
    from perfcli.compile import importing
    from perfcli.compile.stand_in import shim

    # torch looks for a device while it is imported: the stand-in has to be there.
    library = shim.Shim(shim.build(shim.torch_installation(), cache))
    assert library is not None
    importing.import_inductor()


def _warm_up(request: Any) -> None:
    from perfcli.compile import code

    code.warm_up(request)


def _answer(folder: Path, asked: dict[str, Any]) -> None:
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ |= {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TMPDIR": str(folder),
            "CUDA_VISIBLE_DEVICES": "",
        }
        tempfile.tempdir = None
        if "call" in asked:
            program, *arguments = asked["call"]
            sys.path.insert(0, os.path.dirname(program))
            # As a module, which Dynamo looks for where a function of it is compiled.
            answer = importlib.import_module(Path(program).stem).answer(*arguments)
            (folder / "replies").write_text(json.dumps(answer))
            os._exit(0)
        from perfcli.worker.child import serve

        request = folder / "request"
        request.write_text(json.dumps(asked) + "\n")
        replies = os.open(folder / "replies", os.O_WRONLY | os.O_CREAT)
        serve(os.open(request, os.O_RDONLY), replies)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def _work(environment: dict[str, str], requests: int, replies: int, log: int) -> None:
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        from perfcli.worker.child import serve

        serve(requests, replies)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
