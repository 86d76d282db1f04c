"""The command that makes a baseline anew, as it can be typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

FIRST = "first baseline"


def command(options: Sequence[str] = (), name: str = "", reason: str = "…") -> str:
    """``options``: those that were typed, ``--config other.toml``. ``name``: of the check; empty:
    of all."""
    words = ["perfcli", "baseline", "update", *filter(None, [name]), *options]
    return f'{shlex.join(words)} --reason "{reason}"'
