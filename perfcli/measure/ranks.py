"""Makes a measuring worker one rank of a real process group."""

from __future__ import annotations

import os

from perfcli.compile.ranks.group import answer_begin, describe_rank
from perfcli.model import MeasureRequest


def join_group(request: MeasureRequest) -> None:
    """Begin the process group of the request's side and wait for its other ranks, with NCCL between
    GPUs and gloo between CPUs. A model that begins one itself finds this one."""
    import torch
    import torch.distributed as dist

    place, world = request.rank, request.compile.world
    assert place is not None
    os.environ |= describe_rank(world, place.number, place.port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are in this machine
    gpu = torch.device("cuda", place.number) if request.compile.device == "cuda" else None
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpu else "gloo",
        store=dist.FileStore(place.store, world),
        rank=place.number,
        world_size=world,
        device_id=gpu,
    )
    answer_begin(world)
