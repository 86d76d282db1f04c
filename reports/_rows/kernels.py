"""A kernel as a row of numbers: which columns there are, in order of importance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perfcli import units
from perfcli.model import Candidate, KernelFacts, TimeEstimate
from perfcli.units import shorten

Part = Literal["base", "head", "sum"]


@dataclass(frozen=True, slots=True)
class KernelRow:
    """Holds one kernel, or the sum of several.

    ``number`` is how a user names it to inspect-kernel.
    """

    part: Part
    number: int | None
    name: str
    cells: Mapping[str, str]
    place: str = ""
    """The part of the model that it computes: a module, else a line; empty where not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """A number of one kernel, and the metric of a group that it goes with."""

    title: str
    metric: str
    of: Callable[[KernelFacts], float | None]
    total: Callable[[Sequence[float]], float] = sum
    write: Callable[[Sequence[KernelFacts]], str] | None = None
    """Writes the cell where a number alone does not say it."""


def _source(field: str) -> Callable[[KernelFacts], float | None]:
    return lambda k: None if k.source_facts is None else getattr(k.source_facts, field)


def _best(field: str) -> Callable[[KernelFacts], float | None]:
    return lambda k: None if k.best is None else getattr(k.best, field)


def _shown(field: str) -> Callable[[KernelFacts], float | None]:
    return lambda k: None if k.shown is None else getattr(k.shown, field)


def sum_estimates(kernels: Sequence[KernelFacts]) -> float | None:
    """Return the estimated seconds per step of several kernels; None where one has none."""
    known = [seconds for kernel in kernels if (seconds := kernel.step_seconds) is not None]
    return sum(known) if known and len(known) == len(kernels) else None


def _largest_bound(kernel: KernelFacts) -> float | None:
    return max(kernel.estimate.bounds.values(), default=None) if kernel.estimate else None


def _write_bound(kernels: Sequence[KernelFacts]) -> str:
    """Return what holds one kernel up, ``DRAM 71 %``; of several each has its own."""
    return write_bounds(kernels[0].estimate, 1) if len(kernels) == 1 else ""


def write_bounds(estimate: TimeEstimate | None, most: int = 2) -> str:
    """Return what holds a kernel up, the most important first: ``DRAM 71 %, latency 22 %``."""
    if estimate is None:
        return ""
    shown = list(estimate.bounds.items())[:most]
    return ", ".join(f"{name} {write_share(share)}" for name, share in shown)


def write_share(value: float | None) -> str:
    """Return ``92 %``, in whole percent, ``<1 %``; empty where it is not known."""
    if value is None:
        return ""
    if 0 < abs(value) < 0.005:
        return "<1 %"
    return f"{'−' if value < 0 else ''}{abs(value) * 100:,.0f} %"


TIME, BOUND, TRACED = "time", "bound", "traced"

# In order of importance: a narrow screen shows the first ones.
ESTIMATED = (
    Column(TRACED, "traced_seconds", lambda k: k.traced_seconds),
    Column(TIME, "estimated_seconds", lambda k: k.step_seconds),
    Column(BOUND, "bound", _largest_bound, max, _write_bound),
)
"""Of a run alone: of two, the times of both sides stand side by side elsewhere."""
COLUMNS = (
    Column("loads", "loads", _source("loads")),
    Column("stores", "stores", _source("stores")),
    Column("vector", "vector_loads", _source("vector_loads")),
    Column("spilled", "spilled_words", lambda k: k.spilled_words),
    Column("regs", "registers", _best("registers"), max),
    Column("bytes", "bytes_moved", lambda k: k.step_bytes),
    Column("shared", "shared_bytes", _best("shared_bytes"), max),
    Column("occup.", "occupancy", _best("occupancy"), min),
)
"""Of the launch configuration that is counted: its numbers add up to the totals."""

_OF_EXPECTED = {
    "spilled": _shown("spilled_words"),
    "regs": _shown("registers"),
    "shared": _shown("shared_bytes"),
    "occup.": _shown("occupancy"),
}
RUN_COLUMNS = (
    *ESTIMATED,
    *(replace(column, of=_OF_EXPECTED.get(column.title, column.of)) for column in COLUMNS),
)
"""Of a run alone: beside its time stands the launch configuration that the time is of."""


def choose_columns(
    kernels: Iterable[KernelFacts], columns: Sequence[Column] = COLUMNS
) -> tuple[Column, ...]:
    """Return the columns of which at least one kernel knows its number; all where there are no
    kernels."""
    kernels = tuple(kernels)
    known = (c for c in columns if any(c.of(kernel) is not None for kernel in kernels))
    return tuple(known) if kernels else COLUMNS


