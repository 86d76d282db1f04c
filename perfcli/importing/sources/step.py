"""Puts the graphs that were found in the order of a step, and gives them perfcli's names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from perfcli.importing.sources.calls import Followed, WrittenCall, follow
from perfcli.importing.sources.comments import Listed, read_listing, read_nodes, read_origins
from perfcli.importing.sources.device import retarget
from perfcli.importing.sources.leftovers import WrittenGraph
from perfcli.importing.sources.wrapper import Wrapper, WrittenKernel, read_wrapper
from perfcli.model import GraphFacts, Target

Direction: TypeAlias = Literal["forward", "backward", "inference"]
_LABEL = re.compile(r"(\d{1,9})_(forward|backward|inference)")


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """Holds one graph: its module read, and its call followed."""

    facts: GraphFacts
    place: str
    """Says where it was found."""
    wrapper: Wrapper
    followed: Followed
    listed: Listed
    nodes: Mapping[str, Collection[str]]
    """Names of the nodes that each kernel computes, as far as torch recorded them."""

    def list_missing(self) -> Iterator[str]:
        """Yield what could not be read of it, in a line each."""
        for missing in self.wrapper.missing:
            yield f"{self.place}: {missing}"
        if not self.followed.is_whole:
            yield f"{self.place}: it is too long, not all of its launches are counted"

    def for_target(self, target: Target) -> ReadGraph:
        """Return the graph with the kernels that Inductor writes for ``target``."""
        kernels = tuple(_retarget(kernel, target) for kernel in self.wrapper.kernels)
        return replace(self, wrapper=replace(self.wrapper, kernels=kernels))


def _retarget(kernel: WrittenKernel, target: Target) -> WrittenKernel:
    definition = kernel.definition
    if definition.language != "triton":
        return kernel
    return replace(
        kernel, definition=replace(definition, source=retarget(definition.source, target))
    )


def order_graphs(written: Iterable[WrittenGraph]) -> list[ReadGraph]:
    """Return the graphs, read. They come in torch's order, the backward ones behind all others and
    in reverse, as autograd calls them."""
    read: list[tuple[Direction, int, ReadGraph]] = []
    for place, graph in enumerate(written):
        wrapper = read_wrapper(graph.text)
        direction, number = _read_label(wrapper.label) or _read_label(graph.label) or (
            "inference", place
        )  # fmt: skip
        listed = read_listing(graph.listing)
        named = {o.node for each in wrapper.kernels for o in read_origins(each.comment, listed)}
        facts = GraphFacts("", direction, 0, len(listed) or len(named))
        followed = follow(wrapper)
        each = ReadGraph(facts, graph.place, wrapper, followed, listed, read_nodes(graph.mapping))
        read.append((direction, number, each))
    ahead = sorted((each for each in read if each[0] != "backward"), key=lambda each: each[1])
    behind = sorted((each for each in read if each[0] == "backward"), key=lambda each: -each[1])
    return [graph for _, _, graph in (*ahead, *behind)]


def _read_label(text: str) -> tuple[Direction, int] | None:
    found = _LABEL.search(text)
    for direction in get_args(Direction):
        if found and found[2] == direction:
            return direction, int(found[1])
    return None


def gather_kernels(kernels: Sequence[WrittenKernel]) -> list[ReadGraph]:
    """Return graphs that launch each of these kernels once; as many as are needed where several
    have one name."""
    counted = Counter[str]()
    groups: list[list[WrittenKernel]] = []
    for kernel in kernels:
        number = counted[kernel.name]
        counted[kernel.name] += 1
        if number == len(groups):
            groups.append([])
        groups[number].append(kernel)
    graphs: list[ReadGraph] = []
    for group in groups:
        calls = tuple(WrittenCall(kernel.name, False, [], {}) for kernel in group)
        wrapper = Wrapper("", tuple(group), {}, frozenset(), {})
        facts = GraphFacts("", "inference", 0, 0)
        graphs.append(ReadGraph(facts, "", wrapper, Followed((), calls), {}, {}))
    return graphs


def number_graphs(graphs: Iterable[ReadGraph]) -> list[ReadGraph]:
    """Name graphs by direction and number, ``forward 0``."""
    numbers = Counter[str]()
    named: list[ReadGraph] = []
    for graph in graphs:
        direction = graph.facts.direction
        number = numbers[direction]
        numbers[direction] += 1
        facts = replace(graph.facts, name=f"{direction} {number}", index=number)
        named.append(replace(graph, facts=facts))
    return named
