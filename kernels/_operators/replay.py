"""Notes what an operator does with tensors of one layout at the first call, and does the same at
every later one.

What an operator's function makes of its arguments depends on their shapes, strides, dtypes, devices
and alignment, and on its numbers, never on the values in its tensors. So the first call runs the
function and notes the tensors that it makes, the kernels that it launches, and the few copies and
fills between them. Later calls make the same tensors and hand their addresses to Triton's compiled
kernels: nothing is planned, checked or bound again, which takes more than 100 µs.

Some calls cannot be noted and run the function each time: in Triton's interpreter, while hooks
watch launches (profilers), on devices that are not NVIDIA's, and where a call of torch makes
several tensors at once.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
_FILLED = ("zeros", "zeros_like", "new_zeros", "full", "new_full", "ones", "clone")
_UNKNOWN = object()
"""Stands for a layout that no call had."""
_RUNTIME = triton.knobs.runtime
_ENTER, _EXIT = _RUNTIME.launch_enter_hook, _RUNTIME.launch_exit_hook
_Slots = list[Tensor]
"""The arguments' tensors, then those that were made, in order."""
_Step = Callable[[_Slots], None]


class Replay:
    """Calls a function of tensors and numbers, and is as fast as it can be from the second call
    with the same layout on."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._records: dict[tuple[Any, ...], Callable[[_Slots], Any] | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        key: list[Any] = []
        tensors: _Slots = []
        for each in arguments:
            if isinstance(each, Tensor):
                tensors.append(each)
                key += _layout(each)
            elif isinstance(each, list | tuple):
                tensors += each
                for one in each:
                    key += _layout(one)
            else:
                key.append(each)
        found: Any = self._records.get(tuple(key), _UNKNOWN)
        if found is _UNKNOWN:
            return self._record(tuple(key), arguments)
        if found is None or _is_watched():
            return self._function(*arguments)
        return found(tensors)

    def _record(self, key: tuple[Any, ...], arguments: Sequence[Any]) -> Any:
        if _is_watched():
            return self._function(*arguments)
        recorder = _Recorder()
        own = [recorder.take_argument(each) for each in arguments]
        with recorder, _launching.watch_launches(recorder.note_launch):
            result = self._function(*own)
        if len(self._records) >= _RECORDS:
            self._records.clear()
        self._records[key] = recorder.finish(result)
        return result


def _layout(x: Tensor) -> tuple[Any, ...]:
    """Return all of a tensor that kernels and copies depend on."""
    return x.shape, x.stride(), x.dtype, x.get_device(), x.data_ptr() % ALIGNMENT


def _is_watched() -> bool:
    """Return whether somebody wants to be told of every launch."""
    enter, leave = _RUNTIME.launch_enter_hook, _RUNTIME.launch_exit_hook
    if enter is _ENTER and leave is _EXIT:
        return bool(getattr(enter, "calls", enter) or getattr(leave, "calls", leave))
    return True


class _Place(NamedTuple):
    """Says where a tensor lies: in which slot's memory, and how many bytes after its beginning."""

    slot: int
    beyond: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def take(self, slots: _Slots) -> Tensor:
        base = slots[self.slot]
        if not self.beyond and base.shape == self.size and base.stride() == self.stride:
            return base
        offset = base.storage_offset() + self.beyond // base.element_size()
        return base.as_strided(self.size, self.stride, offset)


class _Allocation:
    """Makes a tensor without values."""

    def __init__(self, made: Tensor) -> None:
        self.size, self.stride = tuple(made.shape), tuple(made.stride())
        self.dtype, self.device = made.dtype, made.device
        self.count = made.numel()
        self.dense = made.is_contiguous()

    def take_shape(self, place: _Place, output: Tensor) -> None:
        """Make it as an output has it, if the output is all of it."""
        all_of_it = not place.beyond and output.numel() == self.count
        if all_of_it and self.dense and output.is_contiguous() and output.dtype == self.dtype:
            self.size, self.stride = place.size, place.stride

    def step(self, inputs: Sequence[Tensor]) -> _Step:
        for number, each in enumerate(inputs):
            if (tuple(each.shape), each.stride(), each.dtype) == (
                self.size,
                self.stride,
                self.dtype,
            ) and each.is_contiguous():
                return _make_like(number)
        size, stride, dtype, device = self.size, self.stride, self.dtype, self.device
        empty = torch.empty_strided
        return lambda slots: slots.append(empty(size, stride, dtype=dtype, device=device))


