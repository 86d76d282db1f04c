"""Names that people type: dashes and underscores are the same, a typo gets the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LISTED = 12


def public(name: str) -> str:
    """How a name is shown and typed: ``gqa_transformer`` becomes ``gqa-transformer``."""
    return name.replace("_", "-")


def internal(name: str) -> str:
    """How a name is spelled in Python: ``kv-heads`` becomes ``kv_heads``."""
    return name.strip().replace("-", "_")


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to say after "unknown …": the nearest of the known names, or all where few exist."""
    names = sorted(known)
    if not names:
        return "there are none"
    by_public = {public(known).lower(): known for known in names}
    near = difflib.get_close_matches(public(name).lower(), by_public, 3, 0.6)
    if near:
        return f"did you mean {' or '.join(by_public[match] for match in near)}?"
    if len(names) <= LISTED:
        return f"known: {', '.join(names)}"
    return f"{len(names)} are known, none of them like it"
