"""A limit and what became of it, in words."""

from __future__ import annotations

from perfcli import units
from perfcli.gate.metrics import higher_is_better
from perfcli.model import Change, Comparison, Limit


def of_change(limit: Limit, change: Change) -> str:
    """``spilled words 2 → 94, at most +0``."""
    write = units.writer(limit.metric)
    title = units.title(limit.metric)
    title = title.removesuffix(", most") if limit.kernel else title
    if change.base == change.head:
        return f"{title} {write(change.head)}, {bounds(limit)}"
    text = f"{title} {write(change.base)} → {write(change.head)}"
    if limit.metric not in ("spilled_words", "occupancy"):
        share = units.relative(change.base, change.head)
        text += f" ({share})" if share else ""
    return f"{text}, {bounds(limit)}"


def moved(change: Change) -> str:
    """``bytes moved 409 MB → 193 MB``."""
    write = units.writer(change.metric)
    return f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"


def of_time(comparison: Comparison, limit: Limit) -> str:
    """``step 12.31 → 12.70 ms, +3.1 % [+2.6, +3.7], at most +3 %``."""
    timing = comparison.timing
    assert timing is not None
    step = timing.step
    times = f"step {units.from_to(step.base, step.head)}"
    return f"{times}, {units.interval(step.ratio, step.low, step.high)}, {bounds(limit)}"


def bounds(limit: Limit) -> str:
    """``at most 40 and +1 %``; of what is better higher ``at least 50 %, at most 25 % less``."""
    write = units.writer(limit.metric)
    changes = [] if limit.growth is None else [write(limit.growth)]
    changes += [] if limit.growth_share is None else [units.percent(limit.growth_share)]
    value = [] if limit.most is None else [write(limit.most)]
    if not higher_is_better(limit.metric):
        return f"at most {' and '.join([*value, *(f'+{each}' for each in changes)])}"
    less = f"at most {' and '.join(changes)} less" if changes else ""
    return ", ".join([*(f"at least {each}" for each in value), *filter(None, [less])])
