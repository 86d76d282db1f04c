"""Takes one compile request from the user's model to a run with the facts of all its kernels.

Called once per worker process, before torch is imported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import platform
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from perfcli import __version__
from perfcli.compile import tracing
from perfcli.compile.asked_variables import AskedVariables
from perfcli.compile.binaries.assembler import ptxas_version
from perfcli.compile.capture.captured import Capture, CapturedKernel
from perfcli.compile.capture.collecting import STOPPED, Report, collect
from perfcli.compile.capture.selections import list_selections
from perfcli.compile.importing import collecting_rarely, import_inductor
from perfcli.compile.opened_files import OpenedFiles
from perfcli.compile.processor import Processor, read_processor
from perfcli.compile.stand_in import shim
from perfcli.compile.stand_in.decisions import Assumptions
from perfcli.errors import CompileFailed, UserCodeFailed
from perfcli.loading.userfile import is_user_file
from perfcli.model import (
    Bundle,
    CompiledCall,
    CompileRequest,
    CompileWork,
    Device,
    Environment,
    ExternCall,
    KernelFacts,
    Launch,
    OperatorCall,
    Recompilations,
    Run,
    Target,
)


def list_user_sources() -> dict[str, str]:
    """Return path and SHA-256 of every imported file outside the standard library, installed
    packages and perfcli itself."""
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    folders.append(Path(__file__).parents[1])
    roots = [folder.resolve() for folder in folders]
    # Looked at as text first: to resolve two thousand paths takes a fifth of a second.
    installed = tuple(f"{folder}{os.sep}" for folder in (*folders, *roots))
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        # By name as well: scenarios/ is a package of perfcli that can lie elsewhere.
        if not file or not file.endswith(".py") or name.startswith("perfcli."):
            continue
        if file.startswith(installed) and ".." not in file:
            continue
        path = Path(file).resolve()
        if any(path.is_relative_to(root) for root in roots) or _is_generated(path):
            continue
        try:
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue  # written and removed while it ran: nothing to come back to
    return dict(sorted(found.items()))


def _is_generated(path: Path) -> bool:
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return bool(cache) and path.is_relative_to(Path(cache or "/").resolve())


_RELEVANT = ("TORCH", "TRITON", "PYTORCH", "CUDA_VISIBLE")
# Set by perfcli for each worker, or (the last two) by Inductor for itself.
_OWN = {
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "TRITON_PTXAS_PATH",
    "TORCHINDUCTOR_WORKER_START",
}


def _environment(target: Target | None) -> Environment:
    import torch

    has_triton = importlib.util.find_spec("triton") is not None
    return Environment(
        torch=torch.__version__,
        triton=importlib.import_module("triton").__version__ if has_triton else None,
        python=platform.python_version(),
        ptxas=ptxas_version(target) if has_triton and target else None,
        platform=f"{platform.system()} {platform.machine()}",
        perfcli=__version__,
        variables={
            k: v for k, v in sorted(os.environ.items()) if k.startswith(_RELEVANT) and k not in _OWN
        },
    )


@dataclass(slots=True)
class Session:
    """Holds the state of one compilation in this process."""

    request: CompileRequest
    report: Report
    told: Callable[[str], None] = print
    """A function that is told what takes long."""
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    keep: tuple[Any, ...] = ()
    """Objects that torch's C++ holds pointers to."""
    recompilations: Recompilations | None = None
    work: CompileWork | None = None
    choosing_seconds: float = 0.0
    """Processor time of compiling what Inductor chooses from."""
    explains: bool = True
    """Whether what only a report shows is found out as well."""
    compiled: tuple[CompiledCall, ...] = ()
    build: Callable[[Any], Any] | None = None
    """Makes a ``Built`` under a ``FakeTensorMode``; None: the request's scenario does."""
    opened: OpenedFiles | None = None
    asked: AskedVariables | None = None

    def __post_init__(self) -> None:
        users = self.request.script is not None or is_user_file(self.request.scenario)
        if self.build is None and users:
            self.opened = OpenedFiles()

    def listen_to_variables(self) -> None:
        """Note from now on, when torch is imported, which variables the user's code asks for."""
        if self.opened is not None:
            self.asked = AskedVariables()

    def hear_of_choices(self, done: int, total: int, seconds: float) -> None:
        """Report what is compiled to choose from, and count its processor time."""
        self.choosing_seconds += seconds
        if done < total:
            self.report("choices", done, total)
        else:
            self.report("trace", 0, None)

    def note_work(self, before: Processor, capture: Capture) -> None:
        nodes = sum(graph.facts.nodes for graph in capture.graphs)
        self.work = before.measure_work(nodes, self.choosing_seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.report(name, 0, None)
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 3)


