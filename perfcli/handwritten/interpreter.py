"""Makes Triton's interpreter round float32 to bfloat16 as a GPU does, and faster.

Its own conversion cuts the lower bits off: every output is up to a whole unit of its last place too
small, twice of what a kernel's tolerance allows. Rounded to the nearest, ties to even, a case has
the same tolerance everywhere. ``_convert_float`` of triton 3.6 and 3.7.

Most of its time goes into what it need not do: it replaces the functions of
``triton.language`` again in each call of a device function, combines what is reduced element by
element, builds a table for each type that it looks up, makes the types and shapes of blocks anew
for each value, and asks of each integer sum whether it overflows, without telling anybody. What
another triton names in another way stays as it is.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perfcli.errors import PerfcliError

_CORNER = "_convert_float"


def prepare() -> None:
    """Replace these functions of the interpreter, for good, in this process, which has
    ``TRITON_INTERPRET`` set and runs kernels in no other way. Raises PerfcliError where this
    triton's interpreter has no such function."""
    import triton

    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    cut_off = getattr(interpreter, _CORNER, None)
    if cut_off is None:
        raise PerfcliError(
            f"triton {triton.__version__} has no runtime.interpreter.{_CORNER}, through which "
            "bfloat16 is rounded (tested: triton 3.6 and 3.7): check on a GPU, or with another "
            "triton (--python)"
        )
    if getattr(cut_off, "rounds", False):
        return

    def rounding(values: Any, source: Any, target: Any, mode: Any) -> Any:
        if getattr(mode, "name", "") != "RTZ":
            converted = _convert(values, str(source), str(target))
            if converted is not None:
                return converted
        return cut_off(values, source, target, mode)

    rounding.rounds = True  # type: ignore[attr-defined]
    setattr(interpreter, _CORNER, rounding)
    core: Any = importlib.import_module("triton.language.core")
    semantic: Any = importlib.import_module("triton.language.semantic")
    for owner, name, faster in (
        (interpreter, "_patch_lang", _patch_once),
        (interpreter, "_get_np_dtype", _look_up_once),
        (getattr(interpreter, "ReduceOps", None), "generic_reduce", _reduce_by_halves),
        (core.block_type, "__init__", _share_block_types),
        (core.block_type, "__eq__", _know_shared_types),
        (core.tensor, "__init__", _share_shapes),
        (getattr(semantic, "TritonSemantic", None), "broadcast_impl_value", _leave_like_shapes),
    ):
        if slow := getattr(owner, name, None):
            setattr(owner, name, faster(slow))
    builder = getattr(interpreter, "interpreter_builder", None)
    if builder is not None and not builder.options.debug:
        builder.options = replace(builder.options, sanitize_overflow=False)


def _patch_once(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what patches ``triton.language`` in its first call and leaves it so."""
    from types import SimpleNamespace

    import triton.language as tl

    @functools.cache
    def patch_all() -> None:
        patch(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))

    def patch_language(_: Any) -> Any:
        patch_all()
        return SimpleNamespace(restore=lambda: None)

    return patch_language


def _look_up_once(look_up: Callable[[Any], Any]) -> Callable[[Any], Any]:
    known: dict[str, Any] = {}

    def find(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in known:
            known[name] = look_up(kind)
        return known[name]

    return find


def _reduce_by_halves(_: Any) -> Callable[[Any, Any], Any]:
    """Return what combines one half of an axis with the other until one element is left, as a GPU
    does."""
    np = importlib.import_module("numpy")  # the interpreter works with it

    def reduce(self: Any, given: Any) -> Any:
        shape, axis = given[0].handle.data.shape, self.axis
        parts = [each.handle.data for each in given]
        parts = [p.reshape(-1) if axis is None else np.moveaxis(p, axis, 0) for p in parts]
        while len(parts[0]) > 1:
            half = len(parts[0]) // 2
            sides = [
                self.to_tensor(part[place], each.dtype)
                for place in (slice(half), slice(half, 2 * half))
                for part, each in zip(parts, given, strict=True)
            ]
            made = self.combine_fn.fn(*sides)
            made = made if isinstance(made, tuple) else (made,)
            parts = [
                np.concatenate([new.handle.data, old[2 * half :]])
                for new, old in zip(made, parts, strict=True)
            ]
        if not self.keep_dims:
            parts = [part[0] for part in parts]
        elif axis is None:
            parts = [part.reshape([1] * len(shape)) for part in parts]
        else:
            parts = [np.moveaxis(part, 0, axis) for part in parts]
        return [self.to_tensor(p, each.dtype) for p, each in zip(parts, given, strict=True)]

    return reduce


def _share_block_types(fill: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """Return what gives the same attributes to types of the same elements and shape, and the same
    shape to all types of that shape."""
    known: dict[Any, dict[str, Any]] = {}
    shapes: dict[Any, Any] = {}

    def fill_once(self: Any, element: Any, shape: Any) -> None:
        sizes = tuple([getattr(size, "value", size) for size in shape])
        # The attributes keep the element's type, whose id is nobody else's then.
        found = known.get((id(element), sizes))
        if found is None:
            fill(self, element, shape)
            self.shape = shapes.setdefault(sizes, self.shape)
            known[id(element), sizes] = self.__dict__
        else:
            self.__dict__ = found

    return fill_once


def _know_shared_types(equals: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def equals_at_once(self: Any, other: Any) -> bool:
        return self.__dict__ is getattr(other, "__dict__", None) or equals(self, other)

    return equals_at_once


def _share_shapes(fill: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """Return what makes the shape of a value once for all values of that shape."""
    known: dict[int, tuple[Any, dict[str, Any]]] = {}

    def fill_once(self: Any, handle: Any, type: Any) -> None:
        shape = type.shape if type.is_block() else None
        found = known.get(id(shape))
        if found is None:
            fill(self, handle, type)
            known[id(shape)] = shape, dict(self.__dict__)
        else:
            self.__dict__.update(found[1], handle=handle, type=type, dtype=type.scalar)

    return fill_once


def _leave_like_shapes(broadcast: Callable[..., Any]) -> Callable[..., Any]:
    def broadcast_others(self: Any, one: Any, other: Any) -> Any:
        shape = getattr(one.type, "shape", None)
        if shape is not None and shape is getattr(other.type, "shape", None):
            return one, other
        return broadcast(self, one, other)

    return broadcast_others


def _convert(values: Any, source: str, target: str) -> Any:
    """Return a NumPy array between ``fp32`` and ``bf16``, which is held as its bits in uint16; None
    of other pairs."""
    import torch

    if (source, target) == ("fp32", "bf16"):
        floats = torch.from_numpy(values.copy())
        return floats.to(torch.bfloat16).view(torch.int16).numpy().view("uint16")
    if (source, target) == ("bf16", "fp32"):
        bits = torch.from_numpy(values.copy().view("int16"))
        return bits.view(torch.bfloat16).float().numpy()
    return None
