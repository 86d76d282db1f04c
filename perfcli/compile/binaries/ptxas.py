"""Chooses the ptxas that turns PTX into machine code: registers and spills depend on its
version."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

from perfcli.model import Target


def select_ptxas() -> None:
    """Choose ptxas as Inductor does: some CUDA builds carry a newer one than triton's (2.11.0+cu130
    and 2.12.1 have 13.0 against 12.8; from 2.13 on there is none)."""
    from torch._inductor.runtime import compile_tasks

    choose = getattr(compile_tasks, "_set_triton_ptxas_path", None)
    if choose is not None:
        choose()


def ptxas_version(target: Target) -> str | None:
    """Return the release that triton will run for the target, such as ``13.0``, or None where it
    can't be told.

    Seen with triton 3.6 to 3.9 (``backends.nvidia.compiler.get_ptxas``).
    """
    return version_for(target.capability[0] * 10 + target.capability[1])


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
