"""Runs as torch makes them, and changes planted in them: what a matcher has to find again.

A model has layers with the same modules. Each layer has a kernel per role, with nodes of its own
and nodes that other kernels of the layer recompute; kernels of a role whose code is the same in
all layers of a graph are one kernel, launched once per layer, with the nodes of all layers.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from handmade import kernel

from perfcli.model import KernelFacts, Origin, Relation

Expected = tuple[frozenset[str], frozenset[str], Relation]

OPERATORS = ("mul", "add", "sub", "exp", "pow", "neg", "sum", "mean")
# Without modules and names operators tell kernels apart by their order alone: what was dropped
# can't be known. With names, one that was dropped and one that was added, in one model without
# modules, with the same operators, may be one kernel whose nodes were made anew.
AMBIGUOUS = ("drop", "add")
CHANGES = (
    *("keep", "recompile", "rewrite", "merge", "split", "regroup", "drop", "add"),
    "lose a layer",
)


@dataclass(frozen=True)
class Node:
    """``place``: in its graph; its name's number follows from that."""

    place: float
    operator: str
    module: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """A kernel to be: per layer the nodes that only it computes, and what others compute too."""

    graph: str
    own: tuple[tuple[Node, ...], ...]
    shared: tuple[tuple[Node, ...], ...]
    code: str = ""
    binary: str = ""

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(itertools.chain(*self.own, *self.shared))

    def sorts(self) -> Counter[str]:
        return Counter(node.operator for node in self.nodes)


@dataclass(frozen=True)
class Planted:
    base: list[KernelFacts]
    head: list[KernelFacts]
    expected: set[Expected]


