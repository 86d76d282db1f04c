"""A probe's launches on the screen: a table, bars of registers, and where the cliff is in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.model import Problem, Target
from perfcli.workbench.bench_view import draw_bar

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_CELLS = 32


@dataclass(frozen=True, slots=True)
class Probed:
    """``rows`` and ``cliffs`` are the probe's own; ``inductors`` are the launches of torch's."""

    rows: Sequence[Any]
    cliffs: Sequence[Any]
    inductors: set[Any]
    problem: Problem
    target: Target

    @property
    def is_timed(self) -> bool:
        return any(row.seconds is not None for row in self.rows)

    @property
    def reads(self) -> list[int]:
        return sorted({row.reads for row in self.rows})

    def of(self, cliff: Any) -> list[Any]:
        """Return the cliff's rows, the fewest reads first."""
        return sorted((r for r in self.rows if r.launch == _key(cliff)), key=lambda r: r.reads)


def _key(cliff: Any) -> tuple[str, int, int, int]:
    return (cliff.dtype, cliff.num_warps, cliff.block, cliff.num_stages)


def _draw_report(probed: Probed) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    shape = f"{probed.problem.rows} × {probed.problem.columns}"
    title = f"mix-order reduction of {shape} on {probed.target.name} ({probed.target.arch})"
    what = "registers of a thread + spilled words of 32 bits, by the number of full-size reads"
    parts: list[Any] = [Text(title, style="bold"), Text(what, style="dim"), Text("")]
    parts.append(_draw_table(probed, _list_facts))
    if probed.is_timed:
        parts += [Text("\nµs, and times the fewest seconds per byte of this dtype", style="dim")]
        parts += [Text(""), _draw_table(probed, _list_times)]
    for cliff in probed.cliffs:
        if _has_cliff(cliff) or _key(cliff) in probed.inductors:
            parts += [Text(""), *_draw_bars(probed, cliff)]
    parts += [Text(""), Text("The cliff", style="bold"), *map(Text, write_settings(probed))]
    errors = {row.error: None for row in probed.rows if row.error}
    return Group(*parts, *(Text(units.printable(text), style="red") for text in errors))


def _has_cliff(cliff: Any) -> bool:
    return cliff.spills_from is not None or cliff.slow_from is not None


def _name_launch(cliff: Any) -> str:
    warps, stages = units.plural(cliff.num_warps, "warp"), units.plural(cliff.num_stages, "stage")
    return f"{warps}, {units.plural(cliff.block, 'row')} at a time, {stages}"


def _draw_table(probed: Probed, cell: Any) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for title in ("dtype", "warps", "rows", "stages", *probed.reads):
        table.add_column(justify="left" if title == "dtype" else "right", no_wrap=True)
    heads = ["dtype", "warps", "rows", "stages", *(f"{reads} reads" for reads in probed.reads)]
    table.add_row(*(Text(head, style="dim") for head in heads))
    for cliff in probed.cliffs:
        cells = {row.reads: cell(probed, row) for row in probed.of(cliff)}
        own = "bold" if _key(cliff) in probed.inductors else ""
        head = [Text(str(part), style=own) for part in _key(cliff)]
        table.add_row(*head, *(cells.get(reads, Text("")) for reads in probed.reads))
    return table


def _list_facts(_probed: Probed, row: Any) -> Any:
    from rich.text import Text

    if row.registers is None:
        return Text("refused" if row.error else "–", style="red")
    spilled = f" + {row.spilled_words:,}" if row.spilled_words else ""
    return Text(f"{row.registers}{spilled}", style="red" if spilled else "")


def _list_times(probed: Probed, row: Any) -> Any:
    from rich.text import Text

    if row.seconds is None:
        return Text("–")
    known = [r.seconds_per_byte for r in probed.rows if r.dtype == row.dtype and r.seconds]
    ratio = row.seconds_per_byte / min(known)
    return Text(f"{row.seconds * 1e6:,.0f} ({ratio:.2f})", style="red" if ratio > 1.5 else "")


def _draw_bars(probed: Probed, cliff: Any) -> Iterator[Any]:
    """Return bars of registers as a part of what a thread can have, with what is spilled and where
    that begins."""
    from rich.text import Text

    own = " (torch 2.11's launch)" if _key(cliff) in probed.inductors else ""
    yield Text(f"{cliff.dtype} · {_name_launch(cliff)}{own}", style="bold")
    rows = [row for row in probed.of(cliff) if row.registers is not None]
    for row in rows:
        share = min(row.registers / row.most_registers, 1.0)
        spilled = f" + {row.spilled_words:,} spilled" if row.spilled_words else ""
        took = f" · {units.seconds(row.seconds)}" if row.seconds is not None else ""
        edge = "  ◂ cliff" if row.reads in (cliff.spills_from, cliff.slow_from) else ""
        text = Text(f"{row.reads:>4} reads  {draw_bar(share, BAR_CELLS):{BAR_CELLS}}  ")
        text.append(f"{row.registers:>3}{spilled}{took}{edge}", style="red" if spilled else "")
        yield text


def write_settings(probed: Probed) -> list[str]:
    """Return where it is for each launch that has one, and which launches have none."""
    lines, most = [], probed.reads[-1]
    for dtype in dict.fromkeys(cliff.dtype for cliff in probed.cliffs):
        own = [c for c in probed.cliffs if c.dtype == dtype and c.most_clean_reads is not None]
        every = [c for c in probed.cliffs if c.dtype == dtype]
        lines += [_write_cliff(probed, cliff) for cliff in every if _has_cliff(cliff)]
        without = [cliff for cliff in own if not _has_cliff(cliff)]
        if without:
            which = "any launch" if len(without) == len(every) else _write_cliffs(without)
            lines.append(f"{dtype}, {which}: no cliff up to {most} reads")
    return lines


