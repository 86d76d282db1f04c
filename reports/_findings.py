"""Findings on the screen: what is wrong, the evidence, what to do, and whether it helped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from perfcli import units
from perfcli.model import Comparison, Finding, Run, Severity

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def findings_view(comparison: Comparison) -> list[RenderableType]:
    """What changed for the worse or the better; what both sides have takes one line."""
    shown = [f for f in comparison.findings if f.appearance not in ("same", "better")]
    both = len(comparison.findings) - len(shown)
    parts: list[RenderableType] = []
    if shown:
        parts += [Text(""), Text("Findings", style="bold")]
        for finding in shown:
            run = comparison.base if finding.on_base else comparison.head
            parts += _finding(finding, run)
    if both:
        parts += [Text(f"{units.plural(both, 'finding')} on both sides", style="dim")]
    return parts


def explanation_view(run: Run, findings: Sequence[Finding], reference: str = "") -> RenderableType:
    """The findings of one run."""
    parts: list[RenderableType] = [Text(units.plural(len(findings), "finding"), style="bold")]
    for finding in findings:
        parts += _finding(finding, run)
    return Group(*parts)


def _finding(finding: Finding, run: Run) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"{finding.code} ", STYLES[finding.severity]), units.printable(finding.headline)
    )
    for line in (*finding.evidence, finding.advice):
        if line:
            yield Padding(Text(units.printable(line)), (0, 0, 0, 4))
