"""Builds and loads ``shim.cpp``: torch's C++ questions to a CUDA device, answered without one.

Seen with torch 2.11 to 2.15, CPU and CUDA builds, g++ 12. The library is built once per torch
version and source text into the cache folder. The order matters: ``load`` before ``import torch``
(the hooks are looked up once), ``install`` after it (a CUDA build overwrites the guard).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import CompileFailed, PerfcliError
from perfcli.storing.whole import write_whole

MAX_DIMS = 8
SOURCE = Path(__file__).with_name("shim.cpp")


class TensorArgument(ctypes.Structure):
    """Mirrors ``PerfcliTensor`` of shim.cpp; negative sizes and strides are symbolic."""

    _fields_ = [
        ("defined", ctypes.c_int64),
        ("ndim", ctypes.c_int64),
        ("dtype", ctypes.c_int64),
        ("requires_grad", ctypes.c_int64),
        ("nested", ctypes.c_int64),
        ("storage_offset", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * MAX_DIMS),
        ("strides", ctypes.c_int64 * MAX_DIMS),
    ]


class AttentionArguments(ctypes.Structure):
    """Mirrors ``PerfcliAttention`` of shim.cpp: the arguments of one
    scaled_dot_product_attention."""

    _fields_ = [
        ("query", TensorArgument),
        ("key", TensorArgument),
        ("value", TensorArgument),
        ("mask", TensorArgument),
        ("dropout_p", ctypes.c_double),
        ("is_causal", ctypes.c_int64),
        ("enable_gqa", ctypes.c_int64),
    ]


_CHOOSER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(AttentionArguments))


@dataclass(frozen=True, slots=True)
class TorchInstallation:
    """Says where torch lies and what it is, read without importing it."""

    folder: Path
    version: str


def torch_installation() -> TorchInstallation:
    """Return the torch that ``import torch`` would load. Raises ``PerfcliError`` where there is
    none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise PerfcliError("torch is not installed for this interpreter: pip install torch triton")
    folder = Path(spec.submodule_search_locations[0])
    found = re.search(r"__version__ = '([^']+)'", (folder / "version.py").read_text())
    return TorchInstallation(folder, found[1] if found else "unknown")


def compiler() -> str | None:
    """Return the C++ compiler to use: ``$CXX``, else the first of g++, c++, clang++ on the path."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    return next((found for name in names if (found := shutil.which(name))), None)


def library_path(torch: TorchInstallation, cache_dir: Path) -> Path:
    """Return where the built shim of this torch lies, whether or not it exists yet."""
    content = SOURCE.read_bytes() + torch.version.encode() + str(torch.folder).encode()
    return cache_dir / "shim" / f"{torch.version}-{hashlib.sha256(content).hexdigest()[:12]}.so"


def build(torch: TorchInstallation, cache_dir: Path) -> Path:
    """Build the shim where it is missing and return its path (about 2 s, once per torch). Raises
    ``CompileFailed`` without a compiler, or with the compiler's output where it refuses."""
    path = library_path(torch, cache_dir)
    if _is_whole(path):
        return path
    cxx = compiler()
    if cxx is None:
        raise CompileFailed(
            "compiling for a GPU that is not here needs a C++ compiler, and none of $CXX, g++, "
            "c++, clang++ was found: install one (apt-get install g++) or set CXX"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".so")
        os.close(handle)
    except OSError as error:
        raise PerfcliError(
            f"the cache folder {cache_dir} cannot be written ({error.strerror}): "
            "set PERFCLI_CACHE_DIR to one that can"
        ) from error
    command = [cxx, "-std=c++20", "-O1", "-shared", "-fPIC", str(SOURCE), "-o", temporary]
    command += [f"-I{torch.folder / 'include'}", f"-L{torch.folder / 'lib'}"]
    command += [f"-Wl,-rpath,{torch.folder / 'lib'}", "-lc10", "-ltorch_cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        Path(temporary).unlink(missing_ok=True)
        raise CompileFailed(
            f"{cxx} cannot build the device shim for torch {torch.version} "
            "(tested: 2.11 to 2.15; a C++20 compiler is needed)",
            detail=done.stderr[-4000:],
        )
    try:
        _keep(Path(temporary), path)
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error
    return path


def _is_whole(path: Path) -> bool:
    """Return whether the library is what was built: one that was cut off, or that a power cut left
    empty, crashes the process that loads it."""
    try:
        digest = _digest_file(path).read_text(encoding="ascii").strip()
        return digest == hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return False


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _keep(built: Path, path: Path) -> None:
    """Put the library into its place, then its digest: where something comes in between, it is
    built anew. Others may share the cache, so that they may read both."""
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    built.chmod(0o755)
    os.replace(built, path)
    write_whole(_digest_file(path), f"{digest}\n".encode())


class Shim:
    """Holds the loaded library. Keep it alive: torch calls into it."""

    def __init__(self, path: Path) -> None:
        try:
            # Globally: loaded locally, libtorch aborts in free() with the libstdc++ of gcc 13.
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CompileFailed(f"the device shim does not load: {error}") from error
        self._chooser: object = None

    def install(self, choose: Callable[[AttentionArguments], int], cudnn_version: int) -> None:
        """Register the device guard and the chooser of attention backends."""
        self._chooser = chooser = _CHOOSER(lambda arguments: choose(arguments.contents))
        self._library.perfcli_install.argtypes = [_CHOOSER, ctypes.c_int64]
        self._library.perfcli_install.restype = None
        self._library.perfcli_install(chooser, cudnn_version)

    def start_engine_without_threads(self) -> None:
        """Start autograd's engine without a thread for the device, in a process that was just
        forked, so that this process can be forked once more. The engine is set up anew with the
        first backward pass after a fork; from then on backward passes need
        ``set_multithreading_enabled(False)``."""
        self._library.perfcli_devices_of_the_engine.argtypes = [ctypes.c_int64]
        self._library.perfcli_devices_of_the_engine.restype = None
        self._library.perfcli_devices_of_the_engine(0)
        try:
            # On a thread of its own no mode is active, whatever this one is in the middle of.
            passing = threading.Thread(target=_backward_pass)
            passing.start()
            passing.join()
        finally:
            # Streams are looked up by the number of devices, in every pass.
            self._library.perfcli_devices_of_the_engine(1)


def _backward_pass() -> None:
    import torch

    torch.ones((), requires_grad=True).backward()
