"""Makes a run of what torch.compile left behind: kernels, compiled again from their sources, and
what each graph launches.
"""

from __future__ import annotations

import platform
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from perfcli import __version__, units
from perfcli.compile.capture.captured import Capture
from perfcli.compile.capture.collecting import collect
from perfcli.compile.capture.definition import Definition
from perfcli.compile.session import number_calls
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.facts.binary.cubin import find_tools
from perfcli.importing.sources.compiling import (
    Compiler,
    KernelResults,
    compile_sources,
    read_sources_of,
)
from perfcli.importing.sources.declared import read_declared
from perfcli.importing.sources.device import choose_target
from perfcli.importing.sources.graphs import capture_graph
from perfcli.importing.sources.leftovers import Leftovers
from perfcli.importing.sources.recognizing import read_leftovers
from perfcli.importing.sources.step import ReadGraph, gather_kernels, number_graphs, order_graphs
from perfcli.importing.sources.triton_cache import describe_binaries, list_devices
from perfcli.machine import environment
from perfcli.machine.environment import Interpreter, probe
from perfcli.model import (
    BreakPlace,
    Bundle,
    Environment,
    GraphFacts,
    KernelsRequest,
    Launch,
    Run,
    Target,
    Variant,
)
from perfcli.worker.kernels import KernelProcess
from perfcli.worker.weighing import weigh

UNKNOWN = "unknown"
_MOST_GRAPHS = 5000

T = TypeVar("T")


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
    rank: int | None = None
    """The process whose log is read, of several that trained together; None: the first."""
    compiler: Compiler | None = None
    """What compiles in the place of a worker."""


def read_sources(paths: Sequence[Path], options: SourceOptions, notes: Notes) -> Bundle:
    """Return a run of what these sources generate. Raises PerfcliError where none of them has a
    kernel, or where ``options.python`` has no torch."""
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # of foreign text
        return _read(paths, options, notes)


def _read(paths: Sequence[Path], options: SourceOptions, notes: Notes) -> Bundle:
    found = [read_leftovers(path, options.rank) for path in paths]
    graphs = number_graphs(
        [
            *order_graphs([graph for each in found for graph in each.graphs][:_MOST_GRAPHS]),
            *gather_kernels([kernel for each in found for kernel in each.kernels]),
        ]
    )
    binaries = [binary for each in found for binary in each.binaries]
    if not binaries and not any(graph.wrapper.kernels or graph.followed.calls for graph in graphs):
        raise PerfcliError(_describe_nothing(paths, found, graphs))
    devices = [read_declared(each).device for each in _definitions(graphs, "triton")]
    gpus = [each.gpu for each in found]
    chosen = choose_target([*devices, *list_devices(binaries)], options.target, gpus)
    target = chosen.target
    said = [chosen.note, *(note for each in found for note in each.notes)]
    said += [missing for graph in graphs for missing in graph.list_missing()]
    if not binaries and not any(graph.followed.calls for graph in graphs):
        said.append("no launch can be read: kernels are shown, and what a step takes is not known")
    interpreter = None
    if target is not None:
        graphs = [graph.for_target(target) for graph in graphs]
        interpreter = _find_interpreter(options, notes)
    counted, unread = read_sources_of(_definitions(graphs))
    results = KernelResults(counted, unread, {})
    if target is not None and interpreter is not None:
        cache_dir = options.cache_dir or str(environment.cache_dir())
        request = KernelsRequest((), target, options.jobs, cache_dir, texts=True)
        compiler = options.compiler or KernelProcess(
            interpreter.path if options.python else None, options.timeout
        )
        wanted = _definitions(graphs, "triton", options.wanted)
        results.compiled = compile_sources(wanted, request, compiler, notes)
        if wanted:
            said.append(_compare_versions(found, interpreter))
    capture = Capture(branches=sum(graph.followed.branches for graph in graphs))
    capture.graphs += [capture_graph(graph, counted) for graph in graphs]
    capture.call_order += capture.graphs
    kernels, blobs = collect(capture, results, target, lambda phase, done, total: None)
    launches, externs = number_calls(capture)
    said += [*capture.notes(), *_list_failed(results)]
    run = Run(
        id="",
        created="",
        scenario="imported",
        params={},
        mode="training" if any(g.facts.direction == "backward" for g in graphs) else "forward",
        dynamic=any(kernel.dynamic_sizes for kernel in kernels),
        device="cpu" if target is None else "cuda",
        target=target,
        variant=Variant(" ".join(path.resolve().name for path in paths)),
        environment=_describe_environment(found, interpreter),
        kernels=kernels,
        launches=launches,
        graphs=tuple(graph.facts for graph in graphs),
        externs=externs,
        graph_breaks=_sum_breaks(found),
        break_places=_join_places(found),
        notes=tuple(note for note in dict.fromkeys(said) if note),
        settings=_first(each.settings for each in found) or {},
    )
    bundle = Bundle(run, blobs)
    if binaries and interpreter is not None:
        bundle = _add_binaries(bundle, found, interpreter)
    return weigh(bundle, Path(options.cache_dir or environment.cache_dir()))


