"""The stored runs of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args

if TYPE_CHECKING:
    from rich.table import Table

    from perfcli.store import Header


def runs(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="Only runs of this scenario.")
    ] = None,
    json: args.Json = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the ids.")] = False,
) -> int:
    """List the runs stored in this folder (.perfcli/runs), oldest first."""
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
        _output.show(_table(headers), json)
    else:
        of = f" of {scenario}" if scenario else ""
        _output.show(Text(f"no stored runs{of} in {store.FOLDER}: perfcli run SCENARIO"), json)
    return 0


def _table(headers: list[Header]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from perfcli import units

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("id", no_wrap=True)
    for title in ("scenario", "variant", "for", "torch"):
        table.add_column(title, overflow="fold")
    for title in ("kernels", "spilled"):
        table.add_column(title, justify="right")
    for header in headers:
        table.add_row(
            Text(units.printable(header.id)),
            Text(units.printable(header.scenario)),
            Text(units.printable(header.variant)),
            Text(units.printable(header.target or header.device)),
            Text(units.printable(header.torch)),
            units.count(header.kernels),
            units.count(header.spilled_words),
        )
    return table
