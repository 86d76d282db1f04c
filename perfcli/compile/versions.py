"""What this process compiles with."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform

from perfcli import __version__
from perfcli.compile.ptxas import ptxas_version
from perfcli.model import Environment, Target

_RELEVANT = ("TORCH", "TRITON", "PYTORCH", "CUDA_VISIBLE")
# Set by perfcli for each worker, or (the last two) by Inductor for itself.
_OWN = {
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "TRITON_PTXAS_PATH",
    "TORCHINDUCTOR_WORKER_START",
}


def environment(target: Target | None) -> Environment:
    import torch

    has_triton = importlib.util.find_spec("triton") is not None
    return Environment(
        torch=torch.__version__,
        triton=importlib.import_module("triton").__version__ if has_triton else None,
        python=platform.python_version(),
        ptxas=ptxas_version(target) if has_triton and target else None,
        platform=f"{platform.system()} {platform.machine()}",
        perfcli=__version__,
        variables={
            k: v for k, v in sorted(os.environ.items()) if k.startswith(_RELEVANT) and k not in _OWN
        },
    )
