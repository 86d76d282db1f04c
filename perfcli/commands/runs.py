"""``perfcli runs`` lists the runs that are stored in this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli import units
from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table, joined

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

    from perfcli.model import Scalar
    from perfcli.storing.store import Header


def runs(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="List only runs of this scenario.")
    ] = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the ids.")] = False,
) -> int:
    """List the runs stored in this folder, oldest first.

    Runs are files in .perfcli/runs. The line below a run has its variant and the parameters that
    are not the scenario's defaults; of a script also whether it trains, and the mode that it
    compiles with.
    """
    from rich.text import Text

    from perfcli.console import output
    from perfcli.storing import store

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    headers = [
        stored.header
        for stored in store.runs()
        if scenario is None or _is_meant(scenario, stored.header.scenario)
    ]
    if scenario is not None and not headers:
        _check_known(scenario)
    damaged = [] if scenario else store.damaged()
    document = {"runs": headers, "damaged": [str(path) for path in damaged]}
    output.write_document("runs", document, json)
    documents.write_table(RUNS, headers, wanted)
    if quiet:
        ids = "\n".join(units.printable(header.id) for header in headers)
        output.show(Text(ids), wanted.stdout) if headers else None
    elif headers:
        output.show(_Runs([_row(header) for header in headers]), wanted.stdout)
    else:
        of = f" of {scenario}" if scenario else ""
        output.show(
            Text(f"no stored runs{of} in {store.FOLDER}: perfcli run SCENARIO"), wanted.stdout
        )
    for path in () if quiet else damaged:
        line = f"damaged: {path} is cut off; delete it and compile again"
        output.show(Text(units.printable(line), style="yellow"), wanted.stdout)
    return 0


def _is_meant(wanted: str, scenario: str) -> bool:
    """Return ``model.py`` means all that this file declares, wherever the run was called."""
    from perfcli.loading.references import parse_reference
    from perfcli.names import public

    ours, theirs = parse_reference(wanted), parse_reference(scenario)
    if not ours.path or not theirs.path:
        return public(wanted) == public(scenario)
    same = Path(ours.path).resolve() == Path(theirs.path).resolve()
    return same and ours.name in (None, theirs.name) and ours.revision in ("", theirs.revision)


def _check_known(scenario: str) -> None:
    """Raise PerfcliError where there is no such scenario, so that it can have no runs."""
    from perfcli.loading import registry
    from perfcli.loading.references import find_file
    from perfcli.names import public, suggestion

    if path := find_file(scenario):
        if not Path(path).is_file():
            raise PerfcliError(f"there is no file {path}, and no stored run of it")
    elif public(scenario) not in (known := registry.names("scenarios")):
        raise PerfcliError(f"no scenario {scenario!r}: {suggestion(scenario, known)}")


def _settings(values: Mapping[str, Scalar]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


RUNS: Table[Header] = Table(
    "runs",
    "a stored run, the oldest first",
    "`runs`",
    (
        Column("id", "text", "its id", lambda run: run.id),
        Column("created", "time", "when it was stored", lambda run: run.created),
        Column("scenario", "text", "what was compiled", lambda run: run.scenario),
        Column("params", "text", "its parameters", lambda run: _settings(run.params)),
        Column("variant", "text", "how it was compiled", lambda run: run.variant),
        Column("mode", "text", "forward, training or step", lambda run: run.mode),
        Column("device", "text", "cuda or cpu", lambda run: run.device),
        Column("target", "text", "the GPU that it was compiled for", lambda run: run.target),
        Column("dynamic", "flag", "whether shapes are dynamic", lambda run: run.dynamic),
        Column("torch", "text", "torch's version", lambda run: run.torch),
        Column("kernels", "count", "generated kernels", lambda run: run.kernels),
        Column(
            *("spilled_words", "count", "32-bit words spilled per thread, of all kernels"),
            lambda run: run.spilled_words,
        ),
        Column("world", "count", "ranks of its process group", lambda run: run.world),
        Column("script", "flag", "whether it is a script", lambda run: run.script),
        Column(
            *("compile_modes", "text", "modes that a script passes to `torch.compile`"),
            lambda run: joined(run.compile_modes),
        ),
        Column("fingerprint", "text", "hash of all that decides it", lambda run: run.fingerprint),
    ),
)

GAP = "  "
TITLES = ("id", "scenario", "for", "torch", "kernels", "spilled")
NUMBERS = len(TITLES) - 2
"""The first of the columns that are aligned on the right."""
LEAST_NAME = 12
"""The room that a scenario's name needs at least; with less, names go below the id."""


