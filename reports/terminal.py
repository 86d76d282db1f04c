"""Prints the report that people read on a terminal."""

from __future__ import annotations

from rich.console import RenderableType

from perfcli.model import Screen

from ._rows.kernels import COLUMNS, TIME
from ._screen.comparison import show_comparison
from ._screen.findings import show_explanation, show_kernel_findings
from ._screen.kernel import SourceView, show_kernel
from ._screen.run import show_listing, show_run


class _Terminal:
    columns = (TIME, *(column.title for column in COLUMNS))
    comparison = staticmethod(show_comparison)
    run = staticmethod(show_run)
    kernel = staticmethod(show_kernel)
    listing = staticmethod(show_listing)
    explanation = staticmethod(show_explanation)
    kernel_findings = staticmethod(show_kernel_findings)
    source = SourceView


SCREEN: Screen[RenderableType] = _Terminal()
