"""What PTX says before ptxas allocates registers."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"^\s*\.local\s+(?:\.align\s+\d+\s+)?\.b(\d+)\s+[\w$]+\[(\d+)\]", re.MULTILINE)


def local_array_bytes(ptx: str) -> int:
    """Bytes per thread of the arrays that the program itself keeps in local memory: ``sin`` and
    ``cos`` of large arguments have one of 28 bytes (triton#1756). They are part of a kernel's
    stack, but no register was spilled into them."""
    return sum(int(bits) // 8 * int(count) for bits, count in _LOCAL.findall(ptx))
