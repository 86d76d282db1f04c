"""Tells what is known about Inductor's options over torch releases, from ``data/knobs.json``.

The file holds, for each option, the releases at which its default's expression changed; it is
made by ``bench/knob_data.py``. Options of ``dynamo.`` and ``functorch.`` are not in it.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from perfcli.errors import PerfcliError

History = Mapping[str, str | None]
"""Release to the default from that release on; None where the option is gone."""


@dataclass(frozen=True, slots=True)
class KnobChange:
    """Describes one option between two releases; None on the side that lacks it."""

    name: str
    kind: Literal["added", "removed", "default changed"]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class _KnobData:
    """Holds the shipped data: ``versions`` oldest first; ``options`` by name."""

    versions: tuple[str, ...]
    options: Mapping[str, History]


@functools.cache
def load() -> _KnobData:
    """Return the shipped data."""
    text = resources.files("perfcli").joinpath("data/knobs.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    return _KnobData(tuple(raw["versions"]), raw["options"])


def encode(defaults_by_version: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    """Return the file's content from each release's options and defaults."""
    versions = sorted(defaults_by_version, key=release_key)
    options: dict[str, dict[str, str | None]] = {}
    for name in sorted({name for options in defaults_by_version.values() for name in options}):
        current: str | None = None
        for version in versions:
            default = defaults_by_version[version].get(name)
            if default != current:
                options.setdefault(name, {})[version] = default
            current = default
    return {"format": 1, "versions": versions, "options": options}


def defaults(version: str) -> dict[str, str]:
    """Return every option of a known release and its default's expression. Raises PerfcliError
    where the release is not in the data."""
    release = known_release(version)
    found = {name: _at(history, release) for name, history in load().options.items()}
    return {name: default for name, default in found.items() if default is not None}


def changes(version_a: str, version_b: str) -> list[KnobChange]:
    """Return what ``version_b`` adds, removes and changes, by kind and name. Raises PerfcliError
    where one of the releases is not in the data."""
    before, after = defaults(version_a), defaults(version_b)
    result = [
        *(KnobChange(n, "added", None, after[n]) for n in after.keys() - before.keys()),
        *(KnobChange(n, "removed", before[n], None) for n in before.keys() - after.keys()),
        *(
            KnobChange(n, "default changed", before[n], after[n])
            for n in before.keys() & after.keys()
            if before[n] != after[n]
        ),
    ]
    order = ("default changed", "added", "removed")
    return sorted(result, key=lambda change: (order.index(change.kind), change.name))


def versions_having(option: str) -> tuple[str, ...]:
    """Return the known releases that have an option, oldest first; empty if none has."""
    history = load().options.get(option, {})
    return tuple(v for v in load().versions if _at(history, v) is not None)


def since(option: str) -> str:
    """Return the release that brought an option, ``2.10.0``; ``≤2.8.0`` where it is older than the
    data, empty where it is not in it."""
    having = versions_having(option)
    if not having:
        return ""
    return f"≤{having[0]}" if having[0] == load().versions[0] else having[0]


def known_release(version: str) -> str:
    """Return the release of the data for ``2.13.0+cpu``, ``2.13.0`` or ``2.13``. Raises
    PerfcliError where there is none."""
    plain = version.partition("+")[0]
    for known in load().versions:
        if plain == known or plain == known.rpartition(".")[0]:
            return known
    raise PerfcliError(
        f"no options known for torch {version!r}: known are {', '.join(load().versions)}"
    )


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return up to ``count`` names that ``name`` may have meant: first those that end with it (a
    forgotten prefix), then the most similar ones."""
    names = list(names)
    tail = name.rpartition(".")[2].lower()
    same_tail = [n for n in names if n.rpartition(".")[2].lower() == tail]
    similar = difflib.get_close_matches(name, names, n=count, cutoff=0.75)
    tails = {n.rpartition(".")[2]: n for n in names}
    similar_tail = difflib.get_close_matches(tail, tails, n=count, cutoff=0.85)
    return list(dict.fromkeys([*same_tail, *similar, *(tails[t] for t in similar_tail)]))[:count]


def release_key(version: str) -> tuple[int, ...]:
    """Return a key that sorts ``2.9.1`` before ``2.10.0``."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))


def _at(history: History, version: str) -> str | None:
    current: str | None = None
    for changed, default in history.items():
        if release_key(changed) > release_key(version):
            break
        current = default
    return current
