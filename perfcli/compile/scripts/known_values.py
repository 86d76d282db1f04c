"""Follows the values of fake tensors where they are known: what a script makes of numbers that it
has (``torch.ones``, a mask, a schedule, an index) is computed beside the fake tensor for real, on
the CPU. What parameters, random numbers or compiled code have part in is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from perfcli.compile.stand_in.decisions import VALUES, Assumptions

MOST_ELEMENTS = 1 << 18
"""Of all tensors of one operator that is computed for real."""
_KNOWN = "_perfcli_known"
_LIKELY = "_perfcli_likely"
_UNFILLED = ("aten::empty", "aten::new_empty", "aten::resize", "aten::_empty", "aten::rand")
_OVERWRITING = ("aten::zero_", "aten::fill_", "aten::copy_")
# Checks that find something wrong: taken to find nothing.
_UNLIKELY = ("aten::eq", "aten::isnan", "aten::isinf", "aten::isin", "aten::isposinf",
             "aten::isneginf")  # fmt: skip
_SAME = ("aten::any", "aten::all", "aten::max", "aten::min", "aten::amax", "aten::sum",
         "aten::_to_copy", "aten::clone", "aten::view", "aten::reshape", "aten::select",
         "aten::squeeze", "aten::unsqueeze", "aten::detach", "aten::alias")  # fmt: skip
_NOT = ("aten::logical_not", "aten::bitwise_not")
_LEFT_ALONE = ("aten::_amp_foreach_non_finite_check_and_unscale_",)
"""Operators whose results stay what they were: no gradient is infinite."""


@dataclass(slots=True)
class _Followed:
    """One operator on its way: with a result before it runs where that is answered here."""

    result: Any = None
    is_answered: bool = False


@dataclass(slots=True)
class KnownValues:
    """Knows values of fake tensors; what is not known and read all the same is counted in
    ``assumptions``."""

    assumptions: Assumptions
    forgotten: dict[int, Any] = field(default_factory=dict)
    """Storages whose values are known no longer, by their addresses."""

    @contextmanager
    def following(
        self, mode: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[_Followed]:
        """Answer an operator that reads values where these are known; follow the values of the
        result of all others."""
        import torch

        followed = _Followed()
        if func is torch.ops.aten._local_scalar_dense.default:
            self._read(args[0], followed)
            yield followed
            return
        name = func._schema.name
        real = self._compute(func, name, args, kwargs)
        if real is not None and torch.Tag.dynamic_output_shape in func.tags:
            followed.result, followed.is_answered = _make_alike(mode, real, args), True
        yield followed
        results = _tensors(followed.result)
        if real is not None:
            for fake, value in zip(results, _tensors(real), strict=False):
                setattr(fake, _KNOWN, value)
            return
        if name not in _LEFT_ALONE:
            for changed in _list_changed(func, args, kwargs):
                self.forget(changed)
        likely = _guess(name, args)
        if likely is not None:
            for fake in results:
                setattr(fake, _LIKELY, likely)

    def forget(self, fake: Any) -> None:
        """Forget the values of a tensor and of all its views: something unknown was written."""
        known = getattr(fake, _KNOWN, None)
        if known is not None:
            storage = known.untyped_storage()
            self.forgotten[storage._cdata] = storage
            delattr(fake, _KNOWN)
        if hasattr(fake, _LIKELY):
            delattr(fake, _LIKELY)

    def find(self, fake: Any) -> Any:
        """Return the real tensor with a fake one's values, or None."""
        known = getattr(fake, _KNOWN, None)
        if known is None or known.untyped_storage()._cdata in self.forgotten:
            return None
        return known

    def _read(self, fake: Any, followed: _Followed) -> None:
        known = self.find(fake)
        if known is not None:
            followed.result, followed.is_answered = known.item(), True
        elif (likely := getattr(fake, _LIKELY, None)) is not None:
            self.assumptions.counts[VALUES] += 1
            value = likely if fake.dtype.is_floating_point or fake.dtype.is_complex else int(likely)
            followed.result = type(_example(fake))(value)
            followed.is_answered = True

    def _compute(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the operator's real result, or None where not all values are known."""
        import torch

        if name.startswith(_UNFILLED) or torch.Tag.nondeterministic_seeded in func.tags:
            return None
        known = _Replaced(self, overwritten=args[0] if name in _OVERWRITING and args else None)
        own = [known.replace(value) for value in args]
        named = {key: known.replace(value) for key, value in kwargs.items()}
        if known.is_unknown or known.elements > MOST_ELEMENTS:
            return None
        if known.elements == 0 and _size_of(args) > MOST_ELEMENTS:
            return None
        try:
            with torch.no_grad():
                return func(*own, **named)
        except Exception:  # an operator that the CPU does not have: its values are not known
            return None


@dataclass(slots=True)
class _Replaced:
    """Replaces fake tensors by real ones with their values."""

    values: KnownValues
    overwritten: Any = None
    """A tensor whose own values do not count."""
    elements: int = 0
    is_unknown: bool = False

    def replace(self, value: Any) -> Any:
        import torch
        from torch._subclasses.fake_tensor import FakeTensor

        if isinstance(value, list | tuple):
            return type(value)(self.replace(each) for each in value)
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor):
            return value
        self.elements += value.numel()
        if not isinstance(value, FakeTensor):
            self.is_unknown |= value.device.type != "cpu"
            return value
        known = self.values.find(value)
        if known is None and value is self.overwritten and value.numel() <= MOST_ELEMENTS:
            return torch.empty(value.shape, dtype=value.dtype, device="cpu")
        self.is_unknown |= known is None
        return known


def _tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [each for part in value for each in _tensors(part)]
    return []


def _size_of(args: Sequence[Any]) -> int:
    """Return how many elements a factory makes."""
    total = 1
    for value in args:
        if isinstance(value, list | tuple) and all(isinstance(n, int) for n in value):
            for size in value:
                total *= size
            return total
    return max((n for n in args if isinstance(n, int) and not isinstance(n, bool)), default=0)


def _make_alike(mode: Any, real: Any, args: Sequence[Any]) -> Any:
    """Return fake tensors of the sizes of real ones, on the device of the first argument."""
    import torch

    device = next(each.device for each in _tensors(list(args)))
    made = []
    for value in _tensors(real):
        with mode:
            fake = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=device
            )
        made.append(fake)
    return made[0] if isinstance(real, torch.Tensor) else type(real)(made)


def _list_changed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the tensors that an operator writes into."""
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[number] if number < len(args) else kwargs.get(argument.name)
            yield from _tensors(given)


def _guess(name: str, args: Sequence[Any]) -> bool | int | float | None:
    """Return what the values of a result are taken to be where they are read: a value that nobody
    knows is a number, and none that it is compared with."""
    first = args[0] if args else None
    if name.startswith("aten::ne") and len(args) > 1:
        return first is not args[1]
    if name.rpartition(".")[0] in _UNLIKELY or name in _UNLIKELY:
        return False
    likely = getattr(first, _LIKELY, None)
    if likely is None:
        return None
    if name in _NOT:
        return not likely
    return likely if name in _SAME else None


def _example(fake: Any) -> bool | int | float | complex:
    import torch

    if fake.dtype is torch.bool:
        return True
    if fake.dtype.is_complex:
        return 1j
    return 0.5 if fake.dtype.is_floating_point else 1
