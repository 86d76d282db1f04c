"""Renders the options to blame: their proof, their own effects, where they flip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.bisect.answer import (
    Across,
    Bisection,
    Ends,
    NumericFlip,
    _change,
    _dependency,
    _listed,
    _stopped,
)
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.progress import _written
from perfcli.options import performance
from perfcli.search.numeric import Value
from perfcli.search.question import OptionChange
from perfcli.search.result import Culprits, CulpritSet, Effect, Improvement


def _culprit_sets(found: Bisection, culprits: Culprits) -> Iterator[str]:
    """Yield each set with its proof, and what they leave."""
    several = len(culprits.sets) > 1
    for number, blamed in enumerate(culprits.sets, 1):
        yield from _set(found, blamed, number if several else 0, number == len(culprits.sets))
    share = culprits.share(culprits.left)
    if culprits.sets and culprits.left and share is not None and share >= 0.005:
        left = _written(found.metric, culprits.left.value)
        yield f"without all of them {left}: {units.percent(share)} is left"
    if culprits.status != "explained" and culprits.suspects and culprits.sets:
        yield f"suspects for the rest: {_listed(culprits.suspects)}"
    elif culprits.status is None and len(culprits.suspects) == len(found.changes):
        yield "none of them is ruled out yet"
    elif culprits.status is None and culprits.suspects:
        yield f"narrowed down to: {_listed(culprits.suspects)}"
    if culprits.contradictions:
        yield (
            f"{units.plural(culprits.contradictions, 'measurement')} contradicted earlier ones: "
            "weighed together"
        )


def _set(found: Bisection, blamed: CulpritSet, number: int, last: bool) -> Iterator[str]:
    metric = found.metric
    if number or blamed.is_interaction:
        head = f"{number}. " if number else ""
        kind = " (only together)" if blamed.is_interaction else ""
        yield f"{head}{' with '.join(map(_change, blamed.options))}{kind}"
    proof = "proven both ways" if blamed.proven else "not proven both ways"
    if not last:
        proof = "the rest is below"
    earlier = " and what is above" if number > 1 else ""
    yield f"   good + it: {_written(metric, blamed.with_it.value)}"
    yield f"   bad − it{earlier}: {_written(metric, blamed.without.value)}; {proof}"
    if not blamed.minimal:
        yield "   some smaller sets have no answer: it may not be minimal"
    for own in blamed.own if blamed.is_interaction else ():
        silent = ", the same code" if own.changes_code is False else ""
        yield f"   {own.option.name} alone: {_written(metric, own.alone.value)}{silent}"
    yield from (f"   {_dependency(each)}" for each in blamed.dependencies)


def _flips(found: Bisection) -> Iterator[str]:
    """Yield the values at which culprits that are numbers flip."""
    for flip in found.flips:
        yield from _flip(flip, found.metric)


def _flip(found: NumericFlip, metric: SearchMetric) -> Iterator[str]:
    flip, tested = found.flip, dict(found.flip.tested)

    def at(value: Value) -> str:
        answer = tested.get(value)
        if answer is None:
            return units.NOT_KNOWN
        if metric.name in _COUNTS and answer.value is not None:
            return units.plural(answer.value, _COUNTS[metric.name])
        return _written(metric, answer.value)

    good, bad = flip.last_good, flip.first_bad
    if flip.status not in (None, "found", "between unresolved values"):
        yield f"{found.option}: no flip: {flip.status}"
        return
    more = "" if flip.status == "found" else ", not known between them"
    yield (f"{found.option}={good}: {at(good)}, ={bad}: {at(bad)}{more}; {found.compiled} compiled")
    if flip.back:
        values = ", ".join(map(str, flip.back))
        yield f"   not monotone: it falls again at {values}, so there may be other flips"


_COUNTS = {"spills": "spilled word", "loads": "load", "kernels": "kernel", "registers": "register"}
"""What is counted by metrics whose values have no unit."""
MOST_NAMES = 8


def _ends_line(found: Bisection, across: Across, ends: Ends) -> str:
    """Return both installations as they are."""
    writer = units.writer(found.metric.of_runs)
    return (
        f"good {writer(across.good_value)} (torch {across.good_torch}) → "
        f"bad {writer(ends.bad)} (torch {across.bad_torch})"
    )


def both(found: Bisection, across: Across, ends: Ends) -> str:
    writer = units.writer(found.metric.of_runs)
    return (
        f"{writer(across.good_value)} (torch {across.good_torch}) and {writer(ends.bad)} "
        f"(torch {across.bad_torch}), exact"
    )


def installations(found: Bisection, across: Across, ends: Ends) -> Iterator[str]:
    """Yield what options explain and what they don't, and the options that could not be tried."""
    writer = units.writer(found.metric.of_runs)
    yield ""
    yield (
        f"torch {across.bad_torch} with the options of torch {across.good_torch}: "
        f"{writer(ends.good)}"
    )
    rest = found.unexplained
    if rest:
        yield f"not explained by an option: {units.signed(writer, rest)}"
    else:
        yield "options explain all of it"
    yield from _untried("defaults that can't be carried over", across.unsettable)
    yield from _untried(f"only torch {across.good_torch} has", across.only_good)
    yield from _untried(f"only torch {across.bad_torch} has", across.only_bad)


