"""Tells which machine instructions sit in a loop: the cycles of the control-flow graph.

Not "between a backward branch and its target": a compiler may lay out code that leaves a loop
inside that range, or parts of the loop outside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from perfcli.facts.binary.sass import Instruction, Listing

_ENDS = {"EXIT", "RET", "KILL"}
_JUMPS = {"BRA", "JMP"}
_INDIRECT = {"BRX", "JMX", "BRXU", "JMXU"}


def in_loops(listing: Listing) -> frozenset[int]:
    """Return indices of the instructions that can run again after they ran.

    A branch whose targets are not printed is taken to reach every label. A called function is in
    a loop when any of its calls is.
    """
    edges = [list(_successors(i, listing)) for i in range(len(listing.instructions))]
    looping = _cyclic(edges)
    calls = {
        index: listing.labels[target]
        for index, instruction in enumerate(listing.instructions)
        if instruction.name == "CALL"
        for target in instruction.targets
        if target in listing.labels
    }
    pending = True
    while pending:
        reached = _reachable([entry for index, entry in calls.items() if index in looping], edges)
        pending = not reached <= looping
        looping |= reached
    return frozenset(looping)


def _successors(index: int, listing: Listing) -> Iterator[int]:
    instruction = listing.instructions[index]
    last = index + 1 == len(listing.instructions)
    if _falls_through(instruction) and not last:
        yield index + 1
    if instruction.name in _JUMPS | _INDIRECT:
        named = [listing.labels[t] for t in instruction.targets if t in listing.labels]
        if not named and instruction.name in _INDIRECT:
            named = list(listing.labels.values())
        yield from (target for target in named if target < len(listing.instructions))


def _falls_through(instruction: Instruction) -> bool:
    """Return whether execution may go on below: ``@P0 BRA``, ``BRA.U UP0, …``, ``BRA.DIV UR4, …``
    and ``BRA P1, …`` may."""
    if instruction.predicate and instruction.predicate not in ("@PT", "@UPT"):
        return True
    if instruction.name in _JUMPS:
        return not instruction.operands.startswith("`")
    return instruction.name not in _ENDS | _INDIRECT


def _cyclic(edges: Sequence[Sequence[int]]) -> set[int]:
    """Return nodes on some cycle: those of strongly connected components with an edge inside.

    Kosaraju's two sweeps, without recursion: a kernel has tens of thousands of instructions.
    """
    backwards: list[list[int]] = [[] for _ in edges]
    for node, successors in enumerate(edges):
        for successor in successors:
            backwards[successor].append(node)
    cyclic: set[int] = set()
    assigned: set[int] = set()
    for root in reversed(_finishing_order(edges)):
        if root in assigned:
            continue
        component = _reachable([root], backwards, assigned)
        assigned |= component
        if len(component) > 1 or root in edges[root]:
            cyclic |= component
    return cyclic


def _finishing_order(edges: Sequence[Sequence[int]]) -> list[int]:
    """Return nodes in the order in which a depth-first search leaves them."""
    order: list[int] = []
    seen: set[int] = set()
    for root in range(len(edges)):
        if root in seen:
            continue
        seen.add(root)
        work = [(root, iter(edges[root]))]
        while work:
            node, successors = work[-1]
            following = next((s for s in successors if s not in seen), None)
            if following is None:
                work.pop()
                order.append(node)
            else:
                seen.add(following)
                work.append((following, iter(edges[following])))
    return order


def _reachable(
    entries: Sequence[int], edges: Sequence[Sequence[int]], closed: Set[int] = frozenset()
) -> set[int]:
    """Return the entries and all that can be reached from them without entering ``closed``."""
    seen = set(entries)
    pending = list(entries)
    while pending:
        for successor in edges[pending.pop()]:
            if successor not in seen and successor not in closed:
                seen.add(successor)
                pending.append(successor)
    return seen
