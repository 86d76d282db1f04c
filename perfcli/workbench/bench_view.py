"""Timed problems on the screen: bars for each, a table of all, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.handwritten.contenders import COPY
from perfcli.stats.paired import Estimate
from perfcli.workbench.problems import write_problem
from perfcli.workbench.scores import OURS, ContenderScore, Score

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_CELLS = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


def _draw_problem(score: Score) -> RenderableType:
    """Return a bar for each contender, the fastest first; then what was not timed, and doubts."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    benched = score.benched
    title = (
        f"{write_problem(benched.problem)} · {units.size(benched.moved_bytes)} · "
        f"{units.plural(benched.rounds, 'round')}"
    )
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    for entry in _order(score):
        table.add_row(*(Text(cell, style=_choose_style(entry)) for cell in _write_cells(entry)))
    notes = [Text(line, style="yellow", overflow="fold") for line in _list_remarks(score)]
    return Group(Text(""), Text(title, style="bold"), table, *notes)


def _order(score: Score) -> list[ContenderScore]:
    """Return the copy, then those that were timed, the fastest first."""
    timed = [entry for entry in score.entries if entry.median is not None]
    return sorted(timed, key=lambda e: (e.name != COPY, e.median.value if e.median else 0.0))


def _write_cells(entry: ContenderScore) -> tuple[str, ...]:
    middle = entry.median
    share = 1.0 if entry.name == COPY else entry.of_copy.ratio if entry.of_copy else None
    return (
        _write_name(entry),
        units.seconds(middle.value) if middle else "",
        units.rate(entry.bytes_per_second),
        units.percent(share),
        _write_interval(entry.of_copy),
        draw_bar(share),
    )


def _write_name(entry: ContenderScore) -> str:
    return f"{OURS} ({entry.plan.variant})" if entry.name == OURS and entry.plan else entry.name


def _write_interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"[{estimate.low * 100:.1f}, {estimate.high * 100:.1f}]"


def _choose_style(entry: ContenderScore) -> str:
    if entry.timed.wrong:
        return "red"
    return "bold" if entry.name == OURS else "dim" if entry.name == COPY else ""


