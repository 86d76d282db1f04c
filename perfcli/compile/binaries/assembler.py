"""Runs ptxas, NVIDIA's assembler: which one, and for how long.

Most kernels are assembled in less than a second, a few take minutes. One that takes too long is
given up, so that everything else is finished.
"""

from __future__ import annotations

import functools
import os
import re
import select
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfcli.model import TOO_SLOW, Target

_SECONDS = 120.0
"""The time that one launch configuration gets, unless ``_VARIABLE`` says otherwise."""

_VARIABLE = "PERFCLI_PTXAS_SECONDS"
_NEXT = 0.25
"""The part of that time that further configurations of a kernel get once one was given up."""

_PATIENCE_SECONDS = 30.0


def select_ptxas() -> None:
    """Choose ptxas as Inductor does: some CUDA builds carry a newer one than triton's (2.11.0+cu130
    and 2.12.1 have 13.0 against 12.8; from 2.13 on there is none)."""
    from torch._inductor.runtime import compile_tasks

    choose = getattr(compile_tasks, "_set_triton_ptxas_path", None)
    if choose is not None:
        choose()


def look_up_release(target: Target) -> None:
    """Have Triton look up the release of its own ptxas, which it keeps, and finds binaries by, even
    if Inductor chooses another ptxas later. Where Inductor generates code, Triton does so before
    that choice; processes that are forked earlier would name the same binaries differently, and
    each kernel would be compiled twice (2.11.0+cu130)."""
    with suppress(Exception):  # another triton
        from triton.backends.nvidia.compiler import get_ptxas_version

        get_ptxas_version(target.capability_number)


def ptxas_version(target: Target) -> str | None:
    """Return the release that triton will run for the target, such as ``13.0``, or None where it
    can't be told.

    Seen with triton 3.6 to 3.9 (``backends.nvidia.compiler.get_ptxas``).
    """
    return version_for(target.capability_number)


@functools.cache
def version_for(capability: int) -> str | None:
    select_ptxas()
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        tool: Any = get_ptxas(capability)
        return _release(Path(tool.path))
    except Exception:  # another triton: the run says "unknown", nothing else depends on it
        return None


def _release(ptxas: Path) -> str | None:
    text = subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"release ([\d.]+)", text.stdout)
    return found[1] if found else None


def allowed_seconds() -> float:
    """Return how long the assembler may take for one launch configuration of a kernel."""
    try:
        seconds = float(os.environ.get(_VARIABLE, ""))
    except ValueError:
        return _SECONDS
    return seconds if seconds > 0 else _SECONDS


class AssemblerTooSlow(Exception):
    """Says that the assembler was ended because it took too long."""


class Assembler:
    """Stands in for the ``subprocess`` module where Triton runs the assembler: it ends one that
    takes longer than ``seconds`` (None: ``allowed_seconds``), and tells of one that takes long."""

    def __init__(self, seconds: float | None = None, patience: float = _PATIENCE_SECONDS) -> None:
        self._seconds, self._patience = seconds, patience
        self._kernel = self._config = ""
        self._gave_up = set[str]()
        self.tell: Callable[[str], None] = lambda text: None
        """A function that hears of kernels that take long."""

    def install(self) -> None:
        """Let Triton run the assembler through this object, for the rest of this process.

        Seen with triton 3.6 to 3.9: ``CUDABackend.make_cubin`` calls ``subprocess.run``.
        """
        from triton.backends.nvidia import compiler

        if hasattr(compiler, "subprocess"):
            compiler.subprocess = self

    def begin(self, kernel: str, config: str = "") -> None:
        """Say what is assembled next."""
        self._kernel, self._config = kernel, config

    def run(
        self, command: Sequence[str], *, check: bool = False, **others: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as ``subprocess.run`` does. Raises AssemblerTooSlow as well."""
        limit = (self._seconds or allowed_seconds()) * (
            _NEXT if self._kernel in self._gave_up else 1
        )
        with subprocess.Popen(command, **others) as process:
            try:
                code = self._wait(process, limit)
            except BaseException:
                process.kill()
                raise
        if check and code:
            raise subprocess.CalledProcessError(code, command)
        return subprocess.CompletedProcess(command, code)

    def _wait(self, process: subprocess.Popen[Any], limit: float) -> int:
        patience = min(self._patience, limit)
        if not _has_ended(process, patience):
            if patience < limit:
                self.tell(
                    f"ptxas has been assembling {self._kernel} for {patience:g} s"
                    f"{self._describe()}; it is given up after {limit:g} s"
                )
            if not _has_ended(process, limit - patience):
                self._gave_up.add(self._kernel)
                text = f"{TOO_SLOW} {limit:g} s"
                self.tell(f"{text} and was stopped: {self._kernel}{self._describe()} is given up")
                raise AssemblerTooSlow(text)
        return process.wait()

    def _describe(self) -> str:
        return f" ({self._config})" if self._config else ""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)


def _has_ended(process: subprocess.Popen[Any], seconds: float) -> bool:
    """Return whether the process ends within so many seconds."""
    try:
        pid = os.pidfd_open(process.pid)
    except OSError:  # an old kernel, or a sandbox: look every now and then
        try:
            process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return False
        return True
    try:
        return bool(select.select([pid], [], [], max(seconds, 0))[0])
    finally:
        os.close(pid)
