# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment"
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Lets the programs of a row tell each other their sums.

Each program puts a word of 64 bits, a pair of fp32 sums, where ``MISSING`` stood, and reads until
none of its row's words is missing: one word says both that the sums are there and what they are, so
nothing is fenced. The wait is bounded: who has polled ``POLLS`` times computes the missing sums
itself, so nothing depends on all programs of a row being resident at once. (Sums that happen to
look like ``MISSING``, two NaN of one payload, cost no more than that wait.)
"""

from __future__ import annotations

import triton
import triton.language as tl

from . import blocks

MISSING = tl.constexpr(blocks.MISSING)


@triton.jit
def await_words(words, parts, mine, PADDED: tl.constexpr, POLLS: tl.constexpr):
    """Return the words of a row's programs, and whether this warp gave up on one of them.

    ``mine`` is the word that this program told before, of any row. Triton's pipeliner moves a
    condition in a loop to the front of it, past atomics, unless it needs what they need: without
    that word programs would wait for each other before any of them had told anything.
    """
    other = tl.arange(0, PADDED)
    seen = tl.zeros([PADDED], tl.int64)
    missing = tl.max((seen == MISSING).to(tl.int32), axis=0)
    # Loops and loads stand below a condition: Triton pipelines no loop with another one directly in
    # it.
    if parts > 0:
        missing += 1
        polls = (mine == MISSING).to(tl.int32)
        while (missing > 0) & (polls < POLLS):
            seen = tl.load(words + other, mask=other < parts, other=0, volatile=True)
            missing = tl.max((seen == MISSING).to(tl.int32), axis=0)
            polls += 1
    return seen, missing
