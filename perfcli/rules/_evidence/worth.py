"""Tells a cost that is worth a finding from one that is not."""

from __future__ import annotations

from typing import TypeGuard

from perfcli.model import Cost

LEAST_SECONDS = 1e-6


def is_worth(cost: Cost | None, of_step: float, own_seconds: float = 0.0) -> TypeGuard[Cost]:
    """Return whether a cost is known, a microsecond or more, and no smaller than this part of the
    step, 0 to 1, and than ``own_seconds``, which are a part of the time of the kernels at fault."""
    return (
        cost is not None
        and cost.seconds >= max(LEAST_SECONDS, own_seconds)
        and (cost.share or 0.0) >= of_step
    )
