"""Lets ``DistributedDataParallel`` run without its other ranks: its own Python runs as it is, and
its C++, which reads the memory of tensors, is stood in for.

``Reducer`` in torch adds up gradients in buckets (``reducer.cpp``): a bucket is sent as soon as all
of its gradients are there, in the order of the buckets, and the backward pass ends when all have
come back. After the first step the buckets are made anew, of the parameters in the order in which
their gradients came; these are the ones that count here. Dynamo splits graphs where DDP's buckets
end by itself. Seen with torch 2.11 to 2.13.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from perfcli.compile.capture.operator_calls import count_ranks
from perfcli.compile.ranks.eager import EagerCollectives, describe
from perfcli.compile.stand_in.device import replace_attribute
from perfcli.errors import UserCodeFailed
from perfcli.model import Buffer

_ALL_REDUCE = "c10d.allreduce_"
_BROADCAST = "c10d.broadcast_"
_HOOKS = {"allreduce_hook": 0, "fp16_compress_hook": 2, "bf16_compress_hook": 2}
"""Communication hooks to the bytes of an element that they send; 0: what the gradient has."""


def install(collectives: EagerCollectives, builds: bool) -> None:
    """Stand in for the C++ of ``DistributedDataParallel``, and tell ``collectives`` what it would
    send. ``builds``: of a function that builds a model, which may run on the CPU."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import distributed

    _split_without_modes(distributed.DistributedDataParallel)
    wrapper = distributed.DistributedDataParallel
    begin = wrapper._ddp_init_helper

    def begin_with_owner(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.reducer.owner = self

    def send_buffers(self: Any, tensors: Any, size: int, *_: Any) -> None:
        for bucket in _split(tensors, [size]):
            sent = [describe(tensors[number]) for number in bucket]
            ranks = count_ranks(self.process_group)
            result = collectives.add(_BROADCAST, [_join(sent)], [_join(sent)], ranks, _name(self))
            collectives.wait((result,))

    def add_hook(reducer: Any, _state: Any, hook: Any) -> None:
        reducer.set_hook(getattr(hook, "__name__", str(hook)))

    if builds:
        _build_anywhere(wrapper)
    replace_attribute(wrapper, "_ddp_init_helper", begin_with_owner)
    # In torch this and the methods below are C++: Dynamo looks neither into them nor into what they
    # call.
    hidden = torch._disable_dynamo(send_buffers)
    replace_attribute(wrapper, "_distributed_broadcast_coalesced", hidden)
    replace_attribute(distributed, "_verify_param_shape_across_processes", lambda *_, **__: None)
    replace_attribute(distributed, "_sync_module_states", lambda *_, **__: None)
    for kind in (_Reducer, _Logger):
        for name, value in list(vars(kind).items()):
            if callable(value) and not name.startswith("__"):
                setattr(kind, name, _bind_as_extensions_do(torch._disable_dynamo(value)))
    replace_attribute(dist, "Reducer", lambda *args: _Reducer(collectives, *args))
    replace_attribute(dist, "Logger", lambda *_: _Logger())
    replace_attribute(dist, "_register_comm_hook", add_hook)
    replace_attribute(
        dist, "_register_builtin_comm_hook", lambda reducer, kind: reducer.set_hook(str(kind))
    )


def _split_without_modes(wrapper: Any) -> None:
    """Let Dynamo compile the forward pass of DDP without the mode that makes tensors fake, as it
    compiles all else: the way that splits graphs does not leave it by itself."""
    from torch._dynamo import convert_frame
    from torch.utils._python_dispatch import _disable_current_modes

    compile_frame = convert_frame.CatchErrorsWrapper.__call__

    def compile_without(self: Any, *args: Any, **kwargs: Any) -> Any:
        if wrapper._get_active_ddp_module() is None:
            return compile_frame(self, *args, **kwargs)
        with _disable_current_modes():
            return compile_frame(self, *args, **kwargs)

    replace_attribute(convert_frame.CatchErrorsWrapper, "__call__", compile_without)


def _build_anywhere(wrapper: Any) -> None:
    """Let a model be wrapped for a device while it is built on the CPU, and moved later."""
    make = wrapper.__init__

    @functools.wraps(make)
    def begin(self: Any, module: Any, device_ids: Any = None, *args: Any, **given: Any) -> None:
        if all(parameter.device.type == "cpu" for parameter in module.parameters()):
            device_ids, args = None, (None, *args[1:])  # output_device, too
            given.pop("output_device", None)
        make(self, module, device_ids, *args, **given)

    wrapper.__init__ = begin


def _bind_as_extensions_do(function: Any) -> Any:
    """Return a method that is no Python function to Dynamo, as those of C++ are not: it then breaks
    graphs for the same reason as on a device. pybind11 makes methods with the same call
    (``cpp_function``)."""
    make = ctypes.pythonapi.PyInstanceMethod_New
    make.argtypes, make.restype = [ctypes.py_object], ctypes.py_object
    return make(function)


def _nothing(*_: Any, **__: Any) -> None:
    return None


class _Logger:
    """Takes what DDP says of itself."""

    set_construction_data_and_log = set_runtime_stats_and_log = set_error_and_log = _nothing
    _set_static_graph = _set_comm_hook_name = _set_uneven_input_join = _nothing

    def _get_ddp_logging_data(self) -> Any:
        from types import SimpleNamespace

        return SimpleNamespace(strs_map={}, ints_map={})


class _Reducer:
    set_logger = prepare_for_forward = _nothing
    _set_forward_pass_work_handle = _delay_all_reduce = _nothing

    def __init__(
        self,
        collectives: EagerCollectives,
        parameters: Sequence[Any],
        buckets: Sequence[Sequence[int]],
        _limits: Sequence[int],
        group: Any,
        sparse: Sequence[bool],
        cap: int,
        finds_unused: bool,
        _views: bool,
        _names: Any,
        first_cap: int,
        *rest: Any,
    ) -> None:
        self.owner: Any = None
        self._collectives = collectives
        self._parameters = list(parameters)
        self._buckets = buckets
        self._ranks = count_ranks(group)
        self._finds_unused = finds_unused
        # skip_all_reduce_unused_params, use_python_reducer, then the limits, where there are any
        self._caps: list[int] = list(rest[2]) if len(rest) > 2 and rest[2] else [first_cap, cap]
        self._bytes = 0
        self._static = False
        self._nodes: dict[int, Any] = {}
        self._ready: dict[int, int] = {}
        """Parameters to the place in the order of calls at which their gradients came."""
        self._unused: list[int] = []
        self._expecting = False

    def set_hook(self, name: str) -> None:
        """Hear of a hook that sends gradients in its own way. Raises UserCodeFailed for one that
        does more than to convert them."""
        name = {"BuiltinCommHookType.ALLREDUCE": "allreduce_hook"}.get(name, name)
        name = {"BuiltinCommHookType.FP16_COMPRESS": "fp16_compress_hook"}.get(name, name)
        if name not in _HOOKS:
            raise UserCodeFailed(
                f"nobody knows what the communication hook {name} sends: leave out "
                f"register_comm_hook, or take one of {', '.join(_HOOKS)}"
            )
        self._bytes = _HOOKS[name]

    def _rebuild_buckets(self) -> bool:
        return False

    def _set_static_graph(self) -> None:
        self._static = True

    def _check_reducer_finalized(self) -> bool:
        return True

    def _remove_autograd_hooks(self) -> None:
        self._nodes.clear()

    def prepare_for_backward(self, outputs: Sequence[Any]) -> None:
        """Hear of the gradients of the backward pass that begins."""
        self._follow_parameters()
        self._ready.clear()
        self._expecting = True
        self._unused = []
        if outputs and self._finds_unused and not self._static:
            used = set(_list_nodes(outputs))
            self._unused = [number for number, node in self._nodes.items() if node not in used]

    def _follow_parameters(self) -> None:
        """Hear of each gradient. The parameters may be others than before: a model that was built
        with values becomes one without."""
        import torch

        parameters = self.owner._build_params_for_reducer()[0]
        if self._nodes and all(a is b for a, b in zip(parameters, self._parameters, strict=True)):
            return
        self._parameters = list(parameters)
        for number, parameter in enumerate(parameters):
            with torch.enable_grad():
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(self._make_hook(number))
            self._nodes[number] = node

    def _make_hook(self, number: int) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            if self._expecting:
                self._note(number)

        return hook

    def _note(self, number: int) -> None:
        import torch

        calls = self._collectives.count_calls()
        if not self._ready:
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            self._ready = dict.fromkeys(self._unused, calls)
        self._ready[number] = calls

    def _finish(self) -> None:
        """Put the buckets where they are sent, and let what comes after the backward pass wait for
        them."""
        self._expecting = False
        order = list(self._ready)
        rebuilds = self._static or not self._finds_unused
        buckets = self._rebuild(order) if rebuilds else self._buckets
        place, results = 0, []
        for shift, bucket in enumerate(buckets):
            place = max([place, *(self._ready.get(number, 0) for number in bucket)])
            gradients = [describe(self._parameters[number]) for number in bucket]
            sent = [_join([_convert(each, self._bytes) for each in gradients])]
            about = _name(self.owner) | {"bucket": shift, "parameters": len(bucket)}
            add = self._collectives.add
            results.append(add(_ALL_REDUCE, sent, sent, self._ranks, about, place + shift))
        self._collectives.wait(results)

    def _rebuild(self, order: list[int]) -> Sequence[Sequence[int]]:
        """Return the buckets of parameters in the order in which their gradients came."""
        return _split([self._parameters[number] for number in order], self._caps, order)


def _split(
    tensors: Sequence[Any], limits: list[int], numbers: Sequence[int] = ()
) -> Sequence[Sequence[int]]:
    """Return buckets of tensors as DDP makes them, by their numbers."""
    import torch.distributed as dist

    made = dist._compute_bucket_assignment_by_size(tensors, limits, [], list(numbers))
    buckets: Sequence[Sequence[int]] = made[0]
    return buckets


def _list_nodes(outputs: Sequence[Any]) -> Iterator[Any]:
    """Yield all that the backward pass from some outputs runs through."""
    ahead = [each.grad_fn for each in outputs if each.grad_fn is not None]
    seen: set[Any] = set()
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        ahead += [after for after, _ in node.next_functions if after is not None]


def _join(parts: Sequence[Buffer]) -> Buffer:
    """Return the buffer that tensors of one dtype are copied into."""
    elements = sum(math.prod(part.shape) for part in parts)
    moved = sum(part.bytes for part in parts)
    return replace(parts[0], shape=(elements,), stride=(1,), bytes=moved)


def _convert(buffer: Buffer, bytes_each: int) -> Buffer:
    elements = math.prod(buffer.shape)
    return replace(buffer, bytes=elements * bytes_each) if bytes_each else buffer


def _name(owner: Any) -> dict[str, str]:
    return {"of": type(owner.module).__name__}
