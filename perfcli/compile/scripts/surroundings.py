"""Stands in for what a script meets outside of compiled code where tensors have no values: reading
and printing them, writing them to files, loaders and threads."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from perfcli.compile.scripts.calls import find_users_line
from perfcli.compile.scripts.known_values import KnownValues
from perfcli.compile.stand_in.decisions import VALUES, Assumptions, assume_value
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.errors import UserCodeFailed

SAVED = "files of tensors without values: not written (×{})"
LOADERS = "processes of data loaders: loaded in the script's own process (×{})"


@contextmanager
def stand_in(mode: Any, known: KnownValues) -> Iterator[None]:
    """Stand in for it while the block runs, with fake tensors of ``mode``."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils.data import DataLoader

    assumptions = known.assumptions
    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(replace_for_block(owner, **{name: value}))

        put(FakeTensor, "numpy", _read_array(known))
        put(FakeTensor, "tolist", _read_list(known))
        put(FakeTensor, "__format__", _format)
        # A class that only hears of functions: torch gives it to every result.
        put(FakeTensor, "as_subclass", lambda self, _kind: self)
        put(torch, "save", _write_nothing(torch.save, assumptions))
        put(DataLoader, "__init__", _load_here(DataLoader.__init__, assumptions.counts))
        put(threading.Thread, "start", _start_under(mode, threading.Thread.start))
        put(torch, "Generator", _make_generator_class())
        stack.enter_context(refuse_processes())
        yield


def _read_array(known: KnownValues) -> Callable[..., Any]:
    def numpy(self: Any, *, force: bool = False) -> Any:
        return _read_all(self, known).numpy(force=force)

    return numpy


def _read_list(known: KnownValues) -> Callable[..., Any]:
    def tolist(self: Any) -> Any:
        return _read_all(self, known).tolist()

    return tolist


def _read_all(fake: Any, known: KnownValues) -> Any:
    """Return a real tensor with the values of a fake one, known or assumed."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    found = known.find(fake)
    with _disable_current_modes():
        if found is not None:
            return found.clone()
        known.assumptions.counts[VALUES] += 1
        return torch.full(tuple(fake.shape), assume_value(fake.dtype), dtype=fake.dtype)


def _format(self: Any, text: str) -> str:
    """Format a number as a real tensor of one element does."""
    return format(self.item(), text) if text and self.dim() == 0 else object.__format__(self, text)


def _write_nothing(save: Any, assumptions: Assumptions) -> Callable[..., Any]:
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _pytree

    @functools.wraps(save)
    def write(content: Any, *args: Any, **kwargs: Any) -> None:
        leaves = _pytree.tree_leaves(content)
        if any(isinstance(leaf, FakeTensor) or not _is_plain(leaf) for leaf in leaves):
            assumptions.counts[SAVED] += 1
            return
        save(content, *args, **kwargs)

    return write


def _is_plain(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor | str | bytes | bool | int | float | type(None))


def _load_here(make: Any, counts: Counter[str]) -> Callable[..., None]:
    """Return ``DataLoader.__init__`` without processes and pinned memory."""

    @functools.wraps(make)
    def load(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("num_workers"):
            counts[LOADERS] += 1
        own = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout",
               "multiprocessing_context", "pin_memory_device", "worker_init_fn")  # fmt: skip
        make(self, *args, **{name: value for name, value in kwargs.items() if name not in own})

    return load


def _start_under(mode: Any, start: Any) -> Callable[..., None]:
    """Return ``Thread.start`` for threads in which tensors are fake as well."""

    @functools.wraps(start)
    def begin(self: Any) -> None:
        run = self.run

        def run_under() -> None:
            with mode:
                run()

        self.run = run_under
        start(self)

    return begin


def _make_generator_class() -> type:
    """Return a ``torch.Generator`` that can be asked for on the device; its numbers are not."""
    import torch

    real = torch.Generator

    class Instances(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, real)

    class Generator(real, metaclass=Instances):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            if torch.device(device).type == "cpu":
                return real(device)
            return OnDevice()

    class OnDevice(real):  # type: ignore[misc, valid-type]
        device = torch.device("cuda", 0)

    return Generator


@contextmanager
def refuse_processes() -> Iterator[None]:
    """Raise UserCodeFailed where a script starts processes of its own while the block runs."""
    import multiprocessing.process
    import os

    def refuse(*_: Any, **__: Any) -> Any:
        raise UserCodeFailed(
            f"{find_users_line()} starts processes of its own, which perfcli does not follow: run "
            "the part that compiles in one process (one rank, no spawn, num_proc=1)"
        )

    with (
        replace_for_block(multiprocessing.process.BaseProcess, start=refuse),
        replace_for_block(os, fork=refuse),
    ):
        yield
