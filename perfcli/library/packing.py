"""A function or module with its arguments as bytes for a worker: code and structure, no values of
tensors.

What can be imported by name is sent as that name and imported by the worker; what can't (lambdas,
closures, functions of ``__main__``, of test modules, of notebooks) is sent whole. torch is used
where the caller has imported it, never imported from here.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

from perfcli.compile import given
from perfcli.errors import PerfcliError
from perfcli.library.by_name import Registry, Senders


def _described(torch: Any, value: Any, devices: set[str]) -> Any:
    """Return what ``__reduce__`` would return, or None for what is not torch's or is sent like
    anything else. Kinds of devices of tensors are added to ``devices``.

    Raises TypeError for what no description stands for.
    """
    if isinstance(value, torch.Tensor):
        return given.tensor, _tensor(torch, value, devices)
    if isinstance(value, torch.device):
        return given.device, (value.type,)
    if isinstance(value, torch._ops.OpOverload):
        return given.operator, (value._schema.name, value._overloadname)
    if isinstance(value, torch._ops.OpOverloadPacket):
        return given.operator, (value._qualified_op_name, None)
    if isinstance(value, torch.nn.Module) and hasattr(value, "_orig_mod"):
        return given.same, (value._orig_mod,)
    if isinstance(value, torch.Generator):
        raise TypeError("a torch.Generator belongs to the device of this process")
    return None


def _tensor(torch: Any, value: Any, devices: set[str]) -> tuple[Any, ...]:
    """Return the arguments of ``given.tensor``."""
    kind = type(value)
    if kind not in (torch.Tensor, torch.nn.Parameter) and kind.__name__ != "FakeTensor":
        raise TypeError(
            f"a {kind.__name__} is a subclass of torch.Tensor; plain tensors and parameters are "
            "described by shape, strides and dtype"
        )
    if value.layout is not torch.strided or value.is_quantized:
        raise TypeError(f"a tensor of layout {value.layout} or quantised; strided ones are sent")
    devices.add(value.device.type)
    return (
        tuple(map(int, value.shape)),
        tuple(map(int, value.stride())),
        int(value.storage_offset()),
        value.dtype,
        value.device.type,
        bool(value.requires_grad),
        isinstance(value, torch.nn.Parameter),
    )


def eager(fn: Any) -> Any:
    """Return what ``torch.compile`` was applied to, since it is applied again; others as they are.

    ``torch.compiler.disable`` wraps in the same way (seen in torch 2.11 to 2.15).
    """
    if hasattr(fn, "_orig_mod"):
        return fn._orig_mod
    inner = getattr(fn, "_torchdynamo_orig_callable", None)
    # functools.wraps copies these attributes to wrappers of the user's own.
    copied = getattr(fn, "_torchdynamo_wrapper_id", id(fn)) != id(fn)
    disabled = getattr(fn, "_torchdynamo_disable", False)
    return fn if inner is None or copied or disabled else inner


DEEPEST = 12


def _culprit(
    call: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dumped: Callable[[Any], bytes],
) -> str:
    """Return the path to the innermost part that fails, and its type: ``model.lock (a lock)``."""
    parts = [(_name(call), call)]
    parts += [(f"argument {number}", value) for number, value in enumerate(args)]
    parts += [(f"argument {name}", value) for name, value in kwargs.items()]
    found = _failing(parts, dumped)
    if found is None:
        return _name(call)
    path, value = found
    for _ in range(DEEPEST):
        inner = _failing(_parts(path, value), dumped)
        if inner is None:
            break
        path, value = inner
    return f"{path} (of type {type(value).__name__})"


def _failing(
    parts: Sequence[tuple[str, Any]] | Iterator[tuple[str, Any]], dumped: Callable[[Any], bytes]
) -> tuple[str, Any] | None:
    for path, value in parts:
        try:
            dumped(value)
        except Exception:
            return path, value
    return None


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, MethodType):
        yield f"{path}'s object", value.__self__
    elif isinstance(value, FunctionType):
        yield from _of_function(path, value)
    elif isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, type):
        yield from ((f"{path}.{name}", item) for name, item in vars(value).items())
    else:
        yield from (
            (f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()
        )


def _of_function(path: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{name} in {path}", cell.cell_contents
        except ValueError:
            continue  # an empty cell
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"{name} in {path}", function.__globals__[name]
    yield from ((f"a default of {path}", value) for value in function.__defaults__ or ())


def _global_names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _global_names(constant)


def _name(call: Any) -> str:
    return getattr(call, "__qualname__", "").rpartition(".")[2] or type(call).__name__


NEEDS_CLOUDPICKLE = (
    "perfcli.inspect needs cloudpickle to send a function to its worker: pip install cloudpickle"
)


@dataclass(frozen=True, slots=True)
class Packed:
    """Base64 of the bytes, and what of it the request has to say."""

    text: str
    devices: frozenset[str]
    """Kinds of devices (``cpu``, ``cuda``) on which the tensors are."""

    @property
    def keeps_cpu(self) -> bool:
        return "cuda" in self.devices and "cpu" in self.devices


def pack(
    call: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    by_value: Iterable[ModuleType] = (),
) -> Packed:
    """Raise PerfcliError where cloudpickle is missing, or naming what can't be sent."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise PerfcliError(NEEDS_CLOUDPICKLE) from None
    packing = _Packing(cloudpickle, Senders(frozenset(module.__name__ for module in by_value)))
    try:
        packed = packing.dumped((call, tuple(args), dict(kwargs)))
    except Exception as error:
        where = _culprit(call, args, kwargs, packing.dumped)
        raise PerfcliError(
            f"{where} can't be sent to the worker: {type(error).__name__}: {error}"
        ) from error
    return Packed(base64.b64encode(packed).decode(), frozenset(packing.devices))


