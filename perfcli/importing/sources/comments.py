"""Reads what the text around a kernel says of where it comes from: the comment above it, which has
the FX nodes that it computes, and the listing of their graph, which has the lines of the model.

Inductor writes the fragment of its graph that became the kernel. Seen with torch 2.11 to 2.13; what
older releases leave out of it stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from perfcli.decoding import decode
from perfcli.model import Origin

_NODE = re.compile(
    r"^#\s+%(\w+) : (?:Tensor )?(?:\"\w*\[([^\]\"]*)\][^\"]*\")?\s*(?:\[num_users=\d+\])?\s*= "
    r"call_function\[target=([^\]]+)\]"
)
_LIBRARIES = ("torch.ops.", "operator.")
_FILE = re.compile(r"^\s*# File: (.+?:\d+) in [^,]*(?:, code: (.*))?$")
_ASSIGNED = re.compile(r"^\s*(\w+)(?:: \"\w*\[([^\]\"]*)\][^\"]*\")? = ([\w.]+)(\(|\[)")
_MOST_CODE = 500

Listed = Mapping[str, Origin]
"""Nodes of a graph by name, in its order."""


def read_listing(listing: str) -> Listed:
    """Return the nodes of a graph as torch prints it: above them stands the line of the model that
    made them."""
    found: dict[str, Origin] = {}
    location = code = ""
    for line in listing.splitlines():
        if place := _FILE.match(line):
            location, code = place[1], (place[2] or "")[:_MOST_CODE]
        elif line.lstrip().startswith("# No stacktrace"):
            location = code = ""
        elif node := _ASSIGNED.match(line):
            operator = _name(node[3]) if node[4] == "(" else "getitem"
            shape = _read_shape(node[2] or "")
            found[node[1]] = Origin(node[1], operator, "", shape, location, code)
    return found


def read_origins(comment: Sequence[str], listed: Listed) -> tuple[Origin, ...]:
    """Return the nodes of the graph's fragment in a comment, in its order."""
    origins: list[Origin] = []
    for text in comment:
        if node := _NODE.match(text):
            known = listed.get(node[1], Origin("", ""))
            shape = _read_shape(node[2] or "")
            operator = _name(node[3])
            origins.append(Origin(node[1], operator, "", shape, known.location, known.code))
    return tuple(origins)


def read_nodes(mapping: str) -> dict[str, set[str]]:
    """Return the names of the nodes that each kernel computes, from what torch records of them
    (``inductor_provenance_tracking_node_mappings``); empty where that can't be read."""
    try:
        kernels = decode(mapping or "{}", _Mapping).cppCodeToPost
    except (msgspec.DecodeError, RecursionError):
        return {}
    found: dict[str, set[str]] = {}
    for name, nodes in kernels.items():  # a number for each launch follows the kernel's name
        found.setdefault(name.partition(":")[0], set()).update(nodes)
    return found


class _Mapping(msgspec.Struct):
    cppCodeToPost: dict[str, list[str]] = {}


def find_origins(names: Collection[str], listed: Listed) -> tuple[Origin, ...]:
    """Return those nodes of a graph that have these names, in its order."""
    return tuple(origin for name, origin in listed.items() if name in names)


def _name(target: str) -> str:
    for library in _LIBRARIES:
        target = target.removeprefix(library)
    return target


def _read_shape(text: str) -> tuple[int | str, ...]:
    sizes = (each.strip() for each in text.split(","))
    return tuple(int(each) if each.isdecimal() else each for each in sizes if each)
