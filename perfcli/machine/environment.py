"""Reads interpreters, environment variables and folders: what can change the code, without
importing it.

``probe`` asks an interpreter which torch and triton it has, by reading their files: importing
torch takes seconds and belongs in a worker.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.machine import _probe

TESTED_TORCH = ((2, 11), (2, 15))
PROBE_SECONDS = 30.0

# Variables that torch's configuration modules, Inductor, Triton and ptxas read.
_CODE_PREFIXES = (
    "TORCH",
    "PYTORCH",
    "TRITON",
    "INDUCTOR_",
    "AOT_",
    "CUTLASS_",
    "PARTITIONER_",
    "NVPTX_",
    "AMDGCN_",
    "LLVM_",
    "MLIR_",
    "ENABLE_",
    "DISABLE_",
    "PTXAS_",
)
_CODE_NAMES = frozenset(
    # CI: functorch.error_on_custom_op_aliasing depends on it.
    {"CI", "FAKE_ALLOW_META", "LOG_AUTOTUNE_RESULTS", "USE_IR_LOC"}
)
# Where a user's weights are, and what may not be used of a machine's links between GPUs, which
# workers have to know; both say nothing about code.
_HARMLESS = frozenset({"TORCH_HOME", "TORCH_SYMM_MEM_DISABLE_MULTICAST"})
# These shape code as well, but describe the machine, so workers keep them.
_MACHINE_PREFIXES = ("CUDA", "OMP_", "MKL_NUM_THREADS", "CXX", "NVCC", "PTXAS")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Describes a Python with torch, as ``probe`` found it. Directories are those of the
    packages."""

    path: str
    version: str
    """Python's, ``3.11.9``."""
    torch: str
    torch_dir: Path
    triton: str | None
    triton_dir: Path | None
    cuda: str | None
    """The CUDA version that torch was built with; None for a CPU build."""
    distributions: str
    """SHA-256 over the names and versions of all installed distributions."""

    @property
    def tools(self) -> Path | None:
        """Return where the triton wheel keeps ptxas, cuobjdump and nvdisasm."""
        return self.triton_dir / "backends" / "nvidia" / "bin" if self.triton_dir else None


def probe(python: str | None = None, *, needs_triton: bool = True) -> Interpreter:
    """Return what ``python`` (a path or a command; None: this interpreter, in process) has
    installed. Raises PerfcliError where there is no such interpreter, it doesn't start, or it has
    no torch or no triton."""
    answer = _probe.describe() if python is None else _ask(_find_python(python))
    path, torch, triton = answer["path"] or "python", answer["torch"], answer["triton"]
    if torch is None or answer["torch_dir"] is None:
        raise PerfcliError(
            f"{path} has no torch: install one there (pip install 'torch>=2.11' triton), or name "
            "an interpreter that has it with --python, --a-python or --b-python"
        )
    if triton is None and needs_triton:
        raise PerfcliError(
            f"{path} has torch {torch} but no triton, which compiles the kernels: "
            f"pip install triton there (CPU builds of torch don't bring it)"
        )
    return Interpreter(
        path=path,
        version=answer["version"] or "",
        torch=torch,
        torch_dir=Path(answer["torch_dir"]),
        triton=triton,
        triton_dir=Path(answer["triton_dir"]) if triton and answer["triton_dir"] else None,
        cuda=answer["cuda"],
        distributions=answer["distributions"] or "",
    )


def interpreter_path(python: str) -> Path:
    """Return the path of an interpreter that is given as such, or as its virtual environment."""
    path = Path(python).expanduser()
    return path / "bin" / "python" if path.is_dir() else path


def _find_python(python: str) -> str:
    """Return the absolute path of an interpreter given as path, command or virtual environment. A
    symbolic link stays one: a virtual environment is known by the place of its link. Raises
    PerfcliError where there is none."""
    found = shutil.which(interpreter_path(python))
    if found is None:
        raise PerfcliError(
            f"no Python interpreter at {python!r}: give the path of one that has torch, "
            "for example .venv/bin/python"
        )
    return os.path.abspath(found)


def _ask(python: str) -> dict[str, str | None]:
    try:
        # -P as in workers, so that both see the same sys.path.
        done = subprocess.run(
            [python, "-P", _probe.__file__],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise PerfcliError(f"{python} can't be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise PerfcliError(
            f"{python} gave no answer within {PROBE_SECONDS:.0f} s: is it a Python interpreter?"
        ) from error
    try:
        answer: dict[str, str | None] = json.loads(done.stdout)
        return {key: answer[key] for key in _probe.KEYS}
    except (ValueError, KeyError, TypeError) as error:
        raise PerfcliError(
            f"{python} is not a Python that perfcli can use: it needs Python 3.11 or newer",
            detail=(done.stderr or done.stdout)[-2000:],
        ) from error


def _tested_torch(version: str) -> bool:
    """Return whether perfcli was tested with this torch; others are tried after a warning."""
    found = re.match(r"(\d+)\.(\d+)", version)
    low, high = TESTED_TORCH
    return found is not None and low <= (int(found[1]), int(found[2])) <= high


def torch_warning(version: str) -> str:
    """Return one line about a torch outside the tested range; empty inside it."""
    if _tested_torch(version):
        return ""
    low, high = (".".join(map(str, bound)) for bound in TESTED_TORCH)
    return f"torch {version} is untested: perfcli knows {low} to {high}; trying anyway"


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can change generated code, sorted; folders of caches are left out,
    because they differ between runs and change nothing."""
    return {
        name: environ[name]
        for name in sorted(environ)
        if (_is_code_variable(name) or name.startswith(_MACHINE_PREFIXES))
        and not name.endswith("_CACHE_DIR")
    }


def clean_environment(environ: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's environment: the caller's without any variable that configures torch,
    Inductor or Triton, plus what the variant asks for."""
    kept = {name: value for name, value in environ.items() if not _is_code_variable(name)}
    return {**kept, **overrides}


def read_cpu_name(cpuinfo: str | None = None) -> str:
    """Return ``model name`` of /proc/cpuinfo, or the architecture where it has none (Arm)."""
    if cpuinfo is None:
        try:
            cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            cpuinfo = ""
    names = (
        line.partition(":")[2].strip() for line in cpuinfo.splitlines() if "model name" in line
    )
    return next(names, "") or platform.machine()


def hash_value(value: str | None) -> str:
    """Return the SHA-256 of a variable's value, which may be a secret; empty where it is not
    set."""
    return "" if value is None else hashlib.sha256(os.fsencode(value)).hexdigest()


def _is_code_variable(name: str) -> bool:
    if name in _HARMLESS:
        return False
    return name in _CODE_NAMES or name.startswith(_CODE_PREFIXES)


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the shim and compiled kernels are kept for all projects; may not exist yet:
    ``$PERFCLI_CACHE_DIR``, ``$XDG_CACHE_HOME/perfcli`` or ``~/.cache/perfcli``."""
    environ = os.environ if environ is None else environ
    if own := environ.get("PERFCLI_CACHE_DIR"):
        return Path(own).expanduser().absolute()
    xdg = environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "perfcli"


def available_memory(meminfo: Path) -> int | None:
    """Return what new processes can use, in bytes; None where the file does not say."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
