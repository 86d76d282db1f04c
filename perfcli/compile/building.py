"""Builds a scenario's model and inputs as fake tensors on the target device: no memory, no values.

First the user's code runs under ``FakeTensorMode`` with the target as the default device. Code
that reads values while building (``.item()``, ``.tolist()``, numpy) cannot run like that; then it
runs again with real, mostly uninitialised tensors on the CPU, which become fake ones afterwards.
Initialisers are skipped both times: values never reach the generated code.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from perfcli.compile.own_backward import is_step
from perfcli.compile.own_compile import holds_compiled, tell_ignored, tell_kept, unwrap
from perfcli.compile.ranks.group import begin_anew
from perfcli.compile.scripts.calls import CompileCalls, watch_compile
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.compile.typed_inputs import make_inputs
from perfcli.errors import UserCodeFailed
from perfcli.loading import registry
from perfcli.loading.userfile import FORWARD_ONLY, MODE
from perfcli.model import CompileRequest, Device, Scenario, Workload


def modules_of(call: Any) -> list[Any]:
    """Return the modules behind a callable: itself, a bound method's owner, a closure's cells."""
    import torch

    return [item for item in _behind(call) if isinstance(item, torch.nn.Module)]


def optimizers_of(call: Any) -> list[Any]:
    """Return the optimizers behind a callable, found in the same places."""
    import torch

    return [item for item in _behind(call) if isinstance(item, torch.optim.Optimizer)]


def _behind(call: Any) -> list[Any]:
    call = unwrap(call)
    found = [call, getattr(call, "__self__", None)]
    for cell in getattr(call, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            found.append(cell.cell_contents)
    return found


def _forward_only_notes(workload: Workload) -> tuple[str, ...]:
    """Return a note where nobody chose the mode, and parameters of a module in training mode, or
    inputs, require gradients. ``eval()`` says that none are wanted."""
    if not workload.mode_is_default or workload.mode != "forward":
        return ()
    modules = modules_of(workload.call)
    trained = [module for module in modules if module.training]
    if modules and not trained:
        return ()
    if any(p.requires_grad for module in trained for p in module.parameters()):
        return (f"parameters {FORWARD_ONLY}",)
    return (f"inputs {FORWARD_ONLY}",) if _inputs_require_gradients(workload) else ()


def _inputs_require_gradients(workload: Workload) -> bool:
    import torch
    from torch.utils import _pytree

    leaves: list[Any] = _pytree.tree_leaves((workload.inputs, dict(workload.kwargs)))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


# Above this, random inputs of the second way stay uninitialised: filling them takes seconds.
MAX_RANDOM_ELEMENTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Built:
    scenario: Scenario
    params: dict[str, Any]
    workload: Workload
    notes: tuple[str, ...] = ()


def build(request: CompileRequest, mode: Any, calls: CompileCalls | None = None) -> Built:
    """Return the request's workload with fake tensors of ``mode`` (a ``FakeTensorMode``). ``calls``
    are what the caller watches ``torch.compile`` with already. Raises ``UserCodeFailed`` with the
    user's traceback, or ``PerfcliError`` for bad parameters."""
    import torch

    device = torch.device(request.device)
    with (
        watch_compile(CompileCalls()) if calls is None else contextlib.nullcontext(calls) as watched
    ):
        built, notes = _build_once_or_twice(request, mode, device, watched)
    workload = to_device(built.workload, mode, device)
    tell = tell_kept if holds_compiled(workload.call) else tell_ignored
    own = tell(watched.list_calls())
    notes = (*notes, *built.notes, *_forward_only_notes(workload), *own)
    return replace(built, workload=workload, notes=notes)


def _choose_mode(workload: Workload) -> Workload:
    """Return the workload as a step where nobody chose its mode and it runs its own backward."""
    if workload.mode_is_default and workload.mode == "forward" and is_step(workload.call):
        return replace(workload, mode="step")
    return workload


