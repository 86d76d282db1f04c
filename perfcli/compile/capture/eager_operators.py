"""Counts the operators that a step runs outside of compiled graphs: those of functions that Dynamo
left to run eagerly, of a fused optimizer, and of what nobody compiled. A run's numbers leave them
out, so that it has to say how many they are.

Seen with torch 2.11 to 2.13: they reach the ``FakeTensorMode`` that stands in for the device while
no ``TracingContext`` is set; what Dynamo and AOTAutograd trace does so while one is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfcli import units
from perfcli.compile.capture.operator_tensors import list_tensors, list_written
from perfcli.facts.collectives import name_collective

_FREE = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_local_scalar_dense",
    "item", "lift_fresh", "record_stream", "resize_", "set_", "is_same_size", "detach", "alias",
    "_unsafe_view", "_reshape_alias", "barrier", "monitored_barrier_", "check_for_nan",
}  # fmt: skip
"""Operators that launch nothing."""
_OTHERS = ("prim", "profiler")
"""Namespaces of operators that ask or tell something."""
_NAMED = 4


@dataclass(frozen=True, slots=True)
class EagerOperator:
    """One call of an operator outside of graphs."""

    name: str
    bytes_moved: int
    """Each of its tensors read once, and those it writes written once."""


def make_counting_mode(found: list[EagerOperator]) -> type:
    """Return a class of ``FakeTensorMode`` that adds to ``found`` the operators which run on the
    device outside of graphs."""
    import torch
    import torch._dynamo
    from torch._guards import TracingContext
    from torch._higher_order_ops.utils import registered_hop_fake_fns
    from torch._ops import HigherOrderOperator
    from torch._subclasses import FakeTensorMode

    class Counting(FakeTensorMode):  # type: ignore[misc]
        supports_higher_order_operators = True
        """They know no class of modes that derives from one they know."""
        inside = False
        """Whether an operator runs: those that it is made of are no others."""

        @torch._dynamo.disable  # type: ignore[untyped-decorator]
        def __torch_dispatch__(
            self,
            func: Any,
            types: Sequence[type],
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            if isinstance(func, HigherOrderOperator):
                rule = func.python_key_table.get(FakeTensorMode)
                if func in registered_hop_fake_fns or rule is None:
                    return super().__torch_dispatch__(func, types, args, kwargs)
                return rule(self, *args, **(kwargs or {}))
            if self.inside or TracingContext.try_get() is not None:
                return super().__torch_dispatch__(func, types, args, kwargs)
            self.inside = True
            try:
                result = super().__torch_dispatch__(func, types, args, kwargs)
            finally:
                self.inside = False
            if _launches(func, args, result):
                found.append(EagerOperator(str(func), _count_bytes(func, args, kwargs, result)))
            return result

    return Counting


def describe_eager(found: Sequence[EagerOperator]) -> tuple[str, ...]:
    """Return a note about operators outside of graphs: none where there are none."""
    if not found:
        return ()
    often = Counter(each.name for each in found)
    names = [f"{name} (×{n})" if n > 1 else name for name, n in often.most_common(_NAMED)]
    more = ("…",) if len(often) > _NAMED else ()
    run = "1 operator runs" if len(found) == 1 else f"{len(found)} operators run"
    moved = units.size(sum(each.bytes_moved for each in found))
    listed = ", ".join((*names, *more))
    return (f"outside of graphs {run} eagerly, {moved}, which no number counts: {listed}",)


def _launches(func: Any, args: Sequence[Any], result: Any) -> bool:
    """Return whether an operator makes the device do something that is worth telling: the gradient
    of one, with which every backward begins, is not."""
    space, _, name = func._schema.name.partition("::")
    if space in _OTHERS or name in _FREE or getattr(func, "is_view", False):
        return False
    if name_collective(f"{space}.{name}"):  # counted by itself
        return False
    tensors = list(list_tensors((args, result)))
    if name == "ones_like" and tensors[0].numel() == 1:
        return False
    return any(tensor.device.type not in ("cpu", "meta") for tensor in tensors)


def _count_bytes(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, result: Any
) -> int:
    written = list_written(func, args, kwargs or {})
    given = list(list_tensors((args, list((kwargs or {}).values()))))
    own = {id(tensor) for tensor in given}
    made = [tensor for tensor in list_tensors(result) if id(tensor) not in own]
    return sum(t.numel() * t.element_size() for t in (*given, *written, *made))
