"""Shows results: a block per claim on the screen, a table in Markdown, all of it as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfcli import units
from perfcli.console import output
from perfcli.reproduce.claim import Claim
from perfcli.reproduce.result import (
    ClaimResult,
    describe,
    list_cures,
    list_times,
    write_blame,
    write_finding,
    write_reason,
    write_source,
    write_verdict,
)

HEADERS = (
    "claim",
    "source, holds in",
    "found here",
    "time",
    "finding",
    "blamed",
    "cure",
    "verdict",
)
_LABEL = 9


def show_result(result: ClaimResult, json: Path | None) -> None:
    """Print the block of one claim."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    claim = result.claim
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=_LABEL)
    grid.add_column()
    for label, text in _list_lines(result):
        grid.add_row(label, Text(units.printable(text)))
    title = Text(f"{write_verdict(result.verdict)}  ", style="bold")
    title.append(claim.name, style="cyan")
    output.show(title, json)
    output.show(Padding(grid, (0, 0, 1, 2)), json)


def _list_lines(result: ClaimResult) -> Iterator[tuple[str, str]]:
    claim = result.claim
    yield "claim", f"{claim.says} · {write_source(claim)}, {claim.holds}"
    if claim.withdrawn:
        yield "withdrawn", claim.withdrawn
    yield "here", write_reason(result)
    if times := " · ".join(list_times(result)):
        yield "time", times
    if finding := write_finding(result):
        yield "finding", finding
    if blame := write_blame(result):
        yield "blamed", blame
    for cure in list_cures(result):
        yield "cure", cure


def write_summary(results: Sequence[ClaimResult]) -> str:
    """Return ``40 claims: 21 reproduced, 3 not reproduced``."""
    counted = Counter(result.verdict.verdict for result in results)
    parts = ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())
    return f"{units.plural(len(results), 'claim')}: {parts}"


def write_json(results: Sequence[ClaimResult], how: dict[str, object], path: Path | None) -> None:
    fields = {**how, "claims": [describe(result) for result in results]}
    output.write_document("reproduction", fields, path)


def write_markdown(results: Sequence[ClaimResult]) -> str:
    """Return a table with a row per claim, and why below it."""
    lines = ["# Claims reproduced", "", write_summary(results) + ".", ""]
    lines += [f"| {' | '.join(HEADERS)} |", f"|{' --- |' * len(HEADERS)}"]
    lines += [f"| {' | '.join(map(_escape, _list_cells(result)))} |" for result in results]
    return "\n".join(lines) + "\n"


def _list_cells(result: ClaimResult) -> Iterator[str]:
    claim = result.claim
    yield f"`{claim.name}`: {claim.says}"
    withdrawn = f"; {claim.withdrawn}" if claim.withdrawn else ""
    yield f"[{write_source(claim)}]({claim.source.url}), {claim.holds}{withdrawn}"
    yield write_reason(result)
    yield "<br>".join(list_times(result))
    yield write_finding(result)
    yield write_blame(result)
    yield "<br>".join(list_cures(result))
    yield f"**{write_verdict(result.verdict)}**"


def _escape(cell: str) -> str:
    return units.printable(cell).replace("|", "\\|").replace("\n", " ")


def list_names(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """Return each claim's name with what it says."""
    return [(claim.name, f"{claim.says} ({write_source(claim)})") for claim in claims]
