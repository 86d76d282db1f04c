"""What people read of a search."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.bisect.answer import Bisection, NumericFlip
from perfcli.bisect.metrics import Metric
from perfcli.commands._bisect_catalogue_view import best_line, improvement
from perfcli.commands._bisect_progress import written
from perfcli.commands._bisect_words import change, dependency, listed
from perfcli.search.numeric import Value
from perfcli.search.result import Culprits, CulpritSet


def lines(found: Bisection) -> list[str]:
    """The whole report but the comparison of the ends."""
    body = [
        *_title(found),
        *(_culprits(found, found.culprits) if found.culprits else ()),
        *(improvement(found, found.improvement) if found.improvement else ()),
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
        return best_line(found, found.improvement)
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
        yield f"suspects for the rest: {listed(culprits.suspects)}"
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
