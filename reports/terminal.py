"""The report that people read."""

from __future__ import annotations

from perfcli.model import Screen

from ._comparison_view import comparison_view
from ._findings import explanation_view, kernel_findings_view
from ._kernel_view import kernel_view
from ._run_view import listing_view, run_view
from ._source_view import Source

SCREEN = Screen(
    comparison_view,
    run_view,
    kernel_view,
    listing_view,
    explanation_view,
    kernel_findings_view,
    Source,
)
