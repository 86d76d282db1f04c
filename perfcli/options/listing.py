"""Searches options and says what is known about them; ``perfcli knobs`` prints it."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table, joined
from perfcli.machine.environment import probe
from perfcli.model import OptionValue
from perfcli.options import releases, types
from perfcli.options.catalogue import (
    UNKNOWN,
    InductorOption,
    default_text,
    evaluate,
    load_catalogue,
)
from perfcli.options.patches import PATCHES, Patch, write_state


def load_installed(python: str | None) -> tuple[str, list[InductorOption]]:
    """Return the torch that an interpreter has, and its options. Raises PerfcliError where there is
    no such interpreter, or it has no torch."""
    catalogue = load_catalogue(probe(python, needs_triton=False).torch_dir)
    return catalogue.torch, list(catalogue.entries.values())


def load_newest() -> tuple[str, list[InductorOption]]:
    """Return the newest release in the shipped data, and its options as far as that tells."""
    version = releases.load().versions[-1]
    return version, [evaluate(n, default) for n, default in releases.defaults(version).items()]


def search(entries: Iterable[InductorOption], pattern: str) -> list[InductorOption]:
    """Return options whose name or variable matches, else those whose documentation does; without a
    pattern all public ones. Raises PerfcliError where nothing matches."""
    entries = sorted(entries, key=lambda entry: entry.name)
    if not pattern:
        return [entry for entry in entries if not _is_private(entry.name)]
    by_name = [e for e in entries if any(matches(text, pattern) for text in (e.name, *e.env))]
    found = by_name or [e for e in entries if matches(e.doc, pattern)]
    if not found:
        near = releases.nearest(pattern, (entry.name for entry in entries))
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        unfit = [name for name in PATCHES if matches(name, pattern)]
        if unfit:
            hint = f"; perfcli knobs --patches says why {unfit[0]} does not fit"
        raise PerfcliError(f"no option matches {pattern!r}{hint}")
    return found


def matches(text: str, pattern: str) -> bool:
    """Return whether a text holds the pattern, capitals or not; wildcards match the whole text."""
    text, pattern = text.lower(), pattern.lower()
    if any(wildcard in pattern for wildcard in "*?["):
        return fnmatch.fnmatchcase(text, pattern)
    return pattern in text


def _is_private(name: str) -> bool:
    """Return whether torch marks the option as its own, ``_profile_var``."""
    return name.rpartition(".")[2].startswith("_")


def document(entry: InductorOption) -> dict[str, Any]:
    """Return one option for a JSON file."""
    return {
        "name": entry.name,
        "type": entry.type,
        "default": None if entry.value is UNKNOWN else entry.value,
        "default_known": entry.value is not UNKNOWN,
        "default_expression": entry.default,
        "variables": list(entry.env),
        "since": releases.since(entry.name),
        "releases": list(releases.versions_having(entry.name)),
        "documentation": entry.doc,
        "note": entry.note,
    }


def details(torch: str, entry: InductorOption) -> str:
    """Return everything about one option."""
    lines = {
        "type": entry.type,
        "default": default_text(entry),
        "variable": ", ".join(entry.env),
        "torch": ", ".join(releases.versions_having(entry.name)),
        "note": entry.note,
    }
    text = f"{entry.name} (torch {torch})\n"
    text += "".join(f"  {name:9}{value}\n" for name, value in lines.items() if value)
    return text + "".join(f"  {line}".rstrip() + "\n" for line in entry.doc.splitlines())


def option_rows(entries: Iterable[InductorOption]) -> list[tuple[str, ...]]:
    """Return option, type, default, first release, variables; for an option that is one
    of perfcli's patches, ``patch`` in place of the release."""
    return [
        (
            e.name,
            e.type,
            default_text(e),
            "patch" if e.note else releases.since(e.name),
            " ".join(e.env),
        )
        for e in entries
    ]


