"""Numbers of a run's file that no compilation gives: what is counted is not negative, and is no
larger than any machine holds. Arithmetic on others ends in nonsense, or in an overflow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perfcli.model import Run

MOST = 2**64
# Texts and digests follow a quotation mark, so hardly anything else than a number matches.
_UNUSUAL = re.compile(rb"[:,\[]\s*(?:-|\d{17}|[\d.]+[eE]\+?\d)")
_COUNTED = ("target", "kernels", "launches", "graphs", "externs", "graph_breaks",
            "compile_seconds", "counters", "threads")  # fmt: skip
# A memory layout may run backwards; a configuration's values are whatever Triton takes.
_SIGNED = {"stride", "config", "shape", "sizes"}


def _impossible(run: Run, raw: bytes) -> str:
    """Return what is said of the first number that can't be, ``kernels[3].bytes_read is -5``; empty
    where there is none. ``raw`` is the run's JSON: most files have no unusual number at all."""
    if not _UNUSUAL.search(raw):
        return ""
    found = (text for name in _COUNTED for text in _walk(name, getattr(run, name), False))
    return next(found, "")


def _walk(place: str, value: Any, signed: bool) -> Iterator[str]:
    if isinstance(value, int | float):
        if not (-MOST if signed else 0) <= value <= MOST:
            yield f"{place} is {value:.3g}"
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            yield from _walk(f"{place}.{field.name}", inner, field.name in _SIGNED)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk(f"{place}.{name}", inner, signed)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _walk(f"{place}[{number}]", inner, signed)
