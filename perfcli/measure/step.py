"""Builds a scenario's step on a real device, compiles it, and runs it again and again."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from perfcli.compile import cpp_cache, tracing, tuning
from perfcli.compile.binaries.binaries import key_caches_by_version
from perfcli.compile.building import Built, build_users_workload
from perfcli.compile.capture.capture import hook_inductor
from perfcli.compile.capture.captured import Capture
from perfcli.compile.importing import collecting_rarely
from perfcli.compile.ranks.group import answer_begin, describe_rank
from perfcli.errors import OutOfMemory, PerfcliError, UserCodeFailed
from perfcli.loading.tracebacks import show
from perfcli.measure import before_cuda, room
from perfcli.measure.phases import Phases
from perfcli.measure.turnstile import Turnstile
from perfcli.model import CompileRequest, MeasureRequest, SideName, StepCode, Target

AHEAD_SHARE, MOST_AHEAD = 4, 8
"""Of the processors, those that compile one side's kernels: the other side's are compiled at the
same time, and both generate code."""
WARM_STEPS = 3
"""After the step that compiles: allocators, autotuners and caches have settled by then."""


@dataclass(slots=True)
class Step:
    """Makes one call of the compiled workload, with its backward where it trains."""

    request: MeasureRequest
    built: Built
    capture: Capture
    compiled: Callable[..., Any]
    compile_seconds: float = 0.0
    graphed: Callable[[], None] | None = None
    """Replays a CUDA graph of the step, where one was asked for and could be taken."""

    @property
    def device(self) -> str:
        return self.request.compile.device

    def run(self) -> None:
        """Run one step, without waiting for the device."""
        if self.graphed is not None:
            self.graphed()
        else:
            self.launch()

    def launch(self) -> Any:
        """Run one step, kernel by kernel, and return its outputs."""
        import torch

        workload = self.built.workload
        with tracing.autocast(workload), torch.set_grad_enabled(workload.mode != "forward"):
            result = self.compiled(*workload.inputs, **workload.kwargs)
            if workload.mode == "training":
                tracing.backward(result)
                self._drop_gradients()
        return result

    def describe_code(self) -> StepCode:
        """Return what it is, and what it launched when it was run last; as a run says it."""
        kernels = {
            (graph.facts.name, name): kernel.definition.source_hash
            for graph in self.capture.graphs
            for name, kernel in graph.kernels.items()
        }
        launches = [(each.graph, each.name) for each in self.capture.launch_list()]
        code = [(graph, kernels.get((graph, name), name)) for graph, name in launches]
        text = json.dumps(code) if kernels else ""
        sha = hashlib.sha256(text.encode()).hexdigest() if text else ""
        return StepCode(self.built.scenario.name, self.built.params, sha)

    def wait(self) -> None:
        """Wait until the device has done what it was told."""
        wait_for(self.device)

    def warm(self) -> None:
        """Run until allocators and caches have settled."""
        for _ in range(WARM_STEPS):
            self.capture.call_order.clear()  # in the end it is that of one step
            self.run()
        self.wait()

    def _drop_gradients(self) -> None:
        """Drop gradients as an optimiser's ``zero_grad`` does: without it each step would also
        accumulate."""
        for tensor in _leaves(self.built.workload):
            tensor.grad = None


def wait_for(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def prepare(
    request: MeasureRequest, phases: Phases | None = None, turnstile: Turnstile | None = None
) -> Step:
    """Build and compile the request on its device, and run it until it is warm. It ends with a
    share of ``turnstile``. Raises UserCodeFailed, CompileFailed, OutOfMemory, or PerfcliError where
    there is no device."""
    import torch

    asked = request.compile
    phases = phases or Phases(request.side, lambda phase: None)
    turnstile = turnstile or Turnstile("", lambda: None)
    capture = Capture()
    compiling = ExitStack()
    with before_cuda.without_cuda():
        tracing.generate_here()
        cpp_cache.keep_cpp_work(asked.cache_dir)
        if asked.device == "cuda":
            key_caches_by_version()  # as where its kernels were compiled for the report
        tracing.set_options(asked.variant.options)
        if asked.target is not None and importlib.util.find_spec("triton") is not None:
            # With the options, and before there is a device that a fork could not use.
            compiling.enter_context(
                _compile_ahead(asked.target, asked.jobs, capture, phases, turnstile)
            )
    _use_device(request)
    if request.rank is not None:
        join_group(request)
    with translate_out_of_memory(request.side, asked), compiling:
        # The same weights and inputs on both sides, whatever was drawn before.
        torch.manual_seed(request.seed)
        with torch.device(asked.device):
            built = build_users_workload(asked)
        compiled = tracing.compile_call(built.workload, asked.dynamic)
        step = Step(request, built, capture, compiled)
        started = time.monotonic()
        phases.begin("kernels")
        with (
            collecting_rarely(),
            turnstile.generating(),
            hook_inductor(capture, finish=None),
            phases.timing_kernels() if asked.device == "cuda" else nullcontext(),
            _share_tuning(asked.device, turnstile),  # last: its waits are no timing
        ):
            _run_first(step)
        phases.add_compilation()
        compiling.close()
        turnstile.give_way()
        step.compile_seconds = time.monotonic() - started
        if request.cpus:  # not while compiling: both sides would share these cores
            _pin(request.cpus)
        step.warm()
    return step


@contextmanager
def _compile_ahead(
    target: Target, jobs: int, capture: Capture, phases: Phases, turnstile: Turnstile
) -> Iterator[None]:
    """Have other processes compile the kernels that are captured in the block. Who waits for one
    of them leaves the device meanwhile."""
    from perfcli.compile.binaries.ahead import BinariesAhead

    jobs = min(max(jobs // AHEAD_SHARE, 1), MOST_AHEAD)
    ahead = BinariesAhead(jobs, target, turnstile.outside)
    capture.on_kernel = ahead.submit
    try:
        with ahead.loading():
            yield
    finally:
        ahead.close()
        phases.add("waiting for kernels that are compiled ahead", ahead.waited)


def _pin(cpus: Iterable[int]) -> None:
    """Pin all threads of this process to these cores: those of OpenMP live by now, and only later
    ones take after the main thread."""
    wanted = frozenset(cpus)
    os.sched_setaffinity(0, wanted)
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), wanted)


def _share_tuning(device: str, turnstile: Turnstile) -> AbstractContextManager[None]:
    """Give identical kernels of both sides the same launch configuration, on a GPU."""
    if device != "cuda":
        return nullcontext()
    return tuning.share_choices(tuning.choices_folder(), turnstile.alone)


def _use_device(request: MeasureRequest) -> None:
    import torch

    if request.compile.device == "cuda":
        before_cuda.begin(request.device_index or 0)
        if not torch.cuda.is_available():
            raise PerfcliError(
                "no GPU to measure on: torch.cuda.is_available() is False (--target h100 compiles "
                "without one, --device cpu measures on the CPU)"
            )
        index = request.device_index or 0
        if index >= torch.cuda.device_count():
            raise PerfcliError(f"no GPU {index}: there are {torch.cuda.device_count()}")
        torch.cuda.set_device(index)
    elif request.threads is not None:
        torch.set_num_threads(request.threads)


def _run_first(step: Step) -> None:
    """Run the step that compiles. Its failure is Inductor's, or the model's."""
    try:
        step.launch()
        step.wait()
    except Exception as error:
        if room.is_out_of_memory(error):
            raise
        raise tracing.attribute_failure(error, step.capture) from error


@contextmanager
def translate_out_of_memory(side: SideName, request: CompileRequest) -> Iterator[None]:
    """Raise torch's errors for a full device or machine as ours."""
    try:
        yield
    except Exception as error:
        full = room.out_of_memory_in(error)
        if full is not None:
            raise _full(side, request, str(full)) from error
        if not isinstance(error, RuntimeError):
            raise
        text = str(error)
        raise UserCodeFailed(
            f"the model failed while it ran: {text.splitlines()[0] if text else 'RuntimeError'}",
            detail=show(error),
        ) from error


