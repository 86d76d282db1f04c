"""Puts options in force in somebody's program, as torch's configuration is imported there.

Loaded by a ``sitecustomize.py`` that ``perfcli apply`` puts first on PYTHONPATH, in every Python
that the program starts: until ``begin`` it must cost nothing, and it imports perfcli for patches
alone.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

CONFIGS = {
    "dynamo.": "torch._dynamo.config",
    "functorch.": "torch._functorch.config",
    "": "torch._inductor.config",
}
"""The modules of options by the prefix of their names; the last one has all others."""
COMPILES = "torch._inductor.compile_fx"
"""Imported before anything is compiled, and after all that patches change."""
SETTINGS, MARK = "settings.json", "applied-"


def begin(folder: str) -> None:
    """Put in force what ``settings.json`` in the folder says: ``options`` of torch and ``patches``.
    Then run the ``sitecustomize`` that this one stands before."""
    sys.path[:] = [each for each in sys.path if each != folder]
    settings = json.loads(Path(folder, SETTINGS).read_text(encoding="utf-8"))
    sys.meta_path.insert(0, _Applying(folder, settings["options"], settings["patches"]))
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Applying:
    """A finder that has more done after some modules than their own code."""

    def __init__(self, folder: str, options: Mapping[str, Any], patches: Mapping[str, Any]) -> None:
        self._folder = folder
        self._patches = patches
        self._options: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            prefix = next(prefix for prefix in CONFIGS if name.startswith(prefix))
            own = self._options.setdefault(CONFIGS[prefix], {})
            own[name.removeprefix(prefix)] = value

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        then: Callable[[ModuleType], None] | None = None
        if name in self._options:
            then = self._configure
        elif name == COMPILES and self._patches:
            then = self._patch
        if then is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            _follow(spec.loader, then)
        return spec

    def _configure(self, module: Any) -> None:
        for name, value in self._options[module.__name__].items():
            if name in module._config:
                setattr(module, name, value)
            else:
                sys.stderr.write(f"perfcli apply: this torch has no option {name}: left out\n")
        self._note()

    def _patch(self, module: ModuleType) -> None:
        _load_perfcli()
        from perfcli.compile.patches.installed import install

        for name, value in self._patches.items():
            install(name, value)
        self._note()

    def _note(self) -> None:
        """Say that this process has the options."""
        Path(self._folder, f"{MARK}{os.getpid()}").touch()


def _follow(loader: Any, then: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        then(module)

    loader.exec_module = exec_module


def _load_perfcli() -> None:
    """Import this very perfcli, and nothing else of the packages beside it."""
    if "perfcli" in sys.modules:
        return
    package = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "perfcli", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["perfcli"] = module
    spec.loader.exec_module(module)
