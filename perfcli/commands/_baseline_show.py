"""``perfcli baseline show``: where the numbers come from, and how old they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from perfcli import units
from perfcli.baseline.file import Check as Kept
from perfcli.commands import _baseline_file, _table
from perfcli.commands._today import today
from perfcli.gate.checks import Check
from perfcli.gate.config import Config

_HEADERS = ("check", "of", "age", "kernels", "torch", "triton", "revision", "reason")


def show(config: Config, checks: Sequence[Check]) -> None:
    """A row for each check that is configured, and for what the file has besides."""
    file = _baseline_file.read(config.baseline, config.typed)
    names = [check.name for check in checks]
    if len(checks) == len(config.checks):
        names += [name for name in file if name not in names]
    configured = {check.name for check in config.checks}
    rows = [_row(name, file.get(name), name in configured) for name in names]
    _table.show(_HEADERS, [[units.printable(cell) for cell in row] for row in rows])


def _row(name: str, kept: Kept | None, configured: bool) -> list[str]:
    if kept is None:
        return [name, units.NOT_KNOWN, *[""] * 5, "not in the baseline"]
    entry = kept.entry()
    days = (today() - date.fromisoformat(entry.made.created)).days
    environment = entry.run.environment
    return [
        name,
        entry.made.created,
        units.plural(days, "day"),
        units.count(len(entry.run.kernels)),
        environment.torch,
        environment.triton or units.NOT_KNOWN,
        entry.made.revision or units.NOT_KNOWN,
        entry.made.reason if configured else f"{entry.made.reason} (not configured any more)",
    ]
