"""Holds what a search has found out: what each variant generates, and what each code measures.

It is kept by settings and by code, never by the question: a search with other sides, or of another
metric, goes on with all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.space import Settings
from perfcli.blobs import unpack
from perfcli.compile.capture.definition import strip_comments
from perfcli.model import Generated
from perfcli.options.performance import acts_on_running, load
from perfcli.search.drive import Code
from perfcli.search.weighing import Reading

_EDITED = "edited during the search"


@dataclass(slots=True)
class Knowledge:
    codes: dict[str, Code] = field(default_factory=dict)
    """By ``name_of`` the settings: the hash of all generated code, or why there is none."""
    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    """By that hash, hashes of what single kinds of metrics depend on (``parts_of``)."""
    inferred: set[str] = field(default_factory=set)
    """Those that were not compiled: nobody reads the options in which they differ from one that
    was."""
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """By class, then by metric: exact values, in the metric's unit."""
    readings: dict[str, list[Reading]] = field(default_factory=dict)
    """By ``pair_of`` two classes and a metric: the second against the first."""
    sources: dict[str, str] = field(default_factory=dict)
    """The user's own files that variants imported: path to SHA-256."""
    failed: dict[str, Code] = field(default_factory=dict)
    """By ``name_of`` the settings, where code of the user's raised: it may be mended until the next
    search, and is not kept for that."""

    def add_sources(self, imported: Mapping[str, str]) -> None:
        """Add the files that one variant imported. A file that was edited between two variants
        gets a digest that no file has: what is known is of both versions."""
        for path, digest in imported.items():
            if self.sources.setdefault(path, digest) != digest:
                self.sources[path] = _EDITED

    def readings_against(self, good: str, metric: SearchMetric) -> dict[str, list[Reading]]:
        """Return the readings by class, the lists themselves: what is appended to them stays
        known."""
        start = _pair_of(good, "", metric)
        return {k.removeprefix(start): v for k, v in self.readings.items() if k.startswith(start)}


def _name_of(settings: Settings) -> str:
    """Return one text for the same settings, in whatever order."""
    return json.dumps(dict(settings), sort_keys=True)


def _pair_of(good: str, code: str, metric: SearchMetric) -> str:
    return f"{metric.name} {good} {code}"


def _parts_of(generated: Generated) -> dict[str, str]:
    """Return what an answer depends on; of kernels compiled to a ``binary``: their text with all
    that Triton is told of them. Of what is read of the ``code``: their bodies, what they move, and
    the peak memory."""
    run, blobs = generated.bundle.run, generated.bundle.blobs
    peaks = [graph.peak_memory_bytes for graph in run.graphs]
    # Launches are added up: comments alone make two kernels of one.
    binary: Counter[object] = Counter()
    code: Counter[object] = Counter()
    for kernel in run.kernels:
        source = unpack(blobs[kernel.source]).replace(kernel.name, "kernel")
        moved = (kernel.bytes_read, kernel.bytes_written, kernel.bytes_swept)
        # In front of it stand the launch heuristics with sizes, types and options.
        body = source.partition("@triton.jit\n")[2] or source
        body = strip_comments(body) if kernel.language == "triton" else body
        binary[kernel.graph, kernel.source_hash] += kernel.launches
        code[kernel.graph, moved, body] += kernel.launches
    return {"binary": _hash([*binary.items()]), "code": _hash([peaks, *code.items()])}


def _hash(what: list[object]) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()


def _class_of(
    code: str,
    settings: Settings,
    metric: SearchMetric,
    parts: Mapping[str, str],
    measured: bool = False,
) -> str:
    """Return what an answer is valid for: as much of the code as decides the metric.

    What it takes to run (``measured``: memory, too) also depends on options that act then; to
    compile, on every one.
    """
    if metric.kind == "compile":
        deciding = dict(settings)
    elif metric.kind == "time" or measured:
        deciding = {name: value for name, value in settings.items() if _acts_later(name)}
    else:
        return parts.get("binary" if metric.kind == "binary" else "code", code)
    if not deciding:
        return code
    return f"{code}-{hashlib.sha256(_name_of(deciding).encode()).hexdigest()[:12]}"


def _acts_later(name: str) -> bool:
    listed = any(knob.name == name and knob.acts in ("launch", "run") for knob in load())
    variable = name.isupper()
    return listed or variable or acts_on_running(name)


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
