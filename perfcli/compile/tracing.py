"""Runs a workload once under ``torch.compile`` so that Inductor generates all of its code."""

from __future__ import annotations

import contextlib
import itertools
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from perfcli.compile.capture.capture import hook_inductor
from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.capture.eager_operators import EagerOperator, describe_eager
from perfcli.compile.capture.graph_breaks import HEADLINE, count_breaks, watch_breaks
from perfcli.compile.own_compile import holds_compiled
from perfcli.compile.patches import installed
from perfcli.compile.stand_in.decisions import Assumptions, wants_device
from perfcli.compile.stand_in.outputs import fake_call
from perfcli.errors import CompileFailed, UserCodeFailed
from perfcli.loading.tracebacks import users_traceback
from perfcli.model import BreakPlace, OptionValue, Workload
from perfcli.options.patches import PATCHES


@dataclass(frozen=True, slots=True)
class Traced:
    graph_breaks: Mapping[str, int]
    notes: tuple[str, ...]
    break_places: Mapping[str, tuple[BreakPlace, ...]] = field(default_factory=dict)
    eager_operators: int | None = None
    compiled: Any = None
    """What ``torch.compile`` returned, to call it with other sizes."""


def set_options(options: Mapping[str, OptionValue]) -> None:
    """Set configuration options for good: Inductor's own names, with the prefixes ``dynamo.`` and
    ``functorch.`` for the other two; then patches. The parent has checked names and
    types against this torch."""
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    patches: dict[str, OptionValue] = {}
    modules = {"dynamo.": torch._dynamo.config, "functorch.": torch._functorch.config}
    for name, value in options.items():
        prefix = next((p for p in modules if name.startswith(p)), "")
        config = modules.get(prefix, torch._inductor.config)
        key = name.removeprefix(prefix)
        if key not in config._config:
            if name not in PATCHES:
                raise CompileFailed(f"this torch has no option {name}")
            patches[name] = value
            continue
        setattr(_owner(config, key), key.rsplit(".", 1)[-1], value)
    for name, value in patches.items():
        installed.install(name, value)


def replays_graphs() -> bool:
    """Return whether Inductor records CUDA graphs of what it compiles, and replays them."""
    import torch._inductor.config as inductor

    return bool(inductor.triton.cudagraphs)


def _owner(config: Any, key: str) -> Any:
    for part in key.split(".")[:-1]:
        config = getattr(config, part)
    return config


def generate_here() -> None:
    """Make Inductor generate code in this process and thread, each time: a cache of whole graphs
    would bring it back unseen."""
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    # Not force_disable_caches: that one is written into the kernels.
    inductor.fx_graph_cache = False
    functorch.enable_autograd_cache = False
    # Options are kept per thread (torch 2.13+): lowered lazily, the backward would run in the
    # engine's thread and miss them.
    if hasattr(functorch, "force_non_lazy_backward_lowering"):
        functorch.force_non_lazy_backward_lowering = True


def prepare() -> None:
    """Apply the settings under which code generation runs here, none of which changes a kernel's
    body."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    generate_here()


def trace_offline(
    workload: Workload, mode: Any, capture: Capture, dynamic: bool, assumptions: Assumptions
) -> Traced:
    """Compile and call the workload with fake tensors of ``mode``; fill ``capture``, and
    ``assumptions`` where a graph returns a number. Raises ``CompileFailed`` where Inductor fails
    (naming the graph) and ``UserCodeFailed`` where the model itself does."""
    with hook_inductor(capture, make_finish(mode, capture, assumptions)), mode:
        return run(workload, capture, dynamic, lambda out: backward(out))


def make_finish(
    mode: Any, capture: Capture, assumptions: Assumptions
) -> Callable[[Any, CapturedGraph], Any]:
    """Return what stands in for building a generated module: a module whose ``call`` returns fake
    tensors of ``mode`` and is counted in ``capture``."""

    def finish(lowering: Any, graph: CapturedGraph) -> Any:
        def on_call() -> None:
            graph.calls += 1
            capture.call_order.append(graph)

        call = fake_call(lowering, mode, on_call, assumptions)
        return SimpleNamespace(call=call, __file__="generated", __name__="generated", runner=None)

    return finish


def run(workload: Workload, capture: Capture, dynamic: bool, back: Callable[[Any], None]) -> Traced:
    """Compile and run one step of the workload; of a whole training step two, of which the second
    counts: in the first its optimizer has no state yet, and some work in another way then."""
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = compile_call(workload, dynamic)
    before_backward: int | None = None

    def go_back(result: Any) -> None:
        nonlocal before_backward
        before_backward = len(capture.eager)
        back(result)

    with watch_breaks() as places:
        call_compiled(workload, compiled, capture, go_back)
        notes, breaks = list_notes(counters), count_breaks(counters)
        notes += () if capture.graphs else _name_wrapped(workload.call)
        if workload.mode == "step":
            called = len(capture.call_order)
            capture.eager.clear()
            call_compiled(workload, compiled, capture, back)
            # What is compiled anew breaks where it broke before.
            both = count_breaks(counters)
            breaks = {why: max(n := breaks.get(why, 0), both[why] - n) for why in both}
            notes += capture.keep_calls(capture.call_order[called:])
            eager: Sequence[EagerOperator] = capture.eager
        else:
            eager = _select_eager(capture.eager, before_backward)
    found = {reason: tuple(where) for reason, where in places.items()}
    return Traced(breaks, notes + describe_eager(eager), found, len(eager), compiled)


def _select_eager(
    found: Sequence[EagerOperator], before_backward: int | None = None
) -> Sequence[EagerOperator]:
    """Return the operators that the model runs outside of graphs: of the backward those of what ran
    so in the forward pass, without the gradients that it begins with, which are perfcli's own."""
    if before_backward is None:
        return found
    backward = found[before_backward:] if before_backward else ()
    ours = itertools.takewhile(lambda each: each.name.startswith("aten.ones_like"), backward)
    return (*found[:before_backward], *backward[len(list(ours)) :])


