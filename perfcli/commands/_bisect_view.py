"""What people read of a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.bisect.answer import Bisection, NumericFlip
from perfcli.bisect.metrics import Metric
from perfcli.commands._bisect_progress import written
from perfcli.search.improvement import Effect, Improvement
from perfcli.search.numeric import Value
from perfcli.search.options import OptionChange
from perfcli.search.result import Culprits, CulpritSet, Dependency

MOST_EFFECTS = 12


def lines(found: Bisection) -> list[str]:
    """The whole report but the comparison of the ends."""
    body = [
        *_title(found),
        *(_culprits(found, found.culprits) if found.culprits else ()),
        *(_improvement(found, found.improvement) if found.improvement else ()),
        *_flips(found),
        *_across(found),
        *_failures(found),
        *_cure(found),
        "",
        _cost(found),
        *_go_on(found),
    ]
    return [units.printable(line) for line in body]


def verdict(found: Bisection) -> str:
    """One line."""
    if found.improvement is not None:
        return _best_line(found, found.improvement)
    if found.culprits is None or found.culprits.status is None:
        return f"no answer yet: stopped {found.stopped}"
    names = [" with ".join(map(change, s.options)) for s in found.culprits.sets]
    blamed = "; ".join(names)
    match found.culprits.status:
        case "explained":
            return f"to blame: {blamed}"
        case "partly explained":
            return f"to blame, but not for all of it: {blamed}"
        case "not worse":
            return f"good is not better than bad: {_both(found)}"
        case _:
            return "no option is to blame: " + _reason(found, found.culprits)


def _both(found: Bisection) -> str:
    """``12 and 12, exact``, or two times with the interval of their ratio."""
    ends = found.ends
    assert ends is not None
    if ends.ratio is None:
        writer = units.writer(found.metric.of_runs)
        return f"{writer(ends.good)} and {writer(ends.bad)}, exact"
    change = units.interval(ends.ratio, ends.low, ends.high)
    times = " and ".join(units.alike(ends.good, ends.bad))
    return f"{times}, {change}, noise floor {units.percent(ends.floor)}"


def _reason(found: Bisection, culprits: Culprits) -> str:
    if culprits.stopped:
        return f"stopped {culprits.stopped}"
    if found.across is not None and found.unexplained:
        return f"torch {found.across.bad_torch} has it with either's defaults"
    return {
        "good side is bad": "the good side is as bad",
        "an end is unresolved": "an end has no answer",
    }.get(culprits.status or "", "measurements contradict each other")


def change(option: OptionChange) -> str:
    """``online_softmax=false (true)``."""
    return f"{option.name}={units.setting(option.bad)} ({units.setting(option.good)})"


def _title(found: Bisection) -> Iterator[str]:
    yield f"{found.title} · {units.title(found.metric.of_runs)}"
    if found.ends is not None:
        ends = found.ends
        writer = units.writer(found.metric.of_runs) if not found.metric.is_timed else units.seconds
        interval = ""
        if ends.ratio is not None:
            interval = f", {units.interval(ends.ratio, ends.low, ends.high)}"
        yield f"good {writer(ends.good)} → bad {writer(ends.bad)}{interval}"
    if found.direction is None:
        differ = "differs" if len(found.changes) == 1 else "differ"
        yield f"{units.plural(len(found.changes), 'option')} {differ} between the two"
    else:
        options = len({option.name for option in found.changes})
        changes = units.plural(len(found.changes), "change")
        yield f"catalogue: {units.plural(options, 'option')}, {changes} to try"
    yield ""
    yield verdict(found)
    yield ""


# --- between two sides -------------------------------------------------------------------------


def _culprits(found: Bisection, culprits: Culprits) -> Iterator[str]:
    several = len(culprits.sets) > 1
    for number, blamed in enumerate(culprits.sets, 1):
        yield from _set(found, blamed, number if several else 0, number == len(culprits.sets))
    share = culprits.share(culprits.left)
    if culprits.sets and share is not None and abs(share) >= 0.005:
        left = culprits.left.value if culprits.left else None
        yield f"without all of them {written(found.metric, left)}: {units.percent(share)} is left"
    if culprits.status != "explained" and culprits.suspects and culprits.sets:
        yield f"suspects for the rest: {_listed(culprits.suspects)}"
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
    yield from (f"   {_dependency(each)}" for each in blamed.dependencies)


def _dependency(found: Dependency) -> str:
    needs = " or ".join(option.name for option in found.needs)
    return f"{change(found.option)} does nothing without {needs}"


def _listed(options: Sequence[OptionChange], most: int = 6) -> str:
    more = f" and {len(options) - most} more" if len(options) > most else ""
    return ", ".join(map(change, options[:most])) + more


def _flips(found: Bisection) -> Iterator[str]:
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


# --- a catalogue -------------------------------------------------------------------------------


def _best_line(found: Bisection, best: Improvement) -> str:
    better = "better" if found.direction == "improve" else "worse"
    if best.baseline is None:
        return f"no answer yet: stopped {found.stopped}"
    if not best.best:
        rest = ", of those tried" if best.stopped else ""
        return f"no option of the catalogue makes {units.title(found.metric.of_runs)} {better}" + (
            f" than {written(found.metric, best.baseline.value)}{rest}"
        )
    value = best.answer.value if best.answer else None
    return (
        f"{'best' if found.direction == 'improve' else 'worst'}: "
        f"{written(found.metric, best.baseline.value)} → {written(found.metric, value)} with "
        f"{_listed(best.best, 9)}"
    )


def _improvement(found: Bisection, best: Improvement) -> Iterator[str]:
    telling = [e for e in best.effects if e.gain and e.same_as is None]
    telling.sort(key=lambda effect: -(effect.gain or 0.0))
    same: dict[str, list[str]] = {}
    for effect in best.effects:
        if effect.same_as is not None:
            same.setdefault(effect.same_as.key, []).append(change(effect.change))
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
        f"{silent} of {units.plural(len(best.effects), 'change')} leave the code as it is, "
        f"{neutral} change it and not the metric"
    )
    for pair in best.interactions:
        names = " with ".join(map(change, pair.options))
        writer = units.writer(found.metric.of_runs)
        sign = 1 if found.direction == "worsen" else -1
        together = units.signed(writer, sign * pair.together)
        yield f"interaction: {names}: {together}, apart {units.signed(writer, sign * pair.apart)}"
    yield from (_dependency(each) for each in best.dependencies)
    if best.pairs_left:
        yield f"{units.plural(best.pairs_left, 'pair')} not tried"


def _effect(found: Bisection, effect: Effect, same: dict[str, list[str]]) -> str:
    alike = same.get(effect.change.key, [])
    also = f"; the same code: {', '.join(alike)}" if alike else ""
    return f"   {written(found.metric, effect.answer.value)}  {change(effect.change)}{also}"


# --- the rest ----------------------------------------------------------------------------------


def _across(found: Bisection) -> Iterator[str]:
    across = found.across
    if across is None or found.ends is None:
        return
    writer = units.writer(found.metric.of_runs)
    yield ""
    yield (
        f"torch {across.good_torch} itself: {writer(across.good_value)}; torch "
        f"{across.bad_torch} with its defaults: {writer(found.ends.good)}"
    )
    rest = found.unexplained
    if rest:
        yield f"not explained by an option: {units.signed(writer, rest)}"
    else:
        yield "options explain all of it"
    for text, names in (
        ("defaults that can't be carried over", across.unsettable),
        (f"only torch {across.good_torch} has", across.only_good),
        (f"only torch {across.bad_torch} has", across.only_bad),
    ):
        if names:
            more = f" and {len(names) - 8} more (--json has all)" if len(names) > 8 else ""
            yield f"{text}: {', '.join(names[:8])}{more}"


def _failures(found: Bisection) -> Iterator[str]:
    if not found.failures:
        return
    yield f"{units.plural(len(found.failures), 'variant')} without an answer:"
    for name, why in list(found.failures.items())[:4]:
        yield f"   {name}: {why[:160]}"
    if len(found.failures) > 4:
        yield f"   and {len(found.failures) - 4} more (--json has all)"


def _cure(found: Bisection) -> Iterator[str]:
    if not found.command:
        return
    if found.direction is None and found.culprits:
        options = [option for s in found.culprits.sets for option in s.options]
        cure = ", ".join(f"{option.name}={units.setting(option.good)}" for option in options)
        yield ""
        yield f"cure: {cure}"
    yield found.command


def _cost(found: Bisection) -> str:
    cost = found.cost
    parts = [
        f"{cost.compiled} compiled" + (f", {cost.failed} failed" if cost.failed else ""),
        f"{cost.inferred} known without: nobody reads what they set" if cost.inferred else "",
        units.plural(cost.classes, "class", "classes") + " of identical code",
        units.plural(cost.measured, "measurement") if found.metric.is_timed else "",
        units.seconds(cost.seconds),
    ]
    return " · ".join(filter(None, parts))


def _go_on(found: Bisection) -> Iterator[str]:
    if found.stopped:
        yield f"stopped {found.stopped}: --resume {found.id} goes on"
