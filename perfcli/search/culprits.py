"""Finds all the culprits among the changes between a good and a bad side, and proves each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfcli.errors import PerfcliError
from perfcli.search.ddmin import ddmin, narrow
from perfcli.search.question import (
    Answer,
    OptionChange,
    Query,
    Search,
    Stopped,
    Subset,
    sort_changes,
)
from perfcli.search.result import Culprits, CulpritSet, Dependency, OwnEffect, Status

Options = tuple[OptionChange, ...]


def _find_own_effects(options: Options) -> Search[Subset, tuple[OwnEffect, ...]]:
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


def _find_dependencies(own: tuple[OwnEffect, ...]) -> Search[Subset, tuple[Dependency, ...]]:
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


# A set that is not bad when measured again is looked for anew so often.
MOST_CONTRADICTIONS = 3


@dataclass(slots=True)
class _Found:
    """Holds what is known so far, to be told when the search is stopped."""

    changes: dict[str, OptionChange]
    status: Status | None = None
    sets: list[CulpritSet] = field(default_factory=list)
    good_end: Answer | None = None
    bad_end: Answer | None = None
    left: Answer | None = None
    suspects: tuple[str, ...] = ()
    contradictions: int = 0

    def result(self, stopped: str = "") -> Culprits:
        status = self.status
        if status is None and self.sets:
            status = "partly explained"
        return Culprits(
            status,
            tuple(self.sets),
            self.good_end,
            self.bad_end,
            self.left,
            tuple(self.changes[key] for key in self.suspects),
            stopped,
            self.contradictions,
        )


def find_culprits(changes: Iterable[OptionChange]) -> Search[Subset, Culprits]:
    """Ask for the two ends, then for a minimal set that is bad on the good side, then, as long as
    the bad side without what was found is still bad, for the next one among the rest.

    Sets of several culprits are disjoint. Where answers are noisy, each is measured again before it
    is believed, as are the sets with one change less and what is left of the bad side without it:
    measurements that contradict earlier ones are weighed together with them, and the search goes
    back to where it matters.

    Raises PerfcliError where nothing differs or two changes are of the same option.
    """
    listed = sort_changes(changes)
    _check(listed)
    found = _Found({change.key: change for change in listed})
    try:
        yield from _search(found)
    except Stopped as stop:
        return found.result(stop.reason)
    return found.result()


def _check(changes: Sequence[OptionChange]) -> None:
    if not changes:
        raise PerfcliError("nothing differs between the good and the bad side")
    names = [change.name for change in changes]
    for name in names:
        if names.count(name) > 1:
            raise PerfcliError(f"{name} is changed twice: give it one value per side")


def _search(found: _Found) -> Search[Subset, None]:
    remaining = tuple(found.changes)
    everything = frozenset(remaining)
    found.good_end = yield Query(frozenset(), (everything,), step="the good side")
    found.bad_end = yield Query(everything, step="the bad side")
    if _ends(found.good_end, found.bad_end) is not None:
        found.good_end = yield Query(frozenset(), fresh=True, step="the good side")
        found.bad_end = yield Query(everything, fresh=True, step="the bad side")
    found.left = found.bad_end
    found.status = _ends(found.good_end, found.bad_end)
    if found.status is not None:
        return
    while found.left.is_bad:
        found.suspects = remaining
        culprit = yield from _find_culprit(found, remaining)
        if culprit is None:
            break
        found.sets.append(culprit)
        found.left = culprit.without
        taken = {change.key for change in culprit.options}
        remaining = found.suspects = tuple(key for key in remaining if key not in taken)
    found.status = _status(found)
    if found.status == "explained":
        found.suspects = ()


def _ends(good: Answer, bad: Answer) -> Status | None:
    """Return what the ends alone say, where they say that there is nothing to look for."""
    if "unresolved" in (good.outcome, bad.outcome):
        return "an end is unresolved"
    if good.is_bad:
        return "good side is bad"
    return None if bad.is_bad else "not worse"


def _status(found: _Found) -> Status:
    if not found.sets:
        return "not explained"
    good = found.left is not None and found.left.outcome == "good"
    return "explained" if good else "partly explained"


def _find_culprit(found: _Found, remaining: tuple[str, ...]) -> Search[Subset, CulpritSet | None]:
    """Find one set of ``remaining``, which are bad; None where measurements went on
    contradicting."""
    step = f"culprit {len(found.sets) + 1}"
    for _ in range(MOST_CONTRADICTIONS + 1):
        keys = yield from _find_minimal(found, remaining, step)
        without = frozenset(remaining) - set(keys)
        again = yield Query(frozenset(keys), (without,), fresh=True, step=f"{step}: proof")
        less = yield from _ask_with_one_less(keys, f"{step}: proof")
        if again.is_bad and not any(answer.is_bad for answer in less):
            left = yield Query(without, fresh=True, step=f"{step}: proof")
            if not left.is_bad:
                # The last word, and no later step would notice that it is wrong.
                left = yield Query(without, fresh=True, step=f"{step}: proof")
            minimal = all(answer.outcome == "good" for answer in less)
            return (yield from _describe(found, keys, again, left, minimal))
        found.contradictions += 1
        whole = yield Query(frozenset(remaining), fresh=True, step=f"{step}: once more")
        if not whole.is_bad:
            found.left = whole
            return None
    return None


def _find_minimal(
    found: _Found, remaining: tuple[str, ...], step: str
) -> Search[Subset, tuple[str, ...]]:
    narrowed = yield from narrow(remaining, f"{step}: narrowing")
    found.suspects = narrowed
    # A single one needs no proof that it is minimal: the good side without it is the good end.
    keys = yield from ddmin(narrowed, label=f"{step}: minimising")
    found.suspects = keys
    return keys


def _ask_with_one_less(keys: tuple[str, ...], step: str) -> Search[Subset, list[Answer]]:
    """Ask again for the set with each change left out: what was wrongly held to be good blames a
    change that is innocent. For a single change this is the good side, which is known."""
    answers = []
    for key in keys:
        less = frozenset(keys) - {key}
        answers.append((yield Query(less, fresh=len(keys) > 1, step=step)))
    return answers


def _describe(
    found: _Found, keys: tuple[str, ...], with_it: Answer, without: Answer, minimal: bool
) -> Search[Subset, CulpritSet]:
    options = tuple(found.changes[key] for key in keys)
    own = yield from _find_own_effects(options)
    needs = yield from _find_dependencies(own)
    return CulpritSet(options, with_it, without, own, needs, minimal)
