from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.importing.traces.memory import read_snapshot

MB = 1_000_000


def frame(file: str, line: int) -> dict[str, Any]:
    return {"filename": file, "line": line, "name": "forward"}


def change(action: str, address: int, size: int, line: int = 0) -> dict[str, Any]:
    inside = {"filename": "CUDACachingAllocator.cpp", "line": 0, "name": "c10::malloc"}
    library = frame("/venv/lib/torch/nn/functional.py", 3)
    frames = [inside, library, frame("/home/me/model.py", line)] if line else [inside]
    return {"action": action, "addr": address, "size": size, "frames": frames}


def snapshot(history: list[dict[str, Any]], held: int, device: int = 0) -> dict[str, Any]:
    block = {"size": held, "state": "active_allocated", "address": 1}
    free = {"size": 99 * MB, "state": "inactive", "address": 2}
    segment = {"device": device, "total_size": 200 * MB, "blocks": [block, free]}
    return {"segments": [segment], "device_traces": [[]] * device + [history]}


def write(folder: Path, document: object) -> Path:
    path = folder / "snapshot.json"
    path.write_text(json.dumps(document))
    return path


HISTORY = [
    change("alloc", 1, 10 * MB, 7),
    change("alloc", 2, 30 * MB, 8),
    change("free_requested", 1, 10 * MB),
    change("free_completed", 1, 10 * MB),
    change("alloc", 3, 5 * MB, 9),
    change("free_requested", 2, 30 * MB),
]


@pytest.mark.parametrize("device", [0, 2])
def test_the_peak_is_that_of_the_history(tmp_path: Path, device: int) -> None:
    # 4 MB were there before and 5 are left of what was allocated: at most 4 + 10 + 30.
    seen = read_snapshot(write(tmp_path, snapshot(HISTORY, 9 * MB, device)))
    assert seen.peak_bytes == 44 * MB
    assert seen.held == (
        ("me/model.py:8 forward", 30 * MB),
        ("me/model.py:7 forward", 10 * MB),
        ("allocated before the history began", 4 * MB),
    )
    assert seen.notes == ()


def test_without_a_history_it_is_what_is_held(tmp_path: Path) -> None:
    seen = read_snapshot(write(tmp_path, snapshot([], 9 * MB)))
    assert seen.peak_bytes == 9 * MB
    assert "has no history" in seen.notes[0]


def test_a_compressed_snapshot_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(gzip.compress(json.dumps(snapshot(HISTORY, 9 * MB)).encode()))
    assert read_snapshot(path).peak_bytes == 44 * MB


@pytest.mark.parametrize(
    "text", ['{"segments": 7}', '{"segments": [}', '{"segments": [' + "[" * 9999]
)
def test_what_is_no_snapshot_is_said_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(PerfcliError, match="is not a memory snapshot"):
        read_snapshot(path)
