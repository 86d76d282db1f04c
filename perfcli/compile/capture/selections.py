"""Records what Inductor chooses from where it times implementations of an operator
(``max_autotune``), and what it chose.

Seen with torch 2.11 to 2.13: each list of choices passes ``AlgorithmSelectorCache.do_autotuning``,
at once or, where the scheduler is to try what can be fused into each of them, when a
``MultiTemplateBuffer`` is asked for its times.
"""

from __future__ import annotations

import functools
import math
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from perfcli.compile.capture.operator_calls import read_tensor
from perfcli.model import (
    Buffer,
    Candidate,
    Implementation,
    Scalar,
    Selection,
    SelectionUse,
    TimeEstimate,
)

KNOWN = "perfcli"
"""Under which key of ``ChoiceCaller.annotations`` its ``Implementation`` is kept."""
_NUMBER = re.compile(r"_\d+$")


@dataclass(slots=True)
class Selecting:
    """Holds one list of choices while code is generated."""

    operator: str
    operands: tuple[str, ...]
    graph: str
    choices: list[Any]
    chosen: Any
    implementations: tuple[Implementation, ...]
    kernel: str = ""
    estimate: TimeEstimate | None = None
    """That of the chosen kernel with what is fused into it."""
    fused: dict[int, TimeEstimate] = field(default_factory=dict)
    """By the position of a choice, its estimate with what was last tried to be fused into it."""

    def find(self, choice: Any) -> int | None:
        return next((n for n, each in enumerate(self.choices) if each is choice), None)


def hook_autotuning(capture: Any, original: Any) -> Any:
    """Wrap ``AlgorithmSelectorCache.do_autotuning``, which returns the milliseconds of each
    choice."""

    @functools.wraps(original)
    def do_autotuning(
        self: Any, name: str, input_nodes: Any, layout: Any, *rest: Any, **options: Any
    ) -> Any:
        timings = original(self, name, input_nodes, layout, *rest, **options)
        if timings and layout.device.type == "cuda":
            choices = list(_all_choices(timings, rest, options))
            capture.selecting = Selecting(
                name,
                tuple(map(_describe, map(read_tensor, input_nodes))),
                capture.current_graph().facts.name,
                choices,
                min(timings, key=timings.__getitem__),
                tuple(_implementation(each, timings.get(each)) for each in choices),
            )
            capture.selected.append(capture.selecting)
        return timings

    return do_autotuning


def _all_choices(timings: Any, rest: Any, options: Any) -> Any:
    """Return the choices that were handed in, with those that were left out before timing."""
    lists = [each for each in (*rest, *options.values()) if isinstance(each, list)]
    given = next((each for each in lists if each and hasattr(each[0], "output_node")), None)
    return given or timings


