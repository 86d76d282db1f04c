"""Renders a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfcli import units
from perfcli.bisect import answers_view
from perfcli.bisect.answer import Bisection, Ends, _change, _stopped, _typed
from perfcli.bisect.answers_view import _best_line, _culprit_sets, _flips, _improvement
from perfcli.search.result import Culprits


def _lines(found: Bisection) -> list[str]:
    """Return the whole report but the comparison of the ends."""
    body = [
        *_title(found),
        *(_culprit_sets(found, found.culprits) if found.culprits else ()),
        *(_improvement(found, found.improvement) if found.improvement else ()),
        *_flips(found),
        *_installations(found),
        *_failures(found),
        *_cure(found),
        "",
        _cost(found),
        *_go_on(found),
    ]
    return [units.printable(line) for line in _without_gaps(body)]


def _without_gaps(body: Iterable[str]) -> Iterator[str]:
    """Yield the lines without two empty ones in a row, where a part had nothing to say."""
    before = ""
    for line in body:
        if line or before:
            yield line
        before = line


def _installations(found: Bisection) -> Iterator[str]:
    if found.culprits is not None and found.culprits.status == "not worse":
        return  # there is nothing to explain
    if found.across is not None and found.ends is not None:
        yield from answers_view.installations(found, found.across, found.ends)


def _verdict(found: Bisection) -> str:
    """Return one line."""
    if found.improvement is not None:
        return _best_line(found, found.improvement)
    if found.culprits is None or found.culprits.status is None:
        return f"no answer yet: {_stopped(found.stopped)}"
    names = [" with ".join(map(_change, s.options)) for s in found.culprits.sets]
    blamed = "; ".join(names)
    match found.culprits.status:
        case "explained":
            return f"to blame: {blamed}"
        case "partly explained":
            return f"to blame, but not for all of it: {blamed}"
        case "not worse":
            return f"good is not better than bad: {_both(found)}"
        case "unsure":
            return f"can't tell whether bad is worse: {_both(found)}"
        case _:
            return "no option is to blame: " + _reason(found, found.culprits)


def _both(found: Bisection) -> str:
    """Return ``12 and 12, exact``, or two times with the interval of their ratio."""
    ends = found.ends
    assert ends is not None
    if found.across is not None:
        return answers_view.both(found, found.across, ends)
    if ends.ratio is None:
        writer = units.writer(found.metric.of_runs)
        return f"{writer(ends.good)} and {writer(ends.bad)}, exact"
    change = units.interval(ends.ratio, ends.low, ends.high)
    times = " and ".join(units.alike(ends.good, ends.bad))
    if ends.estimated is not None:
        return f"{times} by estimate, {change}"
    return f"{times}, {change}, noise floor {units.percent(ends.floor)}"


def _reason(found: Bisection, culprits: Culprits) -> str:
    if culprits.stopped:
        return _stopped(culprits.stopped)
    if found.across is not None and found.unexplained:
        return f"torch {found.across.bad_torch} has it with either's defaults"
    return {
        "good side is bad": "the good side is as bad",
        "an end is unresolved": "an end has no answer",
    }.get(culprits.status or "", "measurements contradict each other")


def _title(found: Bisection) -> Iterator[str]:
    yield f"{found.title} · {units.title(found.metric.of_runs)}"
    if found.ends is not None:
        yield _ends(found, found.ends)
    if found.direction is None:
        differ = "differs" if len(found.changes) == 1 else "differ"
        # Typed options are known; between two installations nobody has seen them.
        names = ", ".join(option.name for option in found.changes) if found.across else ""
        which = f": {names}" if names else ""
        yield f"{units.plural(len(found.changes), 'option')} {differ} between the two{which}"
    else:
        options = len({option.name for option in found.changes})
        changes = units.plural(len(found.changes), "change")
        yield f"catalogue: {units.plural(options, 'option')}, {changes} to try"
    yield ""
    yield _verdict(found)
    if _wrong_way_round(found):
        yield "bad is the better one: are --good and --bad the wrong way round?"
    if found.culprits is not None and found.culprits.status == "unsure":
        yield (
            "the interval includes no change: search spills, bytes or loads instead, or measure "
            "with --metric time on a device"
        )
    yield ""


def _wrong_way_round(found: Bisection) -> bool:
    """Return whether bad is better than good; on a clock a little better is nothing to ask
    about."""
    ends, culprits = found.ends, found.culprits
    if ends is None or found.across is not None or culprits is None:
        return False
    if ends.estimated is not None:
        return ends.estimated == "faster"
    return ends.ratio is None and culprits.status == "not worse" and ends.bad < ends.good


def _ends(found: Bisection, ends: Ends) -> str:
    if found.across is not None:
        return answers_view._ends_line(found, found.across, ends)
    writer = units.writer(found.metric.of_runs) if not found.metric.is_timed else units.seconds
    interval = ""
    if ends.ratio is not None:
        interval = f", {units.interval(ends.ratio, ends.low, ends.high)}"
    return f"good {writer(ends.good)} → bad {writer(ends.bad)}{interval}"


# --- the rest ----------------------------------------------------------------------------------


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
        cure = ", ".join(_typed(option.name, option.good) for option in options)
        yield ""
        yield f"cure: {cure}"
    yield found.command


def _cost(found: Bisection) -> str:
    cost = found.cost
    parts = [
        f"{cost.compiled} compiled" + (f", {cost.failed} failed" if cost.failed else ""),
        f"{cost.inferred} not compiled: torch never reads those options" if cost.inferred else "",
        units.plural(cost.classes, "class", "classes") + " of variants with identical code",
        units.plural(cost.measured, "measurement") if found.metric.is_timed else "",
        units.seconds(cost.seconds),
    ]
    return " · ".join(filter(None, parts))


def _go_on(found: Bisection) -> Iterator[str]:
    if found.stopped:
        yield f"{_stopped(found.stopped)}: --resume {found.id} goes on"