class _Packing:
    """Says what the picklers of one call have in common."""

    def __init__(self, cloudpickle: Any, senders: Senders) -> None:
        self._cloudpickle = cloudpickle
        self.senders = senders
        self.devices: set[str] = set()
        self._open: set[str] = set()

    def dumped(self, value: Any) -> bytes:
        with self.senders.registered(self._cloudpickle) as registry:
            file = io.BytesIO()
            _pickler(self._cloudpickle, self, registry)(file).dump(value)
            return file.getvalue()

    def inside(self, module: ModuleType) -> dict[str, Any]:
        """Return what a module that is sent whole has, without what can't be sent: of a module
        nobody says what is needed."""
        name = module.__name__
        if name in self._open:
            return {}
        self._open.add(name)
        try:
            names = {k: v for k, v in vars(module).items() if not k.startswith("__")}
            return {k: v for k, v in names.items() if self._can_be_sent(v)}
        finally:
            self._open.remove(name)

    def _can_be_sent(self, value: Any) -> bool:
        try:
            self.dumped(value)
        except Exception:
            return False
        return True


class _Namespace:
    """Stands for the globals of functions of one module, which are sent by value."""

    def __init__(self, names: Mapping[str, Any], senders: Senders) -> None:
        kept = ("__name__", "__package__", "__path__", "__file__")
        self.names = {name: names[name] for name in kept if name in names}
        name = self.names.get("__name__")
        self.importable = name in sys.modules and not senders.sent_whole(name)


def _pickler(cloudpickle: Any, packing: _Packing, registry: Registry) -> Any:
    """Return the class of a pickler that sends tensors as what describes them."""
    torch = sys.modules.get("torch")
    senders = packing.senders
    base: Any = cloudpickle.Pickler

    class Pickler(base):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, _Namespace):
                return given.namespace, (value.names, value.importable)
            reduced = _described(torch, value, packing.devices) if torch is not None else None
            reduced = reduced or _triton_kernel(value, senders)
            if reduced is not None:
                return reduced
            if isinstance(value, ModuleType) and senders.sent_whole(value.__name__):
                there = (self._namespace(vars(value)),)
                return given.module, there, packing.inside(value), None, None, given.fill
            if isinstance(value, FunctionType | type):
                if not senders.by_name(value) and (bare := eager(value)) is not value:
                    return given.same, (bare,)
                registry.meet(value.__module__)
            return super().reducer_override(value)

        def _function_getnewargs(self, function: Any) -> Any:
            # The table is cloudpickle's own, by the id of a namespace; it puts a dict there, which
            # would make functions of a module that Dynamo can't import.
            code, _, *rest = super()._function_getnewargs(function)
            return (code, self._namespace(function.__globals__), *rest)

        def _namespace(self, names: dict[str, Any]) -> _Namespace:
            key = ("namespace", id(names))
            if key not in self.globals_ref:
                self.globals_ref[key] = _Namespace(names, senders)
            found: _Namespace = self.globals_ref[key]
            return found

    return Pickler


_OF_TRITON = ("do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline")


def _triton_kernel(value: Any, senders: Senders) -> Any:
    """Return how a ``@triton.jit`` function is sent: by name, or its Python function.

    None for others.
    """
    if type(value).__name__ != "JITFunction" or not hasattr(value, "do_not_specialize"):
        return None
    function = value.fn
    if not senders.sent_whole(function.__module__):
        return given.attribute, (function.__module__, function.__qualname__)
    settings = {name: getattr(value, name) for name in _OF_TRITON if getattr(value, name, None)}
    return given.triton_kernel, (function, settings)
