"""Lists options worth trying for speed, memory or other code, from ``data/performance_knobs.toml``.

Kept by hand. What torch's own files can tell (defaults, types, whether this torch has an option)
is asked of them when it is needed; the list adds what they don't say.
"""

from __future__ import annotations

import functools
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any, Literal

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table, joined
from perfcli.model import Device, OptionValue
from perfcli.options import types
from perfcli.options.catalogue import InductorOption, default_text
from perfcli.options.listing import accepts, is_default
from perfcli.options.patches import PATCHES
from perfcli.options.releases import release_key

FILE = "data/performance_knobs.toml"

Acts = Literal["kernels", "wrapper", "launch", "run"]
"""What an option changes: the generated ``kernels``; the ``wrapper`` that allocates memory and
calls them; the ``launch`` configurations for which the same kernels are compiled; or nothing
before it ``run``s."""

Alters = Literal["", "numerics", "assumptions"]
"""What else than speed an option may change: ``numerics``, results beyond the order in which terms
are added, or other random numbers; ``assumptions``, what is taken for granted of inputs, weights
and indices, or promised of outputs."""

Number = int | float

_AT_RUN_TIME = ("cudagraph", "graph_partition", "cpp_wrapper", "memory_plan", "buffer_reuse", "tun")
"""Parts of the names of options that act when the step runs."""


@dataclass(frozen=True, slots=True)
class PerformanceKnob:
    """Describes one option that influences speed, memory or code."""

    name: str
    values: tuple[OptionValue, ...]
    """Worth trying, the most telling first. The default of some releases may be among them."""
    does: str
    """One sentence; for what is on by default also what becomes of it without."""
    acts: Acts
    devices: Literal["gpu", "cpu", "both"]
    documented: bool
    """Whether a comment explains it in torch's configuration file."""
    since: str
    """The first release that has it; ``≤2.8.0``: that one has it, older ones were not looked at."""
    sources: tuple[str, ...]
    """Addresses, the configuration file's line first."""
    until: str | None = None
    """The last release that has it; None where the newest known has it."""
    range: tuple[Number, Number] | None = None
    """The lowest and highest value, inclusive, of a number whose threshold can be searched."""
    only_with: Mapping[str, OptionValue] = field(default_factory=dict)
    """Options to set along with it: without them it changes nothing."""
    needs_device: bool = False
    """Whether it can't be compiled, or decides nothing, where there is no device."""
    alters: Alters = ""
    helped: tuple[OptionValue, ...] = ()
    """Those of ``values`` that made one of the models of ``bench/tune.py`` faster, by estimate or
    measured: they are tried first."""
    idle: tuple[OptionValue, ...] = ()
    """Those of ``values`` that left the kernels of all these models as they were: many of them are
    tried at once."""

    def has_helped(self, value: OptionValue) -> bool:
        return _has(self.helped, value)

    def was_idle(self, value: OptionValue) -> bool:
        return _has(self.idle, value)

    @property
    def is_static(self) -> bool:
        """Return whether its effect can be seen in what is compiled, without running it."""
        return self.acts != "run"

    def acts_on(self, device: Device) -> bool:
        """Return whether code for this kind of device can differ."""
        return self.devices in ("both", "gpu" if device == "cuda" else "cpu")

    def exists_in(self, version: str) -> bool:
        """Return whether a release is known to have it; releases count as major and minor."""
        asked = release_key(version)[:2]
        first = release_key(self.since)[:2]
        return first <= asked and (self.until is None or asked <= release_key(self.until)[:2])


@dataclass(frozen=True, slots=True)
class InstalledKnob:
    """Describes a knob as an installed torch has it."""

    knob: PerformanceKnob
    entry: InductorOption
    values: tuple[OptionValue, ...]
    """The values worth trying that are not this torch's default."""


@functools.cache
def load() -> tuple[PerformanceKnob, ...]:
    """Return the shipped list: documented options first, else in the order of the file."""
    text = resources.files("perfcli").joinpath(FILE).read_text(encoding="utf-8")
    return tuple(sorted(_parse(text), key=lambda knob: not knob.documented))


def _parse(text: str, source: str = FILE) -> tuple[PerformanceKnob, ...]:
    """Return the knobs of such a file, in its order. Raises PerfcliError where it is no such file;
    the message names the knob and the field."""
    import msgspec

    from perfcli.decoding import convert

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PerfcliError(f"{source}: {error}") from error
    tables = document.get("knob")
    if not isinstance(tables, list) or not tables or document.keys() != {"knob"}:
        raise PerfcliError(f"{source}: expected tables [[knob]] and nothing else")
    known = []
    for number, table in enumerate(tables, start=1):
        where = f"{source}: {table.get('name', f'knob {number}')}"
        strange = table.keys() - {f.name for f in fields(PerformanceKnob)}
        if strange:
            raise PerfcliError(f"{where}: no field is called {', '.join(sorted(strange))}")
        try:
            knob = convert(table, PerformanceKnob)
        except msgspec.ValidationError as error:
            raise PerfcliError(f"{where}: {error}") from error
        _check(knob, where)
        known.append(knob)
    twice = [name for name, count in Counter(knob.name for knob in known).items() if count > 1]
    if twice:
        raise PerfcliError(f"{source}: listed twice: {', '.join(twice)}")
    return tuple(known)


