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
from collections.abc import Callable, Mapping, Sequence, Set
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
_APART = 256
"""Bytes at whose multiples the parts of scratch memory begin."""
_FAST_EMPTY = {
    device: getattr(torch._C._dynamo.guards, f"_empty_strided_{device}", None)
    for device in ("cuda", "cpu")
}
"""What Inductor's code makes tensors with, in half the time; on the current device."""
_STREAM = object()
"""Stands for the current stream among a launcher's arguments."""
_RUNTIME = triton.knobs.runtime
_ENTER, _EXIT = _RUNTIME.launch_enter_hook, _RUNTIME.launch_exit_hook
_WATCHES = {
    "runtime": _RUNTIME,
    "enter": _ENTER,
    "leave": _EXIT,
    "entered": getattr(_ENTER, "calls", ()),
    "left": getattr(_EXIT, "calls", ()),
}
IS_WATCHED = (
    "(runtime.launch_enter_hook is not enter or runtime.launch_exit_hook is not leave "
    "or entered or left)"
)
"""Whether somebody wants to be told of every launch; an expression of what ``define`` knows."""
_LAYOUT = "{0}.shape, {0}.stride(), {0}.dtype, {0}.get_device(), {0}.data_ptr() % " + str(ALIGNMENT)
"""All of a tensor that kernels and copies depend on."""
Record = Callable[..., Any]
Key = tuple[Any, ...]
Records = dict[Key, Record]


class PlanReplay:
    """Calls a function of tensors, and is as fast as it can be from the second call with the same
    layout on.

    Its code is written for the schema: a loop over arguments takes twice as long.
    """

    def __init__(self, function: Callable[..., Any], schema: str) -> None:
        self.parameters = [each.split("=")[0].split() for each in _take_parameters(schema)]
        """The type and the name of each."""
        self.defaults = tuple(
            each.default for each in inspect.signature(function).parameters.values()
        )
        self.given = ", ".join(name for _, name in self.parameters)
        self.direct: Records = {}
        """What repeats a call while no autocast is enabled."""
        self.first: Records | None = None
        """The same for the first of several outputs, if that is wanted: the others are scratch
        memory."""
        self._records: dict[Key, Record | None] = {}
        self._function = _keep_from_autocast(function)
        self._call = self._write_call()

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def write_key(self) -> str:
        """Return the expression of all that a call depends on."""
        listed = f"*[({_LAYOUT.format('t')}) for t in {{0}}]"
        how = {"Tensor": _LAYOUT, "Tensor[]": listed}
        return (
            f"({', '.join(how.get(kind, '{0}').format(name) for kind, name in self.parameters)},)"
        )

    def _write_call(self) -> Callable[..., Any]:
        text = f"""
def call(*arguments):
    {self.given}, = arguments if len(arguments) == {len(self.parameters)} else fill(arguments)
    key = {self.write_key()}
    found = get(key)
    if found is None or {IS_WATCHED}:
        return call_slowly(key, {self.given})
    return found({self.given})
"""
        names = {
            "fill": lambda arguments: (*arguments, *self.defaults[len(arguments) :]),
            "get": self._records.get,
            "call_slowly": self._call_slowly,
        }
        return define("call", text, names)

    def _call_slowly(self, key: Key, *arguments: Any) -> Any:
        if eval(IS_WATCHED, dict(_WATCHES)) or self._records.get(key, self._function) is None:
            return self._function(*arguments)
        recorder = _Recorder()
        own = [recorder.take_argument(each) for each in arguments]
        with recorder, _launching.watch_launches(recorder.note_launch):
            result = self._function(*own)
        if len(self._records) >= _RECORDS:
            for records in (self._records, self.direct, self.first or {}):
                records.clear()
        again = recorder.write_record(result)
        if again is None:
            self._records[key] = None
            return result
        self.direct[key] = again
        alone = None if self.first is None else recorder.write_record(result[0])
        if self.first is not None and alone is not None:
            self.first[key] = alone
        self._records[key] = _keep_from_autocast(again) if recorder.calls else again
        return result


