"""Describes the interpreter that runs this file, as JSON on stdout; standard library only.

``environment.probe`` runs it by path in any Python, with or without perfcli installed there. It
reads version files as text, so that it takes milliseconds where importing torch takes seconds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import sys

KEYS = ("path", "version", "torch", "torch_dir", "triton", "triton_dir", "cuda", "distributions")


def describe() -> dict[str, str | None]:
    """Return versions and folders of Python, torch and triton; None for what isn't there."""
    torch = _folder("torch")
    triton = _folder("triton")
    torch_version = _read(torch, "version.py")
    return {
        "path": sys.executable,
        "version": platform.python_version(),
        "torch": find_assigned("__version__", torch_version),
        "torch_dir": torch,
        "triton": find_assigned("__version__", _read(triton, "__init__.py")),
        "triton_dir": triton,
        "cuda": find_assigned("cuda", torch_version),
        "distributions": _distributions(),
    }


def _folder(package: str) -> str | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    # A namespace (a stray folder called torch) has no origin.
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def _read(folder: str | None, name: str) -> str:
    if folder is None:
        return ""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def find_assigned(name: str, source: str) -> str | None:
    """Return the text that ``source`` assigns to ``name`` at its top level."""
    found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", source, re.MULTILINE)
    return found[1] if found else None


def _distributions() -> str:
    names = {
        entry
        for folder in sys.path
        if os.path.isdir(folder)
        for entry in os.listdir(folder)
        if entry.endswith((".dist-info", ".egg-info"))
    }
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()))
