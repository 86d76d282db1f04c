"""Compiles a script: runs it under the stand-in device, or on the real one, and keeps of what it
compiled the graphs of its last step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from perfcli.compile import tracing
from perfcli.compile.building import Built
from perfcli.compile.capture.capture import hook_inductor
from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.capture.eager_operators import describe_eager
from perfcli.compile.capture.graph_breaks import count_breaks, watch_breaks
from perfcli.compile.own_compile import tell_kept
from perfcli.compile.scripts.calls import CompileCalls, watch_compile
from perfcli.compile.scripts.failures import explain, refuse_nothing_compiled
from perfcli.compile.scripts.host_values import keep_parameters_fake
from perfcli.compile.scripts.known_values import KnownValues
from perfcli.compile.scripts.program import load_program
from perfcli.compile.scripts.steps import ScriptEnded, StepCounter, watch_optimizers
from perfcli.compile.scripts.surroundings import stand_in
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.loading.printed import keep_output
from perfcli.model import CompiledCall, CompileRequest, Scenario, Workload


@dataclass(frozen=True, slots=True)
class RanScript:
    """Holds what a script that has ended compiled."""

    built: Built
    traced: tracing.Traced
    calls: tuple[CompiledCall, ...]


def run_offline(
    request: CompileRequest, capture: Capture, mode: Any, known: KnownValues
) -> RanScript:
    """Run the request's script with fake tensors of ``mode`` (see ``make_mode``) and fill
    ``capture``. Raises UserCodeFailed where the script fails before it has compiled anything or
    needs what is not there, CompileFailed where Inductor does."""
    import torch

    finish = tracing.make_finish(mode, capture, known.assumptions)
    with (
        hook_inductor(capture, _forget_written(finish, known)),
        stand_in(mode, known),
        keep_parameters_fake(mode),
        torch.autograd.set_multithreading_enabled(False),
        _leave_hooks_eager(),
        mode,
    ):
        return _run(request, capture)


def _forget_written(finish: Any, known: KnownValues) -> Callable[[Any, CapturedGraph], Any]:
    """Return what stands in for a generated module, and whose ``call`` also makes values that it
    writes into its inputs unknown."""

    def finish_script(lowering: Any, graph: CapturedGraph) -> Any:
        made = finish(lowering, graph)
        names = list(lowering.graph_input_names)
        written = [n for n, name in enumerate(names) if name in lowering.mutated_inputs]
        call = made.call

        def forgetting(args: list[Any]) -> Any:
            for number in written:
                known.forget(args[number])
            return call(args)

        made.call = forgetting
        return made

    return finish_script


@contextmanager
def _leave_hooks_eager() -> Iterator[None]:
    """Keep Dynamo from compiling gradient hooks while the block runs: autograd calls them in the
    device's thread, where Dynamo does not listen, and here in the thread of the script.

    Seen with torch 2.11 to 2.13: ``_engine_run_backward`` runs every backward."""
    import torch
    import torch._dynamo

    run = torch._dynamo.disable(torch.autograd.graph._engine_run_backward)
    with (
        replace_for_block(torch.autograd.graph, _engine_run_backward=run),
        replace_for_block(torch.autograd, _engine_run_backward=run),
    ):
        yield


def run_on_device(request: CompileRequest, capture: Capture) -> RanScript:
    """Run the request's script as it is, and fill ``capture``. Raises as ``run_offline``."""
    import torch

    with hook_inductor(capture, finish=None):
        ran = _run(request, capture)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return ran


def _run(request: CompileRequest, capture: Capture) -> RanScript:
    import torch._dynamo

    script = request.script
    assert script is not None
    counters = torch._dynamo.utils.counters
    counters.clear()
    counter = StepCounter(capture, script.steps)
    calls = CompileCalls(counter.enter)
    capture.on_graph = calls.add_graph
    notes: list[str] = []
    with (
        watch_compile(calls),
        watch_optimizers(counter),
        watch_breaks() as places,
        keep_output() as printed,
    ):
        try:
            # With -m, to find the module imports its packages: that is the script, too.
            load_program(script)()
        except ScriptEnded:
            pass
        except BaseException as error:
            if not counter.ended:  # what fails while it is being ended is nobody's business
                notes += filter(None, [explain(error, script, capture, printed.tell())])
        finally:
            sys.settrace(None)
            sys.setprofile(None)
    refuse_nothing_compiled(script, capture, calls, printed.tell())
    notes += tracing.list_notes(counters)
    notes += [counter.describe(), *capture.keep_calls(counter.select())]
    eager = counter.select_eager()
    notes += describe_eager(eager)
    training = bool(counter.steps) or any(
        graph.facts.direction == "backward" for graph in capture.call_order
    )
    compiled = calls.list_calls(capture)
    notes += tell_kept(call for call in compiled if call.settings)
    found = {reason: tuple(where) for reason, where in places.items()}
    traced = tracing.Traced(count_breaks(counters), tuple(notes), found, len(eager))
    return RanScript(_describe(request, training), traced, compiled)


def _describe(request: CompileRequest, training: bool) -> Built:
    """Return what a run says of the script where it says what was built."""
    scenario = Scenario(request.scenario, "", {}, {}, _refuse_to_build)
    mode: Any = "training" if training else "forward"
    return Built(scenario, dict(request.params), Workload(_refuse_to_build, (), mode=mode))


def _refuse_to_build(*_: Any) -> Any:
    raise AssertionError("a script is not built")