def find_patches(pattern: str) -> list[Patch]:
    """Return the patches whose name matches, else those whose description does; without a pattern
    all. Raises PerfcliError where nothing matches."""
    known = list(PATCHES.values())
    by_name = [patch for patch in known if not pattern or matches(patch.name, pattern)]
    found = by_name or [patch for patch in known if matches(f"{patch.does} {patch.doc}", pattern)]
    if not found:
        raise PerfcliError(f"no patch matches {pattern!r}: there are {', '.join(PATCHES)}")
    return found


def patch_rows(
    found: Iterable[Patch], torch: str, entries: Collection[str]
) -> list[tuple[str, ...]]:
    """Return patch, type, the releases that it fits, whether it fits this torch, what it does."""
    return [
        (
            patch.name,
            patch.type,
            patch.reach.removeprefix("torch "),
            write_state(patch, torch, entries),
            patch.does,
        )
        for patch in found
    ]


def describe_patch(patch: Patch, torch: str, entries: Collection[str]) -> dict[str, Any]:
    """Return one patch for a JSON file."""
    return {
        "name": patch.name,
        "type": patch.type,
        "default": patch.off,
        "values": list(patch.values),
        "does": patch.does,
        "documentation": patch.doc,
        "origin": patch.origin,
        "sources": list(patch.sources),
        "fits": patch.reach,
        "here": write_state(patch, torch, entries),
        "devices": "both" if patch.cpu else "gpu",
    }


def patch_details(patch: Patch, torch: str, entries: Collection[str]) -> str:
    """Return everything about one patch."""
    lines = {
        "type": patch.type,
        "default": units.setting(patch.off),
        "try": ", ".join(map(units.setting, patch.values)),
        "origin": patch.origin,
        "fits": patch.reach,
        "here": write_state(patch, torch, entries),
        "on": "GPU and CPU" if patch.cpu else "GPU",
        "sources": "\n           ".join(patch.sources),
    }
    text = f"{patch.name} (torch {torch})\n  {patch.does}\n"
    text += "".join(f"  {line}".rstrip() + "\n" for line in patch.doc.splitlines())
    return text + "".join(f"  {name:9}{value}\n" for name, value in lines.items())


def notes(entries: Iterable[InductorOption]) -> str:
    """Return one line for each option that this torch does not have by itself."""
    return "".join(f"{entry.name}: {entry.note}\n" for entry in entries if entry.note)


def changes(before: str, after: str, pattern: str) -> list[releases.KnobChange]:
    """Return what changed between two releases, for matching names; without a pattern for public
    ones. Raises PerfcliError for a release that is not in the data."""
    return [
        change
        for change in releases.changes(before, after)
        if (matches(change.name, pattern) if pattern else not _is_private(change.name))
    ]


def change_rows(found: Iterable[releases.KnobChange]) -> list[tuple[str, ...]]:
    """Return option, kind of change, and both defaults: as values, or as expressions where the
    values don't tell them apart."""
    return [(change.name, change.kind, *_both_sides(change)) for change in found]


def _both_sides(change: releases.KnobChange) -> tuple[str, str]:
    texts = [_value_text(change.name, side) for side in (change.before, change.after)]
    if texts[0] == texts[1]:
        return change.before or "", change.after or ""
    return texts[0], texts[1]


def _value_text(name: str, expression: str | None) -> str:
    return "" if expression is None else default_text(evaluate(name, expression))


def accepts(entry: InductorOption, value: OptionValue) -> bool:
    """Return whether an option's type allows a value just as it is: 1 is no truth value, 1.0 no
    whole number."""
    try:
        read = types.convert(entry.type, units.setting(value))
    except ValueError:
        return False
    return type(read) is type(value) and read == value


def is_default(entry: InductorOption, value: OptionValue) -> bool:
    """Return whether a value is what the option is anyway."""
    return type(entry.value) is type(value) and bool(entry.value == value)