@dataclass(frozen=True)
class _Row:
    cells: tuple[str, ...]
    details: str


def _row(header: Header) -> _Row:
    names = (header.id, header.scenario, header.target or header.device, header.torch)
    numbers = (units.count(header.kernels), units.count(header.spilled_words))
    details = [*_told_parameters(header), *(["dynamic shapes"] if header.dynamic else [])]
    details += [f"world {header.world}"] if header.world > 1 else []
    if header.script:
        details += [header.mode, *(f"mode={name}" for name in header.compile_modes)]
    details += [header.variant] if header.variant != "default" or header.script else []
    printable = tuple(units.printable(name) for name in names)
    return _Row((*printable, *numbers), units.printable(" · ".join(details)))


def _told_parameters(header: Header) -> list[str]:
    """Return the parameters that are not the scenario's defaults (all of a user's file) as one
    text: ``rows=128 columns=2048``."""
    usual = _defaults(header.scenario)
    told = [
        f"{name}={units.parameter(value)}"
        for name, value in header.params.items()
        if name not in usual or usual[name] != value
    ]
    return [" ".join(told)] if told else []


def _defaults(scenario: str) -> Mapping[str, Scalar]:
    from perfcli.loading import registry
    from perfcli.loading.parameters import resolve_params
    from perfcli.names import public

    if registry.is_user_file(scenario) or public(scenario) not in registry.names("scenarios"):
        return {}
    return resolve_params(registry.scenario(scenario), None, {})


@dataclass(frozen=True)
class _Runs:
    rows: Sequence[_Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        widths = _widths([TITLES, *(row.cells for row in self.rows)])
        room = options.max_width - sum(widths) + widths[1] - len(GAP) * (len(widths) - 1)
        narrow = room < min(widths[1], LEAST_NAME)
        if narrow:
            yield from _narrow(self.rows, console, options.max_width)
            return
        widths = (widths[0], min(widths[1], room), *widths[2:])
        yield Text(_line(TITLES, widths), style="bold")
        yield Text("─" * len(_line(TITLES, widths)))
        for row in self.rows:
            yield Text(_line(row.cells, widths))
            yield from _below(row.details, console, options.max_width)


def _narrow(rows: Sequence[_Row], console: Console, width: int) -> Iterator[Text]:
    """Yield the lines of a narrow table: numbers beside the id, all else below it."""
    from rich.text import Text

    kept = [(row.cells[0], *row.cells[NUMBERS:]) for row in rows]
    titles = (TITLES[0], *TITLES[NUMBERS:])
    widths = _widths([titles, *kept])
    yield Text(_line(titles, widths), style="bold")
    yield Text("─" * len(_line(titles, widths)))
    for row, cells in zip(rows, kept, strict=True):
        yield Text(_line(cells, widths))
        yield from _below(" · ".join(row.cells[1:NUMBERS]), console, width)
        yield from _below(row.details, console, width)


def _widths(lines: Sequence[Sequence[str]]) -> tuple[int, ...]:
    return tuple(max(map(len, column)) for column in zip(*lines, strict=True))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    numbers = len(cells) - 2
    shown = [
        cell.rjust(width) if column >= numbers else units.shorten(cell, width).ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(shown)


def _below(details: str, console: Console, width: int) -> Iterator[Text]:
    """Yield lines that break between words; a word that is too long loses its middle."""
    from rich.text import Text

    room = width - len(GAP)
    words = " ".join(units.shorten(word, room) for word in details.split(" "))
    for line in Text(words, style="dim").wrap(console, room) if details else ():
        line.rstrip()
        yield Text.assemble(GAP, line)
