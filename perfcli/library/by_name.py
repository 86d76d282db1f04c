"""Decides which modules' code the worker imports by name, and which is sent to it."""

from __future__ import annotations

import contextlib
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class Senders:
    """Modules by how they are sent. ``asked``: names of those that are to be sent whole."""

    def __init__(self, asked: frozenset[str] = frozenset()) -> None:
        self._asked = asked
        self._known: dict[str, bool] = {}

    def sent_whole(self, name: str | None) -> bool:
        """Return whether what this module has is sent by value: it was asked for, or the worker
        can't import it."""
        module = sys.modules.get(name or "")
        if name is None or module is None:
            return False
        if name not in self._known:
            self._known[name] = name in self._asked or not _importable(name, module)
        return self._known[name]

    def by_name(self, value: Any) -> bool:
        """Return whether the worker finds this very object where its names say."""
        name = getattr(value, "__module__", None)
        if name not in sys.modules or self.sent_whole(name):
            return False
        found: Any = sys.modules[name]
        for part in getattr(value, "__qualname__", "").split("."):
            found = getattr(found, part, None)
        return found is value

    @contextlib.contextmanager
    def registered(self, cloudpickle: Any) -> Iterator[Registry]:
        """Tell cloudpickle of modules that are sent whole, and undo that afterwards."""
        registry = Registry(self, cloudpickle)
        try:
            yield registry
        finally:
            registry.clear()


class Registry:
    def __init__(self, senders: Senders, cloudpickle: Any) -> None:
        self._senders = senders
        self._cloudpickle = cloudpickle
        self._before = set(cloudpickle.list_registry_pickle_by_value())
        self._added: dict[str, ModuleType] = {}

    def meet(self, name: str | None) -> None:
        """Note that something of this module is to be sent."""
        if name is None or name in self._before or name in self._added:
            return
        if name != "__main__" and self._senders.sent_whole(name):
            self._added[name] = sys.modules[name]
            self._cloudpickle.register_pickle_by_value(sys.modules[name])

    def clear(self) -> None:
        for module in self._added.values():
            self._cloudpickle.unregister_pickle_by_value(module)
        self._added.clear()


def _importable(name: str, module: ModuleType) -> bool:
    """Return whether the worker finds the same file under this name.

    Installed packages are taken for granted: it runs the same interpreter.
    """
    file = getattr(module, "__file__", None)
    if name == "__main__":
        return False
    if name.partition(".")[0] == "perfcli":
        return True  # the worker runs this very one
    folders = getattr(module, "__path__", None)
    if (not file and folders is None) or (file and _is_installed(Path(file).resolve())):
        return True
    package, _, _ = name.rpartition(".")
    if package and package not in sys.modules:
        return False
    try:
        spec = _found(name, package)
    except (ImportError, AttributeError, ValueError):
        return False
    if spec is None or not (_same_file(spec, file) if file else _same_folders(spec, folders)):
        return False
    return not package or _importable(package, sys.modules[package])


def _same_file(spec: ModuleSpec, file: str) -> bool:
    return spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


def _same_folders(spec: ModuleSpec, folders: Any) -> bool:
    """Return whether a package without a file of its own, as pytest makes one for test modules, is
    the same in the worker."""
    found = {Path(folder).resolve() for folder in spec.submodule_search_locations or ()}
    return found >= {Path(folder).resolve() for folder in folders}


def _found(name: str, package: str) -> ModuleSpec | None:
    """Return what importing this name would find.

    ``importlib.util.find_spec`` alone would say what the loaded module says of itself.
    """
    folders = getattr(sys.modules[package], "__path__", None) if package else None
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, folders) if find else None
        if spec is not None:
            return spec
    return None


def _is_installed(path: Path) -> bool:
    roots = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return any(path.is_relative_to(Path(root).resolve()) for root in roots)
