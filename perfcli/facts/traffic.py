"""Computes how fast a kernel could be at best."""

from __future__ import annotations

from collections.abc import Mapping

from perfcli.model import SourceFacts, Target


def lower_bound_seconds(bytes_moved: int | None, target: Target) -> float | None:
    """Return seconds to move ``bytes_moved`` through device memory at the data sheet's bandwidth:
    no kernel that misses the cache can be faster. None where either is not known."""
    if bytes_moved is None or target.bandwidth <= 0:
        return None
    return bytes_moved / target.bandwidth


def bytes_swept(
    bytes_moved: int | None, arguments: Mapping[str, int], facts: SourceFacts | None
) -> int | None:
    """Return ``bytes_moved`` (each buffer once) plus, for each sweep over an argument after its
    first, the bytes behind that argument again, or None where the bytes or the sweeps are not
    known."""
    if bytes_moved is None or facts is None:
        return None
    again = (arguments.get(name, 0) * (passes - 1) for name, passes in facts.passes.items())
    return bytes_moved + sum(again)
