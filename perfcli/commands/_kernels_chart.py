"""Timed problems as an SVG chart: a group of bars for each problem, as shares of the copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from perfcli import units
from perfcli.commands._kernels_bench_view import ordered
from perfcli.commands._kernels_problems import named
from perfcli.commands._kernels_scores import OURS, Entry, Score
from perfcli.handwritten.contenders import COPY

WIDTH, LABEL, PLOT, LINE, GAP, TOP = 1060, 190, 560, 18, 30, 44
MOST = 1.1
"""The share at the right edge."""
_COLOURS = {OURS: "#1b6ac9", "variant": "#8fb8e8", "other": "#9a9a9a"}


def svg(scores: Sequence[Score]) -> str:
    """Stands alone; texts are those of the terminal."""
    groups = [(score, [e for e in ordered(score) if e.name != COPY]) for score in scores]
    height = TOP + sum(GAP + LINE * len(entries) for _, entries in groups) + 20
    machine = scores[0].benched.machine
    title = f"Share of a copy of as many bytes · {machine.device}, torch {machine.torch}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(12, 24, title, weight="bold", size=14),
        *_grid(height),
    ]
    y = TOP
    for score, entries in groups:
        parts.append(_text(12, y + 20, named(score.benched.problem), weight="bold"))
        y += GAP
        for entry in entries:
            parts += _bar(entry, y)
            y += LINE
    return "\n".join([*parts, "</svg>", ""])


def _grid(height: int) -> Iterator[str]:
    for share in (0.25, 0.5, 0.75, 1.0):
        x = LABEL + PLOT * share / MOST
        dash = "" if share == 1.0 else ' stroke-dasharray="2 4"'
        yield (
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 8}" stroke="#ccc"{dash}/>'
        )
        yield _text(x - 12, TOP - 4, units.percent(share), fill="#777")


def _bar(entry: Entry, y: int) -> Iterator[str]:
    share = entry.of_copy.ratio if entry.of_copy and entry.of_copy.ratio else 0.0
    kind = OURS if entry.name == OURS else "variant" if entry.is_ours else "other"
    width = PLOT * min(share, MOST) / MOST
    name = f"{OURS} ({entry.plan.variant})" if entry.name == OURS and entry.plan else entry.name
    seconds = units.seconds(entry.median.value) if entry.median else ""
    label = f"{units.percent(share)} · {seconds} · {units.rate(entry.bytes_per_second)}"
    yield _text(24, y + 12, name)
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
    yield _text(LABEL + width + 8, y + 12, label + doubt)


def _text(
    x: float, y: float, text: str, *, weight: str = "normal", size: int = 12, fill: str = "black"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}" font-size="{size}" '
        f'fill="{fill}">{escape(text)}</text>'
    )
