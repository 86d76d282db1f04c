"""Modules that Inductor wrote, recorded: ``fixtures/wrappers/``, by what they compute and the torch
that wrote them."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "fixtures" / "wrappers"


def text_of(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text()
