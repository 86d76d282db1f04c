"""What a candidate keeps of its cubin's facts, and what the cache keeps of a candidate."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from handmade import H100

pytest.importorskip("torch")

from perfcli.compile import kernel_cache
from perfcli.compile.candidate import LINE_CHARACTERS, candidate_of, refused, with_text
from perfcli.compile.kernel_cache import Compiled
from perfcli.facts.binary import BinaryFacts
from perfcli.model import Candidate, LineCounts

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
    kernel = SimpleNamespace(metadata=SimpleNamespace(shared=0), asm={"ptx": ""})
    config = SimpleNamespace(kwargs={}, num_warps=4, num_stages=1)
    result = SimpleNamespace(kernel=kernel, config=config)
    candidate = candidate_of(result, facts, H100, "")
    assert (candidate.tma_loads, candidate.tma_stores) == (3, 2)


def test_lines_that_spill_have_their_text() -> None:
    source = f"first\n    tmp0 = tl.load(in_ptr0)  \n{'x' * 500}\nlast"
    lines = {
        "1": LineCounts(global_loads=1),
        "2": LineCounts(local_loads=3),
        "3": LineCounts(local_stores=1),
        "9": LineCounts(local_stores=1),  # not of this text
    }
    texts = {line: counts.text for line, counts in with_text(lines, source).items()}
    assert texts == {"1": "", "2": "tmp0 = tl.load(in_ptr0)", "3": "x" * LINE_CHARACTERS, "9": ""}
    assert with_text(lines, source)["2"].local_loads == 3


def test_a_refused_configuration_says_why() -> None:
    config = SimpleNamespace(kwargs={"XBLOCK": 4}, num_warps=8, num_stages=1)
    candidate = refused(config, ValueError("too large\nand more"))
    assert (candidate.config, candidate.num_warps) == ({"XBLOCK": 4}, 8)
    assert (candidate.registers, candidate.error) == (None, "ValueError: too large")


def test_the_cache_gives_back_what_it_got(tmp_path: Path) -> None:
    lines = {"7": LineCounts(1, 2, 3, 4, "tmp0 = tmp1")}
    candidate = Candidate({"XBLOCK": 1}, 4, 1, registers=32, lines=lines, ptx="name")
    compiled = Compiled((candidate,), {"name": "packed"}, alternatives=(candidate, candidate))
    kernel_cache.write(tmp_path / "a" / "entry", compiled)
    assert kernel_cache.read(tmp_path / "a" / "entry") == compiled
    assert kernel_cache.read(tmp_path / "none") is None
