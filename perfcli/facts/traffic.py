"""How fast a kernel could be at best."""

from __future__ import annotations

from perfcli.model import Target


def lower_bound_seconds(bytes_moved: int | None, target: Target) -> float | None:
    """Seconds to move ``bytes_moved`` through device memory at the data sheet's bandwidth: no
    kernel that misses the cache can be faster. None where either is not known."""
    if bytes_moved is None or target.bandwidth <= 0:
        return None
    return bytes_moved / target.bandwidth
