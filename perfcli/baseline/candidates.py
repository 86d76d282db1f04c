"""A launch configuration as one line of the file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Candidate

BINARY_DIGITS = 12
_NUMBERS = {
    "registers": "registers",
    "stack": "stack_bytes",
    "arrays": "local_array_bytes",
    "shared": "shared_bytes",
    "blocks": "blocks_per_sm",
    "occupancy": "occupancy",
    "tma_loads": "tma_loads",
    "tma_stores": "tma_stores",
}
_USUALLY = {"arrays": 0, "tma_loads": 0, "tma_stores": 0}


def table(candidate: Candidate) -> dict[str, Any]:
    """Stack in bytes per thread, shared memory in bytes per block; ``loads`` and ``stores`` are
    global ones by the bits that a thread moves at once."""
    numbers = {name: getattr(candidate, field) for name, field in _NUMBERS.items()}
    values: dict[str, Any] = {
        "config": " ".join(f"{name}={value}" for name, value in sorted(candidate.config.items())),
        "warps": candidate.num_warps,
        "stages": candidate.num_stages,
        **{name: v for name, v in numbers.items() if v is not None and v != _USUALLY.get(name)},
        "limit": candidate.occupancy_limit,
        "loads": _widths(candidate.global_loads),
        "stores": _widths(candidate.global_stores),
        "binary": (candidate.binary_hash or "")[:BINARY_DIGITS],
        "failed": bool(candidate.error) or None,
    }
    return {name: value for name, value in values.items() if value not in (None, "")}


def _widths(counts: Mapping[str, int]) -> str:
    """``128x3 64x7``."""
    by_width = sorted(counts.items(), key=lambda item: -int(item[0]))
    return " ".join(f"{bits}x{number}" for bits, number in by_width)


def candidate(table: Mapping[str, Any]) -> Candidate:
    """Raises KeyError, TypeError and ValueError for what is no line of ours."""
    config = (text.partition("=") for text in table["config"].split())
    known = "registers" in table
    usual = _USUALLY if known else {}
    numbers = {field: table.get(name, usual.get(name)) for name, field in _NUMBERS.items()}
    return Candidate(
        config={name: int(value) for name, _, value in config},
        num_warps=table["warps"],
        num_stages=table["stages"],
        **numbers,
        occupancy_limit=table.get("limit", ""),
        global_loads=_counts(table.get("loads", "")),
        global_stores=_counts(table.get("stores", "")),
        binary_hash=table.get("binary"),
        error="did not compile" if table.get("failed") else "",
    )


def _counts(text: str) -> dict[str, int]:
    parts = (each.partition("x") for each in text.split())
    return {bits: int(number) for bits, _, number in parts}
