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
    """Return what runs the script; from now on it is ``__main__``.

    Raises PerfcliError where there is no such file or module, UserCodeFailed for a syntax error.
    """
    module = ModuleType("__main__")
    if script.module:
        code, file, spec = _find_module(script.path)
        folder = str(Path.cwd())
        module.__spec__, module.__package__, module.__loader__ = spec, spec.parent, spec.loader
    else:
        path = Path(script.path)
        if not path.is_file():
            raise PerfcliError(f"there is no file {script.path}: expected path/to/script.py")
        file, folder = script.path, str(path.resolve().parent)
        code = _compile_text(path.read_bytes(), file)
    vars(module).update(__file__=file, __builtins__=__builtins__)
    sys.argv = [file, *script.arguments]
    sys.path.insert(0, folder)
    sys.modules["__main__"] = module

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
    """Return code, file and spec of a module, or of a package's ``__main__``."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise PerfcliError(f"-m {name}: there is no such module ({error})") from error
    finally:
        del sys.path[0]
    if spec is None or not hasattr(spec.loader, "get_code"):
        raise PerfcliError(f"-m {name}: there is no such module, or a package without __main__.py")
    loader: Any = spec.loader
    try:
        code = loader.get_code(spec.name)
    except SyntaxError as error:
        raise UserCodeFailed(f"{spec.origin}:{error.lineno} is no Python: {error.msg}") from error
    return code, spec.origin or name, spec