def compile_request(
    request: CompileRequest, report: Report, told: Callable[[str], None] = print
) -> Bundle:
    """Compile the request and return its run with the packed texts. ``told`` hears what takes long;
    what a worker prints is its log. Raises ``UserCodeFailed``, ``CompileFailed``, or another
    ``PerfcliError``."""
    session = Session(request, report, told)
    return _compile_on_device(session) if request.on_device else _compile_offline(session)


def _compile_offline(session: Session) -> Bundle:
    request = session.request
    with session.phase("import"):
        session.keep = import_torch(request)
        tracing.set_options(request.variant.options)
    session.listen_to_variables()
    from perfcli.compile.binaries.pool import KernelPool

    pool = KernelPool(max(request.jobs, 1), request.target, Path(request.cache_dir), session.told)
    try:
        with session.phase("trace"):
            follow = trace_script if request.script else trace
            capture, built, traced = follow(session, pool)
        return finish(session, capture, built, traced, pool)
    finally:
        pool.close()


def _compile_on_device(session: Session) -> Bundle:
    with session.phase("import"):
        import_inductor()
    from perfcli.compile import cpp_cache, on_device
    from perfcli.compile.capture import settings

    cpp_cache.keep_cpp_work(session.request.cache_dir)
    tracing.set_options(session.request.variant.options)
    settings.reset_counters()
    session.listen_to_variables()
    with session.phase("trace"):
        if session.request.script:
            capture, built, traced = _run_script_here(session)
        else:
            capture, built, traced = on_device.trace(session.request)
    traced = replace(traced, eager_operators=None)  # counted where fake tensors are used
    return finish(session, capture, built, traced, on_device.DriverFacts())


def finish(session: Session, capture: Capture, built: Any, traced: Any, pool: Any) -> Bundle:
    session.notes += [*built.notes, *traced.notes, *capture.notes()]
    with session.phase("kernels"):
        kernels, blobs = collect(capture, pool, session.request.target, session.report)
    slow = [
        (each.name, note) for each in kernels for note in each.notes if note.startswith(STOPPED)
    ]
    session.notes += [f"{name}: {note}" for name, note in slow]
    run = _run(session, capture, built, kernels)
    run = replace(
        run,
        graph_breaks=traced.graph_breaks,
        break_places=traced.break_places,
        eager_operators=traced.eager_operators if session.request.device == "cuda" else None,
    )
    return Bundle(run, blobs)


def import_torch(request: CompileRequest) -> tuple[Any, ...]:
    """Import everything that a variant is compiled with, apart from its options, and return what
    has to be kept for as long as torch lives. Everything but device, target, threads and cache
    folder may still change after that."""
    keep: tuple[Any, ...] = ()
    if request.device == "cuda":
        assert request.target is not None, "a cuda request names its target"
        keep = import_for_target(request.target, Path(request.cache_dir))
    else:
        if shim.compiler() is None:
            raise CompileFailed(
                "kernels for the CPU need a C++ compiler, and none of $CXX, g++, c++, clang++ was "
                "found: install one (apt-get install g++) or set CXX"
            )
        import_inductor()
        if request.threads is not None:
            import torch

            # Generated loops are split among this many; with one there is no parallel region.
            torch.set_num_threads(request.threads)
    from perfcli.compile import cpp_cache

    tracing.prepare()
    cpp_cache.keep_cpp_work(request.cache_dir)
    return keep


