"""``perfcli scenarios`` lists the shipped scenarios, or shows one in detail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfcli import units
from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.frames.table import Column, Table, joined

if TYPE_CHECKING:
    from rich.console import RenderableType

    from perfcli.model import Expectation, Scenario


def scenarios(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this scenario in detail.")
    ] = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
) -> int:
    """List the shipped scenarios, or show one in detail.

    With a name, shows its parameters and presets. A file of your own works as well:
    path/to/file.py[:name], with a Scenario, or just a function that returns (module or function,
    inputs).
    """
    from perfcli.console import output
    from perfcli.loading import registry

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    names = registry.names("scenarios") if name is None else [name]
    found = [registry.scenario(each) for each in names]
    output.write_document("scenarios", {"scenarios": list(map(_document, found))}, json)
    if name is None:
        documents.write_table(SCENARIOS, found, wanted)
    else:
        documents.write_table(PARAMETERS, _list_settings(found[0]), wanted)
    output.show(_list(found) if name is None else _detail(found[0]), wanted.stdout)
    return 0


def _document(scenario: Scenario) -> dict[str, Any]:
    parameters = {
        name: {"default": p.default, "help": p.help, "choices": list(p.choices)}
        for name, p in scenario.parameters.items()
    }
    presets = {name: dict(values) for name, values in scenario.presets.items()}
    return {
        "name": scenario.name,
        "question": scenario.question,
        "parameters": parameters,
        "presets": presets,
        "toggles": list(scenario.toggles),
        "expects": scenario.expects,
        "origin": scenario.origin,
    }


def _list(found: list[Scenario]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for scenario in found:
        table.add_row(scenario.name, Text(scenario.question))
    return table


def _detail(scenario: Scenario) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from perfcli.names import public

    parameters = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("parameter", "default", "", *scenario.presets):
        parameters.add_column(title)
    for name, parameter in scenario.parameters.items():
        choices = ", ".join(map(units.parameter, parameter.choices))
        choices = choices and f"one of {choices}"
        about = " · ".join(part for part in (parameter.help, choices) if part)
        values = (scenario.presets[preset].get(name) for preset in scenario.presets)
        parameters.add_row(
            Text(public(name)),
            Text(units.parameter(parameter.default)),
            Text(about),
            *(Text("" if value is None else units.parameter(value)) for value in values),
        )
    lines = [Text(scenario.name, style="bold"), Text(scenario.question), Text("")]
    closing = [Text("")]
    closing += [Text(_promise(expected)) for expected in scenario.expects]
    if scenario.toggles:
        closing.append(Text(f"worth toggling: {', '.join(scenario.toggles)}"))
    if scenario.origin:
        closing.append(Text(f"from: {scenario.origin}"))
    return Group(*lines, parameters, *closing)


def _promise(expected: Expectation) -> str:
    """Return ``full rows=4 for h100: raises PC201 (perfcli rules CODE)``."""
    settings = {**expected.params, **expected.options}
    how = [f"{name}={units.parameter(value)}" for name, value in settings.items()]
    how += ["dynamic shapes"] if expected.dynamic else []
    how += [f"for {expected.target}"]
    against = " against the default" if expected.compared else ""
    raises = ", ".join(expected.codes) or "nothing"
    return f"{expected.preset} {' '.join(how)}{against}: raises {raises} (perfcli rules CODE)"


@dataclass(frozen=True, slots=True)
class _Setting:
    """Holds the value that a parameter has in a preset; of an empty preset its default."""

    scenario: Scenario
    preset: str
    name: str

    @property
    def value(self) -> object:
        if self.preset:
            return self.scenario.presets[self.preset][self.name]
        return self.scenario.parameters[self.name].default


def _list_settings(scenario: Scenario) -> list[_Setting]:
    presets = [
        ("", tuple(scenario.parameters)),
        *((p, tuple(v)) for p, v in scenario.presets.items()),
    ]
    return [_Setting(scenario, preset, name) for preset, names in presets for name in names]


SCENARIOS: Table[Scenario] = Table(
    "scenarios",
    "a shipped scenario",
    "`scenarios`",
    (
        Column("name", "text", "its name", lambda row: row.name),
        Column("question", "text", "what it asks", lambda row: row.question),
        Column("parameters", "text", "its parameters", lambda row: joined(row.parameters)),
        Column("presets", "text", "its presets", lambda row: joined(row.presets)),
        Column("toggles", "text", "options worth toggling", lambda row: joined(row.toggles)),
        Column("origin", "text", "where it is from", lambda row: row.origin),
    ),
)

PARAMETERS: Table[_Setting] = Table(
    "parameters",
    "a parameter of one scenario, with its default or its value in a preset",
    "`scenarios NAME`",
    (
        Column("parameter", "text", "its name", lambda row: row.name),
        Column("preset", "text", "the preset; of a default none", lambda row: row.preset or None),
        Column(
            "value", "text", "the value, as it is typed", lambda row: units.parameter(row.value)
        ),
        Column("help", "text", "what it is", lambda row: row.scenario.parameters[row.name].help),
    ),
)
