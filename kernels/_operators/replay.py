"""Notes what an operator does with tensors of one layout at the first call, and does the same at
every later one.

What an operator's function makes of its arguments depends on their shapes, strides, dtypes, devices
and alignment, and on its numbers, never on the values in its tensors. So the first call runs the
function and notes the tensors that it makes, the kernels that it launches, and the few copies and
fills between them, as lines of Python. Later calls run these lines: they make the same tensors and
hand their addresses to Triton's compiled kernels. Nothing is planned, checked or bound again.

Some calls cannot be noted and run the function each time: in Triton's interpreter, while hooks
watch launches (profilers), and on devices that are not NVIDIA's.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor
from torch.overrides import TorchFunctionMode
from triton.tools.tensor_descriptor import TensorDescriptor

from .. import _launching

ALIGNMENT = 16
"""The alignment of pointers that kernels are compiled for, in bytes."""
_RECORDS = 4096
"""Kept for each operator; a model with dynamic shapes makes one for each shape."""
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_READING = ("__index__", "__int__", "__invert__", "__iter__", "__init__")
_RUNTIME = triton.knobs.runtime
_ENTER, _EXIT = _RUNTIME.launch_enter_hook, _RUNTIME.launch_exit_hook
_ENTERED: Sequence[Any] = getattr(_ENTER, "calls", ())
_EXITED: Sequence[Any] = getattr(_EXIT, "calls", ())


def make_replay(function: Callable[..., Any], schema: str) -> Callable[..., Any]:
    """Return a function that calls another one, and is as fast as it can be from the second call
    with the same layout on.

    It is written for the schema: a loop over arguments takes twice as long.
    """
    parameters = [each.split("=")[0].split() for each in _take_parameters(schema)]
    defaults = tuple(each.default for each in inspect.signature(function).parameters.values())
    function = _keep_from_autocast(function)
    records: dict[tuple[Any, ...], Callable[..., Any] | None] = {}

    def call_slowly(key: tuple[Any, ...], *arguments: Any) -> Any:
        if _is_watched() or records.get(key, function) is None:
            return function(*arguments)
        recorder = _Recorder()
        own = [recorder.take_argument(each) for each in arguments]
        with recorder, _launching.watch_launches(recorder.note_launch):
            result = function(*own)
        if len(records) >= _RECORDS:
            records.clear()
        records[key] = recorder.finish(result)
        return result

    layouts, tensors = [], []
    for kind, name in parameters:
        one = _LAYOUT.format(name)
        listed = {"Tensor": one, "Tensor[]": f"*[({_LAYOUT.format('t')}) for t in {name}]"}
        layouts.append(listed.get(kind, name))
        if kind in listed:
            tensors.append(name if kind == "Tensor" else f"*{name}")
    given = ", ".join(name for _, name in parameters)
    text = f"""
def call(*arguments):
    {given}, = arguments if len(arguments) == {len(parameters)} else fill(arguments)
    key = ({", ".join(layouts)},)
    found = get(key)
    if found is None or is_watched():
        return call_slowly(key, {given})
    return found({", ".join(tensors)})
