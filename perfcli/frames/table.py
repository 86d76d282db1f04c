"""Declares tables: columns with their types, units and meanings, how a row's value is
read, and the table as a frame of pandas, CSV or Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Generic, Literal, TypeVar

from perfcli.errors import PerfcliError

Row = TypeVar("Row")
Kind = Literal["text", "count", "number", "flag", "time"]

DTYPES: dict[Kind, str] = {
    "text": "string",
    "count": "Int64",
    "number": "Float64",
    "flag": "boolean",
    "time": "datetime64[us, UTC]",
}
"""The type of each kind in pandas: all of them tell what is not known (``NA``) from zero."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """Describes one column. ``read`` returns a row's value, None where it is not known; of a time
    the text in ISO 8601."""

    name: str
    kind: Kind
    means: str
    read: Callable[[Row], object]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Describes a table. ``row`` says what a row is, ``source`` which commands and methods give
    it."""

    name: str
    row: str
    source: str
    columns: tuple[Column[Row], ...]

    def to_frame(self, rows: Iterable[Row]) -> Any:
        """Return a ``pandas.DataFrame`` with a line per row, numbered from 0 (index ``number``).

        ``frame.attrs`` has the table's name and the units of its columns; Parquet keeps them.
        """
        import pandas

        listed = list(rows)
        series = {}
        for column in self.columns:
            values = [column.read(row) for row in listed]
            if column.kind == "time":
                series[column.name] = pandas.to_datetime(
                    pandas.Series(values, dtype="object"), utc=True, format="ISO8601"
                ).astype(DTYPES["time"])
            else:
                series[column.name] = pandas.Series(values, dtype=DTYPES[column.kind])
        frame = pandas.DataFrame(series, index=pandas.RangeIndex(len(listed), name="number"))
        units = {column.name: column.unit for column in self.columns if column.unit}
        frame.attrs = {"table": self.name, "units": units}
        return frame


def joined(values: Iterable[object]) -> str:
    """Return several values as one text."""
    return ", ".join(map(str, values))


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
