"""Writes a table as CSV and as Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib.util import find_spec

from perfcli.errors import PerfcliError
from perfcli.frames.table import Row, Table


def check_parquet() -> None:
    """Raise PerfcliError if Parquet can't be written here."""
    if find_spec("pyarrow") is None:
        raise PerfcliError("--parquet needs pyarrow: pip install pyarrow, or use --csv")


def render_csv(table: Table[Row], rows: Iterable[Row]) -> str:
    """Return CSV with a line of names; what is not known is empty."""
    text: str = table.to_frame(rows).to_csv(lineterminator="\n")
    return text


def render_parquet(table: Table[Row], rows: Iterable[Row]) -> bytes:
    """Return the bytes of a Parquet file. Raises PerfcliError where pyarrow is missing."""
    check_parquet()
    held = io.BytesIO()
    table.to_frame(rows).to_parquet(held, engine="pyarrow")
    return held.getvalue()