def compile_call(workload: Workload, dynamic: bool) -> Any:
    """Return the workload's call compiled: as it is where its author has compiled it."""
    import torch

    if holds_compiled(workload.call):
        return workload.call
    return torch.compile(workload.call, dynamic=True if dynamic else None)


def list_notes(counters: Any) -> tuple[str, ...]:
    """Return what is to be said of a run that was traced. ``counters`` are Dynamo's."""
    return (*_skipped_frames(counters), *installed.notes())


def call_compiled(
    workload: Workload, compiled: Any, capture: Capture, back: Callable[[Any], None] | None = None
) -> None:
    """Run one step of the workload with what ``torch.compile`` made of its call, or of that of a
    workload with other sizes."""
    import torch

    try:
        with autocast(workload), torch.set_grad_enabled(workload.mode != "forward"):
            result = compiled(*workload.inputs, **workload.kwargs)
            if workload.mode == "training":
                (back or backward)(result)
    except Exception as error:
        raise attribute_failure(error, capture) from error


def _skipped_frames(counters: Any) -> tuple[str, ...]:
    """Return the functions that Dynamo gave up on as a whole: they run eagerly, and make no
    kernels."""
    frames = counters["frames"]
    skipped = frames["total"] - frames["ok"]
    if skipped <= 0:
        return ()
    reasons = [*counters["unimplemented"], *counters["graph_break"]]
    why = f": {str(reasons[0]).splitlines()[0][:HEADLINE]}" if reasons else ""
    return (f"Dynamo left {skipped} of {frames['total']} functions to run eagerly{why}",)


def _name_wrapped(call: Any) -> tuple[str, ...]:
    """Return a note where ``DistributedDataParallel`` wraps one of torch's own modules: it breaks
    the graph in front of the module, and Dynamo compiles no function of torch.nn by itself. Seen
    with torch 2.13, on the CPU with gloo as well."""
    module = getattr(call, "module", None)
    wrapped = type(call).__name__ == "DistributedDataParallel"
    if not wrapped or not type(module).__module__.startswith("torch."):
        return ()
    return (
        f"torch.compile compiles nothing of DistributedDataParallel(nn.{type(module).__name__}), "
        "on a device neither: wrap a module of a class of your own, or compile it before it is "
        "wrapped",
    )


@contextlib.contextmanager
def autocast(workload: Workload) -> Iterator[None]:
    """Activate the ambient autocast that the workload asks for, on its inputs' device."""
    import torch

    if workload.autocast is None:
        yield
        return
    device = next((t.device.type for t in workload.inputs if isinstance(t, torch.Tensor)), "cuda")
    with torch.autocast(device, dtype=getattr(torch, workload.autocast)):
        yield


def backward(result: Any, gradient: Callable[[Any], Any] | None = None) -> None:
    """Back-propagate from whatever a training step returned: from a loss as it is, from other
    outputs with gradients of their own shape (ones, or what ``gradient`` makes of an output); an
    output with a ``loss`` counts as that loss."""
    import torch
    from torch.utils import _pytree

    loss = getattr(result, "loss", None)
    leaves = [loss] if isinstance(loss, torch.Tensor) else _pytree.tree_leaves(result)
    outputs = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs:
        raise UserCodeFailed(
            "nothing to back-propagate: no output of the model requires a gradient "
            "(return a loss, use mode=forward, or mode=step where it runs its own backward)"
        )
    torch.autograd.backward(outputs, [(gradient or torch.ones_like)(t) for t in outputs])


