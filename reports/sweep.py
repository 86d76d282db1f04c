"""Writes the page of a sweep: works offline, without a script.

The same sweep gives the same bytes: no times of day in it, and no ids of runs.
"""

from __future__ import annotations

from perfcli.model import SweepDocument

from ._html.sweep import render_sweep

DOCUMENT = SweepDocument("sweep", ".html", render_sweep)
