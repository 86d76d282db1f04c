"""Reads how often Dynamo compiled and which guard failed, and calls a compiled model again with
other sizes.

Seen with torch 2.11 to 2.13: ``torch._dynamo.utils.get_compilation_metrics`` keeps an entry for
each compilation, with the function and the failed guard in words; the entry of a function that was
compiled too often names no function, and the guard all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfcli.compile import tracing
from perfcli.compile.building import build
from perfcli.compile.capture.capture import hook_inductor
from perfcli.compile.capture.captured import Capture
from perfcli.compile.capture.provenance import torch_folder, user_line
from perfcli.compile.stand_in.decisions import Assumptions
from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.model import Compilation, CompileRequest, Recompilations, Scalar, VariedCall

_MOST_KEPT = 100_000
"""Compilations that torch is told to remember; its own limit is 64."""
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$")
_LONGEST = 200
"""Characters of a guard that are kept."""


def forget_compilations() -> None:
    """Make torch forget the compilations so far."""
    import torch._dynamo.utils as dynamo

    dynamo.set_compilation_metrics_limit(_MOST_KEPT)
    dynamo.clear_compilation_metrics()


_Names = dict[str, tuple[str, str]]
"""Dynamo's numbers of functions to their names, and ``file:line`` where they begin."""


def _read_compilations(names: _Names) -> tuple[Compilation, ...]:
    """Return Dynamo's compilations since ``forget_compilations``, in order. ``names`` learns the
    functions."""
    import torch._dynamo.utils as dynamo

    made = [each for each in dynamo.get_compilation_metrics() if _is_of_function(each)]
    found = []
    for each in made:
        number = str(each.compile_id).partition("/")[0]
        if each.co_name is not None:
            names[number] = _name_function(each)
        function, place = names.get(number, ("", ""))
        guard, guard_place, code = _read_guard(each.recompile_reason or "")
        refused = each.co_name is None and each.fail_type is not None
        found.append(Compilation(function, place, guard, guard_place, code, refused))
    return tuple(found)


def _is_of_function(metrics: Any) -> bool:
    """Return whether an entry is about a function that Dynamo looked at: others are of backward
    graphs, which are compiled when they are first run."""
    if metrics.compile_id is None or metrics.is_forward is False:
        return False
    return metrics.co_name is not None or bool(metrics.recompile_reason)


def _name_function(metrics: Any) -> tuple[str, str]:
    """Return a function's name and ``file:line``; of torch's own, which calls a module of torch's,
    neither says anything."""
    if str(metrics.co_filename).startswith(torch_folder()):
        return "", ""
    resumed = _RESUMED.match(metrics.co_name)
    name = f"{resumed[1]}, from line {resumed[2]}" if resumed else str(metrics.co_name)
    return name, f"{metrics.co_filename}:{metrics.co_firstlineno}"


def _read_guard(reason: str) -> tuple[str, str, str]:
    """Return the guard in words, and ``file:line`` and text of the model where they are known, from
    ``0/0: n == 1.5  # return x * n  # model.py:14 in g``, with a stack trace behind it."""
    first, _, trace = reason.partition("\nUser stack trace:")
    lines = first.strip().splitlines()
    guard = re.sub(r"^\d+/\d+: ", "", lines[0]) if lines else ""
    guard = guard.partition("  # ")[0].strip()[:_LONGEST]
    return guard, *user_line(trace)


def call_again(
    request: CompileRequest, traced: tracing.Traced, capture: Capture, mode: Any, assumed: Any
) -> Recompilations:
    """Call the model that was compiled for the request's own sizes with those of
    ``request.varied``, and return what Dynamo compiled for each. ``capture`` stays as it is. Raises
    UserCodeFailed, with the sizes, where the model refuses them."""
    import torch._dynamo.config as dynamo

    names: _Names = {}
    first = _read_compilations(names)
    order, calls = list(capture.call_order), [graph.calls for graph in capture.graphs]
    varied = [_call_with(request, each, traced, names, (mode, assumed)) for each in request.varied]
    capture.call_order[:] = order
    for graph, number in zip(capture.graphs, calls, strict=True):
        graph.calls = number
    limit = getattr(dynamo, "recompile_limit", None)
    own = {name: request.params[name] for each in request.varied[:1] for name in each}
    return Recompilations(first, tuple(varied), limit, own)


def _call_with(
    request: CompileRequest,
    sizes: Mapping[str, Scalar],
    traced: tracing.Traced,
    names: _Names,
    offline: tuple[Any, Assumptions],
) -> VariedCall:
    said = " ".join(f"{name}={value}" for name, value in sizes.items())
    own = " ".join(f"{name}={request.params[name]}" for name in sizes)
    again = Capture(finds_obstacles=False)
    forget_compilations()
    try:
        other = build(replace(request, params={**request.params, **sizes}), offline[0])
        with hook_inductor(again, tracing.make_finish(offline[0], again, offline[1])), offline[0]:
            tracing.call_compiled(other.workload, traced.compiled, again)
    except PerfcliError as error:
        model = f"the model of {own} can't be called with the inputs of {said}"
        raise UserCodeFailed(f"--vary: {model}: {error}", detail=error.detail) from error
    typed = {name: other.params[name] for name in sizes}
    dynamic = any(graph.dynamic for graph in again.graphs)
    return VariedCall(typed, _read_compilations(names), dynamic)