def attribute_failure(error: Exception, capture: Capture) -> Exception:
    """Return the error as that of whoever is at fault: Inductor (which graph, its message) or the
    model (the user's frames)."""
    import torch._dynamo.exc as exc
    from torch._subclasses.fake_tensor import (
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )

    if isinstance(error, CompileFailed | UserCodeFailed):
        return error
    cause: BaseException = error
    inductor = getattr(exc, "BackendCompilerFailed", ())
    if isinstance(error, inductor) or type(error).__module__.startswith("torch._inductor"):
        cause = getattr(error, "inner_exception", None) or error.__cause__ or error
        if wants_device(cause):
            return CompileFailed(
                f"Inductor wanted to time something on the device for {capture.latest()}, and "
                "there is none: leave out options that measure (max_autotune, benchmark_fusion "
                "and their like)",
                detail=_traceback(cause),
            )
        return CompileFailed(
            f"Inductor could not compile {capture.latest()}: {state_reason(cause)}",
            detail=_traceback(cause),
        )
    if isinstance(error, exc.InternalTorchDynamoError):
        return CompileFailed(
            f"Dynamo could not trace the model: {state_reason(error)}", detail=_traceback(error)
        )
    if isinstance(error, DynamicOutputShapeException | UnsupportedOperatorException):
        return CompileFailed(
            f"{state_reason(error)}: run without values, this operator's result is not known "
            f"({_cure_of_unknown(error)})",
            detail=users_traceback(error),
        )
    said = _name_unfollowed(error)
    if said:
        return UserCodeFailed(said, detail=users_traceback(error))
    return UserCodeFailed(
        f"the model failed while it was traced: {state_reason(error)}",
        detail=users_traceback(error),
    )


_TWO_DEVICES = re.compile(r"[Tt]ensor device mismatch|two different devices|on the same device")
_NO_SHAPE = re.compile(r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>")


def _name_unfollowed(error: Exception) -> str:
    """Return one line for what can't be traced without values, with what to do; empty for all
    else."""
    text = str(error)
    if found := _NO_SHAPE.search(text):
        return (
            f"the operator {found[1]} does not say the shape of its result, which torch.compile "
            f'needs: put @torch.library.register_fake("{found[1]}") above a function with the same '
            "arguments that returns torch.empty_like(x), or what fits"
        )
    if _TWO_DEVICES.search(text):
        return (
            "the model failed while it was traced: it mixes tensors of the device with tensors on "
            "the CPU; give device=x.device to what it makes while it runs, such as "
            "torch.zeros(n) or torch.arange(n)"
        )
    if "create_graph" in text or "does not currently support double backward" in text:
        return (
            "it takes a gradient of a gradient of compiled code (create_graph=True), which "
            "torch.compile does not support: take the inner gradient with torch.func.grad inside "
            "of what is compiled, or leave that part out with torch.compiler.disable"
        )
    if "nested_int_memo" in text:
        return (
            "attention over nested (jagged) tensors depends on lengths that only values tell: "
            "compile it with padded tensors, or use flex_attention with a block mask"
        )
    if wants_device(error) and ("sparse" in users_traceback(error) or _is_about_sparse(error)):
        return (
            "sparse tensors are made from values, and there is no device to compute them on: "
            "leave them out of what is compiled, or use --device cuda on a machine with a GPU"
        )
    return ""


def _cure_of_unknown(error: Any) -> str:
    if str(error.func).startswith("aten."):
        option = "dynamo.capture_dynamic_output_shape_ops=true"
        return f"-o {option} may keep it inside of a graph; else take it out of what is compiled"
    return "an operator of your own needs torch.library.register_fake"


def _is_about_sparse(error: BaseException) -> bool:
    """Return whether an operator has no kernel for sparse tensors without values."""
    cause: BaseException | None = error
    while cause is not None:
        if "with arguments from the 'Sparse" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def state_reason(error: BaseException) -> str:
    """Return what can't be traced without values, or the type and the line that says why: Dynamo
    puts the reason behind ``got``."""
    if isinstance(error, Exception) and (said := _name_unfollowed(error)):
        return said
    text = str(error).strip()
    reason = re.search(r"got (\w+)\([\"'](.+?)[\"']\)", text)
    if reason:
        return f"{reason[1]}: {reason[2]}"[:HEADLINE]
    lines = text.splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:HEADLINE] if lines else type(error).__name__


def _traceback(error: BaseException) -> str:
    """Return the innermost frames and the beginning of the message, which can run to pages."""
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-15:])
    return f"{''.join(frames)}{type(error).__name__}: {str(error)[:1500]}"