def _full(side: SideName, request: CompileRequest, text: str) -> OutOfMemory:
    first = next((line for line in text.splitlines() if line.strip()), "")
    # "Tried to allocate 84.33 GiB", and how much is free; advice and addresses follow.
    said = ". ".join(first.split(". ")[:3]).rstrip(".")
    return OutOfMemory(f"the {side}'s {request.scenario} does not fit into memory: {said[:300]}")


def _leaves(workload: Any) -> Iterator[Any]:
    """Yield tensors of the model and inputs that gradients gather in."""
    import torch
    from torch.utils import _pytree

    from perfcli.compile.building import modules_of

    for module in modules_of(workload.call):
        yield from module.parameters()
    for value in _pytree.tree_leaves((workload.inputs, dict(workload.kwargs))):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            yield value


def storages(step: Step) -> list[tuple[int, int]]:
    """Return address and bytes of all memory of the model and its inputs, what is shared once."""
    import torch
    from torch.utils import _pytree

    from perfcli.compile.building import modules_of

    workload = step.built.workload
    tensors: list[Any] = _pytree.tree_leaves((workload.inputs, dict(workload.kwargs)))
    for module in modules_of(workload.call):
        tensors += [*module.parameters(), *module.buffers()]
    # Of a DTensor, this rank's part.
    parts = (getattr(tensor, "_local_tensor", tensor) for tensor in tensors)
    found = (
        tensor.untyped_storage()
        for tensor in parts
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
    )
    return sorted({(storage.data_ptr(), storage.nbytes()) for storage in found if storage.nbytes()})


def join_group(request: MeasureRequest) -> None:
    """Begin the process group of the request's side and wait for its other ranks, with NCCL between
    GPUs and gloo between CPUs. A model that begins one itself finds this one."""
    import torch
    import torch.distributed as dist

    place, world = request.rank, request.compile.world
    assert place is not None
    os.environ |= describe_rank(world, place.number, place.port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are in this machine
    gpu = torch.device("cuda", place.number) if request.compile.device == "cuda" else None
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpu else "gloo",
        store=dist.FileStore(place.store, world),
        rank=place.number,
        world_size=world,
        device_id=gpu,
    )
    answer_begin(world)
