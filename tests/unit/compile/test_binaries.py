"""What a candidate keeps of its cubin's facts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from handmade import H100

pytest.importorskip("torch")

from perfcli.compile.binaries import _candidate
from perfcli.facts.binary import BinaryFacts

pytestmark = pytest.mark.torch


def test_tiles_are_kept() -> None:
    facts = BinaryFacts(
        registers=32,
        stack_bytes=0,
        shared_bytes=0,
        instructions=9,
        local_loads=0,
        local_stores=0,
        local_loads_in_loops=0,
        local_stores_in_loops=0,
        global_loads={},
        global_stores={},
        tma_loads=3,
        tma_stores=2,
    )
    kernel = SimpleNamespace(metadata=SimpleNamespace(shared=0), asm={"ttgir": "", "ptx": ""})
    config = SimpleNamespace(kwargs={}, num_warps=4, num_stages=1)
    result = SimpleNamespace(kernel=kernel, config=config)
    candidate = _candidate(result, facts, H100, {}, Path("folder"))
    assert (candidate.tma_loads, candidate.tma_stores) == (3, 2)
