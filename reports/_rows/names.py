"""Names of kernels where there is little room: their middle gives way."""

from __future__ import annotations

import re
from collections.abc import Sequence


def shorten(name: str, room: int) -> str:
    """Return the name without its middle: the number at its end tells kernels apart."""
    if len(name) <= room:
        return name
    keep = (room - 1) // 2
    return f"{name[:keep]}…{name[-(room - 1 - keep) :]}"


def shorten_names(text: str, names: Sequence[str], room: int, least: int) -> str:
    """Return a text whose kernel names are cut, no further than ``least``, until it fits into
    ``room`` columns."""
    known = sorted({name for name in names if name in text}, key=lambda name: -len(name))
    if not known or len(text) <= room:
        return text
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)")
    found = pattern.findall(text)
    left = room - (len(text) - sum(map(len, found)))
    share = least
    for number, name in enumerate(sorted(found, key=len)):  # short ones leave room for long ones
        share = max(left // (len(found) - number), least)
        if len(name) > share:
            break
        left -= len(name)
    return pattern.sub(lambda match: shorten(match[0], share), text)


def fold(name: str, room: int) -> list[str]:
    """Return a whole name in lines of at most ``room`` columns, broken before underscores where it
    has some."""
    lines = [""]
    for word in re.findall(r"_*[^_]+_*$|_*[^_]+|_+$", name):
        if lines[-1] and len(lines[-1]) + len(word) > room:
            lines.append("")
        lines[-1] += word
    return lines