def _build_once_or_twice(
    request: CompileRequest, mode: Any, device: Any, calls: CompileCalls
) -> tuple[Built, tuple[str, ...]]:
    try:
        with mode, device, _skip_initialisers():
            return build_users_workload(request), ()
    except UserCodeFailed as fake_failure:
        begin_anew()
        calls.uses.clear()
        try:
            with _build_on_cpu(request.device), _skip_initialisers():
                built = build_users_workload(request)
        except UserCodeFailed as failure:
            raise _both(fake_failure, failure) from fake_failure
        return built, (
            "the model's code reads values while it is built: built on the CPU, then moved",
        )


def _both(first: UserCodeFailed, second: UserCodeFailed) -> UserCodeFailed:
    """Return the failure that the user can act on: with real tensors, where values were missing
    before; else the first, since a second call can fail for no other reason than that it is the
    second."""
    if "original_tensor.device" in str(second):
        where = str(second).partition(":")[0]
        return UserCodeFailed(
            f"{where}: to_sparse_semi_structured makes its weights from values on the device, "
            "and there is none: leave it out, or use --device cuda on a machine with a GPU",
            detail=second.detail,
        )
    if str(first) == str(second) or _lacks_values(first):
        return second
    again = str(second).partition(": ")[2] or str(second)
    return UserCodeFailed(
        str(first), detail=f"{first.detail}\n\nbuilt again, on the CPU, it failed with {again}"
    )


def _lacks_values(failure: UserCodeFailed) -> bool:
    """Return whether tensors without values or memory are to blame: torch says so in its words, or
    the error came out of its fake tensors."""
    error: BaseException | None = failure.__cause__
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        if frames and "/torch/_subclasses/" in frames[-1].filename:
            return True
        error = error.__cause__ or error.__context__
    words = ("FakeTensor", "fake tensor", "meta tensor", "numpy()", "data-dependent")
    return any(word in str(failure) for word in words)


def build_users_workload(request: CompileRequest) -> Built:
    """Return what the user's code makes of the request, on whichever device is the default."""
    scenario = registry.scenario(request.scenario, request.inputs)
    params = registry.resolve_params(scenario, request.preset, request.params)
    workload, notes = make_inputs(registry.build(scenario, params))
    if "mode" in request.params:
        workload = replace(workload, mode_is_default=False)
    workload = _choose_mode(workload)
    if scenario.parameters.get("mode") is MODE:  # the function may have returned another one
        params["mode"] = workload.mode
    return Built(scenario, params, workload, notes)


def to_device(workload: Workload, mode: Any, device: Any) -> Workload:
    """Return the workload with every real tensor, in modules and inputs, turned into a fake one."""
    import torch
    from torch.utils import _pytree

    converted: dict[int, Any] = {}

    def convert(value: Any) -> Any:
        return _fake_tensor(value, mode, device, converted)

    call = workload.call
    for module in modules_of(call):
        for part in module.modules():
            _convert_attributes(part, convert)
    only = torch.Tensor
    for optimizer in optimizers_of(call):
        for group in optimizer.param_groups:
            group.update(_pytree.tree_map_only(only, convert, dict(group)))
        state = {
            convert(p): _pytree.tree_map_only(only, convert, s) for p, s in optimizer.state.items()
        }
        optimizer.state.clear()
        optimizer.state.update(state)
    inputs, kwargs = _pytree.tree_map_only(only, convert, (workload.inputs, dict(workload.kwargs)))
    return replace(workload, inputs=tuple(inputs), kwargs=kwargs)