def _make_like(number: int) -> _Step:
    """Return the fastest way to make a tensor."""
    empty_like = torch.empty_like
    return lambda slots: slots.append(empty_like(slots[number]))


class _Recorder(TorchFunctionMode):  # type: ignore[misc]
    """Notes every call of torch that makes or changes a tensor, and every launch."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: _Slots = []
        self._slot_of: dict[int, int] = {}
        """By a tensor's ``id``: in which slot's memory it lies."""
        self._alive: list[Tensor] = []
        self._steps: list[_Allocation | _Step] = []
        self._allocations: dict[int, _Allocation] = {}
        """By the slot that they fill."""
        self._inputs = 0
        self._problem = ""

    def take_argument(self, argument: Any) -> Any:
        """Return an argument for the function, a tensor in an object of its own: the same one may
        be given twice today, and two others tomorrow."""
        if isinstance(argument, list | tuple):
            return [self.take_argument(each) for each in argument]
        if isinstance(argument, Tensor):
            argument = argument.detach()
            self._add_slot(argument)
            self._inputs += 1
        return argument

    def _add_slot(self, tensor: Tensor) -> None:
        self._know(tensor, len(self._slots))
        self._slots.append(tensor)

    def _know(self, tensor: Tensor, slot: int) -> None:
        self._slot_of[id(tensor)] = slot
        self._alive.append(tensor)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if (name.endswith("_") and not name.startswith("__")) or name == "__setitem__":
            self._note_call(func, args, kwargs)
        elif "out" in kwargs:
            self._problem = self._problem or f"{name} has a parameter out"
        elif isinstance(result, Tensor):
            self._note_result(func, name, args, kwargs, result)
        elif isinstance(result, tuple | list):
            self._note_views(name, args, result)
        return result

    def _note_result(self, func: Any, name: str, args: Any, kwargs: Any, made: Tensor) -> None:
        if name in _EMPTY:
            self._allocations[len(self._slots)] = allocation = _Allocation(made)
            self._steps.append(allocation)
            self._add_slot(made)
        elif id(made) in self._slot_of:
            return
        elif name not in _FILLED and (slot := self._base_of(args, made)) is not None:
            self._know(made, slot)
        else:
            self._note_call(func, args, kwargs, makes=True)
            self._add_slot(made)

    def _note_views(self, name: str, args: Any, results: Sequence[Any]) -> None:
        for each in results:
            if not isinstance(each, Tensor) or id(each) in self._slot_of:
                continue
            slot = self._base_of(args, each)
            if slot is None:
                self._problem = self._problem or f"{name} makes several tensors"
            else:
                self._know(each, slot)

    def _base_of(self, args: Sequence[Any], view: Tensor) -> int | None:
        """Return the slot of the argument in whose memory the result lies."""
        memory = view.untyped_storage().data_ptr()
        if memory:
            for each in args:
                slot = self._slot_of.get(id(each)) if isinstance(each, Tensor) else None
                if slot is not None and each.untyped_storage().data_ptr() == memory:
                    return slot
        return None

    def _note_call(self, func: Any, args: Any, kwargs: Any, makes: bool = False) -> None:
        """Note a call that is to be made again, with the tensors of that day."""
        given = [self._pack(each) for each in args]
        named = {name: self._pack(each) for name, each in kwargs.items()}

        def again(slots: _Slots) -> None:
            result = func(
                *[_unpack(each, slots) for each in given],
                **{name: _unpack(each, slots) for name, each in named.items()},
            )
            if makes:
                slots.append(result)

        self._steps.append(again)

    def _pack(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            place = self._place(value)
            if self._slots[place.slot].dtype != value.dtype:
                self._problem = self._problem or "memory is seen as another dtype"
            return place
        if isinstance(value, list) or type(value) is tuple:
            return type(value)(self._pack(each) for each in value)
        return value

    def _place(self, tensor: Tensor) -> _Place:
        slot = self._slot_of.get(id(tensor))
        if slot is None:
            self._problem = self._problem or "a tensor comes from elsewhere"
            slot = 0
        beyond = tensor.data_ptr() - self._slots[slot].data_ptr() if tensor.numel() else 0
        return _Place(slot, beyond, tuple(tensor.shape), tuple(tensor.stride()))

    def note_launch(self, kernel: Any, grid: Sequence[int], values: Sequence[Any]) -> None:
        """Note a launch of a compiled kernel with all its arguments in order."""
        target = getattr(getattr(kernel, "metadata", None), "target", None)
        if getattr(target, "backend", "") != "cuda":
            self._problem = self._problem or "a kernel is not compiled, or not for NVIDIA"
            return
        template = list(values)
        pointers: list[tuple[int, int, int]] = []
        descriptors: list[tuple[int, int, Any]] = []
        for position, value in enumerate(values):
            if isinstance(value, Tensor):
                place = self._place(value)
                template[position] = 0
                pointers.append((position, place.slot, place.beyond))
            elif isinstance(value, TensorDescriptor):
                place = self._place(value.base)
                if place.beyond:
                    self._problem = self._problem or "a descriptor begins within a tensor"
                template[position] = bare = copy.copy(value)
                bare.base = None
                descriptors.append((position, place.slot, bare))
        # CompiledKernel.run of Triton 3.6 and 3.7; no hooks: nobody watches.
        x, y, z = (*grid, 1, 1)[:3]
        index = self._slots[0].get_device()
        launch = functools.partial(kernel.run, x, y, z)
        rest = (kernel.function, kernel.packed_metadata, None, None, None)
        self._steps.append(_launch_again(launch, index, rest, template, pointers, descriptors))

    def finish(self, result: Any) -> Callable[[_Slots], Any] | None:
        """Return what does all of it again; nothing where that is not possible."""
        outputs = result if isinstance(result, tuple) else (result,)
        places = [self._place(each) for each in outputs]
        if self._problem or not self._slots:
            return None
        for place, output in zip(places, outputs, strict=True):
            if place.slot in self._allocations:
                self._allocations[place.slot].take_shape(place, output)
        inputs = self._slots[: self._inputs]
        steps = [
            each.step(inputs) if isinstance(each, _Allocation) else each for each in self._steps
        ]
        again = _run_again(steps, places, isinstance(result, tuple))
        return _on_device(again, inputs[0].device)


def _unpack(value: Any, slots: _Slots) -> Any:
    if isinstance(value, _Place):
        return value.take(slots)
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(_unpack(each, slots) for each in value)
    return value


def _launch_again(
    run: Callable[..., None],
    index: int,
    rest: tuple[Any, ...],
    template: list[Any],
    pointers: Sequence[tuple[int, int, int]],
    descriptors: Sequence[tuple[int, int, Any]],
) -> _Step:
    """Return the launch of a compiled kernel on the stream that is current then."""
    stream_of = triton.runtime.driver.active.get_current_stream

    def launch(slots: _Slots) -> None:
        arguments = template.copy()
        for position, slot, beyond in pointers:
            arguments[position] = slots[slot].data_ptr() + beyond
        for position, slot, bare in descriptors:
            arguments[position] = whole = copy.copy(bare)
            whole.base = slots[slot]
        run(stream_of(index), *rest, *arguments)

    return launch


def _run_again(
    steps: Sequence[_Step], places: Sequence[_Place], several: bool
) -> Callable[[_Slots], Any]:
    def run(slots: _Slots) -> Any:
        for step in steps:
            step(slots)
        if several:
            return tuple(place.take(slots) for place in places)
        return places[0].take(slots)

    return run


def _on_device(run: Callable[[_Slots], Any], device: torch.device) -> Callable[[_Slots], Any]:
    """Return the same with the device current: Triton launches on the current one."""
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return run

    def guarded(slots: _Slots) -> Any:
        if torch.cuda.current_device() == device.index:
            return run(slots)
        with torch.cuda.device(device):
            return run(slots)

    return guarded
