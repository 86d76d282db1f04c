"""Makes the checks of another program of this folder, in a process that has torch imported
(``warm.WarmProcess.call``)."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from importlib import import_module


def answer(program: str) -> dict[str, str]:
    """Return of each check what went wrong; empty: nothing."""
    warnings.simplefilter("ignore")
    checks = import_module(program).CHECKS
    return {name: _tell(check) for name, check in checks.items()}


def _tell(check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception:
        return traceback.format_exc()[-1500:]
