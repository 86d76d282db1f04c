"""Timed problems on the screen: bars for each, a table of all, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.commands._kernels_problems import named
from perfcli.commands._kernels_scores import OURS, Entry, Score
from perfcli.handwritten.contenders import COPY
from perfcli.stats.paired import Estimate

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_CELLS = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


def problem(score: Score) -> RenderableType:
    """A bar for each contender, the fastest first; then what was not timed, and doubts."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    benched = score.benched
    title = (
        f"{named(benched.problem)} · {units.size(benched.moved_bytes)} · "
        f"{units.plural(benched.rounds, 'round')}"
    )
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    for entry in ordered(score):
        table.add_row(*(Text(cell, style=_style(entry)) for cell in _cells(entry)))
    notes = [Text(line, style="yellow", overflow="fold") for line in remarks(score)]
    return Group(Text(""), Text(title, style="bold"), table, *notes)


def ordered(score: Score) -> list[Entry]:
    """The copy, then those that were timed, the fastest first."""
    timed = [entry for entry in score.entries if entry.median is not None]
    return sorted(timed, key=lambda e: (e.name != COPY, e.median.value if e.median else 0.0))


def _cells(entry: Entry) -> tuple[str, ...]:
    middle = entry.median
    share = 1.0 if entry.name == COPY else entry.of_copy.ratio if entry.of_copy else None
    return (
        _name(entry),
        units.seconds(middle.value) if middle else "",
        units.rate(entry.bytes_per_second),
        units.percent(share),
        _interval(entry.of_copy),
        bar(share),
    )


def _name(entry: Entry) -> str:
    return f"{OURS} ({entry.plan.variant})" if entry.name == OURS and entry.plan else entry.name


def _interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"[{estimate.low * 100:.1f}, {estimate.high * 100:.1f}]"


def _style(entry: Entry) -> str:
    if entry.timed.wrong:
        return "red"
    return "bold" if entry.name == OURS else "dim" if entry.name == COPY else ""


def bar(share: float | None, cells: int = BAR_CELLS) -> str:
    """As long as its share of the copy; one that is faster than the copy fills the line and says
    so by a +."""
    if share is None:
        return ""
    eighths = round(min(share, 1.0) * cells * 8)
    part = _EIGHTHS[eighths % 8].strip()
    return "█" * (eighths // 8) + part + ("+" if share > 1.0 else "")


def remarks(score: Score) -> Iterator[str]:
    """Who was not timed and why, who is outside tolerance, which variant was taken instead."""
    for entry in score.entries:
        if entry.timed.error:
            yield f"{entry.name}: {entry.timed.error}"
        if entry.timed.wrong:
            yield f"{entry.name}: {entry.timed.wrong}"
        if entry.plan is not None and entry.plan.instead_of:
            yield f"{_name(entry)}: {entry.plan.instead_of}"
    if score.ours is not None and score.ours.plan is not None and score.ours.plan.why:
        yield f"{OURS}: {score.ours.plan.why}"


def summary(scores: Sequence[Score]) -> RenderableType:
    """A row for each problem: ours, its share of the copy, and the best of the others."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("problem")
    for title in ("ours", "of copy", "best other", "ours is faster by"):
        table.add_column(title, justify="right", no_wrap=True)
    for score in scores:
        table.add_row(*map(Text, row(score)))
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


def row(score: Score) -> tuple[str, ...]:
    ours, best = score.ours, score.best_other
    against = score.against_best
    return (
        f"{named(score.benched.problem)}",
        units.seconds(ours.median.value) if ours and ours.median else units.NOT_KNOWN,
        units.percent(ours.of_copy.ratio) if ours and ours.of_copy else units.NOT_KNOWN,
        f"{best.name} {units.seconds(best.median.value)}" if best and best.median else "none",
        units.interval(against.ratio, against.low, against.high) if against else "",
    )


def document(score: Score) -> dict[str, Any]:
    """One problem as JSON, raw seconds included."""
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
