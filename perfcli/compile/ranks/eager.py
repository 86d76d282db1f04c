"""Records the collectives that run outside of compiled graphs: those of FSDP2's hooks, of DDP's
reducer, and a program's own ``dist.all_reduce(loss)``.

Each becomes a launch between the calls of graphs, with its bytes, and what waits for it another.
Where it runs in a stream of its own, it is known which launches come before it: streams and events
are those that ``stand_in/streams.py`` puts in place. Seen with torch 2.11 to 2.13: collectives of
``torch.distributed`` are operators of the library c10d, which fake tensors hear of.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.capture.operator_calls import count_ranks, find_group
from perfcli.compile.capture.operator_tensors import list_tensors
from perfcli.compile.stand_in import device
from perfcli.compile.stand_in.streams import current_stream, listen_to_streams
from perfcli.errors import UserCodeFailed
from perfcli.facts.collectives import count_collective, name_collective
from perfcli.facts.operator_work import count_operator_work
from perfcli.model import Buffer, GraphFacts, Launch, OperatorCall, OptionValue

OUTSIDE = "outside of graphs"
"""What stands for the graph of such a launch."""
_WAIT = "c10d.wait"
_TO_ONE = (
    "c10d.send", "c10d.recv_", "_c10d_functional.isend", "_c10d_functional.irecv",
    "_c10d_functional.batch_p2p_ops",
)  # fmt: skip
_IN_PLACE = "c10d."


class EagerCollectives:
    """Puts the collectives of one program into the order of calls of ``capture``."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._pending: dict[str, Buffer] = {}
        """What nothing has waited for so far, by the names of the results."""
        self._number = 0
        self._owner = ""
        """The module whose parameters FSDP2 gathers, or whose gradients it scatters."""

    def install(self, mode: Any) -> None:
        """Hear of all collectives on fake tensors of ``mode`` from now on."""
        import torch
        from torch._subclasses import fake_impls
        from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

        table = fake_impls.op_implementations_dict
        for library in (torch.ops.c10d, torch.ops._c10d_functional):
            for name in _list_operators(library):
                operator = getattr(library, name).default
                table[operator] = self._hear(mode, table.get(operator))
        listen_to_streams(self.count_calls, self.wait)
        for name in ("unshard", "post_backward"):
            device.replace_attribute(
                FSDPParamGroup, name, self._name_owner(getattr(FSDPParamGroup, name))
            )

    def add(
        self,
        operator: str,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        ranks: Mapping[str, int],
        about: Mapping[str, OptionValue] | None = None,
        at: int | None = None,
    ) -> str:
        """Add a collective that begins now, or at a place in the order of calls, and return the
        name of its result, which nothing waits for so far. ``ranks``: what ``count_ranks`` says of
        its group."""
        writes = [replace(each, role="output") for each in writes]
        result = f"result{self._number}"
        self._number += 1
        arguments: dict[str, OptionValue] = {**ranks, **(about or {})}
        work = count_operator_work(operator, reads, writes, arguments)
        names = (*(f"{result}.{n}" for n in range(len(reads))), *(result,) * len(writes))
        entry = _make_entry(operator, names, OperatorCall((*reads, *writes), arguments, work))
        order = self._capture.call_order
        order.insert(len(order) if at is None else at, entry)
        self._pending[result] = writes[0]
        return result

    def count_calls(self) -> int:
        """Return how many calls of graphs and collectives there were."""
        return len(self._capture.call_order)

    def wait(self, names: Sequence[str]) -> None:
        """Let what is launched from now on wait for some of the results."""
        for name in names:
            if (buffer := self._pending.pop(name, None)) is not None:
                buffer = replace(buffer, role="input")
                call = OperatorCall((buffer,), {}, count_collective("wait", 0, 1))
                self._capture.call_order.append(_make_entry(_WAIT, (name,), call))

    def _name_owner(self, method: Any) -> Any:
        @functools.wraps(method)
        def run(group: Any, *args: Any, **kwargs: Any) -> Any:
            outer, self._owner = self._owner, group._module_fqn or "the root module"
            try:
                return method(group, *args, **kwargs)
            finally:
                self._owner = outer

        return run

    def _hear(self, mode: Any, before: Any) -> Any:
        def hear(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
            if fake_mode is mode and not _is_tracing():
                self._record(str(func).removesuffix(".default"), args)
            return before(fake_mode, func, *args, **kwargs) if before else NotImplemented

        return hear

    def _record(self, operator: str, args: Sequence[Any]) -> None:
        if operator.startswith(_TO_ONE):
            raise UserCodeFailed(
                "the program exchanges tensors with a single other rank, as pipeline parallel "
                "does, whose part of the model differs: compile one stage, with its own inputs"
            )
        kind, group = name_collective(operator), _find_group(args)
        sides = [found for each in args if (found := [describe(t) for t in list_tensors(each)])]
        if kind in ("", "wait") or group is None or not sides:
            return
        ranks = count_ranks(group)
        if operator.startswith(_IN_PLACE):  # what is written comes first
            reads, writes = sides[min(1, len(sides) - 1)], sides[0]
        else:
            reads, writes = sides[0], [_result_of(kind, each, ranks["ranks"]) for each in sides[0]]
        stream, calls = current_stream(), self.count_calls()
        about = {"of": self._owner} if self._owner else {}
        result = self.add(operator, reads, writes, ranks, about)
        if stream is None:
            # Who waits for one that was asked for with async_op can't be followed.
            if not operator.startswith(_IN_PLACE) or any(each is False for each in args):
                self.wait((result,))
        else:
            self._capture.call_order[-1].back = calls - stream.calls
            stream.pending = (result,)


def _list_operators(library: Any) -> list[str]:
    import torch

    begin = f"{library.name}::"
    found = torch._C._dispatch_get_all_op_names()
    names = {name.removeprefix(begin) for name in found if name.startswith(begin)}
    return sorted(n for n in names if "." not in n and hasattr(library, n))


def _is_tracing() -> bool:
    import torch
    from torch._guards import TracingContext

    return TracingContext.try_get() is not None or torch.compiler.is_compiling()


def _find_group(args: Sequence[Any]) -> Any:
    import torch
    from torch.distributed.distributed_c10d import ProcessGroup

    for each in args:
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return ProcessGroup.unbox(each)
    return find_group(args)


def describe(tensor: Any) -> Buffer:
    """Return what is known of a tensor that a collective reads."""
    return Buffer(
        argument="",
        name="",
        role="input",
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(map(int, tensor.shape)),
        stride=tuple(map(int, tensor.stride())),
        bytes=tensor.numel() * tensor.element_size(),
    )


def _result_of(kind: str, read: Buffer, ranks: int) -> Buffer:
    """Return what an operator that changes nothing in place makes of a tensor."""
    grows = {"all_gather": ranks, "reduce_scatter": 1 / ranks}.get(kind, 1)
    shape = (round((read.shape[0] if read.shape else 1) * grows), *read.shape[1:])
    return replace(read, shape=shape, bytes=round(read.bytes * grows))


def _make_entry(operator: str, names: tuple[str, ...], call: OperatorCall) -> CapturedGraph:
    entry = CapturedGraph(GraphFacts(OUTSIDE, "inference", 0, 0))
    entry.launches.append(Launch(OUTSIDE, operator, extern=True, operands=names))
    entry.called[operator, names] = call
    return entry
