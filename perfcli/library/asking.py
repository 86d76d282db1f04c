"""``perfcli.inspect``: what torch.compile makes of a function."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypedDict, Unpack, get_args

from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.library.compiling import Call, compiled
from perfcli.library.kernels import Kernels, kernels_of
from perfcli.library.packing import eager
from perfcli.library.speaking import check_names, in_python
from perfcli.model import CompileRequest, Mode, OptionValue, Scalar, Variant
from perfcli.units import number_range, setting
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import Obtained, load_or_compile
from perfcli.workflow.request import Question, Side, build_request, choose_device, make_variant

TIMEOUT_SECONDS = 600.0
_LEAST = {"timeout": (1, False), "jobs": (1, True)}
"""The least value of each number, as on the command line, and whether it is a whole one."""


class CallOptions(TypedDict, total=False):
    """The options that ``perfcli.inspect`` and the pytest fixture ``kernels`` share. ``inspect``
    says what they mean."""

    target: str | None
    device: str | None
    mode: Mode
    dynamic: bool
    options: Mapping[str, OptionValue] | None
    env: Mapping[str, str] | None
    name: str | None
    params: Mapping[str, Scalar] | None
    preset: str | None
    by_value: Iterable[ModuleType]
    timeout: float | None


class InspectOptions(CallOptions, total=False):
    """The options of ``perfcli.inspect``."""

    jobs: int | None


def inspect(
    fn: Callable[..., Any] | str | os.PathLike[str],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    **asked: Unpack[InspectOptions],
) -> Kernels:
    """Compile a function for a GPU that need not be there, and say what its kernels are made of.

    Args:
        fn: a function or ``nn.Module``; or a scenario's name, ``path/to/model.py:name``, or a
            stored run, as ``perfcli inspect-kernel`` takes them.
        args: what it is called with: a tuple or list, or one tensor. Of tensors only shape,
            strides, dtype, device and ``requires_grad`` count: no values are read.
        kwargs: keyword arguments.
        target: a GPU to compile for, ``h100``; with CPU tensors, too: all is taken to be there.
            None: the GPU of this machine, else ``h100``.
        device: ``cpu`` for the C++ kernels of the CPU; ``cuda`` for the GPU of this machine.
        mode: ``forward``, the default; ``training`` compiles the backward pass as well.
        dynamic: sizes are symbols, as with ``torch.compile(dynamic=True)``.
        options: of Inductor, ``{"triton.mix_order_reduction": False}``; with the prefixes
            ``dynamo.`` and ``functorch.`` of the other two.
        env: variables for the worker, ``{"TORCHINDUCTOR_ONLINE_SOFTMAX": "0"}``.
        name: what it is called in reports. Default: the function's own.
        params, preset: of a scenario.
        by_value: modules whose code is sent to the worker as it is in this process, instead of
            being imported there.
        jobs: kernels that are compiled at once. Default: as many as there are cores.
        timeout: seconds that the worker has. Default: 600.

    Raises:
        PerfcliError: what was asked for makes no sense, or can't be sent to the worker.
        UserCodeFailed: the function itself fails.
        CompileFailed: Inductor or Triton do.
        WorkerFailed: the worker died, or took longer than ``timeout``.
    """
    check_names("inspect", inspect, InspectOptions, asked)
    with in_python():
        _check_numbers(asked)
        if isinstance(fn, str | os.PathLike):
            return kernels_of(_inspect_named(os.fspath(fn), args, kwargs, asked))
        return kernels_of(_inspect_function(fn, args, kwargs, asked))


def _check_numbers(asked: Mapping[str, object]) -> None:
    """Raise PerfcliError for a number that makes no sense."""
    for name, (least, whole) in _LEAST.items():
        given = asked.get(name)
        if given is not None and not _fits(given, least, whole):
            takes = number_range(whole, least)
            raise PerfcliError(f"{name} takes {takes}, got {given!r}")


def _fits(given: object, least: float, whole: bool) -> bool:
    if not isinstance(given, int if whole else int | float) or isinstance(given, bool):
        return False
    return math.isfinite(given) and given >= least


def _inspect_named(
    reference: str, args: Any, kwargs: Mapping[str, Any] | None, asked: InspectOptions
) -> Obtained:
    mode, by_value = asked.get("mode", "forward"), tuple(asked.get("by_value", ()))
    if kwargs or _arguments(args) or by_value or asked.get("name") or mode != "forward":
        raise PerfcliError(
            f"{reference} is a scenario, a file or a stored run, which says itself what is "
            "called: leave out args, kwargs, mode, name and by_value (params sets parameters)"
        )
    question = Question(
        reference,
        tuple(f"{key}={setting(value)}" for key, value in (asked.get("params") or {}).items()),
        asked.get("preset"),
        asked.get("target"),
        asked.get("device"),
        asked.get("dynamic", False),
    )
    timeout = asked.get("timeout", TIMEOUT_SECONDS)
    context = Context(Notes(quiet=True), timeout=timeout, jobs=asked.get("jobs"))
    return load_or_compile(question, _side(asked), context)


def _inspect_function(
    fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, asked: InspectOptions
) -> Obtained:
    mode, by_value = asked.get("mode", "forward"), tuple(asked.get("by_value", ()))
    if asked.get("params") or asked.get("preset"):
        raise PerfcliError("params and preset are for scenarios: give the function its arguments")
    if not callable(fn):
        name = type(fn).__name__
        article = "an" if name[0] in "aeiouAEIOU" else "a"
        raise PerfcliError(f"expected a function, a module or a name, got {article} {name}")
    if mode not in (modes := get_args(Mode)):
        raise PerfcliError(f"mode is one of {', '.join(modes)}, not {mode!r}")
    call = Call(eager(fn), _arguments(args), dict(kwargs or {}), mode, by_value)
    return compiled(call, _request(fn, asked), asked.get("timeout", TIMEOUT_SECONDS))


def _request(fn: Callable[..., Any], asked: InspectOptions) -> CompileRequest:
    device, target = choose_device(asked.get("device"), asked.get("target"))
    side, variant = _side(asked), Variant("default")
    if side.assignments:
        interpreter = Context(Notes(quiet=True)).choose_probe(device)(None)
        variant = make_variant(side, interpreter, device)
    return build_request(
        asked.get("name") or _name(fn),
        variant,
        device=device,
        target=target,
        dynamic=asked.get("dynamic", False),
        jobs=asked.get("jobs"),
    )


def _side(asked: InspectOptions) -> Side:
    """Return the options and variables as on the command line, where they are checked."""
    given, env = asked.get("options") or {}, asked.get("env") or {}
    options = [f"{name}={setting(value)}" for name, value in given.items()]
    return Side((*options, *(f"{name}={value}" for name, value in env.items())))


def _arguments(args: Any) -> tuple[Any, ...]:
    return tuple(args) if isinstance(args, tuple | list) else (args,)


def _name(fn: Any) -> str:
    fn = eager(fn)
    fn = getattr(fn, "func", fn)  # functools.partial
    own = getattr(fn, "__qualname__", "") or type(fn).__name__
    return own.rpartition(".")[2].strip("<>") or "function"
