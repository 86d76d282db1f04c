"""Makes a run of what torch.compile left behind: kernels, compiled again from their sources, and
what each graph launches.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from perfcli import __version__, units
from perfcli.compile.capture.captured import Capture
from perfcli.compile.capture.collecting import collect
from perfcli.compile.session import number_calls
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.importing.sources.calls import Followed, follow
from perfcli.importing.sources.comments import read_origins
from perfcli.importing.sources.compiling import (
    Compiler,
    Results,
    compile_sources,
    read_sources_of,
)
from perfcli.importing.sources.declared import read_declared
from perfcli.importing.sources.device import choose_target, retarget
from perfcli.importing.sources.graphs import capture_graph
from perfcli.importing.sources.leftovers import Leftovers, WrittenGraph
from perfcli.importing.sources.recognizing import read_leftovers
from perfcli.importing.sources.wrapper import Wrapper, read_wrapper
from perfcli.machine import environment
from perfcli.machine.environment import Interpreter, probe
from perfcli.model import (
    Bundle,
    Environment,
    GraphFacts,
    KernelsRequest,
    Run,
    Target,
    Variant,
)
from perfcli.worker.kernels import KernelProcess
from perfcli.worker.weighing import weigh

UNKNOWN = "unknown"
Direction: TypeAlias = Literal["forward", "backward", "inference"]
_LABEL = re.compile(r"(\d+)_(forward|backward|inference)")
MOST_GRAPHS = 5000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Says how sources are compiled again."""

    target: Target | None
    """The GPU that is asked for, or that a trace beside them names; None: that of the sources."""
    jobs: int = 1
    timeout: float | None = None
    cache_dir: str = ""
    wanted: frozenset[str] = frozenset()
    """Names of the kernels that a trace beside them launches; empty: all are wanted."""
    python: str | None = None
    """The interpreter whose torch compiles; None: this one."""
    compiler: Compiler | None = None
    """What compiles in the place of a worker."""


@dataclass(frozen=True, slots=True)
class _Graph:
    """Holds one graph, read and followed."""

    written: WrittenGraph
    wrapper: Wrapper
    followed: Followed
    facts: GraphFacts


def read_sources(paths: Sequence[Path], options: SourceOptions, notes: Notes) -> Bundle:
    """Return a run of what these sources generate.

    Raises PerfcliError where none of them has a kernel, or no torch is there to compile with.
    """
    found = [read_leftovers(path) for path in paths]
    written = [graph for each in found for graph in each.graphs][:MOST_GRAPHS]
    graphs = _name_graphs(written)
    kernels = [kernel for graph in graphs for kernel in graph.wrapper.kernels]
    if not kernels and not any(graph.followed.calls for graph in graphs):
        raise PerfcliError(_describe_nothing(paths, found, graphs))
    definitions = [kernel.definition for kernel in kernels]
    chosen = choose_target(
        (read_declared(each).device for each in definitions if each.language == "triton"),
        options.target,
    )
    if chosen.target is not None:
        graphs = [_retarget(graph, chosen.target) for graph in graphs]
        definitions = [k.definition for graph in graphs for k in graph.wrapper.kernels]
    counted, unread = read_sources_of(definitions)
    results = Results(counted, unread, {})
    said = [chosen.note, *(note for each in found for note in each.notes), *_list_missing(graphs)]
    interpreter = None
    if chosen.target is not None and any(each.language == "triton" for each in definitions):
        interpreter = probe(options.python)
        cache_dir = options.cache_dir or str(environment.cache_dir())
        request = KernelsRequest((), chosen.target, options.jobs, cache_dir, texts=True)
        compiler = options.compiler or KernelProcess(interpreter.path, options.timeout)
        wanted = [
            each.definition
            for graph in graphs
            for each in graph.wrapper.kernels
            if not options.wanted or each.name in options.wanted
        ]
        results.compiled = compile_sources(wanted, request, compiler, notes)
    capture = Capture(branches=sum(graph.followed.branches for graph in graphs))
    for graph in graphs:
        capture.graphs.append(capture_graph(graph.wrapper, graph.followed, graph.facts, counted))
    capture.call_order = list(capture.graphs)
    facts, blobs = collect(capture, results, chosen.target, lambda phase, done, total: None)
    launches, externs = number_calls(capture)
    said += [_compare_versions(found, interpreter), *capture.notes(), *_list_failed(results)]
    is_training = any(graph.facts.direction == "backward" for graph in graphs)
    run = Run(
        id="",
        created="",
        scenario="imported",
        params={},
        mode="training" if is_training else "forward",
        dynamic=any(kernel.dynamic_sizes for kernel in facts),
        device="cpu" if chosen.target is None else "cuda",
        target=chosen.target,
        variant=Variant(" ".join(path.resolve().name for path in paths)),
        environment=_describe_environment(found, interpreter),
        kernels=facts,
        launches=launches,
        graphs=tuple(graph.facts for graph in graphs),
        externs=externs,
        graph_breaks=dict(sum((Counter(each.graph_breaks) for each in found), Counter())),
        notes=tuple(note for note in dict.fromkeys(said) if note),
    )
    return weigh(Bundle(run, blobs), Path(options.cache_dir or environment.cache_dir()))


