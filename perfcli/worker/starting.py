"""Says what a worker is started with: its command and its environment variables.

Imports little: a command starts its first worker before it has imported itself (``import_ahead``).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfcli.machine.environment import clean_environment

if TYPE_CHECKING:
    from perfcli.model import CompileRequest

Use: TypeAlias = Literal["compile", "measure"]
"""What workers do. Where a GPU is stood in for, nothing can be measured."""

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
PARENT = "PERFCLI_PARENT"
FIXED_LAYOUT = "PERFCLI_FIXED_LAYOUT"
"""Set for a worker that is to run without address space randomisation."""
IMPORTS = "PERFCLI_IMPORTS"
"""Set to a worker's use where it imports what it needs for that before it reads what to do."""
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"

KEEP_MEMORY: Mapping[str, str] = {
    # glibc keeps what is freed, as a process that has run for long does: no page faults in steps.
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
_MEASURING = {**KEEP_MEMORY, FIXED_LAYOUT: "1"}
_COMPILING = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # Inductor orders some sets by hash: the same input must give the same code.
    "PYTHONHASHSEED": "0",
}
_IMPORT_VARIABLES = (
    "PYTHON", "LD_", "DYLD_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "MALLOC_",
    "GLIBC_", "CUDA", "NVIDIA", "LC_", "LANG",
)  # fmt: skip
"""How the variables begin that a process reads when it starts, or when it imports torch."""


def list_command(python: str | None, requests: int, replies: int) -> list[str]:
    """Return what starts a worker that reads and replies at two descriptors."""
    command = [python or sys.executable, "-P", "-X", "faulthandler"]
    # torch says so where there is no NumPy; nothing here needs it.
    command += ["-W", "ignore:Failed to initialize NumPy", str(BOOTSTRAP)]
    return [*command, str(requests), str(replies)]


def list_import_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process reads when it starts, or when it imports torch."""
    return {k: v for k, v in environment.items() if k.startswith(_IMPORT_VARIABLES)}


def make_import_environment(use: Use) -> dict[str, str]:
    """Return the variables with which torch is imported on a machine with a GPU."""
    # Compiled as if it were not here.
    own = _MEASURING if use == "measure" else {VISIBLE_GPUS: ""}
    return clean_environment(os.environ, {**_COMPILING, **own})


def find_kept_folder() -> Path:
    """Return the folder, which only this user can enter, of what ``perfcli warm`` keeps. A socket's
    path has to be short."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    above = Path(runtime) if os.path.isabs(runtime) else Path(tempfile.gettempdir())
    return above / f"perfcli-warm-{os.geteuid()}"


def find_triton_cache(request: CompileRequest) -> Path:
    """Return the folder in which Triton keeps binaries for who measures them, and for the next
    command; it finds them by all that decides them."""
    return Path(request.cache_dir) / "triton"


def worker_environment(
    request: CompileRequest, folder: Path, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the caller's environment without its torch settings, with caches in ``folder``, what
    the variant asks for, and ``own``."""
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(
            find_triton_cache(request) if request.measured else folder / "triton"
        ),
        **_COMPILING,
        "TMPDIR": str(folder),
        **(own or {}),
    }
    if request.device == "cuda" and not request.on_device:
        private[VISIBLE_GPUS] = ""  # compiled as if it were not here
    return clean_environment(os.environ, {**private, **request.variant.env})


def measuring_environment(
    request: CompileRequest, threads: int | None, folder: Path, caches: Path
) -> dict[str, str]:
    """Return a worker's environment. ``threads``: as in ``MeasureRequest``; ``folder``: its own;
    ``caches``: as of ``Starter``."""
    own = {
        **_MEASURING,
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(find_triton_cache(request)),
    }
    if threads is not None:
        own["OMP_NUM_THREADS"] = str(threads)
    return worker_environment(request, folder, own)
