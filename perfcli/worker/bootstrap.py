"""Starts a worker in any interpreter: makes this very perfcli importable there, and nothing else
of this interpreter's packages. Run as a file: ``python -P bootstrap.py REQUEST_FD REPLY_FD``."""

import ctypes
import importlib.util
import os
import select
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def _load_perfcli() -> None:
    package = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "perfcli", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"perfcli cannot be loaded from {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["perfcli"] = module
    spec.loader.exec_module(module)


def _keep_bytecode() -> None:
    """Keep bytecode in perfcli's own cache where torch has none beside its files and may get none:
    many images set PYTHONDONTWRITEBYTECODE, and importing torch then takes 11 s instead of 3
    (torch 2.11, Python 3.12, the host of an H200, 2026-11-23). Another process that may write, and
    imports torch alone, leaves none beside Inductor's files, which are the most: those decide."""
    from perfcli.machine.environment import cache_dir

    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None or sys.pycache_prefix is not None:
        return
    inductor = Path(torch.origin).parent / "_inductor" / "compile_fx.py"
    source = inductor if inductor.exists() else Path(torch.origin)
    beside = Path(importlib.util.cache_from_source(str(source)))
    stays_without = sys.dont_write_bytecode or not os.access(beside.parent.parent, os.W_OK)
    if stays_without and not beside.exists():
        sys.pycache_prefix = str(cache_dir() / "bytecode")
        sys.dont_write_bytecode = False


def _fix_layout() -> None:
    """Start this process once more with the same address space layout each time. Two processes of
    the same code in different layouts differ by 1 to 4 % in speed, as long as they live (seen on a
    2-core AMD EPYC, 2026-11-21). Where the system forbids it, or the descriptors (``ulimit -n``),
    the layout stays random."""
    if os.environ.pop("PERFCLI_FIXED_LAYOUT", "") != "1":
        return
    inherited = [int(number) for number in sys.argv[1:]]
    # The arguments lie on the stack: they have to be as long in every worker.
    if not _renumber(inherited):
        return
    libc = ctypes.CDLL(None)
    now = libc.personality(_ASK)
    if now < 0 or libc.personality(now | _NO_RANDOMIZE) < 0:
        _close(_DESCRIPTORS)
        return
    _close(inherited)
    arguments = [*sys.orig_argv[1:-2], *map(str, _DESCRIPTORS)]
    os.execv(sys.executable, [sys.executable, *arguments])


def _renumber(inherited: list[int]) -> bool:
    """Return whether both descriptors are to be had under their own and the chosen number, or only
    under their own."""
    for done, (old, new) in enumerate(zip(inherited, _DESCRIPTORS, strict=True)):
        try:
            os.dup2(old, new, inheritable=True)
        except OSError:
            _close(_DESCRIPTORS[:done])
            return False
    return True


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def watch_parent() -> None:
    """Start a process that kills this one, and all that it starts, once the parent is gone: a
    parent that is killed can't do it. It is no child of this process, which may wait for any."""
    parent = int(os.environ.pop("PERFCLI_PARENT", "0"))
    if not parent:
        return
    try:
        watched = os.pidfd_open(parent)
    except ProcessLookupError:
        raise SystemExit(1) from None
    except (OSError, AttributeError):
        return  # a system without it: what was begun is finished first
    between = os.fork()
    if between:
        os.close(watched)
        os.waitpid(between, 0)
        return
    if os.fork():
        os._exit(0)
    _close(number for number in map(int, sys.argv[1:]) if number != watched)
    select.select([watched], [], [])
    os.killpg(0, signal.SIGKILL)


# From Linux' sys/personality.h.
_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF
_DESCRIPTORS = (900, 901)

if __name__ == "__main__":
    _fix_layout()
    watch_parent()
    _load_perfcli()
    _keep_bytecode()
    from perfcli.worker.child import serve

    raise SystemExit(serve(int(sys.argv[1]), int(sys.argv[2]), watch_parent))
