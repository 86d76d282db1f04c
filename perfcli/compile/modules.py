"""The modules that a user's callable runs."""

from __future__ import annotations

import contextlib
from typing import Any


def modules_of(call: Any) -> list[Any]:
    """The modules behind a callable: itself, a bound method's owner, a closure's cells."""
    import torch

    found = [call, getattr(call, "__self__", None)]
    for cell in getattr(call, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            found.append(cell.cell_contents)
    return [item for item in found if isinstance(item, torch.nn.Module)]
