"""Follows the values of fake tensors where they are known: what a script makes of numbers that it
has (``torch.ones``, a mask, a schedule, an index) is computed beside the fake tensor for real, on
the CPU. What parameters, random numbers or compiled code have part in is not known.

Values belong to the storages of fake tensors, so that what is written or forgotten through one
tensor is so for all that share its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from perfcli.compile.capture.operator_tensors import (
    count_asked_elements,
    list_tensors,
    list_written,
)
from perfcli.compile.stand_in.decisions import VALUES, Assumptions

MOST_ELEMENTS = 1 << 18
"""Of all tensors of one operator that is computed for real."""
_UNFILLED = ("aten::empty", "aten::new_empty", "aten::resize", "aten::_empty", "aten::rand")
_AMONG_RANKS = ("c10d::", "_c10d_functional::")
_OVERWRITING = ("aten::zero_", "aten::fill_", "aten::copy_")
# Checks that find something wrong: taken to find nothing.
_UNLIKELY = ("aten::eq", "aten::isnan", "aten::isinf", "aten::isin", "aten::isposinf",
             "aten::isneginf")  # fmt: skip
_SAME = ("aten::any", "aten::all", "aten::max", "aten::min", "aten::amax", "aten::sum",
         "aten::_to_copy", "aten::clone")  # fmt: skip
_NOT = ("aten::logical_not", "aten::bitwise_not")
_LEFT_ALONE = ("aten::_amp_foreach_non_finite_check_and_unscale_",)
"""Operators whose results stay what they were: no gradient is infinite."""


@dataclass(slots=True)
class _Followed:
    """One operator on its way: with a result before it runs where that is answered here."""

    result: Any = None
    is_answered: bool = False


@dataclass(slots=True)
class _Content:
    """What is known of the values in the storage of fake tensors."""

    fake: Any
    """A weak reference to it, which keeps its address from being given to another."""
    real: Any = None
    """The storage on the CPU that has its values."""
    likely: bool | int | float | None = None
    """What each value is taken to be where nobody knows it."""


@dataclass(slots=True)
class KnownValues:
    """Knows values of fake tensors; what is not known and read all the same is counted in
    ``assumptions``."""

    assumptions: Assumptions
    contents: dict[int, _Content] = field(default_factory=dict)
    """By the addresses of the fake storages."""
    room: int = 1024
    """How many contents there may be before those of storages that are gone are dropped."""

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
        computed = self._compute(func, name, args, kwargs)
        if computed is not None and torch.Tag.dynamic_output_shape in func.tags:
            followed.result, followed.is_answered = _make_alike(mode, computed[0], args), True
        yield followed
        results = list(list_tensors(followed.result))
        if computed is not None:
            for fake, value in zip(results, list_tensors(computed[0]), strict=False):
                self._learn(fake, value)
            return
        if name not in _LEFT_ALONE:
            # Collectives write into what they are given, and their schemas do not say so.
            among = name.startswith(_AMONG_RANKS[0])
            for changed in list_tensors(args) if among else list_written(func, args, kwargs):
                self.forget(changed)
        likely = self._guess(name, args)
        for fake in results if likely is not None else ():
            if _covers_storage(fake):
                self._hold(fake, likely=likely)

    def forget(self, fake: Any) -> None:
        """Forget the values of a tensor and of all its views: something unknown was written."""
        self.contents.pop(_find_address(fake), None)

    def find(self, fake: Any) -> Any:
        """Return a real tensor that shares memory with what stands for a fake one's storage, or
        None where its values are not known."""
        content = self.contents.get(_find_address(fake))
        if content is None or content.real is None or fake.is_conj() or fake.is_neg():
            return None
        if content.real.nbytes() != fake.untyped_storage().nbytes():
            return None  # resized since
        return _lay_out(content.real, fake)

    def _learn(self, fake: Any, real: Any) -> None:
        """Know a result's values from now on; those of what was known before were computed where
        they are."""
        if self.find(fake) is None and _covers_storage(fake) and fake.shape == real.shape:
            import torch

            storage = torch.UntypedStorage(fake.untyped_storage().nbytes(), device="cpu")
            with torch.no_grad():
                _lay_out(storage, fake).copy_(real)
            self._hold(fake, real=storage)

    def _hold(self, fake: Any, **known: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        if len(self.contents) >= self.room:
            left = {at: each for at, each in self.contents.items() if not each.fake.expired()}
            self.contents, self.room = left, 1024 + 2 * len(left)
        storage = fake.untyped_storage()
        self.contents[storage._cdata] = _Content(StorageWeakRef(storage), **known)

    def _find_likely(self, fake: Any) -> bool | int | float | None:
        content = self.contents.get(_find_address(fake))
        return content.likely if content is not None else None

    def _guess(self, name: str, args: Sequence[Any]) -> bool | int | float | None:
        """Return what the values of a result are taken to be where they are read: a value that
        nobody knows is a number, and none that it is compared with."""
        first = args[0] if args else None
        if name.startswith("aten::ne") and len(args) > 1:
            return first is not args[1]
        if name.rpartition(".")[0] in _UNLIKELY or name in _UNLIKELY:
            return False
        likely = self._find_likely(first)
        if likely is None:
            return None
        if name in _NOT:
            return not likely
        return likely if name in _SAME else None

    def _read(self, fake: Any, followed: _Followed) -> None:
        known = self.find(fake)
        if known is not None:
            followed.result, followed.is_answered = known.item(), True
        elif (likely := self._find_likely(fake)) is not None:
            self.assumptions.counts[VALUES] += 1
            value = likely if fake.dtype.is_floating_point or fake.dtype.is_complex else int(likely)
            followed.result = type(_example(fake))(value)
            followed.is_answered = True

    def _compute(
        self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any] | None:
        """Return the operator's real result, or None where not all values are known."""
        import torch

        if (
            name.startswith((*_UNFILLED, *_AMONG_RANKS))
            or torch.Tag.nondeterministic_seeded in func.tags
        ):
            return None
        known = _Replaced(self, overwritten=args[0] if name in _OVERWRITING and args else None)
        own = [known.replace(value) for value in args]
        named = {key: known.replace(value) for key, value in kwargs.items()}
        if known.is_unknown or known.elements > MOST_ELEMENTS:
            return None
        if known.elements == 0 and count_asked_elements(args) > MOST_ELEMENTS:
            return None
        try:
            with torch.no_grad():
                return (func(*own, **named),)
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
        if known is None and value is self.overwritten and _covers_storage(value):
            return torch.empty(value.shape, dtype=value.dtype, device="cpu")
        self.is_unknown |= known is None
        return known


