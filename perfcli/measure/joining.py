"""Joins launches that were expected, in order, with what a profiler saw. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """Describes one launch as it was seen: a generated kernel, or an operator with all of its
    kernels."""

    key: str
    """What it goes by on the device or in the profile: ``triton_poi_fused_0``, ``aten::mm``."""
    seconds: float
    generated: bool
    kernels: tuple[str, ...] = ()
    """Names on the device, the first launched first."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The facts of the longest kernel, as the profiler gives them."""
    longest: tuple[float, str] | None = None
    """Seconds and name of that kernel, where there are several."""

    @property
    def kernel(self) -> str:
        """Return the longest kernel's name on the device; empty on the CPU."""
        return self.longest[1] if self.longest else "".join(self.kernels[:1])

    def with_kernel(self, name: str, seconds: float, facts: Mapping[str, Any]) -> Seen:
        """Return the same operator with one kernel more."""
        longest = self.longest or (self.seconds, self.kernel)
        longer = seconds > longest[0]
        return replace(
            self,
            seconds=self.seconds + seconds,
            kernels=(*self.kernels, name),
            facts=facts if longer else self.facts,
            longest=(seconds, name) if longer else longest,
        )


@dataclass(frozen=True, slots=True)
class _Joined:
    """Says which expected launch each seen one is; several seen can be one that was expected."""

    expected_of: tuple[int | None, ...]
    missing: tuple[int, ...]
    """Expected, and not seen."""


def join(expected: Sequence[Seen], seen: Sequence[Seen]) -> _Joined:
    """Join by key and order; where the orders differ, by key alone. What is then left between two
    launches that are sure is joined where that is unambiguous: one expected operator, or as many
    seen as expected (an operator can be another one inside)."""
    found: list[int | None] = [None] * len(seen)
    for e, s in _in_order(expected, seen):
        found[s] = e
    for e, s in _by_key(expected, seen, found):
        found[s] = e
    for expected_gap, seen_gap in list(_gaps(expected, seen, found)):
        if len(expected_gap) == 1:
            for s in seen_gap:
                found[s] = expected_gap[0]
        elif len(expected_gap) == len(seen_gap):
            for e, s in zip(expected_gap, seen_gap, strict=True):
                found[s] = e
    taken = set(found)
    return _Joined(tuple(found), tuple(e for e in range(len(expected)) if e not in taken))


def _in_order(expected: Sequence[Seen], seen: Sequence[Seen]) -> list[tuple[int, int]]:
    matcher = SequenceMatcher(
        None, [e.key for e in expected], [s.key for s in seen], autojunk=False
    )
    return [
        (block.a + i, block.b + i)
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    ]


def _by_key(
    expected: Sequence[Seen], seen: Sequence[Seen], found: Sequence[int | None]
) -> list[tuple[int, int]]:
    """Return what is left by key, the first with the first."""
    left: defaultdict[str, deque[int]] = defaultdict(deque)
    for e in sorted({*range(len(expected))}.difference(e for e in found if e is not None)):
        left[expected[e].key].append(e)
    return [
        (left[launch.key].popleft(), s)
        for s, launch in enumerate(seen)
        if found[s] is None and left[launch.key]
    ]


def _gaps(
    expected: Sequence[Seen], seen: Sequence[Seen], found: Sequence[int | None]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield operators, expected and seen, that are left between two neighbouring joined
    launches."""
    taken = {e for e in found if e is not None}
    at_expected = at_seen = 0
    anchors = [(e, s) for s, e in enumerate(found) if e is not None]
    for e, s in [*anchors, (len(expected), len(seen))]:
        if e < at_expected:  # joined out of order
            continue
        left = [i for i in range(at_expected, e) if i not in taken and not expected[i].generated]
        over = [i for i in range(at_seen, s) if found[i] is None and not seen[i].generated]
        if left and over:
            yield left, over
        at_expected, at_seen = e + 1, s + 1


def times(
    layout: Sequence[Seen], slots: Sequence[int], seen: Sequence[Seen]
) -> tuple[float, ...] | None:
    """Return seconds of each slot in another step. ``layout`` is the step whose launches were given
    slots. None where something of the layout was not seen: such a step says nothing."""
    joined = join(layout, seen)
    if joined.missing:
        return None
    seconds = [0.0] * (max(slots, default=-1) + 1)
    for launch, place in zip(seen, joined.expected_of, strict=True):
        if place is not None:
            seconds[slots[place]] += launch.seconds
    return tuple(seconds)


def slots(joined: _Joined) -> tuple[int, ...]:
    """Return a place for each seen launch; those that are one expected launch share theirs."""
    places: dict[tuple[str, int], int] = {}
    return tuple(
        places.setdefault(("seen", s) if e is None else ("expected", e), len(places))
        for s, e in enumerate(joined.expected_of)
    )


def firsts(seen: Sequence[Seen], joined: _Joined) -> list[tuple[Seen, int | None]]:
    """Return, for each slot in order, its first seen launch and which expected one it is."""
    given = slots(joined)
    return [
        (launch, joined.expected_of[s])
        for s, launch in enumerate(seen)
        if given.index(given[s]) == s
    ]


def notes(expected: Sequence[Seen], seen: Sequence[Seen], joined: _Joined) -> tuple[str, ...]:
    """Say in words where the profile is not the launch list."""
    found = []
    missing = [expected[e] for e in joined.missing]
    kernels = sorted({m.key for m in missing if m.generated})
    if kernels:
        count = sum(m.generated for m in missing)
        found.append(f"{count} launches of generated kernels were not seen: {_some(kernels)}")
    silent = sorted({m.key for m in missing if not m.generated})
    if silent:
        found.append(f"operators that launched nothing that was seen: {_some(silent)}")
    order = [e for e in joined.expected_of if e is not None]
    if order != sorted(order):
        found.append("launches ran in another order than was expected: joined by name")
    extra = [s for s, e in zip(seen, joined.expected_of, strict=True) if e is None and s.generated]
    if extra:
        names = sorted({s.key for s in extra})
        found.append(f"{len(extra)} launches of kernels that were not expected: {_some(names)}")
    return tuple(found)


def _some(names: Sequence[str], limit: int = 3) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