def hook_choosing(capture: Any, original: Any) -> Any:
    """Wrap ``AlgorithmSelectorCache.__call__``, which returns the node that stands for a list of
    choices."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        capture.selecting = None
        result = original(self, *args, **options)
        if capture.selecting is not None:
            _buffer_of(result)._perfcli_selecting = capture.selecting
        return result

    return call


def hook_timings(capture: Any, original: Any) -> Any:
    """Wrap ``MultiTemplateBuffer.choice_timings``, which asks for the times of its choices the
    first time that it is called."""

    @functools.wraps(original)
    def choice_timings(self: Any, *args: Any, **options: Any) -> Any:
        capture.selecting = None
        timings = original(self, *args, **options)
        if capture.selecting is not None:
            self._perfcli_selecting = capture.selecting
        return timings

    return choice_timings


def hook_finalizing(capture: Any, original: Any) -> Any:
    """Wrap ``MultiTemplateBuffer.finalize_as_triton_caller``, which settles on a template."""

    @functools.wraps(original)
    def finalize(self: Any, caller: Any) -> Any:
        selecting = getattr(self, "_perfcli_selecting", None)
        if selecting is not None:
            selecting.chosen = caller
            number = selecting.find(caller)
            fused = None if capture.leaves_unfused else selecting.fused.get(number)
            selecting.estimate = fused or selecting.estimate
        return original(self, caller)

    return finalize


def hook_leftovers(capture: Any, original: Any) -> Any:
    """Wrap ``Scheduler.finalize_multi_template_buffers``: nothing was fused into what it settles
    on."""

    @functools.wraps(original)
    def finalize(self: Any) -> Any:
        capture.leaves_unfused = True
        try:
            return original(self)
        finally:
            capture.leaves_unfused = False

    return finalize


def note_kernel(kernel: Any, name: str) -> None:
    """Note which kernel a list of choices became."""
    selecting = getattr(getattr(kernel, "output_node", None), "_perfcli_selecting", None)
    if selecting is not None:
        selecting.kernel = name


def list_selections(selected: list[Selecting]) -> tuple[Selection, ...]:
    """Return each list of choices once, with all places where it occurs."""
    found: dict[tuple[Any, ...], Selection] = {}
    for each in selected:
        chosen = each.find(each.chosen)
        if chosen is None:
            continue
        use = SelectionUse(each.graph, chosen, each.kernel, each.estimate)
        names = tuple((i.name, tuple(i.config.items())) for i in each.implementations)
        key = each.operator, each.operands, names
        known = found.setdefault(key, Selection(each.operator, each.operands, each.implementations))
        found[key] = replace(known, uses=(*known.uses, use))
    return tuple(found.values())


def _buffer_of(result: Any) -> Any:
    from torch._inductor import ir

    node = result[0] if isinstance(result, tuple) else result
    while isinstance(node, ir.MutableBox):
        node = node.data
    return node


def _implementation(choice: Any, milliseconds: float | None) -> Implementation:
    known = choice.annotations.get(KNOWN)
    if isinstance(known, Implementation):
        return known
    finite = milliseconds is not None and math.isfinite(milliseconds)
    return Implementation(
        name_of(choice),
        kind_of(choice),
        config_of(choice),
        _loaded_candidate(choice),
        measured_seconds=milliseconds * 1e-3 if finite and milliseconds else None,
        left_out="" if finite else "it could not be compiled or launched",
    )


def name_of(choice: Any) -> str:
    """Return a choice's name without the number that tells it from others of its template."""
    return _NUMBER.sub("", str(choice.name))


def kind_of(choice: Any) -> Any:
    from torch._inductor.select_algorithm import ExternKernelCaller, TritonTemplateCaller

    if isinstance(choice, TritonTemplateCaller):
        return "template"
    return "operator" if isinstance(choice, ExternKernelCaller) else "graph"


def config_of(choice: Any) -> dict[str, Scalar]:
    """Return what a template is filled in with: ``ALLOW_TF32=False, BLOCK_K=32`` as Inductor
    describes it."""
    found: dict[str, Scalar] = {}
    for part in re.split(r", (?=\w+=)", str(getattr(choice, "description", "") or "")):
        name, equals, text = part.partition("=")
        if equals:
            found[name.strip()] = _scalar(text.strip())
    return found


def _scalar(text: str) -> Scalar:
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return text.strip("'\"")


def _loaded_candidate(choice: Any) -> Candidate | None:
    """Return what the driver says of a template's kernel, where one was loaded."""
    from torch._inductor.codecache import PyCodeCache

    request: Any = getattr(choice, "bmreq", None)
    if not getattr(request, "module_path", None):
        return None
    tuner: Any = None
    with suppress(Exception):  # one that the driver refuses has no launcher
        module = PyCodeCache.load_by_key_path(request.module_cache_key, request.module_path)
        tuner = getattr(module, request.kernel_name)
        if not tuner.launchers:
            tuner.precompile()
    launchers = getattr(tuner, "launchers", None)
    if not launchers:
        return None
    launcher = launchers[0]
    return Candidate(
        {k: int(v) for k, v in config_of(choice).items() if isinstance(v, int)},
        int(request.num_warps),
        int(request.num_stages),
        registers=int(launcher.n_regs),
        stack_bytes=4 * int(launcher.n_spills),
        shared_bytes=int(launcher.shared),
    )


def _describe(buffer: Buffer) -> str:
    expected, plain = 1, []
    for size in reversed(buffer.shape):
        plain.append(expected)
        expected *= max(size, 1)
    text = f"{buffer.dtype} {list(buffer.shape)}"
    if tuple(reversed(plain)) != buffer.stride and len(buffer.shape) > 1:
        text += f" strided {list(buffer.stride)}"
    return text
