"""Imports what stays as long as the process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Look for no garbage in what is imported in the block, now or later: it is all in use. Torch
    and Inductor are 380,000 objects, through which Python would go again and again: a fifth of the
    processor time of importing them (torch 2.13, 2026-11-23)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
