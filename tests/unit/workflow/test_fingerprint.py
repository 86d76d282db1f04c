"""Which files of perfcli decide what a run holds."""

from __future__ import annotations

from pathlib import Path

import perfcli
from perfcli.workflow.fingerprint import _code_files

ROOM = Path(perfcli.__file__).parent


def test_what_a_worker_reads_decides_and_what_only_reports_does_not() -> None:
    found = set(_code_files())
    assert ROOM / "predict" / "operators.py" in found
    assert ROOM / "data" / "operators" / "h200.json" in found  # what is padded
    assert ROOM / "data" / "calibrations" / "h200.json" not in found  # estimates are made later
    assert ROOM / "stats" / "timing.py" not in found
