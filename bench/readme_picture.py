"""Draws README's picture, docs/report.svg: the terminal report of two stored runs.

make demo
python bench/readme_picture.py .perfcli/runs/BASE.json .perfcli/runs/HEAD.json
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

from rich.console import Console

from perfcli.console.output import screen
from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare
from perfcli.storing import store

PICTURE = Path(__file__).parents[1] / "docs" / "report.svg"
TITLE = "perfcli compare gqa-transformer -b split_reductions=false"
COLUMNS = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("head", type=Path)
    arguments = parser.parse_args()
    comparison = diagnose(compare(store.read(arguments.base), store.read(arguments.head), ()))
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(screen().comparison(comparison))
    console.print()  # or the last line touches the frame
    drawing = console.export_svg(title=TITLE, unique_id="perfcli")
    # Nothing is fetched when it is shown: the viewer's own monospaced font does.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL)
    PICTURE.write_text("\n".join(line.rstrip() for line in drawing.splitlines()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
