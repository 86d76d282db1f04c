"""Prints the report that people read on a terminal."""

from __future__ import annotations

from rich.console import RenderableType

from perfcli.model import Screen

from ._rows.kernels import COLUMNS
from ._screen.comparison import comparison_view
from ._screen.findings import explanation_view, kernel_findings_view
from ._screen.kernel import kernel_view
from ._screen.run import listing_view, run_view
from ._screen.source import SourceView


class _Terminal:
    columns = tuple(column.title for column in COLUMNS)
    comparison = staticmethod(comparison_view)
    run = staticmethod(run_view)
    kernel = staticmethod(kernel_view)
    listing = staticmethod(listing_view)
    explanation = staticmethod(explanation_view)
    kernel_findings = staticmethod(kernel_findings_view)
    source = SourceView


SCREEN: Screen[RenderableType] = _Terminal()