def draw_bar(share: float | None, cells: int = BAR_CELLS) -> str:
    """Return a bar as long as its share of the copy; one that is faster than the copy fills the
    line and ends in a +."""
    if share is None:
        return ""
    eighths = round(min(share, 1.0) * cells * 8)
    part = _EIGHTHS[eighths % 8].strip()
    return "█" * (eighths // 8) + part + ("+" if share > 1.0 else "")


def _list_remarks(score: Score) -> Iterator[str]:
    """Yield who was not timed and why, who is outside tolerance, and which variant was taken
    instead."""
    for entry in score.entries:
        if entry.timed.error:
            yield f"{entry.name}: {entry.timed.error}"
        if entry.timed.wrong:
            yield f"{entry.name}: {entry.timed.wrong}"
        if entry.plan is not None and entry.plan.instead_of:
            yield f"{_write_name(entry)}: {entry.plan.instead_of}"
    if score.ours is not None and score.ours.plan is not None and score.ours.plan.why:
        yield f"{OURS}: {score.ours.plan.why}"


def _sum_up_scores(scores: Sequence[Score]) -> RenderableType:
    """Return a row for each problem: ours, its share of the copy, and the best of the others."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("problem")
    for title in ("ours", "of copy", "best other", "ours is faster by"):
        table.add_column(title, justify="right", no_wrap=True)
    for score in scores:
        table.add_row(*map(Text, _describe_entry(score)))
    machine = scores[0].benched.machine
    versions = [f"torch {machine.torch}", f"triton {machine.triton}"]
    versions += [f"driver {machine.driver}"] if machine.driver else []
    return Group(
        Text(""),
        table,
        Text(""),
        Text(
            f"{machine.device}, {', '.join(versions)}; L2 cold, contenders in random order within "
            "each round; median, share of a copy of as many bytes with its 95 % interval",
            style="dim",
        ),
    )


def _describe_entry(score: Score) -> tuple[str, ...]:
    ours, best = score.ours, score.best_other
    against = score.against_best
    return (
        f"{write_problem(score.benched.problem)}",
        units.seconds(ours.median.value) if ours and ours.median else units.NOT_KNOWN,
        units.percent(ours.of_copy.ratio) if ours and ours.of_copy else units.NOT_KNOWN,
        f"{best.name} {units.seconds(best.median.value)}" if best and best.median else "none",
        units.interval(against.ratio, against.low, against.high) if against else "",
    )


def _describe_scores(score: Score) -> dict[str, Any]:
    """Return one problem as JSON, raw seconds included."""
    benched = score.benched
    return {
        "family": score.family,
        "problem": benched.problem,
        "moved_bytes": benched.moved_bytes,
        "rounds": benched.rounds,
        "contenders": [
            {
                "name": entry.name,
                "variant": entry.plan.variant if entry.plan else None,
                "why": entry.plan.why if entry.plan else "",
                "instead_of": entry.plan.instead_of if entry.plan else "",
                "median_seconds": entry.median,
                "bytes_per_second": entry.bytes_per_second,
                "of_copy": entry.of_copy,
                "largest_error": entry.timed.largest_error,
                "wrong": entry.timed.wrong,
                "error": entry.timed.error,
                "ready_seconds": entry.timed.ready_seconds,
                "seconds": entry.timed.seconds,
            }
            for entry in score.entries
        ],
    }


WIDTH, LABEL, PLOT, LINE, GAP, TOP = 1060, 190, 560, 18, 30, 44
MOST = 1.1
"""The share at the right edge."""
_COLOURS = {OURS: "#1b6ac9", "variant": "#8fb8e8", "other": "#9a9a9a"}


def _draw_chart(scores: Sequence[Score]) -> str:
    """Draw a chart that stands alone, with the texts of the terminal."""
    groups = [(score, [e for e in _order(score) if e.name != COPY]) for score in scores]
    height = TOP + sum(GAP + LINE * len(entries) for _, entries in groups) + 20
    machine = scores[0].benched.machine
    title = f"Share of a copy of as many bytes · {machine.device}, torch {machine.torch}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _draw_text(12, 24, title, weight="bold", size=14),
        *_draw_grid(height),
    ]
    y = TOP
    for score, entries in groups:
        parts.append(_draw_text(12, y + 20, write_problem(score.benched.problem), weight="bold"))
        y += GAP
        for entry in entries:
            parts += _draw_chart_bar(entry, y)
            y += LINE
    return "\n".join([*parts, "</svg>", ""])


def _draw_grid(height: int) -> Iterator[str]:
    for share in (0.25, 0.5, 0.75, 1.0):
        x = LABEL + PLOT * share / MOST
        dash = "" if share == 1.0 else ' stroke-dasharray="2 4"'
        yield (
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 8}" stroke="#ccc"{dash}/>'
        )
        yield _draw_text(x - 12, TOP - 4, units.percent(share), fill="#777")


def _draw_chart_bar(entry: ContenderScore, y: int) -> Iterator[str]:
    share = entry.of_copy.ratio if entry.of_copy and entry.of_copy.ratio else 0.0
    kind = OURS if entry.name == OURS else "variant" if entry.is_ours else "other"
    width = PLOT * min(share, MOST) / MOST
    name = f"{OURS} ({entry.plan.variant})" if entry.name == OURS and entry.plan else entry.name
    seconds = units.seconds(entry.median.value) if entry.median else ""
    label = f"{units.percent(share)} · {seconds} · {units.rate(entry.bytes_per_second)}"
    yield _draw_text(24, y + 12, name)
    yield (
        f'<rect x="{LABEL}" y="{y + 2}" width="{width:.1f}" height="{LINE - 5}" '
        f'fill="{_COLOURS[kind]}"/>'
    )
    if entry.of_copy and entry.of_copy.low and entry.of_copy.high:
        low, high = (LABEL + PLOT * edge / MOST for edge in (entry.of_copy.low, entry.of_copy.high))
        yield (
            f'<line x1="{low:.1f}" y1="{y + 8}" x2="{high:.1f}" y2="{y + 8}" stroke="black" '
            'stroke-width="2"/>'
        )
    doubt = " · outside tolerance" if entry.timed.wrong else ""
    yield _draw_text(LABEL + width + 8, y + 12, label + doubt)


def _draw_text(
    x: float, y: float, text: str, *, weight: str = "normal", size: int = 12, fill: str = "black"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}" font-size="{size}" '
        f'fill="{fill}">{escape(text)}</text>'
    )
