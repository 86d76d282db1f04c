"""The stored runs of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from perfcli.store import Header


def runs(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="Only runs of this scenario.")
    ] = None,
    json: args.Json = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the ids.")] = False,
) -> int:
    """List the runs stored in this folder, oldest first.

    They are files in .perfcli/runs.
    """
    from rich.text import Text

    from perfcli import store, units
    from perfcli.commands import _output

    headers = [
        stored.header for stored in store.runs() if scenario in (None, stored.header.scenario)
    ]
    _output.write_document("runs", {"runs": headers}, json)
    if quiet:
        ids = "\n".join(units.printable(header.id) for header in headers)
        _output.show(Text(ids), json) if headers else None
    elif headers:
        _output.show(_Runs(headers), json)
    else:
        of = f" of {scenario}" if scenario else ""
        _output.show(Text(f"no stored runs{of} in {store.FOLDER}: perfcli run SCENARIO"), json)
    return 0


# Below this width a run takes two lines: its numbers, then what it is.
LEAST_WIDTH = 90


@dataclass(frozen=True)
class _Runs:
    headers: list[Header]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _table(self.headers, narrow=options.max_width < LEAST_WIDTH)


def _table(headers: list[Header], narrow: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from perfcli import units

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("run" if narrow else "id", no_wrap=not narrow, overflow="fold")
    for title in ("scenario", "variant", "for", "torch")[: 0 if narrow else 4]:
        table.add_column(title, overflow="fold")
    for title in ("kernels", "spilled"):
        table.add_column(title, justify="right", no_wrap=True)
    for header in headers:
        what = (header.scenario, header.variant, header.target or header.device, header.torch)
        texts = [units.printable(text) for text in what]
        first = Text(units.printable(header.id))
        if narrow:
            first.append(f"\n  {' · '.join(texts)}", style="dim")
        table.add_row(
            first,
            *([] if narrow else map(Text, texts)),
            units.count(header.kernels),
            units.count(header.spilled_words),
        )
    return table
