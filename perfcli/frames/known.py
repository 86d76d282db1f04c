"""Names every table that can be had as a frame, and writes the page that documents them:
``python -m perfcli.frames.known docs/frames.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from perfcli.frames.table import DTYPES, Table

KNOWN = (
    "perfcli.frames.kernels:KERNELS",
    "perfcli.frames.kernels:FINDINGS",
    "perfcli.frames.kernels:LINES",
    "perfcli.frames.groups:GROUPS",
    "perfcli.commands.runs:RUNS",
    "perfcli.sweep.table:SWEEP",
    "perfcli.commands.scenarios:SCENARIOS",
    "perfcli.commands.scenarios:PARAMETERS",
    "perfcli.commands.targets:TABLE",
    "perfcli.commands.rules:RULES",
    "perfcli.options.listing:KNOBS",
    "perfcli.options.performance:TABLE",
    "perfcli.options.listing:PATCH_TABLE",
    "perfcli.options.listing:KNOB_CHANGES",
    "perfcli.gate.view:LIMITS",
    "perfcli.gate.baseline.update:BASELINE",
    "perfcli.noise.view:PAIRS",
    "perfcli.noise.view:FLOORS",
    "perfcli.bisect.answer:CHANGES",
    "perfcli.history.view:POINTS",
    "perfcli.bisect.versions.answer:VERSIONS",
    "perfcli.tune.view:TRIED",
    "perfcli.workbench.tables:FAMILIES",
    "perfcli.workbench.tables:LAUNCHES",
    "perfcli.workbench.tables:SCORES",
    "perfcli.workbench.tables:CASES",
    "perfcli.workbench.tables:PROBED",
    "perfcli.reproduce.result:CLAIMS",
    "perfcli.commands.warm:PROCESSES",
    "perfcli.commands.doctor:CHECKS",
    "perfcli.calibrate.view:CHECKED",
)
"""Each table as ``module:NAME``: it is declared in the room that its rows come from."""

BEGINS = "<!-- What follows is written by python -m perfcli.frames.known docs/frames.md -->"


def load_tables() -> Iterator[Table[object]]:
    """Yield every table, in the order of the page."""
    for place in KNOWN:
        module, _, name = place.partition(":")
        yield getattr(import_module(module), name)


def render_page(page: str) -> str:
    """Return docs/frames.md with a section for each table; what stands before them stays."""
    sections = [page.partition(BEGINS)[0] + BEGINS]
    for table in load_tables():
        lines = [f"## `{table.name}`", "", f"A row is {table.row}. From {table.source}.", ""]
        lines += ["| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{c.name}` | {DTYPES[c.kind]} | {c.unit} | {c.means} |" for c in table.columns
        ]
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(render_page(place.read_text(encoding="utf-8")), encoding="utf-8")
