"""Tells what of torch.compile a path is, by what stands in it, and has it read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.importing.sources.folders import (
    find_code,
    is_kernel,
    is_wrapper,
    name_folder,
    read_file,
    read_folder,
    read_kernels,
)
from perfcli.importing.sources.leftovers import Leftovers, is_plain
from perfcli.importing.sources.structured_log import is_log, read_logs
from perfcli.importing.sources.triton_cache import find_cubins, read_triton_cache

_MOST_LOGS = 200


def recognize_sources(path: Path) -> str:
    """Return what of torch a file or folder is, ``an output_code.py``, ``a TORCH_TRACE folder``;
    empty for all else. No file is read further than its head."""
    kind, _ = _recognize(path, None)
    return kind


def read_leftovers(path: Path, rank: int | None = None) -> Leftovers:
    """Return what was left behind at this path, by the process of this rank. Raises PerfcliError
    where it is nothing of torch, or can't be read."""
    try:
        if not path.exists():
            raise PerfcliError(f"no such file or folder: {path}")
        _, read = _recognize(path, rank)
        if read is None:
            raise PerfcliError(
                f"{path} is nothing that torch.compile leaves behind: expected a TORCH_TRACE or "
                "torch_compile_debug folder, an output_code.py, or a cache of Inductor or Triton"
            )
        return read()
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror or error}") from error


def _recognize(path: Path, rank: int | None) -> tuple[str, Callable[[], Leftovers] | None]:
    """Return what a path is, and what reads it."""
    try:
        if path.is_dir():
            return _recognize_folder(path, rank)
        if not is_plain(path):
            return "", None
    except OSError:
        return "", None
    if is_wrapper(path):
        return "an output_code.py", lambda: read_file(path)
    if is_log(path):
        return "a log of TORCH_TRACE", lambda: read_logs([path])
    if is_kernel(path):
        return "a generated kernel", lambda: read_kernels([path])
    return "", None


def _recognize_folder(folder: Path, rank: int | None) -> tuple[str, Callable[[], Leftovers] | None]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)[:_MOST_LOGS]
    logs = [folder / name for name in names if is_log(folder / name)]
    if logs:
        return "a TORCH_TRACE folder", lambda: read_logs(logs, rank)
    code = next(find_code(folder), None)
    if code is not None:
        return name_folder(code), lambda: read_folder(folder)
    if next(find_cubins(folder), None) is not None:
        return "a Triton cache folder", lambda: read_triton_cache(folder)
    return "", None
