"""``perfcli.inspect``: what torch.compile makes of a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Never

from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.library.compiling import Call, compiled
from perfcli.library.kernels import Kernels, kernels_of
from perfcli.library.packing import eager
from perfcli.library.speaking import in_python, refuse
from perfcli.model import CompileRequest, Mode, OptionValue, Scalar, Variant
from perfcli.units import setting
from perfcli.workflow.answer import load_or_compile
from perfcli.workflow.context import Context
from perfcli.workflow.request import (
    Question,
    Side,
    build_request,
    choose_device,
    make_variant,
)


def inspect(
    fn: Callable[..., Any] | str | os.PathLike[str],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    device: str | None = None,
    mode: Mode = "forward",
    dynamic: bool = False,
    options: Mapping[str, OptionValue] | None = None,
    env: Mapping[str, str] | None = None,
    name: str | None = None,
    params: Mapping[str, Scalar] | None = None,
    preset: str | None = None,
    by_value: Iterable[ModuleType] = (),
    jobs: int | None = None,
    timeout: float | None = 600.0,
    **misspelt: Never,
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
        mode: ``training`` compiles the backward pass as well.
        dynamic: sizes are symbols, as with ``torch.compile(dynamic=True)``.
        options: of Inductor, ``{"triton.mix_order_reduction": False}``; with the prefixes
            ``dynamo.`` and ``functorch.`` of the other two.
        env: variables for the worker, ``{"TORCHINDUCTOR_ONLINE_SOFTMAX": "0"}``.
        name: what it is called in reports. Default: the function's own.
        params, preset: of a scenario.
        by_value: modules whose code is sent to the worker as it is in this process, instead of
            being imported there.
        jobs: kernels that are compiled at once. Default: as many as there are cores.
        timeout: seconds that the worker has.

    Raises:
        PerfcliError: what was asked for makes no sense, or can't be sent to the worker.
        UserCodeFailed: the function itself fails.
        CompileFailed: Inductor or Triton do.
        WorkerFailed: the worker died, or took longer than ``timeout``.
    """
    if misspelt:
        refuse("inspect", inspect, misspelt)
    with in_python():
        return _inspected(
            fn,
            args,
            kwargs,
            target=target,
            device=device,
            mode=mode,
            dynamic=dynamic,
            variant=_assignments(options, env),
            name=name,
            params=params,
            preset=preset,
            by_value=tuple(by_value),
            jobs=jobs,
            timeout=timeout,
        )


def _inspected(
    fn: Callable[..., Any] | str | os.PathLike[str],
    args: Any,
    kwargs: Mapping[str, Any] | None,
    *,
    target: str | None,
    device: str | None,
    mode: Mode,
    dynamic: bool,
    variant: tuple[str, ...],
    name: str | None,
    params: Mapping[str, Scalar] | None,
    preset: str | None,
    by_value: tuple[ModuleType, ...],
    jobs: int | None,
    timeout: float | None,
) -> Kernels:
    if isinstance(fn, str | os.PathLike):
        if kwargs or _arguments(args) or by_value or name or mode != "forward":
            raise PerfcliError(
                f"{os.fspath(fn)} is a scenario, a file or a stored run, which says itself what is "
                "called: leave out args, kwargs, mode, name and by_value (params sets parameters)"
            )
        given = tuple(f"{key}={setting(value)}" for key, value in (params or {}).items())
        question = Question(os.fspath(fn), given, preset, target, device, dynamic)
        context = Context(Notes(quiet=True), timeout=timeout, jobs=jobs)
        return kernels_of(load_or_compile(question, Side(variant), context))
    if params or preset:
        raise PerfcliError("params and preset are for scenarios: give the function its arguments")
    if not callable(fn):
        raise PerfcliError(f"expected a function, a module or a name, got a {type(fn).__name__}")
    if mode not in ("forward", "training"):
        raise PerfcliError(f"mode is forward or training, not {mode!r}")
    call = Call(eager(fn), _arguments(args), dict(kwargs or {}), mode, by_value)
    request = _request(name or _name(fn), target, device, dynamic, jobs, variant)
    return kernels_of(compiled(call, request, timeout))


def _request(
    name: str,
    target: str | None,
    device: str | None,
    dynamic: bool,
    jobs: int | None,
    assignments: Sequence[str],
) -> CompileRequest:
    chosen, for_target = choose_device(device, target)
    variant = Variant("default")
    if assignments:
        interpreter = Context(Notes(quiet=True)).choose_probe(chosen)(None)
        variant = make_variant(Side(tuple(assignments)), interpreter, chosen)
    return build_request(
        name, variant, device=chosen, target=for_target, dynamic=dynamic, jobs=jobs
    )


def _assignments(
    given: Mapping[str, OptionValue] | None, env: Mapping[str, str] | None
) -> tuple[str, ...]:
    """As on the command line, where they are checked."""
    found = [f"{name}={setting(value)}" for name, value in (given or {}).items()]
    return (*found, *(f"{name}={value}" for name, value in (env or {}).items()))


def _arguments(args: Any) -> tuple[Any, ...]:
    return tuple(args) if isinstance(args, tuple | list) else (args,)


def _name(fn: Any) -> str:
    fn = eager(fn)
    fn = getattr(fn, "func", fn)  # functools.partial
    own = getattr(fn, "__qualname__", "") or type(fn).__name__
    return own.rpartition(".")[2].strip("<>") or "function"
