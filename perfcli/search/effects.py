"""Finds what each change of a set does alone, and which one needs another."""

from __future__ import annotations

from perfcli.search.question import Answer, OptionChange, Query, Search, Subset
from perfcli.search.result import Dependency, OwnEffect

Options = tuple[OptionChange, ...]


def find_own_effects(options: Options) -> Search[Subset, tuple[OwnEffect, ...]]:
    """Ask for the good side with each of the changes only."""
    singles = tuple(frozenset({option.key}) for option in options)
    good = yield Query(frozenset(), singles, step="own effects")
    effects = []
    for at, option in enumerate(options):
        alone = yield Query(singles[at], singles[at + 1 :], step="own effects")
        effects.append(OwnEffect(option, alone, changes_code(good, alone)))
    return tuple(effects)


def changes_code(before: Answer, after: Answer) -> bool | None:
    if before.code is None or after.code is None:
        return None
    return before.code != after.code


def find_dependencies(own: tuple[OwnEffect, ...]) -> Search[Subset, tuple[Dependency, ...]]:
    """Find the options that alone leave the generated code as it is, and which of the others it
    takes for them to change it. Asks for pairs with such an option, which are known already in a
    set of up to three."""
    found = []
    for silent in own:
        if silent.changes_code is not False:
            continue
        others = [effect for effect in own if effect is not silent]
        needs = []
        for other in others:
            pair = frozenset({silent.option.key, other.option.key})
            both = yield Query(pair, step="dependencies")
            if changes_code(other.alone, both):
                needs.append(other.option)
        # None is enough: all of them together are, else the set would not be minimal.
        enough = tuple(needs) or tuple(effect.option for effect in others)
        if others:
            found.append(Dependency(silent.option, enough))
    return tuple(found)
