"""Runs a script as Python runs one: as ``__main__``, with its own arguments and import path."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.model import ScriptCommand


def load_program(script: ScriptCommand) -> Callable[[], None]:
    """Return what runs the script; from now on it is ``__main__``. Raises PerfcliError where there
    is no such file or module, UserCodeFailed for a syntax error, and what the packages of a module
    raise, which are imported to find it."""
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    if script.module:
        sys.argv = ["-m", *script.arguments]
        sys.path.insert(0, str(Path.cwd()))
        code, file, spec = _find_module(script.path)
        module.__spec__, module.__package__, module.__loader__ = spec, spec.parent, spec.loader
    else:
        path = Path(script.path)
        if not path.is_file():
            raise PerfcliError(f"there is no file {script.path}: expected path/to/script.py")
        file = script.path
        code = _compile_text(path.read_bytes(), file)
        sys.path.insert(0, str(path.resolve().parent))
    vars(module).update(__file__=file, __builtins__=__builtins__)
    sys.argv = [file, *script.arguments]

    def run() -> None:
        exec(code, vars(module))

    return run


def _compile_text(text: bytes, file: str) -> CodeType:
    try:
        return compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        shown = (getattr(error, "text", None) or "").strip()
        raise UserCodeFailed(f"{file}{line} is no Python: {reason}", detail=shown) from error


def _find_module(name: str) -> tuple[CodeType, str, Any]:
    """Return code, file and spec of a module, or of a package's ``__main__``. Its packages are
    imported for that."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
        loader: Any = spec.loader if spec is not None else None
        if spec is None or not hasattr(loader, "get_code"):
            raise PerfcliError(
                f"-m {name}: there is no such module, or a package without __main__.py"
            )
        return loader.get_code(spec.name), spec.origin or name, spec
    except ModuleNotFoundError as error:
        if not _is_part(error.name, name):
            raise  # a package of its own is there, and imports what is not
        raise PerfcliError(f"-m {name}: there is no such module ({error})") from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise UserCodeFailed(f"{place} is no Python: {error.msg}") from error


def _is_part(part: str | None, name: str) -> bool:
    """Return whether ``part`` is the module ``name``, its ``__main__``, or one of its packages."""
    return bool(part) and f"{name}.__main__.".startswith(f"{part}.")
