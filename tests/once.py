"""What one run of the tests computes once, for all of its worker processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def find_run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run see, and no other run."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "run"
    folder.mkdir(exist_ok=True)
    return folder


def compute_once(folder: Path, key: str, compute: Callable[[], T]) -> T:
    """Return what the first worker computes under this key; others wait for it. A failure is
    raised where it happens and computed again by whoever asks next."""
    stored = folder / hashlib.sha256(key.encode()).hexdigest()
    with open(f"{stored}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            value: Any = compute()
            partial = Path(f"{stored}.partial")
            partial.write_bytes(pickle.dumps(value))
            partial.replace(stored)
            return value  # type: ignore[no-any-return]
        return pickle.loads(stored.read_bytes())  # type: ignore[no-any-return]