def _fake_tensor(tensor: Any, mode: Any, device: Any, converted: dict[int, Any]) -> Any:
    """Return a fake tensor of ``mode`` like ``tensor``: same size, strides, dtype, and kind."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if not isinstance(tensor, torch.Tensor):  # what a DTensor has besides
        return tensor
    if isinstance(tensor, FakeTensor) and tensor.fake_mode is mode:
        return tensor
    if id(tensor) not in converted:
        _refuse_unplain(tensor)
        with mode, torch.no_grad():
            made: Any
            if is_traceable_wrapper_subclass(tensor):  # a DTensor, a quantised weight
                names, context = tensor.__tensor_flatten__()
                inside = {n: getattr(tensor, n) for n in names}
                same = {n: _fake_tensor(t, mode, device, converted) for n, t in inside.items()}
                if all(same[n] is t for n, t in inside.items()):
                    return tensor
                size, stride = tensor.size(), tensor.stride()
                made = type(tensor).__tensor_unflatten__(same, context, size, stride)
            else:
                made = torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device
                )
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
            elif tensor.requires_grad:
                made.requires_grad_()
            if tensor.is_leaf and tensor.grad is not None:
                made.grad = _fake_tensor(tensor.grad, mode, device, converted)
        converted[id(tensor)] = (made, tensor)
    return converted[id(tensor)][0]


def _refuse_unplain(tensor: Any) -> None:
    """Raise UserCodeFailed for a tensor whose shape is a matter of values."""
    import torch

    if tensor.is_nested:
        raise UserCodeFailed(
            "a nested tensor has lengths that only values tell: pass its values and offsets, and "
            "make it inside of the model with torch.nested.nested_tensor_from_jagged"
        )
    if tensor.layout is not torch.strided:
        raise UserCodeFailed(
            f"a sparse tensor ({tensor.layout}) has a size that only values tell: pass its parts, "
            "or leave it out of what is compiled"
        )


def _convert_attributes(part: Any, convert: Any) -> None:
    """Convert parameters, buffers, and tensors that a module keeps as plain attributes."""
    import torch
    from torch.utils import _pytree

    for table in (part._parameters, part._buffers):
        for name, tensor in table.items():
            if tensor is not None:
                table[name] = convert(tensor)
    for name, value in list(vars(part).items()):
        if isinstance(value, torch.Tensor | list | tuple | dict) and not name.startswith("_"):
            with contextlib.suppress(Exception):  # an exotic container stays as it is
                setattr(part, name, _pytree.tree_map_only(torch.Tensor, convert, value))


@contextlib.contextmanager
def _skip_initialisers() -> Iterator[None]:
    """Make the functions of ``torch.nn.init`` do nothing: their values never matter, their time
    does."""
    from torch.nn import init

    names = [n for n in dir(init) if n.endswith("_") and not n.startswith("_")]

    def keep(tensor: Any = None, *_: Any, **__: Any) -> Any:
        return tensor

    with replace_for_block(init, **dict.fromkeys(names, keep)):
        yield


@contextlib.contextmanager
def _build_on_cpu(device: Device) -> Iterator[None]:
    """Put everything on the CPU, whatever device the code names; large random tensors stay
    uninitialised."""
    import torch
    from torch.overrides import TorchFunctionMode

    random = {torch.randn, torch.rand, torch.randint, torch.normal, torch.randperm}
    moves = {torch.Tensor.cuda: 0, torch.Tensor.to: 1}

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            if func is torch.Tensor.cuda:
                return args[0]
            if func in moves:
                args = tuple(_cpu_if_device(a, device) for a in args)
            if "device" in kwargs:
                kwargs["device"] = _cpu_if_device(kwargs["device"], device)
            if func in random and (size := _big_size(func, args, kwargs)) is not None:
                dtype = kwargs.get("dtype")
                integer = func in (torch.randint, torch.randperm)
                return torch.zeros(size, dtype=dtype or (torch.int64 if integer else None))
            return func(*args, **kwargs)

    with torch.device("cpu"), OnCpu():
        yield


def _cpu_if_device(value: Any, device: Device) -> Any:
    import torch

    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == device else value
    if isinstance(value, str) and value.split(":")[0] == device:
        return "cpu"
    return value


def _big_size(func: Any, args: Any, kwargs: Any) -> tuple[int, ...] | None:
    """Return the size that a random factory was asked for, where that is too large to fill."""
    import math

    import torch

    size = kwargs.get("size")
    if size is None and func in (torch.randn, torch.rand):
        size = args[0] if args and isinstance(args[0], tuple | list) else args
    if size is None:
        size = next((a for a in args if isinstance(a, tuple | list)), None)
    if not size or not all(isinstance(s, int) for s in size):
        return None
    return tuple(size) if math.prod(size) > MAX_RANDOM_ELEMENTS else None
