"""Finds where Dynamo broke the graph, which its counters do not say."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from perfcli.compile.stand_in.device import replace_for_block
from perfcli.loading.tracebacks import is_users
from perfcli.model import BreakPlace

HEADLINE = 200
"""Characters of a reason's one line: torch's own can run to pages."""

BRANCH = "Data-dependent branching"
"""Dynamo ends a graph at a branch on a value, but counts that as ``unimplemented`` (torch 2.11 to
2.13)."""
Places = dict[str, dict[BreakPlace, None]]


@contextmanager
def watch_breaks() -> Iterator[Places]:
    """Collect the places of graph breaks, by reason, while the block runs; also of what kept Dynamo
    from tracing a whole function (a break inside of a loop).

    Seen with torch 2.11 to 2.13: ``Unsupported.add_to_stats`` counts a break as ``graph_break``
    and such a function as ``unimplemented``, and the error has the user's ``real_stack``. Without
    these nothing is collected.
    """
    from torch._dynamo.exc import Unsupported

    places: Places = {}
    original = getattr(Unsupported, "add_to_stats", None)
    if original is None:
        yield places
        return

    @functools.wraps(original)
    def add_to_stats(self: Any, category: str = "unimplemented") -> None:
        original(self, category)
        reason = _first_line(str(self.msg))
        place = _place(getattr(self, "real_stack", None) or (), str(self.msg))
        if place:
            places.setdefault(reason, {})[place] = None

    with replace_for_block(Unsupported, add_to_stats=add_to_stats):
        yield places


def _place(stack: Iterable[Any], message: str) -> BreakPlace | None:
    """Return the innermost line that is the user's, or the innermost one where none is."""
    frames = list(stack)
    for frame in reversed([f for f in frames if is_users(f)] or frames):
        location = f"{frame.filename}:{frame.lineno}"
        return BreakPlace(location, (frame.line or "").strip(), _explanation(message))
    return None


def _explanation(message: str) -> str:
    """Return Dynamo's first sentence about the break: ``Dynamo does not know how to trace builtin
    operator `print` with argument types ['str']``."""
    for line in message.splitlines():
        if line.strip().startswith("Explanation: "):
            return line.strip().removeprefix("Explanation: ")[:HEADLINE]
    return ""


def _first_line(reason: str) -> str:
    return reason.strip().partition("\n")[0][:HEADLINE]


def count_breaks(counters: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return how often Dynamo broke a graph for each reason, by its first line: the rest explains
    and gives advice. ``counters`` are Dynamo's."""
    found: Counter[str] = Counter()
    for reason, number in counters["graph_break"].items():
        found[_first_line(reason)] += number
    for reason, number in counters["unimplemented"].items():
        if _first_line(reason) == BRANCH:
            found[BRANCH] += number
    return dict(found)
