"""A probe as an SVG chart: for each dtype registers and spilled words over the reads, and seconds
per byte where they were timed; a line for each launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from perfcli.commands._kernels_probe_view import Probed, key, launch_name

WIDTH, LEFT, PLOT, HEIGHT, GAP, TOP = 960, 70, 420, 240, 60, 60
_COLOURS = ("#1b6ac9", "#c9541b", "#1b9e5a", "#8a4fc0", "#b8860b", "#555555")
_PANELS: tuple[tuple[str, Callable[[Any], float | None]], ...] = (
    ("registers + spilled words of a thread", lambda row: _words(row)),
    ("nanoseconds per 1,000 bytes", lambda row: _time(row)),
)


def _words(row: Any) -> float | None:
    return None if row.registers is None else float(row.registers + (row.spilled_words or 0))


def _time(row: Any) -> float | None:
    return None if row.seconds_per_byte is None else float(row.seconds_per_byte) * 1e12


def svg(probed: Probed) -> str:
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
        _text(12, 24, title, "black", 14),
    ]
    for number, (dtype, name, value) in enumerate(panels):
        parts += _panel(probed, dtype, name, value, TOP + number * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    probed: Probed, dtype: str, name: str, value: Callable[[Any], float | None], top: int
) -> Iterator[str]:
    cliffs = [cliff for cliff in probed.cliffs if cliff.dtype == dtype]
    known = [v for row in probed.rows if row.dtype == dtype and (v := value(row)) is not None]
    most = max(known, default=1.0) or 1.0
    yield _text(LEFT, top - 8, f"{dtype}: {name}", "black", 12)
    yield from _axes(probed.reads, most, top)
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
        own = " (torch 2.11)" if key(cliff) in probed.inductors else ""
        yield _text(LEFT + PLOT + 30, top + 14 + 17 * number, launch_name(cliff) + own, colour, 12)


def _axes(reads: Sequence[int], most: float, top: int) -> Iterator[str]:
    bottom = top + HEIGHT
    yield f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + PLOT}" y2="{bottom}" stroke="#999"/>'
    for count in reads:
        yield _text(_x(count, reads) - 4, bottom + 16, str(count), "#777", 12)
    for share in (0.0, 0.5, 1.0):
        y = _y(share * most, most, top)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + PLOT}" y2="{y:.1f}" stroke="#eee"/>'
        yield _text(12, y + 4, f"{share * most:,.4g}", "#777", 12)
    yield _text(LEFT + PLOT + 4, bottom + 16, "reads", "#777", 12)


def _x(reads: int, every: Sequence[int]) -> float:
    span = max(every[-1] - every[0], 1)
    return LEFT + 10 + (PLOT - 20) * (reads - every[0]) / span


def _y(value: float, most: float, top: int) -> float:
    return top + HEIGHT - (HEIGHT - 10) * value / most


def _text(x: float, y: float, text: str, fill: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}">{escape(text)}</text>'
