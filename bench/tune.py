"""What ``perfcli tune`` chooses without a GPU, and what that is worth on one.

    python bench/tune.py --search FILE [--python PYTHON] [--target h200] [--only NAME …]
    python bench/tune.py --measure FILE --out FILE [--seconds N]      on the GPU
    python bench/tune.py --table FILE                                 what --measure wrote

``--search`` runs ``perfcli tune`` for each of ``tune_models.py`` and writes what it chose and every
single option that generates code of its own. ``--measure`` compiles all of them on a GPU, for which
it needs neither the network nor anything but torch and perfcli's sources: a process for each model;
once all are compiled, or their time is up, one after the other has the device to itself and times
its variants in random order, round by round, by the sum of its generated kernels' times
(torch.profiler), and of all kernels. ``coordinate_descent_tuning`` and ``max_autotune`` are measured
beside them, with the seconds that each takes from the first call to the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tune_models import MODELS, Model

ROOT = Path(__file__).resolve().parents[1]


def search(asked: argparse.Namespace) -> None:
    """Add each model's answer to the file as it comes; those that are there are kept."""
    known = json.loads(asked.search.read_text()) if asked.search.exists() else {}
    for model in MODELS:
        if model.name in known or (asked.only and model.name not in asked.only):
            continue
        known[model.name] = tuned(model, asked)
        asked.search.write_text(json.dumps(known, indent=1))
        found = known[model.name]
        print(model.name, found["verdict"], found["options"], found["against_default"], flush=True)


def tuned(model: Model, asked: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "perfcli", "tune", *model.words, "--target", asked.target]
    command += ["--python", asked.python] if asked.python else []
    command += ["--budget", str(asked.budget)] if asked.budget else []
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([*command, "--json", file.name, "--quiet"], check=False, cwd=ROOT)
        found: dict[str, Any] = json.loads(Path(file.name).read_text())
    return {
        key: found[key]
        for key in (
            "verdict",
            "options",
            "against_default",
            "torch",
            "alone",
            "shares",
            "cost",
            "tried",
        )
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--search", type=Path)
    parser.add_argument("--python", default="", help="the interpreter whose torch is tuned")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--budget", type=float, help="seconds of searching for each model")
    parser.add_argument("--only", nargs="*", default=[])
    asked = parser.parse_args()
    if asked.search:
        search(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
