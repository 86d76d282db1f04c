"""A worker that has torch imported and forks for each request, after one small function was
compiled with default options, as ``perfcli.worker.forking`` does: all else happens as in a fresh
worker.

    python -P warm_worker.py BOOTSTRAP REQUEST

REQUEST names the device, and a target where all later requests have it; without one, each fork
takes its own. Reads lines ``[folder, current, request]``; the fork works in ``current`` and leaves
its replies in ``folder/replies``. Says the exit status of each.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    # A run lists the files that its model imports, and this is none of them.
    del sys.modules["__main__"].__file__
    runpy.run_path(sys.argv[1])["_load_perfcli"]()
    from perfcli.compile import session
    from perfcli.model import CompileRequest
    from perfcli.worker import protocol

    plain = json.loads(sys.argv[2])
    if plain["device"] == "cuda" and plain["target"] is None:
        _import_torch(Path(plain["cache_dir"]))
    else:
        request = protocol.decode_dataclass(CompileRequest, plain)
        keep = session.import_torch(request)
        _warm_up(request)
        session.import_torch = lambda request: keep
    for line in sys.stdin:
        folder, current, request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            os.chdir(current)
            _compile(Path(folder), request)
        status = os.waitpid(child, 0)[1]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # the processes that compiled its kernels
        print(status, flush=True)  # noqa: T201


def _import_torch(cache: Path) -> None:
    from perfcli.compile import session
    from perfcli.compile.stand_in import shim

    # torch looks for a device while it is imported: the stand-in has to be there.
    library = shim.Shim(shim.build(shim.torch_installation(), cache))
    assert library is not None
    session._import_inductor()


def _warm_up(request: Any) -> None:
    from perfcli.compile import code

    code.warm_up(request)


def _compile(folder: Path, request: dict[str, Any]) -> None:
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TMPDIR": str(folder),
        }
        tempfile.tempdir = None
        if request["device"] == "cuda":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        from perfcli.worker.child import serve

        asked = folder / "request"
        asked.write_text(json.dumps({"compile": request}) + "\n")
        replies = os.open(folder / "replies", os.O_WRONLY | os.O_CREAT)
        serve(os.open(asked, os.O_RDONLY), replies)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