def define(name: str, text: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of that name that a module's text defines, which knows ``names``."""
    module = {**names, **_WATCHES}
    exec(text, module)  # as dataclasses does: a loop over steps takes half as long again
    found: Callable[..., Any] = module[name]
    found.__module__ = __name__
    return found


def _take_parameters(schema: str) -> list[str]:
    return schema.partition("->")[0].strip("() ").split(", ")


class _Recorder(TorchFunctionMode):  # type: ignore[misc]
    """Notes every call of torch that makes or changes a tensor, and every launch.

    A tensor has a number, and is called ``t3`` in the lines, and its address ``p3``: first the
    arguments, then what was made. Views have no numbers: a line that needs one makes it from the
    tensor in whose memory it lies.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: list[Tensor] = []
        self._inputs = 0
        self._parameters: list[str] = []
        self._unpacking: list[str] = []
        """Lines that take tensors out of lists."""
        self._number_of: dict[int, int] = {}
        """By the ``id`` of a tensor or view: the tensor in whose memory it lies."""
        self._alive: list[Tensor] = []
        self._lines: list[str] = []
        self._makes: dict[int, list[int]] = {}
        """The tensors that each line makes."""
        self._empty: set[int] = set()
        """Tensors that are made without values."""
        self._written: set[int] = set()
        """Tensors that calls of torch take, in the shape that they have."""
        self._addressed: set[int] = set()
        """Tensors whose addresses kernels take."""
        self._names: dict[str, Any] = {"empty": torch.empty_strided}
        self.calls = 0
        """Of torch, other than for tensors without values."""
        self._launches = 0
        self._problem = ""

    def take_argument(self, argument: Any) -> Any:
        """Return an argument for the function, a tensor in an object of its own: the same one may
        be given twice today, and two others tomorrow."""
        name = f"a{len(self._parameters)}"
        listed = isinstance(argument, list | tuple)
        tensors = [
            x.detach() for x in (argument if listed else [argument]) if isinstance(x, Tensor)
        ]
        if not tensors:
            self._parameters.append(name)
            return argument
        names = ", ".join(f"t{self._number(each)}" for each in tensors)
        self._inputs += len(tensors)
        self._parameters.append(name if listed else names)
        if listed:
            self._unpacking.append(f"{names}, = {name}")
        return tensors if listed else tensors[0]

    def _add(self, tensor: Tensor) -> str:
        """Give a number to a tensor that the next line makes."""
        number = self._number(tensor)
        self._makes.setdefault(len(self._lines), []).append(number)
        return f"t{number}"

    def _number(self, tensor: Tensor) -> int:
        self._know(tensor, len(self._made))
        self._made.append(tensor)
        return len(self._made) - 1

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
            self._empty.add(len(self._made))
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
        self.calls += 1
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
        self._written.add(self._find(tensor)[0])
        return self._write_view(tensor)

    def _write_view(self, tensor: Tensor) -> str:
        base, beyond = self._find(tensor)
        whole = self._made[base]
        if not beyond and tensor.shape == whole.shape and tensor.stride() == whole.stride():
            return f"t{base}"
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        turned = (size[::-1], stride[::-1]) == (tuple(whole.shape), tuple(whole.stride()))
        if turned and len(size) == 2 and not beyond:
            return f"t{base}.t()"
        offset = f", t{base}.storage_offset() + {beyond // whole.element_size()}" if beyond else ""
        return f"t{base}.as_strided({size}, {stride}{offset})"

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
        head = (*(*grid, 1, 1)[:3], _STREAM, kernel.function, kernel.packed_metadata)
        launcher, arguments = _find_launcher(kernel, [*head, None, None, None, *values])
        written = ", ".join(self._write_argument(each) for each in arguments)
        self._lines.append(f"{self._name(launcher)}({written})")
        self._launches += 1

    def _write_argument(self, value: Any) -> str:
        """Return the expression of a launcher's argument; Triton takes a number for a pointer."""
        if value is _STREAM:
            return "stream"
        if type(value) is tuple:
            return f"({''.join(f'{self._write_argument(each)}, ' for each in value)})"
        if isinstance(value, TensorDescriptor):
            base, beyond = self._find(value.base)
            self._written.add(base)
            if beyond:
                self._give_up("a descriptor begins within a tensor")
            return f"{self._name(partial(_describe, copy.copy(value)))}(t{base})"
        if isinstance(value, Tensor):
            base, beyond = self._find(value)
            self._addressed.add(base)
            return f"p{base} + {beyond}" if beyond else f"p{base}"
        return repr(value) if type(value) in (int, bool, str, type(None)) else self._name(value)

    # --- all of it --------------------------------------------------------------------------------

    def write_record(self, result: Any) -> Record | None:
        """Return what does all of it again, and returns these outputs; nothing where that is not
        possible."""
        if not self._made or self._problem:
            return None
        outputs = result if isinstance(result, tuple) else (result,)
        for each in outputs:
            self._make_as_returned(each)
        returned = ", ".join(map(self._write_view, outputs))
        if self._problem:
            return None
        comma = "," if isinstance(result, tuple) else ""
        kept = self._written | {self._find(each)[0] for each in outputs}
        body = [*self._write_body(kept), f"return {returned}{comma}"]
        text = f"def again({', '.join(self._parameters)}):\n" + "\n".join(
            f"    {line}" for line in body
        )
        return _run_on(self._made[0].device, define("again", text, self._names))

    def _make_as_returned(self, output: Tensor) -> None:
        """Let an empty tensor have the shape in which it is returned, if that is all of it."""
        base, beyond = self._find(output)
        whole = self._made[base]
        same = (output.numel(), output.dtype) == (whole.numel(), whole.dtype) and not beyond
        dense = output.is_contiguous() and whole.is_contiguous()
        if same and dense and base in self._empty and base not in self._written:
            self._made[base] = output

    def _write_body(self, kept: Set[int]) -> list[str]:
        """Return all lines; empty tensors that only kernels see are parts of one."""
        scratch = sorted((self._empty & self._addressed) - kept)
        inputs = (each for each in range(self._inputs) if each in self._addressed)
        body = [*self._unpacking, *map(_write_address, inputs)]
        body += self._write_scratch(scratch)
        if self._launches:
            driver, index = triton.runtime.driver.active, self._made[0].get_device()
            body.append(f"stream = {self._name(driver.get_current_stream)}({index})")
        for number, line in enumerate(self._lines):
            makes = self._makes.get(number, [])
            if self._empty.isdisjoint(makes):
                body.append(line)
            elif not kept.isdisjoint(makes):
                body.append(f"t{makes[0]} = {self._write_empty(self._made[makes[0]])}")
            body += [_write_address(n) for n in makes if n in self._addressed and n not in scratch]
        return body

    def _write_scratch(self, numbers: Sequence[int]) -> list[str]:
        if not numbers:
            return []
        places, end = ["begin = scratch.data_ptr()"], 0
        for each in numbers:
            places.append(f"p{each} = begin + {end}")
            end += -(-self._made[each].untyped_storage().nbytes() // _APART) * _APART
        room = torch.empty(end, dtype=torch.uint8, device=self._made[numbers[0]].device)
        return [f"scratch = {self._write_empty(room)}", *places]

    def _write_empty(self, made: Tensor) -> str:
        """Return the fastest way to make it; it lies on the device of the arguments, which is
        current."""
        size, stride, dtype = tuple(made.shape), tuple(made.stride()), self._name(made.dtype)
        fast = _FAST_EMPTY.get(made.device.type) if made.device == self._made[0].device else None
        if fast is not None:
            return f"{self._name(fast)}({size}, {stride}, {dtype})"
        return f"empty({size}, {stride}, dtype={dtype}, device={self._name(made.device)})"


def _write_address(number: int) -> str:
    return f"p{number} = t{number}.data_ptr()"


def _find_launcher(kernel: Any, arguments: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Return what launches a compiled kernel, and what it takes: the C function below Triton's
    launcher, which only makes scratch memory, if the kernel has none."""
    launcher = kernel.run
    scratch = (getattr(launcher, f"{kind}_scratch_size", 1) for kind in ("global", "profile"))
    if any(scratch) or not hasattr(launcher, "launch"):
        return launcher, arguments
    taken: list[Any] = []
    probe = copy.copy(launcher)
    probe.launch = lambda *given: taken.extend(given)
    probe(*arguments)
    return launcher.launch, taken


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
