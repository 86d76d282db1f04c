"""Writes perfcli/data/knobs.json: Inductor's options and defaults over torch releases.

    python bench/knob_data.py --torch .venv/lib/python3.11/site-packages/torch
    python bench/knob_data.py --json defaults_by_version.json

``--torch`` adds (or replaces) the release installed there; ``--json`` adds all releases of a file
``{release: {option: default expression}}``. Running it twice changes nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from perfcli.options import releases as knobs
from perfcli.options.catalogue import load_catalogue

OUTPUT = Path(__file__).parents[1] / "perfcli" / "data" / "knobs.json"


def installed(torch_dir: Path) -> dict[str, dict[str, str]]:
    """The release in ``torch_dir`` and its options."""
    catalogue = load_catalogue(torch_dir)
    options = {
        entry.name: entry.default
        for entry in catalogue.entries.values()
        if not entry.name.startswith(("dynamo.", "functorch.")) and not entry.note
    }
    return {catalogue.torch.partition("+")[0]: options}


def from_json(path: Path) -> dict[str, dict[str, str]]:
    """Releases from a file that lists only what each class itself assigns: ``cuda`` and ``xpu``
    take over the public options of ``cutlass`` in every release that has that class."""
    releases: dict[str, dict[str, str]] = json.loads(path.read_text())
    for options in releases.values():
        shared = {n.partition(".")[2]: d for n, d in options.items() if n.startswith("cutlass.")}
        for name, default in shared.items():
            for child in ("cuda", "xpu"):
                if not name.startswith("_") and _has_class(options, child):
                    options.setdefault(f"{child}.{name}", default)
    return releases


def _has_class(options: dict[str, str], name: str) -> bool:
    return any(option.startswith(f"{name}.") for option in options)


def write(releases: dict[str, dict[str, str]]) -> None:
    """Add the releases to those in the file already."""
    known = {}
    if OUTPUT.exists():
        known = {version: knobs.defaults(version) for version in knobs.load().versions}
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(render(knobs.encode({**known, **releases})), encoding="utf-8")


def render(data: dict[str, Any]) -> str:
    """JSON with one option a line, small and good to compare."""
    options = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(history, separators=(',', ':'))}"
        for name, history in data["options"].items()
    )
    head = json.dumps({key: value for key, value in data.items() if key != "options"})
    return f'{head[:-1]}, "options": {{\n{options}\n}}}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--torch", type=Path, help="folder of an installed torch package")
    source.add_argument("--json", type=Path, help="file {release: {option: default}}")
    arguments = parser.parse_args()
    write(installed(arguments.torch) if arguments.torch else from_json(arguments.json))


if __name__ == "__main__":
    main()
