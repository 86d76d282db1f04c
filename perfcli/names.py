"""Handles names that people type (dashes and underscores are the same, a typo gets the nearest) and
those that Inductor gives kernels."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LISTED = 12
_NUMBER = re.compile(r"(_\d+)+$")


def public(name: str) -> str:
    """Return how a name is shown and typed: ``gqa_transformer`` becomes ``gqa-transformer``."""
    return name.replace("_", "-")


def internal(name: str) -> str:
    """Return how a name is spelled in Python: ``kv-heads`` becomes ``kv_heads``."""
    return name.strip().replace("-", "_")


def stem(kernel: str) -> str:
    """Return ``triton_red_fused_add`` of ``triton_red_fused_add_12``, which one kernel more before
    it renames, and of its label in a baseline, ``triton_red_fused_add#2``."""
    return _NUMBER.sub("", kernel.partition("#")[0])


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return what to say after "unknown …": the nearest of the known names, or all where few
    exist."""
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
