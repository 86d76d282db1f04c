"""Inductor's kernels and hand-written ones for the same computation, side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """What all kernels of one side cost together. None: not known."""

    launches: int
    bytes_moved: int | None = None
    """Each kernel's buffers once."""
    bytes_swept: int | None = None
    """With what a kernel reads again."""
    passes: float | None = None
    """How often the bytes of the inputs are read, over all kernels."""
    wide_share: float | None = None
    """Of the bytes that load instructions load, the part that a thread loads 16 at a time, or TMA:
    static counts, of the launch configuration that does best, weighed by bytes read. 0 to 1."""
    registers: int | None = None
    """Of the kernel with most."""
    spilled_words: int | None = None
    shared_bytes: int | None = None
    """Of the kernel with most, per block."""
    occupancy: float | None = None
    """Of the kernel with least."""


@dataclass(frozen=True, slots=True)
class Raced:
    """Both sides and a copy of as many bytes as a problem has to move, timed in turns: seconds."""

    problem: str
    """``softmax 32768 × 2048 bfloat16``."""
    inductor: float
    ours: float
    copy: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What a comparison with hand-written kernels shows in addition; they are its head."""

    kernels: tuple[str, ...]
    """``softmax/online`` for each problem: family and variant."""
    why: tuple[str, ...]
    """For each problem, why its planner chose this variant."""
    inductor: Totals
    ours: Totals
    explained: tuple[int, ...] = ()
    """Indices into ``Comparison.findings``: what Inductor's kernels have, ours lack, and is seen in
    the numbers."""
    left_out: tuple[str, ...] = ()
    """What the scenario computes and the hand-written kernels do not."""
    raced: tuple[Raced, ...] = ()
    untimed: str = ""
    """Why nothing was timed."""
