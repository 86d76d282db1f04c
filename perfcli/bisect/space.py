"""Holds which options differ, and what a set of such differences compiles with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from perfcli.model import OptionValue, Variant
from perfcli.options import listing
from perfcli.options.catalogue import UNKNOWN, Catalogue, InductorOption
from perfcli.options.listing import DefaultChange, Differences
from perfcli.options.performance import InstalledKnob
from perfcli.search.question import OptionChange, Subset

Settings = Mapping[str, OptionValue]
"""Options and environment variables that are set, by name."""
NOT_SET = "not set"
"""In place of a value, where nobody knows the default."""


@dataclass(frozen=True, slots=True)
class Space:
    """``good`` are the settings of no change; ``bad`` has, by a change's key, what is set where the
    change is made (nothing: the default). A change takes away what ``good`` sets of its option."""

    changes: tuple[OptionChange, ...]
    good: Settings
    bad: Mapping[str, Settings]
    variables: frozenset[str] = frozenset()
    """Names that are environment variables."""
    helped: Subset = frozenset()
    """Changes that made models faster before, by estimate or measured."""
    idle: Subset = frozenset()
    """Changes that left the kernels of all these models as they were."""

    def settings(self, subset: Subset) -> dict[str, OptionValue]:
        made = [change for change in self.changes if change.key in subset]
        names = {change.name for change in made}
        found = {name: value for name, value in self.good.items() if name not in names}
        for change in made:
            found |= self.bad[change.key]
        return dict(sorted(found.items()))

    def variant(self, settings: Settings, python: str | None) -> Variant:
        """Return the variant of a set of changes, without a name."""
        options = {n: v for n, v in settings.items() if n not in self.variables}
        env = {n: str(v) for n, v in settings.items() if n in self.variables}
        return Variant("", options, env, python)

    def group(self, keys: Iterable[str], most: int) -> list[Subset]:
        """Return sets of at most so many of the changes, each of changes that can be made
        together."""
        groups: list[tuple[list[str], dict[str, OptionValue]]] = []
        for key in keys:
            made = self.bad[key]
            for members, settings in groups:
                if len(members) < most and _agree(settings, made):
                    members.append(key)
                    settings |= made
                    break
            else:
                groups.append(([key], dict(made)))
        return [frozenset(members) for members, _ in groups]

    @property
    def everything(self) -> Subset:
        return frozenset(change.key for change in self.changes)


def _between(good: Variant, bad: Variant, catalogue: Catalogue) -> Space:
    """Return all that two variants of one torch set differently; a side that does not set an option
    has its default."""
    sides: list[dict[str, Any]] = [{**v.env, **v.options} for v in (good, bad)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    changes = []
    for name in names:
        ours, theirs = (side.get(name, _default(catalogue, name)) for side in sides)
        if type(ours) is not type(theirs) or ours != theirs:
            changes.append(OptionChange(name, ours, theirs, _rank(catalogue.entries.get(name))))
    made = {c.key: {c.name: sides[1][c.name]} if c.name in sides[1] else {} for c in changes}
    variables = frozenset([*good.env, *bad.env])
    return Space(tuple(changes), sides[0], made, variables)


def _default(catalogue: Catalogue, name: str) -> Any:
    entry = catalogue.entries.get(name)
    return NOT_SET if entry is None or entry.value is UNKNOWN else entry.value


def _rank(entry: InductorOption | None) -> int:
    """Return the rank of an option: documented options are blamed first."""
    return 0 if entry is None or entry.doc else 1


def of_catalogue(choices: Iterable[InstalledKnob], base: Variant) -> Space:
    """Return every value worth trying on top of ``base``, but those that it has already.

    What an option does nothing without is set along with it.
    """
    own: dict[str, Any] = {**base.env, **base.options}
    changes, made = [], {}
    helped, idle = set(), set()
    for choice in choices:
        name = choice.knob.name
        default = choice.entry.value
        now = own.get(name, NOT_SET if default is UNKNOWN else default)
        for value in choice.values:
            if type(value) is type(now) and value == now:
                continue
            change = OptionChange(name, now, value, 0 if choice.knob.documented else 1)
            changes.append(change)
            made[change.key] = {**choice.knob.only_with, name: value}
            if choice.knob.has_helped(value):
                helped.add(change.key)
            if choice.knob.was_idle(value):
                idle.add(change.key)
    variables = frozenset(base.env)
    return Space(tuple(changes), own, made, variables, frozenset(helped), frozenset(idle))


def _agree(one: Settings, other: Settings) -> bool:
    return all(value == one[name] for name, value in other.items() if name in one)


# --- two installations -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Installations:
    """Says what two torch installations differ in, as far as options go."""

    space: Space
    """All on the bad side's torch: no change sets it to what the good side has."""
    unsettable: tuple[DefaultChange, ...] = ()
    """Defaults differ, and the bad side's torch can't be given the good one's, or they depend on
    more than the configuration file."""
    only_good: tuple[str, ...] = ()
    only_bad: tuple[str, ...] = ()
    """Options that exist on one side only."""
    unknown: tuple[str, ...] = field(default=())
    """Options typed for the good side that the bad side's torch does not have."""


def _installations(
    good: Variant, bad: Variant, good_catalogue: Catalogue, bad_catalogue: Catalogue
) -> Installations:
    """Return the space between two installations: options whose defaults differ, and those that a
    side sets. A good side's option that the bad torch lacks can't be among them."""
    found = listing.differences(good_catalogue.entries, bad_catalogue.entries)
    before = {c.name: c.before.value for c in found.changed if c.settable_after}
    before |= {**good.env, **good.options}
    unknown = [n for n in good.options if n not in bad_catalogue.entries]
    before = {name: value for name, value in before.items() if name not in unknown}
    as_good = Variant("", {n: v for n, v in before.items() if n not in good.env}, good.env)
    return Installations(
        _between(as_good, bad, bad_catalogue),
        tuple(_unsettable(found)),
        tuple(entry.name for entry in found.only_before),
        tuple(entry.name for entry in found.only_after),
        tuple(unknown),
    )


def _unsettable(found: Differences) -> Iterator[DefaultChange]:
    yield from (change for change in found.changed if not change.settable_after)
    yield from found.undecided