def import_early(device: Device, cache_dir: Path) -> tuple[Any, ...]:
    """Import what a variant for any target is compiled with, before ``import_torch``, and return
    what has to be kept for as long as torch lives."""
    keep: tuple[Any, ...] = ()
    if device == "cuda":  # torch looks for one when it is imported
        keep = (shim.Shim(shim.build(shim.torch_installation(), cache_dir)),)
    import_inductor()
    return keep


def import_for_target(target: Target, cache_dir: Path) -> tuple[Any, ...]:
    """Import torch with ``target`` stood in for. Return what has to be kept for as long as torch
    lives."""
    installation = shim.torch_installation()
    library = shim.Shim(shim.build(installation, cache_dir))
    import_inductor()
    from perfcli.compile.stand_in import device, folding, operators, runtime
    from perfcli.compile.stand_in.attention import hooks

    device.install(target)
    runtime.install(target)
    operators.register_missing()
    folding.install()
    operators.install()
    chooser = hooks.Chooser(target)
    library.install(chooser, chooser.cudnn_version)
    hooks.install(chooser)
    return library, chooser


def trace(session: Session, pool: Any) -> tuple[Capture, Any, Any]:
    from perfcli.compile import recompiling
    from perfcli.compile.building import build
    from perfcli.compile.capture.eager_operators import make_counting_mode
    from perfcli.compile.ranks import group
    from perfcli.compile.scripts.calls import CompileCalls, watch_compile

    before = read_processor() if session.explains else None
    calls, assumptions = CompileCalls(), Assumptions()
    on_kernel = partial(_submit, session, pool)
    capture = Capture(on_kernel, calls.add_graph, pool.begin, finds_obstacles=session.explains)
    mode = make_counting_mode(capture.eager)(allow_non_fake_inputs=True)
    group.install(session.request.world, begins=True, mode=mode, capture=capture)
    with watch_compile(calls), collecting_rarely():
        built = session.build(mode) if session.build else build(session.request, mode, calls)
        capture.call_order.clear()  # of collectives of the building
        capture.eager.clear()  # and of its operators
        _prepare_step(session, pool, mode, assumptions)
        with _naming_inputs(session.request):
            traced = tracing.trace_offline(
                built.workload, mode, capture, session.request.dynamic, assumptions
            )
    if before is not None:
        session.note_work(before, capture)
        request = replace(session.request, params=built.params, preset=None)
        session.recompilations = recompiling.call_again(request, traced, capture, mode, assumptions)
    session.compiled = calls.list_calls(capture)
    session.notes += assumptions.notes()
    _raise_failures(session.keep)
    return capture, built, traced


def _submit(session: Session, pool: Any, kernel: CapturedKernel) -> None:
    pool.submit(kernel.definition)
    session.report("trace", pool.done(), pool.total())


def _prepare_step(session: Session, pool: Any, mode: Any, assumptions: Assumptions) -> None:
    """Answer from now on what is asked while a step is traced, and forget what was compiled
    before."""
    from perfcli.compile import recompiling
    from perfcli.compile.capture import settings
    from perfcli.compile.stand_in import choices, decisions, operators, optimizers

    decisions.install(mode, session.request.target, assumptions)
    if session.request.target is not None:
        choices.install(pool, session.request.target, assumptions, session.hear_of_choices)
    operators.install_recurrent(assumptions)
    optimizers.install(mode)
    settings.reset_counters()
    recompiling.forget_compilations()


def trace_script(session: Session, pool: Any) -> tuple[Capture, Any, Any]:
    from perfcli.compile import recompiling
    from perfcli.compile.ranks import group
    from perfcli.compile.scripts import run
    from perfcli.compile.scripts.host_values import make_mode
    from perfcli.compile.scripts.known_values import KnownValues

    before = read_processor()
    assumptions = Assumptions()
    known = KnownValues(assumptions)
    capture = Capture(partial(_submit, session, pool), on_code=pool.begin)
    mode = make_mode(known, capture.eager)
    if session.request.world > 1:
        group.install(session.request.world, begins=False, mode=mode, capture=capture)
    _prepare_step(session, pool, mode, assumptions)
    with collecting_rarely():
        ran = run.run_offline(session.request, capture, mode, known)
    session.note_work(before, capture)
    session.recompilations = recompiling.call_again(
        session.request, ran.traced, capture, mode, assumptions
    )
    session.compiled = ran.calls
    session.notes += assumptions.notes()
    _raise_failures(session.keep)
    return capture, ran.built, ran.traced