def _find_address(fake: Any) -> int:
    """Return the address of a fake tensor's storage, 0 for anything else."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if not isinstance(fake, FakeTensor) or fake.layout is not torch.strided:
        return 0
    return int(fake.untyped_storage()._cdata)


def _covers_storage(fake: Any) -> bool:
    """Return whether each byte of a fake tensor's storage belongs to exactly one of its values."""
    if not _find_address(fake):
        return False
    sizes = (*fake.shape, *fake.stride(), fake.storage_offset())
    if any(type(size) is not int for size in sizes) or fake.storage_offset():
        return False
    covered = 1
    for stride, size in sorted(zip(fake.stride(), fake.shape, strict=True)):
        if size != 1 and stride != covered:
            return False
        covered *= size
    return bool(covered * fake.element_size() == fake.untyped_storage().nbytes())


def _lay_out(storage: Any, fake: Any) -> Any:
    """Return a tensor of the CPU that lies in ``storage`` as a fake one lies in its own."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        empty = torch.empty(0, dtype=fake.dtype, device="cpu")
        return empty.set_(storage, fake.storage_offset(), fake.shape, fake.stride())


def _make_alike(mode: Any, real: Any, args: Sequence[Any]) -> Any:
    """Return fake tensors of the sizes of real ones, on the device of the first argument."""
    import torch

    device = next(each.device for each in list_tensors(list(args)))
    made = []
    for value in list_tensors(real):
        with mode:
            fake = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=device
            )
        made.append(fake)
    return made[0] if isinstance(real, torch.Tensor) else type(real)(made)


def _example(fake: Any) -> bool | int | float | complex:
    import torch

    if fake.dtype is torch.bool:
        return True
    if fake.dtype.is_complex:
        return 1j
    return 0.5 if fake.dtype.is_floating_point else 1
