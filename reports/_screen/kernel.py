"""Shows one kernel on the screen: facts, where it comes from, its candidates, and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from perfcli import units
from perfcli.model import Candidate, KernelFacts, LineCounts, Origin, Selection, TimeEstimate

from .._rows.kernels import fold, write_bounds, write_occupancy
from .candidates import _Candidates
from .selections import _draw_selection
from .tables import Hanging

_GUTTER = "{:>4} {:>4} {:>4} {:>4}"
_SECTORS = " {:>7}"
_WASTEFUL = 2.0
"""Times the sectors that an access needs: from here on its column is red."""


@dataclass(frozen=True)
class SourceView:
    """Shows each line behind its LDG, STG, LDL and STL instructions, spills in red, and behind the
    sectors that an instruction of a warp moves, of those that it needs.

    What is longer than the screen is wide is cut, or the columns would be lost: --source prints it
    in full.
    """

    source: str
    chosen: Candidate | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines():
            line.no_wrap = True
            line.truncate(options.max_width, overflow="ellipsis")
            yield line

    def _lines(self) -> Iterator[Text]:
        lines = self.chosen.lines if self.chosen else {}
        sectors = _list_sectors(self.chosen)
        if lines:
            header = _GUTTER.format("LDG", "STG", "LDL", "STL")
            header += _SECTORS.format("sectors") if sectors else ""
            yield Text(header, style="dim")
        source = units.printable(self.source).expandtabs(4).splitlines()
        for number, line in enumerate(source, 1):
            counts = lines.get(str(number), LineCounts())
            spills = counts.local_loads or counts.local_stores
            text = Text()
            if lines:
                text.append(_write_gutter(counts), style="bold red" if spills else "cyan")
                if sectors:
                    own, wasteful = sectors.get(number, ("", False))
                    text.append(_SECTORS.format(own), style="bold red" if wasteful else "cyan")
                text.append("!" if spills else " ", style="bold red")
            text.append(f"{number:>4} ", style="dim")
            yield text.append(line, style="red" if spills else "")


def _write_gutter(counts: LineCounts) -> str:
    numbers = (counts.global_loads, counts.global_stores, counts.local_loads, counts.local_stores)
    return _GUTTER.format(*(n or "" for n in numbers))


def _list_sectors(chosen: Candidate | None) -> dict[int, tuple[str, bool]]:
    """Return for each line that moves memory ``32/4``, the sectors of one instruction of a warp and
    those it needs, or ``?``, and whether they are far too many; of several the most wasteful."""
    found: dict[int, tuple[str, bool]] = {}
    accesses = chosen.work.accesses if chosen and chosen.work else None
    for access in sorted(accesses or (), key=lambda a: a.waste or 0.0):
        if not access.requests:  # by no block that was looked at
            found.setdefault(access.line, ("", False))
        elif access.waste is None:
            found[access.line] = ("?", False)
        else:
            each = (access.sectors / access.requests, access.needed / access.requests)
            fetched, needed = (f"{number:.1f}".removesuffix(".0") for number in each)
            found[access.line] = (f"{fetched}/{needed}", access.waste >= _WASTEFUL)
    return found


MOST_LINES = 30


def show_kernel(
    number: int,
    kernel: KernelFacts,
    source: str | None,
    candidate: int | None = None,
    selections: Sequence[Selection] = (),
) -> RenderableType:
    """Return the view of a kernel; ``candidate`` chooses whose line counts stand beside the source,
    by default the expected winner, or the best where nothing is expected. ``selections`` are those
    of its run."""
    chosen = kernel.shown if candidate is None else kernel.candidates[candidate]
    parts: list[RenderableType] = [_Title(number, kernel.name), _draw_facts(kernel, chosen)]
    parts += [Text(units.printable(f"note: {note}"), style="yellow") for note in kernel.notes]
    if kernel.origins:
        parts += [Text(""), Text("Computes", style="bold"), _draw_origins(kernel.origins)]
    if kernel.candidates:
        parts += [Text(""), Text("Candidates", style="bold"), _Candidates(kernel, chosen)]
    for selection in selections:
        if (kernel.graph, kernel.name) in {(use.graph, use.kernel) for use in selection.uses}:
            parts += _draw_selection(selection, kernel.name)
    if source is not None:
        parts += [Text(""), Text("Source", style="bold"), SourceView(source, chosen)]
    return Group(*parts)


@dataclass(frozen=True)
class _Title:
    """A name is longer than a narrow screen is wide: it goes on below, broken between words."""

    number: int
    name: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        label = f"{self.number}  "
        for part in fold(units.printable(self.name), options.max_width - len(label)):
            yield Text(label + part, style="bold", overflow="fold")
            label = " " * len(label)


def _draw_facts(kernel: KernelFacts, chosen: Candidate | None) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for title, text in list_facts(kernel, chosen):
        table.add_row(title, Text(text))
    return table


def list_facts(kernel: KernelFacts, chosen: Candidate | None) -> list[tuple[str, str]]:
    """Return the title and text of everything that is known of one kernel, safe to show."""
    return [*_list_source_facts(kernel), *_list_binary_facts(kernel, chosen)]


def _list_source_facts(kernel: KernelFacts) -> Iterator[tuple[str, str]]:
    launches = f"{units.plural(kernel.launches, 'launch', 'launches')} per step"
    yield "what", units.printable(f"{kernel.kind}, {kernel.language}, {kernel.graph}, {launches}")
    facts = kernel.source_facts
    if facts:
        loops = f", {facts.loads_in_loops} in {units.plural(facts.loops, 'loop')}"
        yield (
            "loads",
            f"{facts.loads}{loops if facts.loops else ''}{_write_vector(facts.vector_loads)}",
        )
        yield "stores", f"{facts.stores}{_write_vector(facts.vector_stores)}"
        yield "atomics", str(facts.atomics)
        yield "reductions", str(facts.reductions)
        if facts.parallel_regions is not None:
            yield "parallel", units.plural(facts.parallel_regions, "OpenMP region")
        yield "buffers", f"{facts.buffers_read} read, {facts.buffers_written} written"
        again = [f"{name} ×{n}" for name, n in facts.passes.items() if n > 1]
        if again:
            yield "read again", units.printable(", ".join(again))
    if kernel.bytes_moved is not None:
        bytes_read, written = units.size(kernel.bytes_read), units.size(kernel.bytes_written)
        yield "bytes", f"{bytes_read} read, {written} written, per launch{_write_swept(kernel)}"
    if kernel.grid:
        yield "grid", " × ".join(map(str, kernel.grid))
    if kernel.traced_seconds is not None:
        yield "traced", f"{units.seconds(kernel.traced_seconds)} per step"
    if kernel.lower_bound_seconds is not None:
        bound = units.seconds(kernel.lower_bound_seconds)
        yield "lower bound", f"{bound} per launch, at the target's bandwidth"
    if kernel.estimate is not None:
        yield "estimated", _write_estimate(kernel.estimate)


def _write_estimate(estimate: TimeEstimate) -> str:
    """Return ``85.4 µs per launch, 62.0 to 117 µs in nine of ten cases, with configuration 2; DRAM
    71 %, latency 22 %``."""
    edges = f"{units.seconds(estimate.low)} to {units.seconds(estimate.high)} in nine of ten cases"
    parts = [f"{units.seconds(estimate.seconds)} per launch", edges]
    if estimate.candidate is not None:
        parts.append(f"with configuration {estimate.candidate}")
    if estimate.finishing:
        parts.append(f"and {units.seconds(estimate.finishing)} to finish its results")
    said = [", ".join(parts), write_bounds(estimate), *estimate.doubts]
    return "; ".join(part for part in said if part)


def _write_swept(kernel: KernelFacts) -> str:
    """Return what to say where going over a buffer again adds to the bytes."""
    if kernel.bytes_swept in (None, kernel.bytes_moved):
        return ""
    return f"; {units.size(kernel.bytes_swept)} with every sweep"


def _write_vector(number: int | None) -> str:
    return "" if number is None else f", {number} vectorised"


def _list_binary_facts(kernel: KernelFacts, chosen: Candidate | None) -> Iterator[tuple[str, str]]:
    if chosen is None or chosen.registers is None:
        return
    if kernel.expected is not None and kernel.expected is not kernel.best:
        yield "shown", _describe_choice(kernel, chosen)
    yield "registers", units.count(chosen.registers)
    local = (chosen.local_stores, chosen.local_loads)
    spilled = f"{units.count(chosen.spilled_words)} ({units.exact_bytes(chosen.stack_bytes)} stack)"
    if local != (None, None):
        inside = (chosen.local_stores_in_loops or 0) + (chosen.local_loads_in_loops or 0)
        spilled += f", {units.count(local[0])} STL, {units.count(local[1])} LDL"
        spilled += f", {inside} in loops" if inside else ""
    if chosen.stack_bytes is not None or local != (None, None):
        yield "spilled words", spilled
    if kernel.source:  # a trace alone has none, and does not tell
        yield "sectors", _describe_sectors(chosen)
    yield "shared memory", units.exact_bytes(chosen.shared_bytes)
    yield "occupancy", write_occupancy(chosen)
    widths = [("LDG", chosen.global_loads), ("STG", chosen.global_stores)]
    said = [f"{name} {_write_widths(found)}" for name, found in widths if found]
    if said:
        yield "by width", "; ".join(said)
    tiles = [("load", chosen.tma_loads), ("store", chosen.tma_stores)]
    moved = [units.plural(number, name) for name, number in tiles if number]
    if moved:
        yield "whole tiles", f"{', '.join(moved)} (TMA)"


def _describe_sectors(chosen: Candidate) -> str:
    """Return ``loads 8 × what they need, stores 1 ×; 1 access depends on data``."""
    if chosen.work is None:
        return "unknown: the kernel's index arithmetic could not be evaluated"
    accesses = chosen.work.accesses
    if accesses is None:
        return "unknown: the run was stored before perfcli counted them"
    parts = []
    for title, kinds in (("loads", ("load",)), ("stores", ("store", "atomic"))):
        known = [a for a in accesses if a.kind in kinds and a.waste is not None]
        if known:
            times = sum(a.sectors for a in known) / sum(a.needed for a in known)
            parts.append(f"{title} {times:.3g} × what they need")
    said = [", ".join(parts)] if parts else []
    by_data = sum(a.indirect for a in accesses)
    unknown = [
        (by_data, f"where {{}} {'goes' if by_data == 1 else 'go'} depends on data"),
        (sum(not a.known and not a.indirect for a in accesses), "{} could not be evaluated"),
    ]
    said += [text.format(units.plural(n, "access", "accesses")) for n, text in unknown if n]
    return "; ".join(said) or "none: it moves nothing"


def _describe_choice(kernel: KernelFacts, chosen: Candidate) -> str:
    """Return ``configuration 2, expected to win``: whose registers and spills are shown."""
    number = next(n for n, each in enumerate(kernel.candidates) if each is chosen)
    if chosen is kernel.expected:
        why = ", expected to win"
    else:
        why = ", which spills least" if chosen is kernel.best else ""
    return f"configuration {number}{why}"


def _write_widths(found: Mapping[str, int]) -> str:
    bits = sorted(found, key=int, reverse=True)
    return ", ".join(f"{found[b]} × {b} bit" for b in bits)


def _draw_origins(origins: tuple[Origin, ...]) -> RenderableType:
    """Return lines of the model, each with the operators that it became here, in which modules."""
    lines: dict[tuple[str, str], list[Origin]] = {}
    for origin in origins:
        lines.setdefault((origin.location, origin.code), []).append(origin)
    parts: list[RenderableType] = []
    for (location, code), found in list(lines.items())[:MOST_LINES]:
        place = f"{shorten_location(location)}  " if location else ""
        parts.append(Hanging(Text.assemble((place, "dim"), code or "no line of the model")))
        operators = ", ".join(dict.fromkeys(write_operator(origin) for origin in found))
        modules = ", ".join(dict.fromkeys(o.module for o in found if o.module))
        text = Text.assemble(operators, (f"  in {modules}" if modules else "", "dim"))
        parts.append(Hanging(text, 4))
    if len(lines) > MOST_LINES:
        parts.append(Text(f"… and {len(lines) - MOST_LINES} more lines", style="dim"))
    return Group(*parts)


def write_operator(origin: Origin) -> str:
    name = (origin.op or origin.node).removesuffix(".default")
    return f"{name} {'×'.join(str(size) for size in origin.shape)}".rstrip()


def shorten_location(location: str) -> str:
    """Return the file and its folder: enough to find it, and a third of the width."""
    parts = location.split("/")
    return location if len(parts) <= 3 else "…/" + "/".join(parts[-2:])
