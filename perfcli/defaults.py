"""Values against defaults: what an option accepts, and what differs between two torch
installations. The entries come from ``catalogue.load_catalogue``, which reads torch's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perfcli import option_types, units
from perfcli.catalogue import UNKNOWN, Entry
from perfcli.model import OptionValue


def accepts(entry: Entry, value: OptionValue) -> bool:
    """Whether an option's type allows a value just as it is: 1 is no truth value, 1.0 no whole
    number."""
    try:
        read = option_types.convert(entry.type, units.setting(value))
    except ValueError:
        return False
    return type(read) is type(value) and read == value


def is_default(entry: Entry, value: OptionValue) -> bool:
    """Whether a value is what the option is anyway."""
    return type(entry.value) is type(value) and bool(entry.value == value)


@dataclass(frozen=True, slots=True)
class DefaultChange:
    """An option that two installations have, with another default in each."""

    name: str
    before: Entry
    after: Entry

    @property
    def is_documented(self) -> bool:
        """Whether a comment explains it in either configuration file."""
        return bool(self.before.doc or self.after.doc)

    @property
    def settable_before(self) -> bool:
        """Whether the first installation can be given the second one's default."""
        return self.after.value is not UNKNOWN and accepts(self.before, self.after.value)

    @property
    def settable_after(self) -> bool:
        """Whether the second installation can be given the first one's default."""
        return self.before.value is not UNKNOWN and accepts(self.after, self.before.value)


@dataclass(frozen=True, slots=True)
class Differences:
    """Of two installations, first and second."""

    changed: tuple[DefaultChange, ...]
    """Both defaults are known and differ."""
    undecided: tuple[DefaultChange, ...]
    """A default depends on more than the configuration file, and its text changed."""
    only_before: tuple[Entry, ...]
    only_after: tuple[Entry, ...]


def differences(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> Differences:
    """What the second installation has other than the first: each list with documented options
    first, then by name. A default that is written in another way but has the same value, such as
    one that now also reads an environment variable, is no difference."""
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


def _in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: (not entry.doc, entry.name)))