def _name_graphs(written: Sequence[WrittenGraph]) -> list[_Graph]:
    """Read each graph and give it perfcli's name, ``forward 0``. Graphs of a step come in torch's
    order, backward ones behind all others and in reverse, as autograd calls them."""
    read: list[tuple[Direction, int, WrittenGraph, Wrapper]] = []
    for place, graph in enumerate(written):
        wrapper = read_wrapper(graph.text)
        label = _LABEL.search(wrapper.label) or _LABEL.search(graph.label)
        direction: Direction = "inference"
        if label:
            direction = label[2]  # type: ignore[assignment]
        read.append((direction, int(label[1]) if label else place, graph, wrapper))
    ahead = sorted((each for each in read if each[0] != "backward"), key=lambda each: each[1])
    behind = sorted((each for each in read if each[0] == "backward"), key=lambda each: -each[1])
    numbers = Counter[str]()
    named: list[_Graph] = []
    for direction, _, graph, wrapper in (*ahead, *behind):
        number = numbers[direction]
        numbers[direction] += 1
        facts = GraphFacts(f"{direction} {number}", direction, number, _count_nodes(wrapper))
        named.append(_Graph(graph, wrapper, follow(wrapper), facts))
    return named


def _count_nodes(wrapper: Wrapper) -> int:
    """Return the number of nodes of the graph that the comments of kernels name."""
    nodes = {node.node for each in wrapper.kernels for node in read_origins(each.comment)}
    return len(nodes)


def _retarget(graph: _Graph, target: Target) -> _Graph:
    kernels = tuple(
        replace(
            kernel,
            definition=replace(
                kernel.definition, source=retarget(kernel.definition.source, target)
            ),
        )
        if kernel.definition.language == "triton"
        else kernel
        for kernel in graph.wrapper.kernels
    )
    return replace(graph, wrapper=replace(graph.wrapper, kernels=kernels))


def _list_missing(graphs: Sequence[_Graph]) -> Iterator[str]:
    for graph in graphs:
        for missing in graph.wrapper.missing:
            yield f"{graph.written.place}: {missing}"
        if not graph.followed.is_whole:
            yield f"{graph.written.place}: it is too long, not all of its launches are counted"


def _list_failed(results: Results) -> Iterator[str]:
    """Yield why kernels have no binary, each reason once."""
    counted = Counter(
        candidate.error
        for made in results.compiled.values()
        for candidate in made.candidates
        if candidate.error and not candidate.num_warps
    )
    for error, count in counted.most_common():
        yield f"{units.plural(count, 'kernel')} known by the source alone: {error}"


def _describe_nothing(
    paths: Sequence[Path], found: Sequence[Leftovers], graphs: Sequence[_Graph]
) -> str:
    names = ", ".join(str(path) for path in paths)
    why = next((note for each in found for note in each.notes), "")
    why = why or next((text for graph in graphs for text in graph.wrapper.missing), "")
    return f"{names} holds no kernel that torch.compile generated" + (f": {why}" if why else "")


def _compare_versions(found: Sequence[Leftovers], interpreter: Interpreter | None) -> str:
    if interpreter is None:
        return ""
    written = sorted({each.torch for each in found if each.torch})
    if not written:
        return (
            f"nothing tells which torch wrote the sources: torch {interpreter.torch} and triton "
            f"{interpreter.triton} compiled them again"
        )
    if written == [interpreter.torch]:
        return ""
    return (
        f"written by torch {', '.join(written)}, compiled again by torch {interpreter.torch} and "
        f"triton {interpreter.triton}: registers and spills can differ from those of the run "
        "(--python names an interpreter with the other torch)"
    )


def _describe_environment(
    found: Sequence[Leftovers], interpreter: Interpreter | None
) -> Environment:
    torch = next((each.torch for each in found if each.torch), UNKNOWN)
    return Environment(
        torch=torch,
        triton=interpreter.triton if interpreter else None,
        python=interpreter.version if interpreter else UNKNOWN,
        ptxas=None,
        platform=f"{platform.system()} {platform.machine()}",
        perfcli=__version__,
        gpu=next((each.gpu for each in found if each.gpu), None),
    )
