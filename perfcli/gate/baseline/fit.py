"""A check of the baseline in the words of the run that is held against it.

The file has no numbers of kernels, no names of FX nodes and short hashes only. Where the head has
the same code, operator or device, the base gets the head's words for it, so that matching and
rules see two runs of one kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from perfcli.gate.baseline import reading
from perfcli.gate.baseline.facts import _public
from perfcli.gate.baseline.operators import Node, Shape, Sort, _numbered, _origin, _sort_of
from perfcli.gate.baseline.reading import BaselineEntry
from perfcli.model import Candidate, Environment, Finding, KernelFacts, Origin, Run
from perfcli.names import stem


def fit_entry(entry: BaselineEntry, head: Run) -> tuple[Run, tuple[Finding, ...]]:
    """Return the base that the head is compared with, and what was found in it.

    Target and versions are taken as they are checked before: what is not the same refuses to be
    compared.
    """
    run = entry.run
    kernels = _with_origins(_with_hashes(run.kernels, head.kernels), head.kernels)
    twins = _find_twins(kernels, head.kernels)
    order = _order(kernels, head.kernels, twins)
    places = {old: new for new, old in enumerate(order)}
    base = replace(
        run,
        params={**{k: None for k, v in head.params.items() if v is None}, **run.params},
        target=head.target,
        environment=_fit_environment(run, head),
        kernels=tuple(kernels[index] for index in order),
        settings=head.settings,
    )
    names = {kernels[ours].name: head.kernels[theirs].name for ours, theirs in twins.items()}
    base = reading._renamed(base, names)
    if Counter(base.launches) == Counter(head.launches):
        base = replace(base, launches=head.launches)
    findings = (
        replace(f, kernels=tuple(sorted(places[index] for index in f.kernels)))
        for f in entry.findings
    )
    return base, tuple(findings)


def _fit_environment(base: Run, head: Run) -> Environment:
    ours, theirs = base.environment, head.environment
    kept = {
        name: getattr(ours, name)
        for name in ("torch", "triton", "ptxas", "perfcli", "python")
        if _public(getattr(ours, name)) != _public(getattr(theirs, name))
    }
    return replace(theirs, **kept)


# --- hashes ----------------------------------------------------------------------------------


def _with_hashes(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> tuple[KernelFacts, ...]:
    """Return the base with whole hashes where the head has them."""
    sources = [kernel.source_hash for kernel in head]
    binaries = [c.binary_hash for k in head for c in k.candidates if c.binary_hash]
    return tuple(
        replace(
            kernel,
            source_hash=_complete(kernel.source_hash, sources),
            candidates=tuple(_with_binary(c, binaries) for c in kernel.candidates),
        )
        for kernel in base
    )


def _with_binary(candidate: Candidate, known: Sequence[str]) -> Candidate:
    if candidate.binary_hash is None:
        return candidate
    return replace(candidate, binary_hash=_complete(candidate.binary_hash, known))


def _complete(short: str, known: Iterable[str]) -> str:
    return next((full for full in known if full.startswith(short)), short)


_Symbol: TypeAlias = tuple[str, str, str]
"""A graph, a side, and a symbol or an expression of that side."""


# --- operators -------------------------------------------------------------------------------


def _with_origins(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> tuple[KernelFacts, ...]:
    """Return the base with the head's nodes for those of the same sort and number."""
    nodes = _numbered(head)
    known: dict[Node, Origin] = {}
    for kernel in head:
        for each in kernel.origins:
            if (kernel.graph, each.node) in nodes:
                known.setdefault(nodes[kernel.graph, each.node], each)
    base = _with_shapes(base, head)
    modules = _find_renamed_modules(base, head)
    return tuple(
        replace(
            kernel, origins=tuple(_fit_origin(kernel, o, known, modules) for o in kernel.origins)
        )
        for kernel in base
    )


def _fit_origin(
    kernel: KernelFacts,
    old: Origin,
    known: Mapping[Node, Origin],
    modules: Mapping[tuple[str, str], str],
) -> Origin:
    node = _node_of(kernel, old)
    module = modules.get((kernel.graph, old.module))
    if module is not None:
        node = Node(node.sort._replace(module=module), node.number)
    return known.get(node) or _origin(node)


def _node_of(kernel: KernelFacts, old: Origin) -> Node:
    """Return what ``operators.origin`` made of a node."""
    sort = _sort_of(kernel, old)
    name, _, number = old.node.rpartition("#")
    return Node(sort._replace(stem=name.partition("@")[0]), int(number))