"""
    names: dict[str, Any] = {
        "fill": lambda arguments: (*arguments, *defaults[len(arguments) :]),
        "get": records.get,
        "is_watched": _is_watched,
        "call_slowly": call_slowly,
    }
    exec(text, names)
    call: Callable[..., Any] = names["call"]
    return call


_LAYOUT = "{0}.shape, {0}.stride(), {0}.dtype, {0}.get_device(), {0}.data_ptr() % " + str(ALIGNMENT)
"""All of a tensor that kernels and copies depend on."""


def _take_parameters(schema: str) -> list[str]:
    return schema.partition("->")[0].strip("() ").split(", ")


def _is_watched() -> bool:
    """Return whether somebody wants to be told of every launch."""
    if _RUNTIME.launch_enter_hook is _ENTER and _RUNTIME.launch_exit_hook is _EXIT:
        return bool(_ENTERED or _EXITED)
    return True


class _Recorder(TorchFunctionMode):  # type: ignore[misc]
    """Notes every call of torch that makes or changes a tensor, and every launch.

    A tensor has a number, and is called ``t3`` in the lines: first the arguments, then what was
    made. Views have no numbers: a line that needs one makes it from the tensor in whose memory it
    lies.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: list[Tensor] = []
        self._inputs = 0
        self._number_of: dict[int, int] = {}
        """By the ``id`` of a tensor or view: the tensor in whose memory it lies."""
        self._alive: list[Tensor] = []
        self._lines: list[str] = []
        self._empty: dict[int, int] = {}
        """The line of each tensor that is made without values."""
        self._written: set[int] = set()
        """What calls of torch take, in the shape that it has."""
        self._names: dict[str, Any] = {"empty_like": torch.empty_like, "empty": torch.empty_strided}
        self._calls = 0
        self._problem = ""

    def take_argument(self, argument: Any) -> Any:
        """Return an argument for the function, a tensor in an object of its own: the same one may
        be given twice today, and two others tomorrow."""
        if isinstance(argument, list | tuple):
            return [self.take_argument(each) for each in argument]
        if isinstance(argument, Tensor):
            argument = argument.detach()
            self._add(argument)
            self._inputs += 1
        return argument

    def _add(self, tensor: Tensor) -> str:
        self._know(tensor, len(self._made))
        self._made.append(tensor)
        return f"t{len(self._made) - 1}"

    def _know(self, tensor: Tensor, number: int) -> None:
        self._number_of[id(tensor)] = number
        self._alive.append(tensor)

    def _name(self, value: Any) -> str:
        """Return a name by which the lines know a value."""
        name = f"v{len(self._names)}"
        self._names[name] = value
        return name

    def _give_up(self, reason: str) -> None:
        self._problem = self._problem or reason

    # --- what torch does --------------------------------------------------------------------------

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        results = result if isinstance(result, tuple | list) else (result,)
        new = [r for r in results if isinstance(r, Tensor) and id(r) not in self._number_of]
        if _changes_argument(name) or "out" in kwargs or kwargs.get("inplace"):
            self._lines.append(self._write_call(func, args, kwargs))
        elif new and name in _EMPTY:
            self._empty[len(self._made)] = len(self._lines)
            self._add(result)
            self._lines.append("")
        elif new:
            self._note_results(func, args, kwargs, new, isinstance(result, Tensor))
        return result

    def _note_results(
        self, func: Any, args: Any, kwargs: Any, new: Sequence[Tensor], one: bool
    ) -> None:
        """Remember views; else write the call down."""
        bases = [self._find_base(args, each) for each in new]
        for each, base in zip(new, bases, strict=True):
            if base is not None:
                self._know(each, base)
        if None not in bases:
            return
        call = self._write_call(func, args, kwargs)
        made = [self._add(each) for each, base in zip(new, bases, strict=True) if base is None]
        if not one and len(made) < len(new):
            self._give_up("a call returns new tensors and views")
        self._lines.append(f"{made[0] if one else ', '.join(made) + ','} = {call}")

    def _find_base(self, args: Sequence[Any], view: Tensor) -> int | None:
        """Return the number of the argument in whose memory the result lies. What sees memory as
        another dtype has none, and a number of its own."""
        memory = view.untyped_storage().data_ptr()
        if memory:
            for each in args:
                number = self._number_of.get(id(each)) if isinstance(each, Tensor) else None
                same = number is not None and each.untyped_storage().data_ptr() == memory
                if same and each.dtype == view.dtype:
                    return number
        return None

    def _write_call(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        self._calls += 1
        given = [self._write(each) for each in args]
        given += [f"{name}={self._write(each)}" for name, each in kwargs.items()]
        return f"{self._name(func)}({', '.join(given)})"

    def _write(self, value: Any) -> str:
        """Return the expression of an argument: its tensors are those of the day."""
        if isinstance(value, Tensor):
            return self._write_tensor(value)
        if isinstance(value, list) or type(value) is tuple:
            inside = "".join(f"{self._write(each)}, " for each in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        return self._name(value)

    def _write_tensor(self, tensor: Tensor) -> str:
        base, beyond = self._find(tensor)
        self._written.add(base)
        whole = self._made[base]
        if not beyond and tensor.shape == whole.shape and tensor.stride() == whole.stride():
            return f"t{base}"
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        offset = f"t{base}.storage_offset() + {beyond // whole.element_size()}"
        return f"t{base}.as_strided({size}, {stride}, {offset})"

    def _find(self, tensor: Tensor) -> tuple[int, int]:
        """Return in which tensor's memory it lies, and how many bytes after its beginning."""
        number = self._number_of.get(id(tensor))
        if number is None:
            self._give_up("a tensor comes from elsewhere")
            return 0, 0
        beyond = tensor.data_ptr() - self._made[number].data_ptr() if tensor.numel() else 0
        return number, beyond

    # --- what Triton does -------------------------------------------------------------------------

    def note_launch(self, kernel: Any, grid: Sequence[int], values: Sequence[Any]) -> None:
        """Note a launch of a compiled kernel with all its arguments in order.

        ``CompiledKernel.run`` is what Triton 3.6 and 3.7 call. It gets no hooks: nobody watches.
        """
        target = getattr(getattr(kernel, "metadata", None), "target", None)
        if getattr(target, "backend", "") != "cuda":
            self._give_up("a kernel is not compiled, or not for NVIDIA")
            return
        driver, index = triton.runtime.driver.active, self._made[0].get_device()
        stream = self._name(partial(driver.get_current_stream, index))
        run = self._name(partial(kernel.run, *(*grid, 1, 1)[:3]))
        function, metadata = self._name(kernel.function), self._name(kernel.packed_metadata)
        arguments = ", ".join(self._write_argument(each) for each in values)
        self._lines.append(
            f"{run}({stream}(), {function}, {metadata}, None, None, None, {arguments})"
        )

    def _write_argument(self, value: Any) -> str:
        """Return the expression of a kernel's argument; Triton takes a number for a pointer."""
        if isinstance(value, TensorDescriptor):
            base, beyond = self._find(value.base)
            if beyond:
                self._give_up("a descriptor begins within a tensor")
            return f"{self._name(partial(_describe, copy.copy(value)))}(t{base})"
        if isinstance(value, Tensor):
            base, beyond = self._find(value)
            return f"t{base}.data_ptr() + {beyond}" if beyond else f"t{base}.data_ptr()"
        return repr(value) if type(value) in (int, bool, str, type(None)) else self._name(value)

    # --- all of it --------------------------------------------------------------------------------

    def finish(self, result: Any) -> Callable[..., Any] | None:
        """Return what does all of it again; nothing where that is not possible."""
        if not self._made:
            return None
        outputs = result if isinstance(result, tuple) else (result,)
        for each in outputs:
            self._make_as_returned(each)
        returned = ", ".join(self._write_tensor(each) for each in outputs)
        for number, line in self._empty.items():
            self._lines[line] = f"t{number} = {self._write_empty(self._made[number], number)}"
        if self._problem:
            return None
        given = ", ".join(f"t{number}" for number in range(self._inputs))
        comma = "," if isinstance(result, tuple) else ""
        body = [*self._lines, f"return {returned}{comma}"]
        text = f"def again({given}):\n" + "\n".join(f"    {line}" for line in body)
        exec(text, self._names)  # as dataclasses does: a loop over steps takes half as long again
        again: Callable[..., Any] = self._names["again"]
        if self._calls:
            again = _keep_from_autocast(again)
        return _run_on(self._made[0].device, again)

    def _make_as_returned(self, output: Tensor) -> None:
        """Let an empty tensor have the shape in which it is returned, if that is all of it."""
        base, beyond = self._find(output)
        whole = self._made[base]
        same = (output.numel(), output.dtype) == (whole.numel(), whole.dtype) and not beyond
        dense = output.is_contiguous() and whole.is_contiguous()
        if same and dense and base in self._empty and base not in self._written:
            self._made[base] = output

    def _write_empty(self, made: Tensor, before: int) -> str:
        """Return the fastest way to make it: like one that is there before."""
        for number, each in enumerate(self._made[:before]):
            same = made.shape == each.shape and made.stride() == each.stride()
            if same and made.dtype == each.dtype and each.is_contiguous():
                return f"empty_like(t{number})"
        dtype, device = self._name(made.dtype), self._name(made.device)
        size, stride = tuple(made.shape), tuple(made.stride())
        return f"empty({size}, {stride}, dtype={dtype}, device={device})"


def _changes_argument(name: str) -> bool:
    """Return whether a method of this name changes a tensor: ``copy_``, ``__setitem__``,
    ``__iadd__``."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in _READING)
    return name.endswith("_")


def _describe(descriptor: TensorDescriptor, base: Tensor) -> TensorDescriptor:
    """Return the descriptor with another tensor of the same layout."""
    made = copy.copy(descriptor)
    made.base = base
    return made


def _keep_from_autocast(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same for which autocast is off: what it casts, torch cast before the call."""

    def plain(*arguments: Any) -> Any:
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                with torch.autocast(device, enabled=False):
                    return run(*arguments)
        return run(*arguments)

    return plain


def _run_on(device: torch.device, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same with the device current: Triton launches on the current one."""
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return run

    def guarded(*tensors: Tensor) -> Any:
        if torch.cuda.current_device() == device.index:
            return run(*tensors)
        with torch.cuda.device(device):
            return run(*tensors)

    return guarded
