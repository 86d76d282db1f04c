"""What was measured, as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import (
    Comparison,
    GroupTiming,
    MemoryUse,
    Prepared,
    TimeChange,
    TimeVerdict,
    Timing,
)


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One number of the whole step. ``change``: in percent, of a time with its interval."""

    title: str
    base: str
    head: str
    delta: str
    change: str
    verdict: TimeVerdict | None = None


@dataclass(frozen=True, slots=True)
class KernelTimeRow:
    """A group of kernels, or the calls of an extern operator. ``suffix``: what became of it."""

    number: int | None
    name: str
    suffix: str
    verdict: TimeVerdict
    cells: Mapping[str, str]


# --- the step --------------------------------------------------------------------------------


def step_rows(timing: Timing) -> list[TimeRow]:
    """Times, launches, memory, and how long it took to compile; what is known of either side."""
    times = (
        ("step", timing.step),
        ("kernels together", timing.kernels_total),
        ("CPU wall", timing.wall),
    )
    known = [(title, c) for title, c in times if c and (c.base is not None or c.head is not None)]
    rows = [_time_row(title, change) for title, change in known]
    return [*rows, *_number_rows(timing)]


def _time_row(title: str, change: TimeChange) -> TimeRow:
    base, head = units.alike(change.base, change.head)
    delta = units.signed(units.seconds, change.delta) if change.delta is not None else ""
    moved = units.interval(change.ratio, change.low, change.high)
    return TimeRow(title, base, head, delta, moved, change.verdict)


def _number_rows(timing: Timing) -> Iterator[TimeRow]:
    sides = [timing.of("base"), timing.of("head")]
    for metric, of in _NUMBERS:
        base, head = (None if side is None else of(side) for side in sides)
        if base is not None or head is not None:
            yield _number_row(_title(metric, sides), metric, base, head)


def _title(metric: str, sides: Sequence[Prepared | None]) -> str:
    resident = any(side and side.memory and "resident" in side.memory.method for side in sides)
    return "peak resident" if metric == "peak_allocated_bytes" and resident else units.title(metric)


def _number_row(title: str, metric: str, base: float | None, head: float | None) -> TimeRow:
    write = units.writer(metric)
    delta = None if base is None or head is None else head - base
    moved = units.signed(write, delta) if delta else ""
    return TimeRow(title, write(base), write(head), moved, units.relative(base, head))


def _memory(field: str) -> Callable[[Prepared], float | None]:
    def value(side: Prepared) -> float | None:
        memory: MemoryUse | None = side.memory
        found: float | None = None if memory is None else getattr(memory, field)
        return found

    return value


_NUMBERS: tuple[tuple[str, Callable[[Prepared], float | None]], ...] = (
    ("launches", lambda side: side.launch_count),
    ("peak_allocated_bytes", _memory("peak_allocated_bytes")),
    ("peak_reserved_bytes", _memory("peak_reserved_bytes")),
    ("compile_seconds", lambda side: side.compile_seconds),
)


# --- kernels ---------------------------------------------------------------------------------


def _times(group: GroupTiming) -> str:
    return units.from_to(group.change.base, group.change.head)


def _change(group: GroupTiming) -> str:
    """In percent; in seconds where there is nothing to hold it against."""
    change = group.change
    if change.ratio is None:
        return "" if group.delta is None else units.signed(units.seconds, group.delta)
    return units.interval(change.ratio, change.low, change.high)


def share(value: float | None) -> str:
    """``92 %``, in whole percent, ``<1 %``; empty where it is not known."""
    if value is None:
        return ""
    if 0 < abs(value) < 0.005:
        return "<1 %"
    return f"{'−' if value < 0 else ''}{abs(value) * 100:,.0f} %"


def _mark(group: GroupTiming) -> str:
    """The verdict; of what one side alone has, which."""
    sides = bool(group.change.base), bool(group.change.head)
    return {(True, False): "gone", (False, True): "new"}.get(sides, group.change.verdict)


# Title and text: in order of importance, a narrow screen shows the first ones.
COLUMNS: tuple[tuple[str, Callable[[GroupTiming], str]], ...] = (
    ("base → head", _times),
    ("change", _change),
    ("", _mark),
    ("of change", lambda group: share(group.share_of_change)),
    ("of step", lambda group: share(group.share_of_step)),
    ("rate", lambda g: "" if g.head_bandwidth is None else units.rate(g.head_bandwidth)),
    ("peak", lambda group: share(group.peak_share)),
    ("copy", lambda group: share(group.copy_share)),
)


def by_change(timing: Timing) -> list[GroupTiming]:
    """Largest changes first; controls, whose code is the same, only where their time is not."""
    told = [g for g in timing.groups if not g.control or g.change.verdict in ("slower", "faster")]
    timed = [group for group in told if is_timed(group)]
    return sorted(timed, key=lambda group: -abs(group.delta or 0.0))


def is_timed(group: GroupTiming) -> bool:
    """Whether its time is known on one side at least."""
    return group.change.base is not None or group.change.head is not None


def kernel_time_row(group: GroupTiming, comparison: Comparison) -> KernelTimeRow:
    cells = {title: text(group) for title, text in COLUMNS}
    name = units.printable(group.name)
    number = _number(group, comparison)
    return KernelTimeRow(number, name, _suffix(group, comparison), group.change.verdict, cells)


def _number(group: GroupTiming, comparison: Comparison) -> int | None:
    """The kernel's number in the head, which inspect-kernel takes."""
    if group.group is None:
        return None
    match, kernels = comparison.groups[group.group].match, comparison.head.kernels
    named = (number for number in match.head if kernels[number].name == group.name)
    return next(named, match.head[0] if match.head else None)


def _suffix(group: GroupTiming, comparison: Comparison) -> str:
    if group.group is None:
        return "extern"
    if group.control:
        return "same code"
    match = comparison.groups[group.group].match
    many = {len(match.base), len(match.head)} - {0, 1}
    return f"{len(match.base)} → {len(match.head)}" if many else ""
