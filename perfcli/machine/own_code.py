"""Hashes perfcli's own code: runs of one hash come of the same code, wherever they are made."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import perfcli

# Parts of perfcli that can't change what a run holds.
_HARMLESS = (
    "bisect",
    "calibrate",
    "ci",
    "cluster",
    "commands",
    "console",
    "diff",
    "gate",
    "interleave",
    "measure",
    "noise",
    "reports",
    "reproduce",
    "rules",
    "search",
    "stats",
    "storing",
    "sweep",
    "workbench",
    "workflow",
    "cli.py",
    "diagnosis.py",
    "units.py",
)


@functools.cache
def hash_code() -> str:
    """Return the SHA-256 of the files of perfcli that can change what a run holds."""
    digest = hashlib.sha256(perfcli.__version__.encode())
    for path in sorted(list_code()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def list_code() -> Iterator[Path]:
    folders = [Path(perfcli.__file__).parent]
    for package in ("perfcli.kernels", "perfcli.scenarios"):
        folders += map(Path, import_module(package).__path__)
    for folder in folders:
        for path in folder.rglob("*"):
            inside = path.relative_to(folder).parts
            if path.suffix in (".py", ".cpp") and inside[0] not in _HARMLESS:
                yield path