def _with_shapes(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> tuple[KernelFacts, ...]:
    """Return the base's kernels with the head's shapes where one side has symbols for what are
    numbers on the other (``mark_dynamic``), or symbols of another name."""
    shapes = _find_renamed_shapes(base, head)

    def reshaped(kernel: KernelFacts, old: Origin) -> Origin:
        sort = _node_of(kernel, old).sort
        return replace(old, shape=shapes.get(sort, sort.shape))

    return tuple(
        replace(kernel, origins=tuple(reshaped(kernel, origin) for origin in kernel.origins))
        for kernel in base
    )


def _find_renamed_shapes(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> dict[Sort, Shape]:
    """Return, for sorts of nodes that only the base has, the shape that the head has for them:
    one that only the head has, and that agrees with it in all numbers. What can be told in one
    way alone goes first, since it shows what a symbol stands for."""
    ours, theirs = _shapes_of_file(base), _shapes_of_run(head)
    lost = {each: _only(shapes, theirs[each]) for each, shapes in ours.items()}
    waiting = {each: _only(theirs[each], ours[each]) for each in lost}
    known: dict[_Symbol, int | str] = {}
    found = {}
    for each in sorted(lost, key=lambda each: len(lost[each]) * len(waiting[each])):
        for shape in lost[each]:
            fits = (s for s in waiting[each] if _agree(each.graph, shape, s, known))
            if (new := next(fits, None)) is not None:
                waiting[each].remove(new)
                known |= _meanings(each.graph, shape, new)
                found[each._replace(shape=shape)] = new
    return found


def _only(shapes: Sequence[Shape], others: Sequence[Shape]) -> list[Shape]:
    """Return the shapes that the others lack, the small ones first: 8 and 64 are, in this order,
    ``s77`` and ``8*s77``."""
    found = (shape for shape in shapes if shape not in others)
    return sorted(found, key=lambda shape: [(len(str(size)), str(size)) for size in shape])


def _agree(graph: str, base: Shape, head: Shape, known: Mapping[_Symbol, int | str]) -> bool:
    """Return whether both may be one shape: their numbers are equal, and a symbol stands for the
    same everywhere in the graph."""
    if len(base) != len(head):
        return False
    numbers = all(a == b for a, b in zip(base, head, strict=True) if type(a) is type(b) is int)
    meanings = _meanings(graph, base, head)
    return numbers and all(known.get(symbol, size) == size for symbol, size in meanings.items())


def _meanings(graph: str, base: Shape, head: Shape) -> dict[_Symbol, int | str]:
    """Return what each side's symbols are on the other side."""
    pairs = list(zip(base, head, strict=True))
    ours = {(graph, "base", a): b for a, b in pairs if isinstance(a, str)}
    theirs = {(graph, "head", b): a for a, b in pairs if isinstance(b, str)}
    return {**ours, **theirs}


def _shapes_of_file(kernels: Sequence[KernelFacts]) -> dict[Sort, list[Shape]]:
    sorts = (_node_of(kernel, origin).sort for kernel in kernels for origin in kernel.origins)
    return _by_sort(sorts)


def _shapes_of_run(kernels: Sequence[KernelFacts]) -> dict[Sort, list[Shape]]:
    return _by_sort(node.sort for node in _numbered(kernels).values())


def _by_sort(sorts: Iterable[Sort]) -> dict[Sort, list[Shape]]:
    """Return the shapes of each sort, which is the key without its own."""
    found: dict[Sort, list[Shape]] = defaultdict(list)
    for sort in sorts:
        shapes = found[sort._replace(shape=())]
        if sort.shape not in shapes:
            shapes.append(sort.shape)
    return found


def _find_renamed_modules(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts]
) -> dict[tuple[str, str], str]:
    """Return the modules, with their graph, that the head has under another name: what only one
    side has, and does the same. Several that do the same are taken in the order of their names."""
    ours, theirs = _modules(base, of_file=True), _modules(head, of_file=False)
    waiting: dict[tuple[str, object], list[str]] = defaultdict(list)
    for (graph, module), does in sorted(theirs.items()):
        if (graph, module) not in ours:
            waiting[graph, does].append(module)
    lost = {place: does for place, does in sorted(ours.items()) if place not in theirs}
    return {
        (graph, module): waiting[graph, does].pop(0)
        for (graph, module), does in lost.items()
        if waiting[graph, does]
    }


def _modules(
    kernels: Sequence[KernelFacts], of_file: bool
) -> dict[tuple[str, str], frozenset[tuple[object, ...]]]:
    nodes = {} if of_file else _numbered(kernels)
    found: dict[tuple[str, str], set[tuple[object, ...]]] = defaultdict(set)
    for kernel in kernels:
        for each in kernel.origins:
            node = _node_of(kernel, each) if of_file else nodes.get((kernel.graph, each.node))
            if node is not None and each.module:
                sort: Sort = node.sort
                found[kernel.graph, each.module].add((sort.op, sort.stem, sort.shape, node.number))
    return {place: frozenset(does) for place, does in found.items()}


# --- names and order -------------------------------------------------------------------------


def _find_twins(base: Sequence[KernelFacts], head: Sequence[KernelFacts]) -> dict[int, int]:
    """Return the kernels of the base to those of the head with the same code under the same name,
    but for its number: they are called as there. Others keep their labels."""
    free: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, kernel in enumerate(head):
        free[kernel.graph, kernel.source_hash, stem(kernel.name)].append(index)
    found = {}
    for index, kernel in enumerate(base):
        same = free[kernel.graph, kernel.source_hash, stem(kernel.name)]
        if same:
            found[index] = same.pop(0)
    return found


def _order(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts], twins: Mapping[int, int]
) -> list[int]:
    """Return the kernels' order: that of the head, each graph's others behind, because the file's
    order is for reading."""
    graphs = {kernel.graph: n for n, kernel in reversed(list(enumerate(head)))}

    def place(index: int) -> tuple[int, int, int]:
        graph = graphs.get(base[index].graph, len(head))
        return (graph, twins.get(index, len(head)), index)

    return sorted(range(len(base)), key=place)
