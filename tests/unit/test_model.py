"""What the model derives from its own fields."""

from __future__ import annotations

from dataclasses import replace

from handmade import kernel

from perfcli.model import Candidate


def test_the_best_candidate_is_one_that_can_be_launched() -> None:
    spilling = Candidate({}, 8, 1, registers=255, stack_bytes=8, blocks_per_sm=1)
    too_big = Candidate({}, 8, 4, registers=128, stack_bytes=0, blocks_per_sm=0)
    unread = Candidate({}, 8, 2, error="refused")
    found = replace(kernel("a"), candidates=(too_big, unread, spilling))
    assert found.best is spilling
    assert found.spilled_words == 2
    assert replace(found, candidates=(too_big, unread)).best is too_big
    assert replace(found, candidates=(unread,)).best is None
