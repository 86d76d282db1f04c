"""The report that people read."""

from __future__ import annotations

from perfcli.model import Screen

from ._rows.kernels import COLUMNS
from ._screen.comparison import comparison_view
from ._screen.findings import explanation_view, kernel_findings_view
from ._screen.kernel import kernel_view
from ._screen.run import listing_view, run_view
from ._screen.source import SourceView

SCREEN = Screen(
    comparison_view,
    run_view,
    kernel_view,
    listing_view,
    explanation_view,
    kernel_findings_view,
    SourceView,
    tuple(column.title for column in COLUMNS),
)
