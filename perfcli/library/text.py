"""What perfcli's commands print, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcli.loading import registry
from perfcli.model import Screen

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS = 100
WIDE = 10_000
"""Wider than any line of a kernel: nothing is cut."""


def screen() -> Screen:
    return registry.load_declared("reports", "terminal", Screen)


def as_text(renderable: RenderableType, columns: int = COLUMNS) -> str:
    """Without colours, no line longer than it has to be, ending in a newline."""
    import io

    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=columns, highlight=False, markup=False, emoji=False,
        color_system=None, legacy_windows=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(renderable, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
