"""Keeps on disk what the C++ compiler has to do before the first kernel of the CPU.

Inductor compiles six small programs to learn which vector instructions there are, and the header
that all kernels include, in each process whose own caches are empty, as those of a worker are: some
18 s of 25 s for one kernel on an x86 with AVX-512. Seen with torch 2.13.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from perfcli.storing.whole import write_whole

_UNFINISHED = b"gpcWrite"
"""How a precompiled header begins until gcc has written all of it (gcc/c-family/c-pch.cc)."""


def keep_cpp_work(cache_dir: str) -> None:
    """Let Inductor believe, for the rest of this process, what a process with the same compiler,
    flags and torch has found to work, and take the headers that it has compiled. A torch that does
    otherwise does so as before."""
    if not cache_dir:
        return
    with suppress(ImportError, AttributeError):
        _keep_probes(Path(cache_dir) / "vectors")
    with suppress(ImportError, AttributeError, OSError):
        _keep_headers(Path(cache_dir) / "headers")


def _keep_probes(folder: Path) -> None:
    import torch

    probes = importlib.import_module("torch._inductor.cpu_vec_isa")
    builder = importlib.import_module("torch._inductor.cpp_builder")
    probe, fingerprint = probes.VecISA.check_build, probes._get_isa_dry_compile_fingerprint
    compiler = builder.get_cpp_compiler

    def describe(flags: str) -> str:
        place = f"{compiler()} {torch.__file__} {platform.machine()}"
        return f"{place} {fingerprint(flags)}"

    probes.VecISA.check_build = _keep(probe, describe, folder)


def _keep_headers(folder: Path) -> None:
    """Have headers compiled into this folder instead of the temporary one, which a worker has for
    itself. Inductor names them by compiler, flags and all that they include, and locks them, so
    that processes can share them. Raises AttributeError where torch does not do so, and OSError
    where nothing can be written there."""
    codecache: Any = importlib.import_module("torch._inductor.codecache")
    precompile, _ = codecache._precompile_header, codecache._HEADER_DIR
    locks = Path(codecache._HEADER_LOCK_DIR).name
    (folder / locks).mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK) or not os.access(folder / locks, os.W_OK):
        raise PermissionError(folder)
    codecache._HEADER_DIR = str(folder)
    codecache._HEADER_LOCK_DIR = str(folder / locks)
    codecache._precompile_header = _finish(precompile)


def _finish(precompile: Callable[..., str]) -> Callable[..., str]:
    """Return what compiles a header again that a process left unfinished when it was killed: gcc
    passes over it, and reads the text instead, for each kernel."""

    def precompile_header(*args: Any, **kwargs: Any) -> str:
        header = precompile(*args, **kwargs)
        compiled = Path(f"{header}.gch")
        with suppress(OSError):
            with compiled.open("rb") as opened:
                begins = opened.read(len(_UNFINISHED))
            if _UNFINISHED.startswith(begins):  # or nothing is written yet
                compiled.unlink()
                return precompile(*args, **kwargs)
        return header

    return precompile_header


def _keep(
    probe: Callable[[Any, str], bool], describe: Callable[[str], str], folder: Path
) -> Callable[[Any, str], bool]:
    """Return a probe that is not made where it succeeded before, nor twice at the same time. One
    that failed may have run out of time or memory: it is made again."""

    def check_build(isa: Any, code: str) -> bool:
        text = f"{describe(isa.build_arch_flags())}\0{code}"
        kept = folder / hashlib.sha256(text.encode()).hexdigest()
        with _alone(kept.with_suffix(".lock")):
            if kept.exists():
                return True
            works = probe(isa, code)
            if works:
                with suppress(OSError):
                    write_whole(kept, b"")
            return works

    return check_build


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait for whoever has the lock; where there can be none, for nobody."""
    with ExitStack() as stack:
        with suppress(OSError):
            lock.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(lock.open("w")), fcntl.LOCK_EX)
        yield
