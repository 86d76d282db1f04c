"""Gives a program the process group that it asks for: rank 0 of a world whose other ranks do not
exist.

torch's own "fake" backend takes every collective and returns at once. Whatever backend a program
names, it gets that one; what would wait for other ranks (a store, a rendezvous, pickled objects)
is answered here. Seen with torch 2.11 to 2.13, CPU and CUDA builds.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from perfcli.compile.capture.captured import Capture
from perfcli.compile.ranks import data_parallel
from perfcli.compile.ranks.eager import EagerCollectives
from perfcli.compile.stand_in.device import replace_attribute
from perfcli.errors import UserCodeFailed
from perfcli.model import RANKS_PER_MACHINE

_NEEDS_WORLD = (
    "asks for a process group, and one process is compiled: give the number of its ranks with "
    "--world N, for example --world 8"
)


def install(world: int, begins: bool, mode: Any, capture: Capture) -> None:
    """Answer everything that a program asks of ``torch.distributed`` as rank 0 of ``world`` ranks;
    of a single one, it is told to give ``--world``. ``begins``: the group exists from the start,
    as a function that builds a model expects it where nobody else makes it. Collectives outside of
    graphs, on fake tensors of ``mode``, go into ``capture``."""
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.testing._internal.distributed import fake_pg  # registers the backend

    if world > 1:
        os.environ |= describe_rank(world)
        replace_attribute(torch.cuda, "device_count", lambda: min(world, RANKS_PER_MACHINE))
    c10d = dist.distributed_c10d
    group = _Group(world, c10d.init_process_group, fake_pg.FakeStore)
    replace_attribute(c10d, "_new_process_group_helper", _make_fake(c10d._new_process_group_helper))
    _replace_everywhere(
        {
            "init_process_group": group.begin,
            "is_nccl_available": lambda: True,
            "is_gloo_available": lambda: True,
            **_answer_objects(),
        },
        c10d,
    )
    _compute_meshes()
    _refuse_models()
    if world > 1:
        collectives = EagerCollectives(capture)
        collectives.install(mode)
        data_parallel.install(collectives, builds=begins)
    if begins and world > 1:
        group.begin()


def answer_begin(world: int) -> None:
    """Let a program that begins a process group keep the one that there is, of ``world`` ranks. It
    raises UserCodeFailed where it asks for another number of them."""
    import torch.distributed as dist

    begin = _Group(world, None, None).begin
    _replace_everywhere({"init_process_group": begin}, dist.distributed_c10d)


def describe_rank(world: int, rank: int = 0, port: int = 29500) -> dict[str, str]:
    """Return the variables that torchrun sets for a rank of the first machine."""
    local = str(min(world, RANKS_PER_MACHINE))
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "ROLE_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": local,
        "ROLE_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "perfcli",
    }


def has_group() -> bool:
    """Return whether the program has begun a process group."""
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized())


def begin_anew() -> None:
    """Forget the process groups that a program made, before it runs once more."""
    import torch.distributed as dist

    if has_group():
        world = dist.get_world_size()
        dist.destroy_process_group()
        if world > 1:
            dist.init_process_group()


class _Group:
    def __init__(self, world: int, original: Callable[..., Any] | None, store: Any) -> None:
        self._world = world
        self._original = original
        self._store = store

    def begin(self, backend: Any = None, *args: Any, **given: Any) -> None:
        """Stand in for ``init_process_group``. It may be called again: a function that builds a
        model runs more than once in one process."""
        import torch.distributed as dist

        names = ("init_method", "timeout", "world_size", "rank", "store")
        given |= dict(zip(names, args, strict=False))
        asked = given.get("world_size", -1)
        world = self._choose_world(-1 if asked is None else int(asked), str(backend or ""))
        if dist.is_initialized() or self._original is None:
            return
        self._original("fake", store=self._store(), world_size=world, rank=0)

    def _choose_world(self, asked: int, backend: str) -> int:
        if self._world == 1 and asked > 0 and (asked == 1 or backend == "fake"):
            return asked
        if self._world == 1:
            raise UserCodeFailed(f"the model {_NEEDS_WORLD}")
        if asked not in (-1, self._world):
            raise UserCodeFailed(
                f"the model asks for a process group of {asked} ranks, and --world is "
                f"{self._world}: give --world {asked}"
            )
        return self._world


def _make_fake(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes every process group, of whichever backend, one of the fake backend."""

    @functools.wraps(original)
    def make(size: Any, rank: Any, ranks: Any, _backend: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs = {k: v for k, v in kwargs.items() if k not in ("backend_options", "device_id")}
        if len(args) > 2:  # store, name, then options
            args = args[:2]
        return original(size, rank, ranks, "fake", *args, **kwargs)

    return make


def _replace_everywhere(values: Mapping[str, Any], owner: Any) -> None:
    """Replace functions of ``torch.distributed`` in the module that defines them, and in every one
    of torch that has imported them by their names. There are two thousand: all values at once."""
    originals = {name: getattr(owner, name, None) for name in values}
    for name, value in values.items():
        replace_attribute(owner, name, value)
    for module, loaded in list(sys.modules.items()):
        if module.startswith("torch."):
            own = vars(loaded)
            for name, original in originals.items():
                if own.get(name) is original is not None:
                    setattr(loaded, name, values[name])


def _compute_meshes() -> None:
    """Let meshes of devices compute with real numbers: their ranks are values."""
    from torch.distributed import device_mesh
    from torch.distributed.device_mesh import DeviceMesh

    make = _with_values(device_mesh.init_device_mesh)
    _replace_everywhere({"init_device_mesh": make}, device_mesh)
    for name in ("__init__", "__getitem__", "_flatten", "_unflatten", "_concatenate"):
        if name in vars(DeviceMesh):
            setattr(DeviceMesh, name, _with_values(vars(DeviceMesh)[name]))
    if isinstance(own := vars(DeviceMesh).get("mesh"), property) and own.fget:
        DeviceMesh.mesh = property(_with_values(own.fget))


def _with_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function computing with real tensors, on the CPU; what Dynamo traces stays."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return function(*args, **kwargs)
        with _disable_current_modes(), torch.device("cpu"):
            return function(*args, **kwargs)

    return run


def _refuse_models() -> None:
    """Refuse by name what cannot be compiled without the other ranks: a wrapper whose flat
    parameters read the memory of tensors."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    def refuse(*_: Any, **__: Any) -> None:
        raise UserCodeFailed(
            "FullyShardedDataParallel is not compiled without its other ranks: use fully_shard "
            "(FSDP2), which is compiled"
        )

    FullyShardedDataParallel.__init__ = refuse


def _answer_objects() -> dict[str, Callable[..., None]]:
    """Return what answers in place of functions that send pickled objects: nobody else has any, so
    that each rank has the same. Parameters have torch's names, because they are given by them."""

    def all_gather(object_list: Any, obj: Any, *_: Any, **__: Any) -> None:
        object_list[:] = [obj] * len(object_list)

    def gather(obj: Any, object_gather_list: Any = None, *_: Any, **__: Any) -> None:
        if object_gather_list is not None:
            all_gather(object_gather_list, obj)

    def scatter(
        scatter_object_output_list: Any, scatter_object_input_list: Any = None, *_: Any, **__: Any
    ) -> None:
        given = scatter_object_input_list
        scatter_object_output_list[0] = given[0] if given else None

    return {
        "all_gather_object": all_gather,
        "gather_object": gather,
        "scatter_object_list": scatter,
        "broadcast_object_list": lambda *_, **__: None,
        "barrier": lambda *_, **__: None,
        "monitored_barrier": lambda *_, **__: None,
    }
