"""The baseline's file: all checks, sorted; read and written whole."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

from perfcli.errors import NotComparable, PerfcliError
from perfcli.gate.baseline import reading
from perfcli.gate.baseline.reading import BaselineEntry, Made
from perfcli.options.files import quote

Value: TypeAlias = Any
"""bool, int, float, str, or lists and tables of these."""

FORMAT = 1
"""Of the file; it grows when a field changes its meaning or goes.

1  first version
"""

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _pairs(values: Mapping[str, Value]) -> Iterator[str]:
    """Yield ``key = value`` lines."""
    for name, value in values.items():
        yield f"{_key(name)} = {_outer(value)}"


def _header(*path: str, many: bool = False) -> str:
    """Return ``[checks."norm@h100"]``; with ``many`` it is one of several tables of that name."""
    name = ".".join(map(_key, path))
    return f"[[{name}]]" if many else f"[{name}]"


def _key(name: str) -> str:
    return name if name and set(name) <= _BARE else quote(name)


def _inline(value: Value) -> str:
    """Return the value in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(_pairs_inline(value))
        return f"{{ {inside} }}" if inside else "{}"
    return f"[{', '.join(map(_inline, value))}]"


def _pairs_inline(values: Mapping[str, Value]) -> Iterable[str]:
    return (f"{_key(name)} = {_inline(value)}" for name, value in values.items())


def _outer(value: Value) -> str:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if not several or not any(isinstance(item, str | Mapping) for item in value):
        return _inline(value)
    lines = "".join(f"    {_inline(item)},\n" for item in value)
    return f"[\n{lines}]"


FIRST = "first baseline"


def suggest_update(options: Sequence[str] = (), name: str = "", reason: str = "…") -> str:
    """Return the command that renews it; ``options`` are those that were typed, ``--config
    other.toml``. ``name``: of the check; empty: of all."""
    words = ["perfcli", "baseline", "update", *filter(None, [name]), *options]
    return f'{shlex.join(words)} --reason "{reason}"'


_HEADER = (
    "# What the kernels are expected to be: `perfcli gate` compares with it.\n"
    "# Made by `perfcli baseline update --reason TEXT`; look at what changes, then commit it.\n"
)
_TABLES = ("totals", "graphs", "findings", "externs", "graph_breaks", "kernels")


@dataclass(frozen=True, slots=True)
class BaselineCheck:
    """Holds one check as it stands in the file: ``plain`` is everything but how it was made."""

    made: Made
    plain: Mapping[str, Any]

    def entry(self) -> BaselineEntry:
        return reading._entry({**_made(self.made), **self.plain})


def _text(checks: Mapping[str, BaselineCheck]) -> str:
    """Return the whole file. The same checks give the same text."""
    parts = [f"{_HEADER}format = {FORMAT}"]
    parts += ["\n".join(_check(name, checks[name])) for name in sorted(checks)]
    return "\n\n".join(parts) + "\n"


def _check(name: str, check: BaselineCheck) -> Iterator[str]:
    values = {**_made(check.made), **check.plain}
    yield _header("checks", name)
    yield from _pairs({k: v for k, v in values.items() if k not in _TABLES})
    yield from _pairs({k: values[k] for k in ("graphs", "findings") if k in values})
    for table in ("totals", "externs", "graph_breaks"):
        if table in values:
            yield ""
            yield _header("checks", name, table)
            yield from _pairs(values[table])
    for kernel in values["kernels"]:
        yield ""
        yield _header("checks", name, "kernels", many=True)
        yield from _pairs(kernel)


def _made(made: Made) -> dict[str, str]:
    values = {"created": made.created, "reason": made.reason, "revision": made.revision}
    return {name: value for name, value in values.items() if value or name != "revision"}


def _read(text: str, where: str, options: Sequence[str] = ()) -> dict[str, BaselineCheck]:
    """Return the checks of a file. ``where`` names it in errors; ``options`` were typed to mean it.
    Raises PerfcliError for what is no baseline, NotComparable for a newer format."""
    again = f"take it back with git, or make it anew with {suggest_update(options)}"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PerfcliError(f"{where} is not TOML: {error}; {again}") from error
    except RecursionError:
        raise PerfcliError(f"{where} is no baseline: it is nested too deeply; {again}") from None
    _check_format(document, where, again)
    found = {}
    for name, table in document.get("checks", {}).items():
        try:
            check = _read_check(table)
            check.entry()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PerfcliError(
                f"{where}: check {name} is broken ({_said(error)}): {again}"
            ) from error
        found[name] = check
    return found


def _read_check(table: Mapping[str, Any]) -> BaselineCheck:
    reading.check(table)
    created = date.fromisoformat(str(table["created"])).isoformat()
    made = Made(created, str(table["reason"]), str(table.get("revision", "")))
    own = ("created", "reason", "revision")
    return BaselineCheck(made, {name: value for name, value in table.items() if name not in own})


def _check_format(document: Mapping[str, Any], where: str, again: str) -> None:
    found = document.get("format")
    if type(found) is not int or (
        "checks" in document and not isinstance(document["checks"], dict)
    ):
        raise PerfcliError(
            f"{where} is TOML but no baseline of perfcli: it has no format = {FORMAT}; {again}"
        )
    if found > FORMAT:
        raise NotComparable(
            f"{where} has format {found}, this perfcli reads up to {FORMAT}: upgrade perfcli, or "
            f"{again}"
        )


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