@dataclass(frozen=True, slots=True)
class DefaultChange:
    """Describes an option that two installations have, with another default in each."""

    name: str
    before: InductorOption
    after: InductorOption

    @property
    def is_documented(self) -> bool:
        """Return whether a comment explains it in either configuration file."""
        return bool(self.before.doc or self.after.doc)

    @property
    def settable_after(self) -> bool:
        """Return whether the second installation can be given the first one's default."""
        return self.before.value is not UNKNOWN and accepts(self.after, self.before.value)


@dataclass(frozen=True, slots=True)
class Differences:
    """Holds how two installations differ, first and second."""

    changed: tuple[DefaultChange, ...]
    """Both defaults are known and differ."""
    undecided: tuple[DefaultChange, ...]
    """A default depends on more than the configuration file, and its text changed."""
    only_before: tuple[InductorOption, ...]
    only_after: tuple[InductorOption, ...]


def differences(
    before: Mapping[str, InductorOption], after: Mapping[str, InductorOption]
) -> Differences:
    """Return what the second installation has other than the first: each list with documented
    options first, then by name. A default that is written in another way but has the same value,
    such as one that now also reads an environment variable, is no difference."""
    both = [DefaultChange(n, before[n], after[n]) for n in sorted(before.keys() & after.keys())]
    both.sort(key=lambda change: not change.is_documented)
    known = [change for change in both if _is_known(change)]
    return Differences(
        changed=tuple(c for c in known if not is_default(c.before, c.after.value)),
        undecided=tuple(
            c for c in both if not _is_known(c) and c.before.default != c.after.default
        ),
        only_before=_in_order(before[name] for name in before.keys() - after.keys()),
        only_after=_in_order(after[name] for name in after.keys() - before.keys()),
    )


def _is_known(change: DefaultChange) -> bool:
    return change.before.value is not UNKNOWN and change.after.value is not UNKNOWN


def _in_order(entries: Iterable[InductorOption]) -> tuple[InductorOption, ...]:
    """Return the entries with documented ones first, without patches: those are not torch's."""
    own = (entry for entry in entries if not entry.note)
    return tuple(sorted(own, key=lambda entry: (not entry.doc, entry.name)))


# --- tables ------------------------------------------------------------------------------------

KNOBS: Table[InductorOption] = Table(
    "knobs",
    "an option of torch",
    "`knobs`",
    (
        Column("option", "text", "its name, as `-o` takes it", lambda row: row.name),
        Column("type", "text", "its type, as Python text", lambda row: row.type),
        Column("default", "text", "its default", default_text),
        Column(
            *("since", "text", "the first release that has it"),
            lambda row: None if row.note else releases.since(row.name),
        ),
        Column("variables", "text", "variables that set it", lambda row: joined(row.env)),
        Column("documentation", "text", "what torch says of it", lambda row: row.doc),
    ),
)

PATCH_TABLE: Table[dict[str, Any]] = Table(
    "patches",
    "a patch of torch that perfcli can make",
    "`knobs --patches`",
    (
        Column("patch", "text", "its name, as `-o` takes it", lambda row: row["name"]),
        Column("type", "text", "its type", lambda row: row["type"]),
        Column("fits", "text", "the releases that it fits", lambda row: row["fits"]),
        Column("here", "text", "whether it fits this torch", lambda row: row["here"]),
        Column("does", "text", "what it does", lambda row: row["does"]),
    ),
)

KNOB_CHANGES: Table[releases.KnobChange] = Table(
    "knob-changes",
    "an option that differs between two releases",
    "`knobs --diff`",
    (
        Column("option", "text", "its name", lambda row: row.name),
        Column("change", "text", "added, removed or default changed", lambda row: row.kind),
        Column("before", "text", "the default before", lambda row: _both_sides(row)[0] or None),
        Column("after", "text", "the default after", lambda row: _both_sides(row)[1] or None),
    ),
)
