"""What people read of the options to blame: their proof, their own effects, where they flip."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.bisect.answer import Bisection, NumericFlip
from perfcli.bisect.metrics import Metric
from perfcli.commands._bisect_progress import written
from perfcli.commands._bisect_words import change, dependency, listed
from perfcli.search.numeric import Value
from perfcli.search.result import Culprits, CulpritSet


def culprit_sets(found: Bisection, culprits: Culprits) -> Iterator[str]:
    """Each set with its proof, and what they leave."""
    several = len(culprits.sets) > 1
    for number, blamed in enumerate(culprits.sets, 1):
        yield from _set(found, blamed, number if several else 0, number == len(culprits.sets))
    share = culprits.share(culprits.left)
    if culprits.sets and culprits.left and share is not None and share >= 0.005:
        left = written(found.metric, culprits.left.value)
        yield f"without all of them {left}: {units.percent(share)} is left"
    if culprits.status != "explained" and culprits.suspects and culprits.sets:
        yield f"suspects for the rest: {listed(culprits.suspects)}"
    elif culprits.status is None and len(culprits.suspects) == len(found.changes):
        yield "none of them is ruled out yet"
    elif culprits.status is None and culprits.suspects:
        yield f"narrowed down to: {listed(culprits.suspects)}"
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
        yield f"{head}{' with '.join(map(change, blamed.options))}{kind}"
    proof = "proven both ways" if blamed.proven else "not proven both ways"
    if not last:
        proof = "the rest is below"
    earlier = " and what is above" if number > 1 else ""
    yield f"   good + it: {written(metric, blamed.with_it.value)}"
    yield f"   bad − it{earlier}: {written(metric, blamed.without.value)}; {proof}"
    if not blamed.minimal:
        yield "   some smaller sets have no answer: it may not be minimal"
    for own in blamed.own if blamed.is_interaction else ():
        silent = ", the same code" if own.changes_code is False else ""
        yield f"   {own.option.name} alone: {written(metric, own.alone.value)}{silent}"
    yield from (f"   {dependency(each)}" for each in blamed.dependencies)


def flips(found: Bisection) -> Iterator[str]:
    """The values at which culprits that are numbers flip."""
    for flip in found.flips:
        yield from _flip(flip, found.metric)


def _flip(found: NumericFlip, metric: Metric) -> Iterator[str]:
    flip, tested = found.flip, dict(found.flip.tested)

    def at(value: Value) -> str:
        answer = tested.get(value)
        return written(metric, answer.value) if answer else units.NOT_KNOWN

    good, bad = flip.last_good, flip.first_bad
    word = {None: "flips somewhere between", "found": "flips between"}.get(flip.status)
    if word is None and flip.status != "between unresolved values":
        yield f"{found.option}: no flip: {flip.status}"
        return
    yield (
        f"{found.option} {word or 'flips somewhere between'} {good} ({at(good)}) and {bad} "
        f"({at(bad)}); {found.compiled} compiled"
    )
    if flip.back:
        values = ", ".join(map(str, flip.back))
        yield f"   not monotone: it falls again at {values}, so there may be other flips"