def _write_cliffs(cliffs: Sequence[Any]) -> str:
    """Launches by warps and rows: ``2 warps with 1 row at a time, 4 warps with 1 or 4 rows …``."""
    parts = []
    for warps in dict.fromkeys(cliff.num_warps for cliff in cliffs):
        blocks = sorted({cliff.block for cliff in cliffs if cliff.num_warps == warps})
        rows = " or ".join(map(str, blocks)) + (" row" if blocks == [1] else " rows")
        parts.append(f"{units.plural(warps, 'warp')} with {rows} at a time")
    return ", ".join(parts)


def _write_cliff(probed: Probed, cliff: Any) -> str:
    rows, parts = probed.of(cliff), []
    if cliff.spills_from is not None:
        at = next(row for row in rows if row.reads == cliff.spills_from)
        worst = max(rows, key=lambda row: row.spilled_words or 0)
        limit = ", the limit" if at.registers and at.registers >= at.most_registers else ""
        spilled = f"{units.plural(at.spilled_words, 'word')} at {at.registers} registers{limit}"
        if worst is not at:
            spilled += f"; {worst.spilled_words:,} at {worst.reads} reads"
        parts.append(f"from {cliff.spills_from} reads on it spills ({spilled})")
    if cliff.slow_from is not None:
        parts.append(
            f"from {cliff.slow_from} reads on it takes longer per byte, up to "
            f"{cliff.slowdown:.1f} times as long"
        )
    return f"{cliff.dtype}, {_name_launch(cliff)}: {', '.join(parts)}"


def _describe_probe(probed: Probed) -> dict[str, Any]:
    return {
        "problem": probed.problem,
        "target": probed.target.name,
        "launches": list(probed.rows),
        "cliffs": list(probed.cliffs),
        "words": write_settings(probed),
    }


WIDTH, LEFT, PLOT, HEIGHT, GAP, TOP = 960, 70, 420, 240, 60, 60
_COLOURS = ("#1b6ac9", "#c9541b", "#1b9e5a", "#8a4fc0", "#b8860b", "#555555")
_PANELS: tuple[tuple[str, Callable[[Any], float | None]], ...] = (
    ("registers + spilled words of a thread", lambda row: _words(row)),
    ("nanoseconds per 1,000 bytes", lambda row: _write_time(row)),
)


def _words(row: Any) -> float | None:
    return None if row.registers is None else float(row.registers + (row.spilled_words or 0))


def _write_time(row: Any) -> float | None:
    return None if row.seconds_per_byte is None else float(row.seconds_per_byte) * 1e12


def _draw_chart(probed: Probed) -> str:
    """Stands alone. Points that spill are filled."""
    dtypes = list(dict.fromkeys(cliff.dtype for cliff in probed.cliffs))
    panels = [
        (dtype, title, value)
        for dtype in dtypes
        for title, value in _PANELS[: 2 if probed.is_timed else 1]
    ]
    height = TOP + len(panels) * (HEIGHT + GAP)
    title = (
        f"Mix-order reduction of {probed.problem.rows} × {probed.problem.columns} on "
        f"{probed.target.description}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _draw_text(12, 24, title, "black", 14),
    ]
    for number, (dtype, name, value) in enumerate(panels):
        parts += _draw_panel(probed, dtype, name, value, TOP + number * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>", ""])


def _draw_panel(
    probed: Probed, dtype: str, name: str, value: Callable[[Any], float | None], top: int
) -> Iterator[str]:
    cliffs = [cliff for cliff in probed.cliffs if cliff.dtype == dtype]
    known = [v for row in probed.rows if row.dtype == dtype and (v := value(row)) is not None]
    most = max(known, default=1.0) or 1.0
    yield _draw_text(LEFT, top - 8, f"{dtype}: {name}", "black", 12)
    yield from _draw_axes(probed.reads, most, top)
    for number, cliff in enumerate(cliffs):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = ' stroke-dasharray="5 3"' if number // len(_COLOURS) % 2 else ""
        points = [(row, v) for row in probed.of(cliff) if (v := value(row)) is not None]
        places = [(_x(row.reads, probed.reads), _y(v, most, top)) for row, v in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}"{dash}/>'
        for (row, _), (x, y) in zip(points, places, strict=True):
            fill = colour if row.spilled_words else "white"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}" stroke="{colour}"/>'
        own = " (torch 2.11)" if _key(cliff) in probed.inductors else ""
        yield _draw_text(
            LEFT + PLOT + 30, top + 14 + 17 * number, _name_launch(cliff) + own, colour, 12
        )


def _draw_axes(reads: Sequence[int], most: float, top: int) -> Iterator[str]:
    bottom = top + HEIGHT
    yield f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + PLOT}" y2="{bottom}" stroke="#999"/>'
    for count in reads:
        yield _draw_text(_x(count, reads) - 4, bottom + 16, str(count), "#777", 12)
    for share in (0.0, 0.5, 1.0):
        y = _y(share * most, most, top)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + PLOT}" y2="{y:.1f}" stroke="#eee"/>'
        yield _draw_text(12, y + 4, f"{share * most:,.4g}", "#777", 12)
    yield _draw_text(LEFT + PLOT + 4, bottom + 16, "reads", "#777", 12)


def _x(reads: int, every: Sequence[int]) -> float:
    span = max(every[-1] - every[0], 1)
    return LEFT + 10 + (PLOT - 20) * (reads - every[0]) / span


def _y(value: float, most: float, top: int) -> float:
    return top + HEIGHT - (HEIGHT - 10) * value / most


def _draw_text(x: float, y: float, text: str, fill: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}">{escape(text)}</text>'
