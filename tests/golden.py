"""Reports as text, held against golden files; ``PERFCLI_UPDATE_GOLDEN=1`` writes them anew."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console, RenderableType

from perfcli.console.output import screen as screen

FOLDER = Path(__file__).parent / "reports" / "golden"
PLACES = [("base-id", ".perfcli/runs/base-id.json"), ("head-id", ".perfcli/runs/head-id.json")]


def check(name: str, text: str) -> None:
    """Fails where the text is not that of the golden file."""
    path = FOLDER / name
    if os.environ.get("PERFCLI_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def shown(renderable: RenderableType, width: int = 100, colour: bool = False) -> str:
    """As a terminal of this width shows it, without the spaces at the lines' ends."""
    console = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    with console.capture() as capture:
        console.print(renderable, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
