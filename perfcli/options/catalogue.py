"""Reads every option of an installed torch from its configuration files, without importing it.

``torch/_inductor/config.py`` and its siblings are lists of assignments; classes are prefixes.
The file is parsed, and each right-hand side is evaluated alone, among stand-ins for what the file
imports: an empty environment that remembers what was asked of it, ``is_fbcode()`` False. What
can't be evaluated that way has an unknown value, and still a name, a type and its text.
Seen with torch 2.11 to 2.15.
"""

from __future__ import annotations

import ast
import builtins
import functools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.machine._probe import find_assigned
from perfcli.options import patches

MODULES = {"": "_inductor", "dynamo.": "_dynamo", "functorch.": "_functorch"}
UNKNOWN: Any = object()
"""The value of a default that depends on more than the configuration file."""


@dataclass(frozen=True, slots=True)
class InductorOption:
    """Describes one option as a user writes it: ``triton.cudagraphs``,
    ``dynamo.recompile_limit``."""

    name: str
    type: str
    """Its annotation, or else its default's type, as Python text."""
    default: str
    """The default's expression."""
    value: Any = UNKNOWN
    """The default's value in a clean environment, or ``UNKNOWN``."""
    env: tuple[str, ...] = ()
    """Environment variables that set the default."""
    flags: tuple[str, ...] = ()
    """Those of the environment variables that take 0 or 1."""
    doc: str = ""
    note: str = ""
    """Where it comes from, if not from this torch: it is one of perfcli's patches."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Holds the options of one torch."""

    torch: str
    torch_dir: Path
    entries: Mapping[str, InductorOption]
    variables: Mapping[str, InductorOption]
    """Environment variable to the (first) option whose default it sets."""


@functools.lru_cache(maxsize=8)
def load_catalogue(torch_dir: Path) -> Catalogue:
    """Read the options of the torch in ``torch_dir`` (the package's folder), and add the patches
    that fit it. Raises PerfcliError where a configuration file is missing or can't be parsed."""
    version = find_assigned("__version__", _read(torch_dir / "version.py")) or "unknown"
    entries: dict[str, InductorOption] = {}
    for prefix, package in MODULES.items():
        path = torch_dir / package / "config.py"
        for entry in _read_config(_read(path), str(path), version):
            entries[prefix + entry.name] = replace(entry, name=prefix + entry.name)
    for patch in patches.list_fitting(version, entries).values():
        entries[patch.name] = _describe_patch(patch)
    variables: dict[str, InductorOption] = {}
    for entry in entries.values():
        for variable in entry.env:
            variables.setdefault(variable, entry)
    return Catalogue(version, torch_dir, entries, variables)


