"""Writes the source of kernels whose number of arguments is chosen at run time, then imports it.

A ``@triton.jit`` function has a fixed number of parameters, and tuples of tensor descriptors
compile but cannot be launched (triton 3.6 and 3.7 expand descriptors at the top level of the
signature only). Triton reads a function's source from its file, so the text goes into one, below
Triton's own cache, under a name made of its content.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def import_written(name: str, source: str) -> ModuleType:
    """Return the module with this source: written once, imported once per process."""
    unique = f"perfcli_{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    if unique in sys.modules:
        return sys.modules[unique]
    path = _folder() / f"{unique}.py"
    if not path.is_file():
        _write_at_once(path, source)
    spec = spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[unique] = module
    return module


def _folder() -> Path:
    import triton

    folder = Path(triton.knobs.cache.dir) / "perfcli"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_at_once(path: Path, source: str) -> None:
    """Write the file whole: another process may write the same file at the same time."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(source)
    os.replace(file.name, path)
