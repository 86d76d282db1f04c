"""Reads the comment above a kernel: the FX nodes that it computes, and their operators.

Inductor writes the fragment of its graph that became the kernel. Seen with torch 2.11 to 2.13; what
older releases leave out of it stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfcli.model import Origin

_NODE = re.compile(
    r"^#\s+%(\w+) : (?:Tensor )?(?:\"\w*\[([^\]\"]*)\][^\"]*\")?\s*(?:\[num_users=\d+\])?\s*= "
    r"call_function\[target=([^\]]+)\]"
)
_LIBRARIES = ("torch.ops.", "operator.")


def read_origins(comment: Sequence[str]) -> tuple[Origin, ...]:
    """Return the nodes of the graph's fragment, in its order; lines of the model are not in it."""
    found = (_NODE.match(line) for line in comment)
    return tuple(
        Origin(node[1], _name(node[3]), shape=_read_shape(node[2] or "")) for node in found if node
    )


def _name(target: str) -> str:
    for library in _LIBRARIES:
        target = target.removeprefix(library)
    return target


def _read_shape(text: str) -> tuple[int | str, ...]:
    sizes = (each.strip() for each in text.split(","))
    return tuple(int(each) if each.isdecimal() else each for each in sizes if each)
