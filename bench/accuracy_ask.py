"""How a tool has steps run: a line with their number into one named pipe, a line back from another.

Standard library only, since it runs in the tools' environment.
"""

from __future__ import annotations

import os
from pathlib import Path

DOOR = "PERFCLI_ACCURACY_DOOR"
"""Variable: the folder with the pipes ``ask`` and ``answer``."""
STEPS = "PERFCLI_ACCURACY_STEPS"
"""Variable: steps of one call, where a tool times calls and not steps."""


def ask(steps: int) -> float:
    """Has the worker behind the door run that many steps, after one to warm up; their seconds by
    the worker's clock."""
    door = Path(os.environ[DOOR])
    (door / "ask").write_text(f"{steps}\n")
    answer = (door / "answer").read_text()
    said, _, seconds = answer.partition(" ")
    if said != "done":
        raise RuntimeError(f"the measured worker: {answer}")
    return float(seconds)
