"""The day in UTC: so that a laptop and CI say the same of an exception's end."""

from __future__ import annotations

from datetime import UTC, date, datetime


def today() -> date:
    return datetime.now(UTC).date()


def iso() -> str:
    return today().isoformat()