def write_cells(
    kernels: Sequence[KernelFacts], columns: Sequence[Column] = (*ESTIMATED, *COLUMNS)
) -> dict[str, str]:
    """Return column title to text; for several kernels, the sum or the worst."""
    found = {}
    for column in columns:
        if column.write is not None:
            found[column.title] = column.write(kernels)
            continue
        known = [value for kernel in kernels if (value := column.of(kernel)) is not None]
        value = column.total(known) if known else None
        found[column.title] = units.writer(column.metric)(value)
    return found


def write_kernel(
    number: int,
    kernel: KernelFacts,
    part: Part = "head",
    columns: Sequence[Column] = (*ESTIMATED, *COLUMNS),
) -> KernelRow:
    launches = f" ×{kernel.launches}" if kernel.launches != 1 else ""
    name = units.printable(kernel.name) + launches
    return KernelRow(part, number, name, write_cells([kernel], columns), _name_place(kernel))


def _name_place(kernel: KernelFacts) -> str:
    """Return ``blocks.3.norm``, or ``model.py:31`` where no module is known."""
    return _most_common([o.module for o in kernel.origins if o.module]) or _name_line(kernel)


def _name_line(kernel: KernelFacts) -> str:
    return _most_common([o.location.rpartition("/")[2] for o in kernel.origins if o.location])


def _most_common(names: Sequence[str]) -> str:
    """Return the name with most of the operators, and how many others there are."""
    counted = Counter(names).most_common()
    more = f" +{len(counted) - 1}" if len(counted) > 1 else ""
    return units.printable(counted[0][0]) + more if counted else ""


def name_places(kernels: Sequence[KernelFacts]) -> list[str]:
    """Return the place of each kernel of a list: kernels of one module are told apart by the number
    of the line, ``norm :31``, where they have different ones."""
    places = [_name_place(kernel) for kernel in kernels]
    numbers = [_name_line(kernel).partition(" +")[0].rpartition(":")[2] for kernel in kernels]
    of_place: dict[str, set[str]] = {}
    for place, number in zip(places, numbers, strict=True):
        of_place.setdefault(place, set()).add(number)
    return [
        f"{place} :{number}" if number and ":" not in place and len(of_place[place]) > 1 else place
        for place, number in zip(places, numbers, strict=True)
    ]


def write_occupancy(candidate: Candidate) -> str:
    """Return ``12.5 % (registers)``."""
    limit = f" ({candidate.occupancy_limit})" if candidate.occupancy_limit else ""
    return units.percent(candidate.occupancy) + (limit if candidate.occupancy is not None else "")


_CANDIDATE_TITLES = (
    "warps", "stages", "regs", "spilled", "STL", "LDL", "shared", "occupancy",
)  # fmt: skip


def list_candidate_titles(kernel: KernelFacts) -> tuple[str, ...]:
    """Return the titles of what its launch configurations cost, with the time where it is
    estimated."""
    return (*([TIME] if kernel.estimate else []), *_CANDIDATE_TITLES)


def write_candidate(number: int, kernel: KernelFacts) -> tuple[str, ...]:
    """Return what a launch configuration costs, in the order of these titles."""
    candidate, estimate = kernel.candidates[number], kernel.estimate
    times = [units.seconds(estimate.candidates.get(number))] if estimate else []
    return (
        *times,
        units.count(candidate.num_warps or None),  # 0: a trace, or a failed compilation
        units.count(candidate.num_stages or None),
        units.count(candidate.registers),
        units.count(candidate.spilled_words),
        units.count(candidate.local_stores),
        units.count(candidate.local_loads),
        units.exact_bytes(candidate.shared_bytes),
        write_occupancy(candidate),
    )


def write_blocks(candidate: Candidate) -> str:
    """Return a launch configuration's block sizes, and why it does not compile where it does
    not."""
    config = " ".join(f"{name}={value}" for name, value in candidate.config.items())
    return f"{config} {candidate.error}".strip()


def shorten_names(text: str, names: Sequence[str], room: int, least: int) -> str:
    """Return a text whose kernel names are cut, no further than ``least``, until it fits into
    ``room`` columns."""
    known = sorted({name for name in names if name in text}, key=lambda name: -len(name))
    if not known or len(text) <= room:
        return text
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)")
    found = pattern.findall(text)
    left = room - (len(text) - sum(map(len, found)))
    share = least
    for number, name in enumerate(sorted(found, key=len)):  # short ones leave room for long ones
        share = max(left // (len(found) - number), least)
        if len(name) > share:
            break
        left -= len(name)
    return pattern.sub(lambda match: shorten(match[0], share), text)


def fold(name: str, room: int) -> list[str]:
    """Return a whole name in lines of at most ``room`` columns, broken before underscores where it
    has some."""
    lines = [""]
    for word in re.findall(r"_*[^_]+_*$|_*[^_]+|_+$", name):
        if lines[-1] and len(lines[-1]) + len(word) > room:
            lines.append("")
        lines[-1] += word
    return lines