def _run_script_here(session: Session) -> tuple[Capture, Any, Any]:
    from perfcli.compile.scripts import run

    tracing.generate_here()  # a script may compile the same graph twice
    capture = Capture()
    ran = run.run_on_device(session.request, capture)
    session.compiled = ran.calls
    return capture, ran.built, ran.traced


@contextmanager
def _naming_inputs(request: CompileRequest) -> Iterator[None]:
    """Say what a model was called with where it fails on inputs that were typed."""
    try:
        yield
    except UserCodeFailed as error:
        if not request.inputs:
            raise
        typed = " ".join(f"--input {text}" for text in request.inputs)
        raise UserCodeFailed(f"{error}; it was called with {typed}", detail=error.detail) from error


def _raise_failures(stand_ins: tuple[Any, ...]) -> None:
    """Raise what failed while torch's C++ asked, which cannot pass on an exception."""
    for stand_in in stand_ins:
        if failure := getattr(stand_in, "failure", ""):
            raise CompileFailed("attention's backend could not be chosen", detail=failure)


def _run(session: Session, capture: Capture, built: Any, kernels: tuple[KernelFacts, ...]) -> Run:
    from perfcli.compile.capture import settings

    request = session.request
    launches, externs = number_calls(capture)
    return Run(
        id="",
        created="",
        scenario=built.scenario.name,
        params=built.params,
        mode=built.workload.mode,
        dynamic=request.dynamic,
        device=request.device,
        target=request.target,
        variant=request.variant,
        environment=_environment(request.target),
        kernels=kernels,
        launches=launches,
        graphs=tuple(g.facts for g in capture.graphs),
        externs=externs,
        compile_seconds=session.seconds,
        notes=tuple(session.notes),
        settings=settings.settings(),
        counters=settings.counters(),
        sources=list_user_sources() | (session.opened.list_sources() if session.opened else {}),
        asked_variables=session.asked.list_variables() if session.asked else {},
        recompilations=session.recompilations,
        compile_work=session.work,
        graph_obstacles=capture.list_obstacles(),
        threads=request.threads,
        world=request.world,
        compiled=session.compiled,
        script=request.script,
        recorded_graphs=capture.list_recorded(),
        selections=list_selections(capture.selected),
        inputs=request.inputs,
    )


def number_calls(capture: Capture) -> tuple[tuple[Launch, ...], tuple[ExternCall, ...]]:
    """Return the launches of a step, which now say which call they make, and what operators are
    called with."""
    known: dict[str, dict[Any, OperatorCall]] = {}
    for graph in (*capture.graphs, *capture.call_order):
        known.setdefault(graph.facts.name, {}).update(graph.called)
    calls: dict[tuple[str, str], dict[str, OperatorCall]] = {}
    counted: Counter[tuple[str, str]] = Counter()
    placed: list[Launch] = []
    for launch in capture.launch_list():
        if launch.extern and not launch.finishing:
            key = launch.name, launch.graph
            counted[key] += 1
            found = calls.setdefault(key, {})
            call = known.get(launch.graph, {}).get((launch.name, launch.operands))
            if call is not None:
                text = repr(call)  # that of the first of equal calls, with a count of one
                same = found.get(text)
                found[text] = replace(call, count=same.count + 1 if same else 1)
                launch = replace(launch, call=list(found).index(text))
        placed.append(launch)
    externs = tuple(
        ExternCall(op, graph, n, tuple(calls[op, graph].values()))
        for (op, graph), n in sorted(counted.items())
    )
    return tuple(placed), externs
