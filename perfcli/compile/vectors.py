"""Keeps on disk which vector instructions the C++ compiler can use, for kernels of the CPU.

Inductor compiles six small programs to learn it, in each process whose own cache is empty, as that
of a worker is: some 9 s of 15 s for one kernel on an x86 with AVX-512. Seen with torch 2.13.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfcli.storing.whole import write_whole


def keep_probes(cache_dir: str) -> None:
    """Let Inductor believe, for the rest of this process, what a process with the same compiler,
    flags and torch has found to work. A torch that asks otherwise asks as before."""
    import torch

    try:
        probes = importlib.import_module("torch._inductor.cpu_vec_isa")
        builder = importlib.import_module("torch._inductor.cpp_builder")
        probe, fingerprint = probes.VecISA.check_build, probes._get_isa_dry_compile_fingerprint
        compiler = builder.get_cpp_compiler
    except (ImportError, AttributeError):
        return

    def describe(flags: str) -> str:
        place = f"{compiler()} {torch.__file__} {platform.machine()}"
        return f"{place} {fingerprint(flags)}"

    if cache_dir:
        probes.VecISA.check_build = _keep(probe, describe, Path(cache_dir) / "vectors")


def _keep(
    probe: Callable[[Any, str], bool], describe: Callable[[str], str], folder: Path
) -> Callable[[Any, str], bool]:
    """Return a probe that is not made where it succeeded before. One that failed may have run out
    of time or memory: it is made again."""

    def check_build(isa: Any, code: str) -> bool:
        text = f"{describe(isa.build_arch_flags())}\0{code}"
        kept = folder / hashlib.sha256(text.encode()).hexdigest()
        if kept.exists():
            return True
        works = probe(isa, code)
        if works:
            with suppress(OSError):
                write_whole(kept, b"")
        return works

    return check_build
