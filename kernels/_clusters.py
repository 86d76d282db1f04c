"""Says what a cluster of blocks may have, and what a thread of blocks that share a multiprocessor.
Pure."""

from __future__ import annotations

from perfcli.model import Target

BLOCKS, PORTABLE = (2, 4, 8, 16), 8
"""Of a cluster. Every device that has clusters takes 8; an H200 takes 16."""
PAIR_BYTES, BARRIER_BYTES = 8, 16
"""What a mailbox has for each warp of the cluster, its pair, and besides: the barrier at which a
block waits for them, and a row's number (see ``_gluon.cluster``)."""
ISSUE_SECONDS = 0.57e-9
"""Seconds of a quarter of a multiprocessor for an instruction of a warp."""
REGISTER_STEP, MOST_REGISTERS = 8, 255
"""Of a thread: they are given out in such steps (CUDA occupancy calculator)."""


def why_none(target: Target) -> str:
    """Return why there are no clusters; "" if there are."""
    if target.vendor != "nvidia" or target.capability < (9, 0):
        return f"{target.name} has no clusters"
    return ""


def sizes(target: Target) -> tuple[int, ...]:
    """Return how many blocks a cluster may have."""
    most = BLOCKS[-1] if target.capability == (9, 0) else PORTABLE
    return tuple(blocks for blocks in BLOCKS if blocks <= most)


def mailbox_bytes(warps: int, blocks: int) -> int:
    """Return the bytes of a mailbox of a cluster whose blocks have so many warps."""
    return blocks * warps * PAIR_BYTES + BARRIER_BYTES


def share_registers(target: Target, threads: int) -> int:
    """Return a thread's registers where so many share a multiprocessor."""
    return min(target.registers_per_sm // threads // REGISTER_STEP * REGISTER_STEP, MOST_REGISTERS)