def _find_interpreter(options: SourceOptions, notes: Notes) -> Interpreter | None:
    """Return the Python whose torch compiles; None where this one has no torch, which is said."""
    try:
        return probe(options.python)
    except PerfcliError as error:
        if options.python is not None:
            raise
        notes.warn(f"kernels are not compiled again: {error}")
        return None


def _definitions(
    graphs: Iterable[ReadGraph], language: str = "", wanted: frozenset[str] = frozenset()
) -> list[Definition]:
    return [
        kernel.definition
        for graph in graphs
        for kernel in graph.wrapper.kernels
        if language in ("", kernel.definition.language) and (not wanted or kernel.name in wanted)
    ]


def _add_binaries(bundle: Bundle, found: Sequence[Leftovers], interpreter: Interpreter) -> Bundle:
    """Add the kernels of Triton's caches, each launched once, in a graph of their own."""
    run = bundle.run
    assert run.target is not None, "binaries name their device"
    assert interpreter.triton_dir is not None, "the interpreter was asked for triton"
    number = sum(graph.direction == "inference" for graph in run.graphs)
    graph = GraphFacts(f"inference {number}", "inference", number, 0)
    binaries = [binary for each in found for binary in each.binaries]
    tools = find_tools(interpreter.triton_dir)
    kernels, blobs, notes = describe_binaries(binaries, graph.name, run.target, tools)
    if not kernels and not run.kernels:
        raise PerfcliError(notes[0] if notes else "no binary of the cache can be read")
    run = replace(
        run,
        kernels=(*run.kernels, *kernels),
        launches=(*run.launches, *(Launch(graph.name, each.name) for each in kernels)),
        graphs=(*run.graphs, graph),
        notes=(*run.notes, *notes),
    )
    return Bundle(run, {**bundle.blobs, **blobs})


def _list_failed(results: KernelResults) -> Iterator[str]:
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
    paths: Sequence[Path], found: Sequence[Leftovers], graphs: Sequence[ReadGraph]
) -> str:
    names = ", ".join(str(path) for path in paths)
    said = [note for each in found for note in each.notes]
    said += [missing for graph in graphs for missing in graph.list_missing()]
    why = f": {said[0]}" if said else ""
    return f"{names} holds no kernel that torch.compile generated{why}"


def _compare_versions(found: Sequence[Leftovers], interpreter: Interpreter) -> str:
    """Return what to say where another torch wrote the sources than the one that compiles them."""
    written = sorted({each.torch for each in found if each.torch})
    own = f"torch {interpreter.torch} and triton {interpreter.triton}"
    if not written:
        return f"nothing tells which torch wrote the sources: {own} compiled them again"
    if written == [interpreter.torch]:
        return ""
    return (
        f"written by torch {', '.join(written)}, compiled again by {own}: registers and spills can "
        "differ from those of the run (--python names an interpreter with the other torch)"
    )


def _describe_environment(
    found: Sequence[Leftovers], interpreter: Interpreter | None
) -> Environment:
    compiled_by = (interpreter.triton or "") if interpreter else ""
    return Environment(
        torch=_first(each.torch for each in found) or UNKNOWN,
        triton=_first(each.triton for each in found) or compiled_by or None,
        python=_first(each.python for each in found) or UNKNOWN,
        ptxas=None,
        platform=f"{platform.system()} {platform.machine()}",
        perfcli=__version__,
        gpu=_first(each.gpu for each in found),
    )


def _first(values: Iterable[T]) -> T | None:
    """Return the first value that is there."""
    return next((value for value in values if value), None)


def _sum_breaks(found: Iterable[Leftovers]) -> Mapping[str, int]:
    total = Counter[str]()
    for each in found:
        total.update(each.graph_breaks)
    return dict(total)


def _join_places(found: Iterable[Leftovers]) -> Mapping[str, tuple[BreakPlace, ...]]:
    places: dict[str, tuple[BreakPlace, ...]] = {}
    for each in found:
        for reason, more in each.break_places.items():
            places[reason] = tuple(dict.fromkeys((*places.get(reason, ()), *more)))
    return places
