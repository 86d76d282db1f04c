"""The torch side of a family, and the family itself, in a worker."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from perfcli import registry
from perfcli.errors import PerfcliError
from perfcli.model import KernelFamily

NEEDED = ("inputs", "reference", "run", "eager", "function")


def family(reference: str) -> KernelFamily:
    """A shipped family by name, or a user's by path."""
    return registry.family(reference)


def code(module: str, reference: str = "") -> Any:
    """The module that a family names, a ``FamilyCode``. ``reference``: the family's own file where
    it is a user's, whose folder the module is looked for in.

    Raises:
        PerfcliError: there is no such module, or a function of it is missing.
    """
    if reference.endswith(".py"):
        folder = str(Path(reference).resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise PerfcliError(
            f"there is no module {module}, which the kernel family names as its code"
        ) from error
    missing = [name for name in NEEDED if not callable(getattr(found, name, None))]
    if missing:
        raise PerfcliError(f"{module} lacks {' and '.join(missing)}, which a kernel family needs")
    return found