def for_torch(entries: Mapping[str, InductorOption]) -> tuple[InstalledKnob, ...]:
    """Return the shipped knobs and perfcli's patches that a torch with these options has
    (``Catalogue.entries``), in the list's order, patches last. Raises PerfcliError where a value is
    not of the type that this torch gives the option."""
    return tuple(
        InstalledKnob(knob, entry, tuple(_worth_trying(knob, entry)))
        for knob in (*load(), *_list_patches())
        if (entry := entries.get(knob.name)) is not None
    )


def _list_patches() -> Iterator[PerformanceKnob]:
    """Return the patches that are not options of some release: those are in the shipped list."""
    for patch in PATCHES.values():
        if patch.name.startswith("patch."):
            yield PerformanceKnob(
                patch.name,
                patch.values,
                patch.does,
                acts="kernels",
                devices="both" if patch.cpu else "gpu",
                documented=True,
                since="patch",
                sources=patch.sources,
                helped=patch.values,
            )


def acts_on_running(name: str) -> bool:
    """Return whether an option, by its name, changes how a step runs though its code stays the
    same."""
    return name.startswith("dynamo.") or any(word in name for word in _AT_RUN_TIME)


def list_missing(entries: Mapping[str, InductorOption]) -> tuple[PerformanceKnob, ...]:
    """Return the shipped knobs that a torch with these options lacks."""
    return tuple(knob for knob in load() if knob.name not in entries)


def select_usable(
    choices: Iterable[InstalledKnob], device: Device, *, has_device: bool
) -> tuple[InstalledKnob, ...]:
    """Return the knobs with something to try that acts on ``device``; where there is none to run
    on, those that show in what is compiled for it."""
    return tuple(
        choice
        for choice in choices
        if choice.values
        and choice.knob.acts_on(device)
        and (has_device or (choice.knob.is_static and not choice.knob.needs_device))
    )


def _worth_trying(knob: PerformanceKnob, entry: InductorOption) -> Iterator[OptionValue]:
    for value in knob.values:
        if not accepts(entry, value):
            needed = types.describe(entry.type)
            raise PerfcliError(
                f"{FILE}: {knob.name} needs {needed} in this torch, and {value!r} is to be tried"
            )
        if not is_default(entry, value):
            yield value


def _has(values: Iterable[OptionValue], value: OptionValue) -> bool:
    """Return whether a value is among others; 1, 1.0 and true are three values."""
    return any(type(each) is type(value) and each == value for each in values)


def _check(knob: PerformanceKnob, where: str) -> None:
    problems = {
        "values is empty": not knob.values,
        "values has one twice": any(knob.values.count(value) > 1 for value in knob.values),
        "does is no sentence": not knob.does.endswith("."),
        "since is no release": not release_key(knob.since),
        "until is before since": knob.until is not None and not knob.exists_in(knob.until),
        "sources needs addresses": not knob.sources or not all(map(_is_address, knob.sources)),
        "range is not from low to high": knob.range is not None and knob.range[0] >= knob.range[1],
        "only_with names the knob itself": knob.name in knob.only_with,
        "helped or idle names no value of it": not all(
            _has(knob.values, value) for value in (*knob.helped, *knob.idle)
        ),
        "values lie outside of range": not all(_lies_in(knob.range, v) for v in knob.values),
    }
    for problem, found in problems.items():
        if found:
            raise PerfcliError(f"{where}: {problem}")


def _is_address(text: str) -> bool:
    return text.startswith("https://") and " " not in text


def _lies_in(span: tuple[Number, Number] | None, value: Any) -> bool:
    """Return whether a value lies in the range; 0 and below are allowed below it: they switch a
    limit off."""
    if span is None or not isinstance(value, int | float):
        return True
    return value <= 0 or span[0] <= value <= span[1]


TABLE: Table[InstalledKnob] = Table(
    "performance-knobs",
    "an option worth trying",
    "`knobs --performance`",
    (
        Column("option", "text", "its name, as `-o` takes it", lambda row: row.knob.name),
        Column("default", "text", "its default", lambda row: default_text(row.entry)),
        Column(
            *("values", "text", "values to try, as they are typed"),
            lambda row: joined(map(units.setting, row.values)),
        ),
        Column(*("changes", "text", "kernels, wrapper, launch or run"), lambda row: row.knob.acts),
        Column("devices", "text", "gpu, cpu or both", lambda row: row.knob.devices),
        Column("needs_device", "flag", "only with a device", lambda row: row.knob.needs_device),
        Column("since", "text", "the first release that has it", lambda row: row.knob.since),
        Column("does", "text", "what it does", lambda row: row.knob.does),
    ),
)
