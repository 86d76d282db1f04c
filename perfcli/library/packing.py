"""A function or module with its arguments as bytes for a worker: code and structure, no values of
tensors.

What can be imported by name is sent as that name and imported by the worker; what can't (lambdas,
closures, functions of ``__main__``, of test modules, of notebooks) is sent whole. torch is used
where the caller has imported it, never imported from here.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from perfcli.compile import given
from perfcli.errors import PerfcliError
from perfcli.library.unsendable import culprit

NEEDS_CLOUDPICKLE = (
    "perfcli.inspect needs cloudpickle to send a function to its worker: "
    "pip install 'perfcli[pytest]'"
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
    """Raises PerfcliError where cloudpickle is missing, or naming what can't be sent."""
    try:
        import cloudpickle
    except ImportError:
        raise PerfcliError(NEEDS_CLOUDPICKLE) from None
    names = frozenset(module.__name__ for module in by_value)
    devices: set[str] = set()

    def dumped(value: Any) -> bytes:
        with _by_value(cloudpickle, names) as whole:
            file = io.BytesIO()
            _pickler(cloudpickle, whole, devices)(file).dump(value)
            return file.getvalue()

    try:
        packed = dumped((call, tuple(args), dict(kwargs)))
    except Exception as error:
        where = culprit(call, args, kwargs, dumped)
        raise PerfcliError(
            f"{where} can't be sent to the worker: {type(error).__name__}: {error}"
        ) from error
    return Packed(base64.b64encode(packed).decode(), frozenset(devices))


class _Names:
    """Stands for the namespace of a module whose functions are sent by value."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        kept = ("__name__", "__package__", "__path__", "__file__")
        self.names = {name: names[name] for name in kept if name in names}


def _pickler(cloudpickle: Any, whole: Callable[[str], None], devices: set[str]) -> Any:
    """The class of a pickler that sends tensors as what describes them."""
    torch = sys.modules.get("torch")
    base: Any = cloudpickle.Pickler

    class Pickler(base):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, _Names):
                return given.global_names, (value.names,)
            if isinstance(value, FunctionType | type):
                whole(value.__module__)
                return super().reducer_override(value)
            if torch is not None and (reduced := _torchs(torch, value, devices)) is not None:
                return reduced
            if type(value).__name__ == "JITFunction" and hasattr(value, "do_not_specialize"):
                return _triton_kernel(value)
            return super().reducer_override(value)

        def _function_getnewargs(self, function: Any) -> Any:
            code, _, *rest = super()._function_getnewargs(function)
            key = -id(function.__globals__)
            if key not in self.globals_ref:
                self.globals_ref[key] = _Names(function.__globals__)
            return (code, self.globals_ref[key], *rest)

    return Pickler


def _torchs(torch: Any, value: Any, devices: set[str]) -> Any:
    """How a tensor, a device or an operator is sent; None for what is none of them."""
    if isinstance(value, torch.Tensor):
        return given.tensor, _described(torch, value, devices)
    if isinstance(value, torch.device):
        return given.device, (value.type,)
    if isinstance(value, torch._ops.OpOverload):
        return given.operator, (value._schema.name, value._overloadname)
    if isinstance(value, torch._ops.OpOverloadPacket):
        return given.operator, (value._qualified_op_name, None)
    return None


def _described(torch: Any, value: Any, devices: set[str]) -> tuple[Any, ...]:
    """The arguments of ``given.tensor``. Raises TypeError for what they can't describe."""
    kind = type(value)
    plain = kind in (torch.Tensor, torch.nn.Parameter) or kind.__name__ == "FakeTensor"
    if not plain:
        raise TypeError(
            f"a {kind.__name__} is a subclass of torch.Tensor; plain tensors and parameters are "
            "described by shape, stride and dtype"
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


_OF_TRITON = ("do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline")


def _triton_kernel(value: Any) -> Any:
    function = value.fn
    module = sys.modules.get(function.__module__)
    if module is not None and _importable(function.__module__, module):
        return given.attribute, (function.__module__, function.__qualname__)
    settings = {name: getattr(value, name) for name in _OF_TRITON if getattr(value, name, None)}
    return given.triton_kernel, (function, settings)


# --- by name or by value -------------------------------------------------------------------------


@contextlib.contextmanager
def _by_value(cloudpickle: Any, asked: frozenset[str]) -> Iterator[Callable[[str], None]]:
    """A function to be told the name of each module that something comes from: it makes
    cloudpickle send by value what comes from one that was asked for, or that nobody can import."""
    known = set(cloudpickle.list_registry_pickle_by_value())
    seen: set[str] = set()
    registered: list[ModuleType] = []

    def told(name: str) -> None:
        module = sys.modules.get(name or "")
        if module is None or name in seen or name in known:
            return
        seen.add(name)
        if name in asked or not _importable(name, module):
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)

    try:
        yield told
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _importable(name: str, module: ModuleType) -> bool:
    """Whether the worker finds the same file under this name. Installed packages are taken for
    granted: it runs the same interpreter."""
    file = getattr(module, "__file__", None)
    if name == "__main__":
        return False
    if not file or _is_installed(file):
        return True
    package, _, _ = name.rpartition(".")
    folders = getattr(sys.modules.get(package), "__path__", None) if package else None
    try:
        if package and folders is None:
            return False
        spec = importlib.machinery.PathFinder.find_spec(name, folders)
        spec = spec or importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return False
    if spec is None or not spec.origin or Path(spec.origin).resolve() != Path(file).resolve():
        return False
    return not package or _importable(package, sys.modules[package])


def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    roots = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    ours = Path(given.__file__).parents[1]
    return any(path.is_relative_to(root.resolve()) for root in (*roots, ours))