def _describe_patch(patch: patches.Patch) -> InductorOption:
    doc = f"{patch.does}\n{patch.doc}"
    return InductorOption(
        patch.name, patch.type, repr(patch.off), patch.off, doc=doc, note=patch.note
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PerfcliError(
            f"the options of torch can't be read: {path}: {error.strerror}; "
            "is torch installed completely?"
        ) from error


def _read_config(source: str, path: str = "config.py", version: str = "") -> list[InductorOption]:
    """Return the options that one configuration file defines, in its order. Raises PerfcliError
    where this Python can't parse the file."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise PerfcliError(
            f"the options of torch can't be read: {path} line {error.lineno}: {error.msg}; "
            f"run perfcli with a Python at least as new as torch's (this one is "
            f"{sys.version_info.major}.{sys.version_info.minor})"
        ) from error
    reader = _Reader(source.splitlines(), version)
    reader.visit(tree.body, "", reader.names)
    return [_resolve_alias(entry, reader.entries) for entry in reader.entries.values()]


def evaluate(name: str, default: str) -> InductorOption:
    """Return an option of which only the default's expression is known."""
    return replace(_read_config(f"option = {default}")[0], name=name)


def default_text(entry: InductorOption) -> str:
    """Return the default's value as it would be typed, or its expression where no value is
    known."""
    if entry.value is UNKNOWN:
        return entry.default
    if isinstance(entry.value, bool) or entry.value is None:
        return str(entry.value).lower()
    return repr(entry.value)


def _resolve_alias(entry: InductorOption, entries: Mapping[str, InductorOption]) -> InductorOption:
    if not isinstance(entry.value, _Config):
        return entry
    target = entries.get((entry.value.alias or "").rpartition(".config.")[2])
    if target is None or isinstance(target.value, _Config):
        return replace(entry, value=UNKNOWN)
    return replace(entry, value=target.value, type=target.type)


@dataclass(frozen=True, slots=True)
class _Config:
    """Stands in for ``torch.utils._config_module.Config``: a default and where it comes from."""

    default: Any = UNKNOWN
    alias: str | None = None
    env: tuple[str, ...] = ()

    @staticmethod
    def make(
        default: Any = UNKNOWN,
        justknob: str | None = None,
        env_name_default: str | list[str] | None = None,
        env_name_force: str | list[str] | None = None,
        alias: str | None = None,
        **others: Any,
    ) -> _Config:
        env: list[str] = []
        for names in (env_name_force, env_name_default):
            env.extend([names] if isinstance(names, str) else names or [])
        return _Config(default, alias, tuple(env))


class _Environ(dict[str, str]):
    """Stands in for the environment, and remembers what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        self.asked[name] = None
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.asked[name] = None
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked[str(name)] = None
        return super().__contains__(name)


def _stand_ins(environ: _Environ, version: str) -> dict[str, Any]:
    def tristate(name: str, default: Any = None) -> Any:
        return {"1": True, "0": False}.get(environ.get(name), default)

    return {
        "os": SimpleNamespace(environ=environ, getenv=environ.get),
        "sys": SimpleNamespace(platform=sys.platform, version_info=sys.version_info),
        "torch": SimpleNamespace(
            __version__=version, version=SimpleNamespace(hip=None, xpu=None, rocm=None)
        ),
        "Config": _Config.make,
        "is_fbcode": lambda: False,
        "get_tristate_env": tristate,
        "cast": lambda _type, value: value,
        "TYPE_CHECKING": False,
        "__builtins__": {**vars(builtins), "__import__": _no_import, "print": _no_print},
        "__name__": "config",
    }


def _no_import(name: str, *_arguments: Any, **_options: Any) -> None:
    raise ImportError(f"{name} is not imported here: this process must never load torch")


def _no_print(*_arguments: Any, **_options: Any) -> None:
    pass


@dataclass(slots=True)
class _Reader:
    lines: list[str]
    version: str
    environ: _Environ = field(default_factory=_Environ)
    names: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, InductorOption] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names.update(_stand_ins(self.environ, self.version))

    def visit(self, body: list[ast.stmt], prefix: str, scope: dict[str, Any]) -> None:
        for statement in body:
            match statement:
                case ast.FunctionDef() if not prefix:
                    self._run(ast.Module([_bare(statement)], []), scope)
                case ast.ClassDef():
                    self._class(statement, prefix)
                case ast.If():
                    self._if(statement, prefix, scope)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.annotations[prefix + name] = _annotation(statement.annotation)
                    if statement.value is not None:
                        self._option(name, statement, statement.value, prefix, scope)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    self._option(name, statement, statement.value, prefix, scope)

    def _class(self, node: ast.ClassDef, prefix: str) -> None:
        inner = f"{prefix}{node.name}."
        self.visit(node.body, inner, {})
        for parent in _inherited(node):
            for entry in [e for e in self.entries.values() if e.name.startswith(f"{parent}.")]:
                own = inner + entry.name.removeprefix(f"{parent}.")
                if not own.removeprefix(inner).startswith("_"):
                    self.entries.setdefault(own, replace(entry, name=own))

    def _if(self, node: ast.If, prefix: str, scope: dict[str, Any]) -> None:
        test, _ = self._evaluate(node.test, scope)
        if test is UNKNOWN or test:
            self.visit(node.body, prefix, scope)
        if test is UNKNOWN or not test:
            self.visit(node.orelse, prefix, scope)

    def _option(
        self, name: str, node: ast.stmt, value: ast.expr, prefix: str, scope: dict[str, Any]
    ) -> None:
        if name.startswith("__"):
            return
        result, asked = self._evaluate(value, scope)
        flags = tuple(v for v in asked if self._is_flag(v, value, scope))
        if isinstance(result, _Config) and result.alias is None:
            asked = result.env
            flags = asked if isinstance(result.default, bool) else ()
            result = result.default
        scope[name] = result
        if isinstance(result, FunctionType):  # torch takes no functions for options either
            return
        full = prefix + name
        self.entries[full] = InductorOption(
            name=full,
            type=self.annotations.get(full) or self._type(result, value, asked, scope),
            default=ast.unparse(value),
            value=result,
            env=asked,
            flags=flags,
            doc=_comment(self.lines, node),
        )

    def _evaluate(self, node: ast.expr, scope: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        self.environ.asked.clear()
        code = compile(ast.Expression(node), "config.py", "eval")
        try:
            value = eval(code, self.names, scope)
        except Exception:  # whatever torch's code raises without torch: the value is not known
            value = UNKNOWN
        return value, tuple(self.environ.asked)

    def _is_flag(self, variable: str, node: ast.expr, scope: dict[str, Any]) -> bool:
        """Return whether 0 and 1 in the variable give the two truth values."""
        seen = []
        for text in ("0", "1"):
            self.environ[variable] = text
            seen.append(self._evaluate(node, scope)[0])
        del self.environ[variable]
        return all(isinstance(value, bool) for value in seen) and seen[0] is not seen[1]

    def _type(
        self, value: Any, node: ast.expr, asked: tuple[str, ...], scope: dict[str, Any]
    ) -> str:
        """Return a type from the default; for None from what the environment variable makes of
        it."""
        if value is not None or not asked:
            return _type_of(value, node)
        self.environ[asked[0]] = "1"
        other, _ = self._evaluate(node, scope)
        del self.environ[asked[0]]
        return "Any" if other is UNKNOWN or other is None else f"{_type_of(other, node)} | None"

    def _run(self, module: ast.Module, scope: dict[str, Any]) -> None:
        exec(compile(module, "config.py", "exec"), self.names, scope)


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return the function without annotations and decorators, whose names may not exist here."""
    function.decorator_list = []
    function.returns = None
    every = function.args
    for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs):
        argument.annotation = None
    return function


def _inherited(node: ast.ClassDef) -> Iterator[str]:
    """Return the classes named by ``@inherit_fields_from(parent)``; plain inheritance copies no
    options."""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(func=ast.Name(id="inherit_fields_from"), args=[ast.Name(id=parent)]):
                yield parent


def _annotation(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node)


def _type_of(value: Any, node: ast.expr) -> str:
    if value is None:
        return "Any"
    if isinstance(value, bool | int | float | str | list | dict | set | tuple):
        return type(value).__name__
    return "bool" if isinstance(node, ast.Compare) else "Any"


_NOISE = ("type: ignore", "pyrefly:", "noqa", "[@compile_ignored")


def _comment(lines: list[str], node: ast.stmt) -> str:
    """Return the comment lines right above a statement, or else the one behind it."""
    above: list[str] = []
    number = node.lineno - 2
    while number >= 0 and lines[number].lstrip().startswith("#"):
        above.append(lines[number].lstrip().lstrip("#").removeprefix(" ").rstrip())
        number -= 1
    found = above[::-1] or [lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2]]
    return "\n".join(t for t in found if not t.startswith(_NOISE)).strip()
