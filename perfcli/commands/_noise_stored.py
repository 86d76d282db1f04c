"""The floors that are stored: listed, and removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcli import noise, units
from perfcli.commands import _noise_report, _output, _table
from perfcli.errors import PerfcliError


def show(scenario: str | None, typed: Sequence[str], json: Path | None) -> int:
    """Raises PerfcliError where options of a measurement were ``typed``, or a scenario."""
    unused = [scenario, *typed] if scenario else typed
    if unused:
        raise PerfcliError(f"--show lists all stored floors: leave out {', '.join(unused)}")
    _output.check_writable(json)
    files = noise.stored()
    known = [{"path": str(path), "holds": holds} for path, holds in files]
    _output.write_document("noise-floors", {"files": known}, json)
    if json == _output.STDOUT:
        return 0
    rows = _noise_report.stored_rows(files)
    if rows:
        _table.show(_noise_report.FLOOR_HEADERS, rows)
    else:
        _output.print_text(f"no noise floors in {noise.folder()}: perfcli noise SCENARIO")
    return 0


def forget(scenario: str | None, typed: Sequence[str], json: Path | None) -> int:
    """Raises PerfcliError where options of a measurement were ``typed``, or JSON asked for: floors
    of other parameters would go as well."""
    unused = [*typed, "--json"] if json else typed
    if unused:
        of = f"all floors of {scenario}, whatever their parameters" if scenario else "all floors"
        raise PerfcliError(f"--forget removes {of}: leave out {', '.join(unused)}")
    of = f" of {scenario}" if scenario else ""
    _output.print_text(f"{units.plural(noise.forget(scenario), 'noise floor')}{of} removed")
    return 0
