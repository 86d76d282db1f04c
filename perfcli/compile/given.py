"""Compiles a function or module that another process packed (``library/packing``).

The names here stand in the packed bytes: unpickling calls them. Tensors come as what describes
them, and become fake ones on the device that is compiled for.
"""

from __future__ import annotations

import base64
import importlib
import pickle
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from perfcli.compile.building import Built
from perfcli.compile.capture.collecting import Report
from perfcli.compile.session import Session, finish, trace
from perfcli.compile.tracing import set_options
from perfcli.errors import UserCodeFailed
from perfcli.loading.tracebacks import users_traceback
from perfcli.model import Bundle, GivenRequest, Scenario, Workload

_GIVEN: ContextVar[GivenRequest] = ContextVar("given")


def compile_given(given: GivenRequest, keep: tuple[Any, ...], report: Report) -> Bundle:
    """Compile the request as ``session.compile_request`` does, where ``session.import_torch``
    returned ``keep``; call it once per process. Raises UserCodeFailed where what was packed can't
    be unpacked here, CompileFailed, or another PerfcliError."""
    request = given.compile
    set_options(request.variant.options)
    sys.path[:] = given.path
    from perfcli.compile.binaries.pool import KernelPool

    session = Session(request, report, keep=keep, build=lambda mode: _build(given, mode))
    pool = KernelPool(max(request.jobs, 1), request.target, Path(request.cache_dir), session.told)
    try:
        with session.phase("trace"):
            capture, built, traced = trace(session, pool)
        return finish(session, capture, built, traced, pool)
    finally:
        pool.close(wait=True)  # this process ends next, and its pool must not outlive it


def _build(given: GivenRequest, mode: Any) -> Built:
    import torch

    from perfcli.compile.building import to_device

    call, args, kwargs = _unpack(given, mode)
    workload = Workload(call, tuple(args), dict(kwargs), given.mode, given.autocast)
    if not given.keeps_cpu:
        # What unpickling itself makes (a module's own __setstate__) may be anywhere.
        workload = to_device(workload, mode, torch.device(given.compile.device))
    scenario = Scenario(given.compile.scenario, "", {}, {}, _refuse_to_build)
    return Built(scenario, dict(given.compile.params), workload)


def _refuse_to_build(_params: Any) -> Workload:
    raise AssertionError("what was given is not built")


def _unpack(given: GivenRequest, mode: Any) -> tuple[Any, Any, Any]:
    name = given.compile.scenario
    token = _GIVEN.set(given)
    try:
        # Not a file's content: the parent, whose code runs here anyway, wrote it to our pipe.
        packed = base64.b64decode(given.packed)
        with mode:
            call, args, kwargs = pickle.loads(packed)
    except ImportError as error:
        raise UserCodeFailed(
            f"{name} needs {error.name or 'a module'}, which the worker can't import ({error}): "
            "make it importable, or name its module in by_value",
            detail=users_traceback(error),
        ) from error
    except Exception as error:
        raise UserCodeFailed(
            f"{name} can't be rebuilt in the worker: {type(error).__name__}: {error}",
            detail=users_traceback(error),
        ) from error
    finally:
        _GIVEN.reset(token)
    return call, args, kwargs


# --- what packed bytes name: a change here changes library/packing -------------------------------


def tensor(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    dtype: Any,
    device: str,
    requires_grad: bool,
    parameter: bool,
) -> Any:
    """Return a tensor without values: fake where unpickling runs under a ``FakeTensorMode``."""
    import torch

    extent = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1
    with torch.no_grad():
        place = _device(device)
        if offset and 0 not in shape:
            made = torch.empty(extent, dtype=dtype, device=place).as_strided(shape, stride, offset)
        else:
            made = torch.empty_strided(shape, stride, dtype=dtype, device=place)
    if parameter:
        return torch.nn.Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_() if requires_grad else made


def device(kind: str) -> Any:
    """Return a ``torch.device`` of the sender, where the worker puts its tensors."""
    return _device(kind)


def _device(kind: str) -> Any:
    import torch

    given = _GIVEN.get()
    if kind == "cpu" and given.keeps_cpu:
        return torch.device("cpu")
    return torch.device(given.compile.device)


def namespace(names: Mapping[str, Any], importable: bool) -> dict[str, Any]:
    """Return the globals of functions that were sent by value: those of their module, which Dynamo
    imports by its name to look for them, or those of a stand-in with that name where nobody can
    import it."""
    name = names.get("__name__") or "given"
    if importable:
        return vars(importlib.import_module(name))
    module = ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module
    return vars(module)


def module(names: dict[str, Any]) -> ModuleType:
    """Return the module with this namespace."""
    return sys.modules[names["__name__"]]


def fill(made: ModuleType, inside: Mapping[str, Any]) -> None:
    vars(made).update(inside)


def same(value: Any) -> Any:
    """Return what the sender had wrapped."""
    return value


def operator(name: str, overload: str | None) -> Any:
    """Return ``torch.ops.aten.add``, or one overload of it."""
    import torch

    namespace, _, own = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), own)
    return packet if overload is None else getattr(packet, overload)


def attribute(module: str, name: str) -> Any:
    """Return what an importable module has under this name."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def triton_kernel(function: Any, settings: Mapping[str, Any]) -> Any:
    """Return a ``@triton.jit`` function that was sent by value: its source is read again."""
    import triton

    return triton.jit(function, **settings)
