"""Reading a table of the configuration: the right keys, of the right kinds, or one clear line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from perfcli.errors import PerfcliError
from perfcli.names import suggestion

T = TypeVar("T")
_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    dict: "a table",
    list: "a list",
}


class SettingsTable:
    """A table and where it stands, ``pyproject.toml: tool.perfcli.limits``; each key is taken
    once, and what is left is unknown."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise PerfcliError(f"{where} has to be a table, not {_shown(values)}")
        self.values: dict[str, Any] = values
        self.where = where
        self._known: list[str] = []

    def at(self, name: str) -> str:
        """Return where a key stands: ``perfcli.toml: limits``, ``pyproject.toml:
        tool.perfcli.limits``."""
        return f"{self.where}{'.' if ': ' in self.where else ': '}{name}"

    def take(self, name: str, kind: type[T], default: T) -> T:
        """Return the value of a key; ``default`` where it is not there."""
        self._known.append(name)
        return self._typed(name, self.values[name], kind) if name in self.values else default

    def need(self, name: str, kind: type[T], why: str = "") -> T:
        """Return the value of a key that has to be there."""
        self._known.append(name)
        if name not in self.values:
            raise PerfcliError(f"{self.where} has no {name}{f': {why}' if why else ''}")
        return self._typed(name, self.values[name], kind)

    def amount(self, name: str, default: float | None = None) -> float | None:
        """Return a number that limits something; ``default`` where it is not there."""
        self._known.append(name)
        if name not in self.values:
            return default
        return _amount(self._typed(name, self.values[name], float), self.at(name))

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        found = self.take(name, str, default)
        if found not in choices:
            raise PerfcliError(f"{self.at(name)} is {found!r}: {suggestion(found, choices)}")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """Return one text, or a list of texts."""
        self._known.append(name)
        found = self.values.get(name, [])
        found = [found] if isinstance(found, str) else found
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise PerfcliError(
                f"{self.at(name)} needs text in quotes or a list of it, not {_shown(found)}"
            )
        return tuple(found)

    def table(self, name: str) -> SettingsTable:
        return SettingsTable(self.take(name, dict, {}), self.at(name))

    def tables(self, name: str) -> list[SettingsTable]:
        found = self.take(name, list, [])
        return [SettingsTable(each, f"{self.at(name)}[{n}]") for n, each in enumerate(found, 1)]

    def done(self) -> None:
        """Raise PerfcliError for a key that nobody took, with the nearest that is known."""
        for name in self.values:
            if name not in self._known:
                raise PerfcliError(
                    f"{self.where} has an unknown key {name!r}: {suggestion(name, self._known)}"
                )

    def _typed(self, name: str, value: Any, kind: type[T]) -> T:
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)  # type: ignore[return-value]
            except OverflowError:
                return math.inf  # type: ignore[return-value]
        if not fits:
            raise PerfcliError(f"{self.at(name)} needs {_WORDS[kind]}, not {_shown(value)}")
        return value  # type: ignore[no-any-return]


def _amount(value: float, where: str) -> float:
    """Raise PerfcliError for what limits nothing: below 0, NaN (nothing is more), infinity."""
    if not (math.isfinite(value) and value >= 0):
        raise PerfcliError(f"{where} needs a number from 0 on that is finite, not {value:g}")
    return value


def _shown(value: object) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
