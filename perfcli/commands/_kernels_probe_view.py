"""A probe's launches on the screen: a table, bars of registers, and where the cliff is in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.commands._kernels_bench_view import bar
from perfcli.model import Problem, Target

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
        """The cliff's rows, the fewest reads first."""
        return sorted((r for r in self.rows if r.launch == key(cliff)), key=lambda r: r.reads)


def key(cliff: Any) -> tuple[str, int, int, int]:
    return (cliff.dtype, cliff.num_warps, cliff.block, cliff.num_stages)


def report(probed: Probed) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    shape = f"{probed.problem.rows} × {probed.problem.columns}"
    title = f"mix-order reduction of {shape} on {probed.target.name} ({probed.target.arch})"
    what = "registers of a thread + spilled words of 32 bits, by the number of full-size reads"
    parts: list[Any] = [Text(title, style="bold"), Text(what, style="dim"), Text("")]
    parts.append(_table(probed, _facts))
    if probed.is_timed:
        parts += [Text("\nµs, and times the fewest seconds per byte of this dtype", style="dim")]
        parts += [Text(""), _table(probed, _times)]
    for cliff in probed.cliffs:
        if has_cliff(cliff) or key(cliff) in probed.inductors:
            parts += [Text(""), *_bars(probed, cliff)]
    parts += [Text(""), Text("The cliff", style="bold"), *map(Text, words(probed))]
    errors = {row.error: None for row in probed.rows if row.error}
    return Group(*parts, *(Text(units.printable(text), style="red") for text in errors))


def has_cliff(cliff: Any) -> bool:
    return cliff.spills_from is not None or cliff.slow_from is not None


def launch_name(cliff: Any) -> str:
    warps, stages = units.plural(cliff.num_warps, "warp"), units.plural(cliff.num_stages, "stage")
    return f"{warps}, {units.plural(cliff.block, 'row')} at a time, {stages}"


def _table(probed: Probed, cell: Any) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for title in ("dtype", "warps", "rows", "stages", *probed.reads):
        table.add_column(justify="left" if title == "dtype" else "right", no_wrap=True)
    heads = ["dtype", "warps", "rows", "stages", *(f"{reads} reads" for reads in probed.reads)]
    table.add_row(*(Text(head, style="dim") for head in heads))
    for cliff in probed.cliffs:
        cells = {row.reads: cell(probed, row) for row in probed.of(cliff)}
        own = "bold" if key(cliff) in probed.inductors else ""
        head = [Text(str(part), style=own) for part in key(cliff)]
        table.add_row(*head, *(cells.get(reads, Text("")) for reads in probed.reads))
    return table


def _facts(_probed: Probed, row: Any) -> Any:
    from rich.text import Text

    if row.registers is None:
        return Text("refused" if row.error else "–", style="red")
    spilled = f" + {row.spilled_words:,}" if row.spilled_words else ""
    return Text(f"{row.registers}{spilled}", style="red" if spilled else "")


def _times(probed: Probed, row: Any) -> Any:
    from rich.text import Text

    if row.seconds is None:
        return Text("–")
    known = [r.seconds_per_byte for r in probed.rows if r.dtype == row.dtype and r.seconds]
    ratio = row.seconds_per_byte / min(known)
    return Text(f"{row.seconds * 1e6:,.0f} ({ratio:.2f})", style="red" if ratio > 1.5 else "")


def _bars(probed: Probed, cliff: Any) -> Iterator[Any]:
    """Registers as a part of what a thread can have; what is spilled, and where it begins."""
    from rich.text import Text

    own = " (torch 2.11's launch)" if key(cliff) in probed.inductors else ""
    yield Text(f"{cliff.dtype} · {launch_name(cliff)}{own}", style="bold")
    rows = [row for row in probed.of(cliff) if row.registers is not None]
    for row in rows:
        share = min(row.registers / row.most_registers, 1.0)
        spilled = f" + {row.spilled_words:,} spilled" if row.spilled_words else ""
        took = f" · {units.seconds(row.seconds)}" if row.seconds is not None else ""
        edge = "  ◂ cliff" if row.reads in (cliff.spills_from, cliff.slow_from) else ""
        text = Text(f"{row.reads:>4} reads  {bar(share, BAR_CELLS):{BAR_CELLS}}  ")
        text.append(f"{row.registers:>3}{spilled}{took}{edge}", style="red" if spilled else "")
        yield text


def words(probed: Probed) -> list[str]:
    """Where it is for each launch that has one, and which launches have none."""
    lines, most = [], probed.reads[-1]
    for dtype in dict.fromkeys(cliff.dtype for cliff in probed.cliffs):
        own = [c for c in probed.cliffs if c.dtype == dtype and c.most_clean_reads is not None]
        every = [c for c in probed.cliffs if c.dtype == dtype]
        lines += [_sentence(probed, cliff) for cliff in every if has_cliff(cliff)]
        without = [cliff for cliff in own if not has_cliff(cliff)]
        if without:
            which = "any launch" if len(without) == len(every) else _listed(without)
            lines.append(f"{dtype}, {which}: no cliff up to {most} reads")
    return lines


def _listed(cliffs: Sequence[Any]) -> str:
    """Launches by warps and rows: ``2 warps with 1 row at a time, 4 warps with 1 or 4 rows …``."""
    parts = []
    for warps in dict.fromkeys(cliff.num_warps for cliff in cliffs):
        blocks = sorted({cliff.block for cliff in cliffs if cliff.num_warps == warps})
        rows = " or ".join(map(str, blocks)) + (" row" if blocks == [1] else " rows")
        parts.append(f"{units.plural(warps, 'warp')} with {rows} at a time")
    return ", ".join(parts)


def _sentence(probed: Probed, cliff: Any) -> str:
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
    return f"{cliff.dtype}, {launch_name(cliff)}: {', '.join(parts)}"


def document(probed: Probed) -> dict[str, Any]:
    return {
        "problem": probed.problem,
        "target": probed.target.name,
        "launches": list(probed.rows),
        "cliffs": list(probed.cliffs),
        "words": words(probed),
    }
