"""What this process compiles with."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import subprocess
from pathlib import Path

from perfcli import __version__
from perfcli.model import Environment

_RELEVANT = ("TORCH", "TRITON", "PYTORCH", "CUDA_VISIBLE")
_OWN = {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS"}


def environment() -> Environment:
    import torch

    triton_dir = _triton_dir()
    return Environment(
        torch=torch.__version__,
        triton=importlib.import_module("triton").__version__ if triton_dir else None,
        python=platform.python_version(),
        ptxas=_ptxas(triton_dir) if triton_dir else None,
        platform=f"{platform.system()} {platform.machine()}",
        perfcli=__version__,
        variables={
            k: v for k, v in sorted(os.environ.items()) if k.startswith(_RELEVANT) and k not in _OWN
        },
    )


def _triton_dir() -> Path | None:
    spec = importlib.util.find_spec("triton")
    return Path(spec.origin).parent if spec and spec.origin else None


def _ptxas(triton_dir: Path) -> str | None:
    """The release of the ptxas that triton carries, ``12.8``."""
    ptxas = triton_dir / "backends" / "nvidia" / "bin" / "ptxas"
    try:
        text = subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"release ([\d.]+)", text.stdout)
    return found[1] if found else None
