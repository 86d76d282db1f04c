"""What people read of a search between two torch installations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli import performance_knobs, units
from perfcli.bisect.answer import Across, Bisection, Ends

MOST_NAMES = 8


def ends_line(found: Bisection, across: Across, ends: Ends) -> str:
    """Both installations as they are."""
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
    """What options explain and what they don't, and the options that could not be tried."""
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
    """Of many names those of options worth trying for speed; the others are counted."""
    if not names:
        return
    known = {knob.name for knob in performance_knobs.load()}
    shown = names if len(names) <= MOST_NAMES else [name for name in names if name in known]
    shown = shown[:MOST_NAMES]
    others = len(names) - len(shown)
    if not shown:
        yield f"{what}: {units.plural(others, 'option')} (--json has all)"
        return
    more = f" and {others} more (--json has all)" if others else ""
    yield f"{what}: {', '.join(shown)}{more}"