def _untried(what: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the names, or where they are many those worth trying for speed; the others are
    counted."""
    if not names:
        return
    known = {knob.name for knob in performance.load()}
    shown = names if len(names) <= MOST_NAMES else [name for name in names if name in known]
    shown = shown[:MOST_NAMES]
    others = len(names) - len(shown)
    if not shown:
        yield f"{what}: {units.plural(others, 'option')} (--json has all)"
        return
    more = f" and {others} more (--json has all)" if others else ""
    yield f"{what}: {', '.join(shown)}{more}"


MOST_EFFECTS = 12


def _best_line(found: Bisection, best: Improvement) -> str:
    better = "better" if found.direction == "improve" else "worse"
    if best.baseline is None:
        return f"no answer yet: {_stopped(found.stopped)}"
    if not best.best:
        rest = ", of those tried" if best.stopped else ""
        return f"no option of the catalogue makes {units.title(found.metric.of_runs)} {better}" + (
            f" than {_written(found.metric, best.baseline.value)}{rest}"
        )
    value = best.answer.value if best.answer else None
    return (
        f"{'best' if found.direction == 'improve' else 'worst'}: "
        f"{_written(found.metric, best.baseline.value)} → {_written(found.metric, value)} with "
        f"{_listed(_most_gain_first(best), 9)}"
    )


def _most_gain_first(best: Improvement) -> list[OptionChange]:
    """Return the changes of the best set in the order of what each gains alone."""
    gains = {effect.change.key: effect.gain or 0.0 for effect in best.effects}
    return sorted(best.best, key=lambda change: -gains.get(change.key, 0.0))


def _improvement(found: Bisection, best: Improvement) -> Iterator[str]:
    telling = [e for e in best.effects if e.gain and e.same_as is None]
    telling.sort(key=lambda effect: -(effect.gain or 0.0))
    same: dict[str, list[str]] = {}
    for effect in best.effects:
        if effect.same_as is not None:
            same.setdefault(effect.same_as.key, []).append(_change(effect.change))
    helping = [e for e in telling if (e.gain or 0) > 0]
    against = [e for e in reversed(telling) if (e.gain or 0) < 0]
    words = ("better", "worse") if found.direction == "improve" else ("worse", "better")
    for word, effects in zip(words, (helping, against), strict=True):
        if effects:
            yield f"alone {word}:"
        yield from (_effect(found, effect, same) for effect in effects[:MOST_EFFECTS])
        if len(effects) > MOST_EFFECTS:
            yield f"   and {len(effects) - MOST_EFFECTS} more (--json has all)"
    silent = sum(e.changes_code is False for e in best.effects)
    neutral = sum(e.gain == 0 and e.changes_code is True for e in best.effects)
    yield (
        f"{silent} of {units.plural(len(best.effects), 'change')} leave the code as it is: they "
        f"are all in one class; {neutral} change it and not the metric"
    )
    for pair in best.interactions:
        names = " with ".join(map(_change, pair.options))
        writer = units.writer(found.metric.of_runs)
        sign = 1 if found.direction == "worsen" else -1
        together = units.signed(writer, sign * pair.together)
        yield f"interaction: {names}: {together}, apart {units.signed(writer, sign * pair.apart)}"
    yield from (_dependency(each) for each in best.dependencies)
    if best.pairs_left:
        yield f"{units.plural(best.pairs_left, 'pair')} not tried, of changes that change the code"
    if best.untried and best.best:
        yield f"not tried beside the best: {_listed(best.untried, MOST_EFFECTS)}"


def _effect(found: Bisection, effect: Effect, same: dict[str, list[str]]) -> str:
    alike = same.get(effect.change.key, [])
    also = f"; the same code: {', '.join(alike)}" if alike else ""
    return f"   {_written(found.metric, effect.answer.value)}  {_change(effect.change)}{also}"
