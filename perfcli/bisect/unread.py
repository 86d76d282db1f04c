"""Variants that need no compiling: what they set otherwise than one that was compiled, nobody read
while that one was. Whatever decided its code decides the same here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from perfcli.bisect.knowledge import _name_of
from perfcli.bisect.space import Settings


@dataclass(frozen=True, slots=True)
class _Compiled:
    settings: Settings
    code: str
    unread: frozenset[str]


@dataclass(slots=True)
class Unread:
    """Grows with each variant that is compiled."""

    _seen: dict[str, _Compiled] = field(default_factory=dict)

    def add(self, settings: Settings, code: str, unread: Iterable[str]) -> None:
        """Remember a variant: ``code`` is the hash of all of it, ``unread`` are options whose value
        nobody asked for."""
        self._seen[_name_of(settings)] = _Compiled(settings, code, frozenset(unread))

    def has(self, settings: Settings) -> bool:
        return _name_of(settings) in self._seen

    def code_of(self, settings: Settings) -> str | None:
        """Return the variant's code, or None where it has to be compiled."""
        for other in self._seen.values():
            if _differing(settings, other.settings) <= other.unread:
                return other.code
        return None

    def is_read(self, settings: Settings, option: str) -> bool | None:
        """Return whether the option was read, or None if this variant was not compiled here."""
        found = self._seen.get(_name_of(settings))
        return None if found is None else option not in found.unread


def _differing(one: Settings, other: Settings) -> set[str]:
    """Return the names; 1, 1.0 and true are three values."""
    return {
        name
        for name in {**one, **other}
        if name not in one
        or name not in other
        or _name_of({"": one[name]}) != _name_of({"": other[name]})
    }