@dataclass
class Planter:
    dice: random.Random
    layers: int
    roles: int
    modules: bool
    nodes_agree: bool
    places: Iterator[float] = field(default_factory=lambda: itertools.count(1.0))
    groups: list[tuple[list[Unit], list[Unit], Relation]] = field(default_factory=list)

    def plant(self, changes: Sequence[str]) -> Planted:
        waiting = self.model()
        self.dice.shuffle(waiting)
        clear = [c for c in changes if self.modules or c not in AMBIGUOUS]
        if self.nodes_agree and not self.modules:
            only = self.dice.choice(AMBIGUOUS)
            clear = [c for c in changes if c == only or c not in AMBIGUOUS]
        for change in clear:
            getattr(self, change.replace(" ", "_"))(waiting)
        while waiting:
            self.keep(waiting)
        return self.runs()

    # --- the model ---------------------------------------------------------------------------

    def model(self) -> list[Unit]:
        half = self.dice.choice([self.layers, max(self.layers // 2, 1)])  # a graph break between
        graphs = [range(half), range(half, self.layers)]
        units = []
        for role in range(self.roles):
            way = self.dice.choice(["forward", "backward"])
            operators = self.dice.choices(OPERATORS, k=self.dice.randint(2, 8))
            recomputed = [n for n in range(3) if self.dice.random() < 0.4]
            one_code = self.dice.random() < 0.5
            for number, layers in enumerate(graphs):
                made = [self.layer(way, role, layer, operators, recomputed) for layer in layers]
                graph = f"{way} {number}"
                several = [made] if one_code and made else [[layer] for layer in made]
                units += [
                    self.coded(Unit(graph, tuple(own for own, _ in s), tuple(sh for _, sh in s)))
                    for s in several
                ]
        return units

    def layer(
        self, way: str, role: int, layer: int, operators: Sequence[str], recomputed: Sequence[int]
    ) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        shape = (8, 16 << role % 3)
        # Two roles share a module; each has one operator that is its own.
        module = f"blocks.{layer}.part_{role // 2}" if self.modules else ""
        names = [*operators, f"role_{'abcdefg'[role]}"]
        own = tuple(Node(next(self.places), name, module, shape) for name in names)
        root = f"blocks.{layer}" if self.modules else ""
        # The same node whoever computes it: its place follows from the layer.
        places = {
            n: -1000.0 + 10 * layer + n + (0.5 if way == "backward" else 0) for n in recomputed
        }
        shared = tuple(Node(place, f"cast_{'abc'[n]}", root, (8, 1)) for n, place in places.items())
        return own, shared

    def coded(self, unit: Unit) -> Unit:
        code = f"code {self.dice.getrandbits(60)}"
        return replace(unit, code=code, binary=code)

    # --- changes -----------------------------------------------------------------------------

    def take(self, waiting: list[Unit], number: int, parts: int = 1) -> list[Unit]:
        """Units of one graph that are launched once and can be dealt evenly: a smaller share than
        a third is followed only where all are so."""
        fit = [u for u in waiting if len(u.own) == 1 and len(u.own[0]) % parts == 0]
        fit = [u for u in fit if len(u.own[0]) >= 2 * parts or parts == 1]
        for graph in self.dice.sample(graphs := sorted({u.graph for u in fit}), len(graphs)):
            found = [u for u in fit if u.graph == graph][:number]
            if len(found) == number:
                waiting[:] = [u for u in waiting if u not in found]
                return found
        return []

    def keep(self, waiting: list[Unit]) -> None:
        if waiting:
            unit = waiting.pop()
            self.groups.append(([unit], [unit], "same"))

    def recompile(self, waiting: list[Unit]) -> None:
        if waiting:
            unit = waiting.pop()
            other = replace(unit, binary=f"{unit.binary} by another compiler")
            self.groups.append(([unit], [other], "changed"))

    def rewrite(self, waiting: list[Unit]) -> None:
        if waiting:
            unit = waiting.pop()
            self.groups.append(([unit], [self.coded(unit)], "changed"))

    def merge(self, waiting: list[Unit]) -> None:
        if parts := self.take(waiting, self.dice.randint(2, 4)):
            self.groups.append((parts, [self.joined(parts)], "fused"))

    def joined(self, parts: Sequence[Unit]) -> Unit:
        own = tuple(node for part in parts for layer in part.own for node in layer)
        shared = dict.fromkeys(node for part in parts for layer in part.shared for node in layer)
        return self.coded(Unit(parts[0].graph, (own,), (tuple(shared),)))

    def split(self, waiting: list[Unit]) -> None:
        number = self.dice.randint(2, 3)
        for unit in self.take(waiting, 1, number):
            own = self.dice.sample(unit.own[0], len(unit.own[0]))
            parts = [
                self.coded(Unit(unit.graph, (tuple(own[n::number]),), unit.shared))
                for n in range(number)
            ]
            self.groups.append(([unit], parts, "split"))

    def regroup(self, waiting: list[Unit]) -> None:
        number = self.dice.randint(2, 3)
        if not (parts := self.take(waiting, self.dice.randint(2, 3), number)):
            return
        for _ in range(20):
            hands: list[list[Node]] = [[] for _ in range(number)]
            for part in parts:
                own = self.dice.sample(part.own[0], len(part.own[0]))
                for n in range(number):
                    hands[n] += own[n::number]
            shared = parts[0].shared
            dealt = [self.coded(Unit(parts[0].graph, (tuple(hand),), shared)) for hand in hands]
            if not any(new.sorts() == old.sorts() for new in dealt for old in parts):
                self.groups.append((parts, dealt, "regrouped"))
                return
        waiting += parts  # they would look alike, and be pairs

    def drop(self, waiting: list[Unit]) -> None:
        if waiting:
            self.groups.append(([waiting.pop()], [], "gone"))

    def add(self, waiting: list[Unit]) -> None:
        if waiting:
            near = waiting[-1]
            self.keep(waiting)  # what a new kernel recomputes is still computed elsewhere
            first = near.own[0][0]
            names = self.dice.choices(OPERATORS, k=self.dice.randint(2, 6))
            names.append(f"new_{len(self.groups)}_op")
            at = first.place + self.dice.random() / 2
            own = tuple(
                Node(at + n / 1000, name, first.module, first.shape) for n, name in enumerate(names)
            )
            made = self.coded(Unit(near.graph, (own,), near.shared[:1]))
            self.groups.append(([], [made], "new"))

    def lose_a_layer(self, waiting: list[Unit]) -> None:
        """One layer of a kernel that all share is fused with its neighbour."""
        every = next((u for u in waiting if len(u.own) > 2), None)
        fit = [u for u in waiting if every and u.graph == every.graph and len(u.own) == 1]
        if not every or not fit:
            return
        waiting.remove(every)
        waiting.remove(fit[0])
        lost = self.dice.randrange(len(every.own))
        own = tuple(nodes for n, nodes in enumerate(every.own) if n != lost)
        shared = tuple(nodes for n, nodes in enumerate(every.shared) if n != lost)
        rest = replace(every, own=own, shared=shared)
        same = self.dice.random() < 0.5
        part = Unit(every.graph, (every.own[lost],), (every.shared[lost],))
        self.groups.append(
            ([every], [rest if same else self.coded(rest)], "same" if same else "changed")
        )
        self.groups.append(([fit[0]], [self.joined([fit[0], part])], "changed"))

    # --- runs --------------------------------------------------------------------------------

    def runs(self) -> Planted:
        base = [unit for ours, _, _ in self.groups for unit in ours]
        head = [unit for _, theirs, _ in self.groups for unit in theirs]
        made: list[list[KernelFacts]] = []
        for side, letter in ((base, "b"), (head, "h")):
            same = self.nodes_agree
            names = self.numbered([*base, *head] if same else side, 0 if same else ord(letter) % 9)
            made.append(self.facts(side, names, letter))
        ours, theirs = (iter([k.name for k in side]) for side in made)
        expected: set[Expected] = {
            (frozenset(next(ours) for _ in b), frozenset(next(theirs) for _ in h), relation)
            for b, h, relation in self.groups
        }
        for kernels in made:
            self.dice.shuffle(kernels)
        return Planted(made[0], made[1], expected)

    def numbered(self, units: Sequence[Unit], first: int) -> dict[tuple[str, Node], str]:
        """Nodes by name, as tracing numbers them: those of one stem in the order of the graph."""
        nodes = sorted(
            {(u.graph, node) for u in units for node in u.nodes}, key=lambda n: (n[0], n[1].place)
        )
        seen: Counter[tuple[str, str]] = Counter()
        names = {}
        for graph, node in nodes:
            number = seen[graph, node.operator] + first
            seen[graph, node.operator] += 1
            names[graph, node] = f"{node.operator}_{number}" if number else node.operator
        return names

    def facts(
        self, units: Sequence[Unit], names: dict[tuple[str, Node], str], letter: str
    ) -> list[KernelFacts]:
        return [self.fact(unit, names, f"{letter}{n}") for n, unit in enumerate(units)]

    def fact(self, unit: Unit, names: dict[tuple[str, Node], str], name: str) -> KernelFacts:
        origins = tuple(
            Origin(names[unit.graph, n], f"aten.{n.operator}.default", n.module, n.shape)
            for n in sorted(unit.nodes, key=lambda n: n.place)
        )
        made = kernel(
            name,
            text=unit.code,
            graph=unit.graph,
            launches=len(unit.own),
            origins=origins,
            loads=self.dice.randint(0, 30),
            stores=self.dice.randint(0, 9),
            stack=4 * self.dice.choice([0, 0, 0, 90]),
            read=self.dice.randint(0, 10**9),
            written=self.dice.randint(0, 10**9),
        )
        return replace(made, candidates=(replace(made.candidates[0], binary_hash=unit.binary),))
