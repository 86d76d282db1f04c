"""Holds models of several processes, as their users write them: what distributed.py compiles."""

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH = 1024


class Block(nn.Module):
    def __init__(self, width: int = WIDTH, heads: int = 16, extra: Any = None) -> None:
        super().__init__()
        # No buffer: DDP would send it to all ranks at each step.
        self.extra = extra
        self.norm1 = nn.RMSNorm(width)
        self.norm2 = nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.head = width // heads

    def forward(self, x: Any) -> Any:
        if self.extra is not None:
            self.extra.mul_(0.5)
        b, s, _ = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, s, -1, self.head).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Net(nn.Module):
    def __init__(self, layers: int = 3, vocabulary: int = 8192, extra: Any = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH)
        # What is planted belongs to a layer: of FSDP2's outermost module, nothing is compiled.
        self.layers = nn.ModuleList(Block(extra=None if n else extra) for n in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.out = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.out(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def start() -> Any:
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def plant(number: int, device: Any) -> Any:
    """Return what a planted kernel goes over: so many floats."""
    return torch.ones(number, device=device) if number else None


def tokens(device: Any) -> Any:
    return torch.randint(8192, (2, 2, 1024), device=device).unbind(0)


def ddp(layers: int = 3, extra: int = 0) -> Any:
    device = start()
    model = nn.parallel.DistributedDataParallel(
        Net(layers, extra=plant(extra, device)).to(device).bfloat16(), device_ids=[device.index]
    )
    return model, tokens(device), "training"


def fsdp2(layers: int = 3, extra: int = 0) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    device = start()
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = Net(layers, extra=plant(extra, device)).to(device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, tokens(device), "training"


def fsdp2_blocks(layers: int = 3) -> Any:
    """Blocks compiled one by one, as torchtitan does."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    device = start()
    model = Net(layers).to(device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        layer.compile()
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model, tokens(device), "training"


def tp(layers: int = 3) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    device = start()
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = Net(layers).to(device).bfloat16()
    plan = {
        "q": ColwiseParallel(),
        "k": ColwiseParallel(),
        "v": ColwiseParallel(),
        "o": RowwiseParallel(),
        "gate": ColwiseParallel(),
        "up": ColwiseParallel(),
        "down": RowwiseParallel(),
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    return model, tokens(device), "training"


def collectives() -> Any:
    import torch.distributed._functional_collectives as fc

    device = start()
    group = dist.group.WORLD

    def step(x: Any, w: Any) -> Any:
        g = fc.all_gather_tensor(x, 0, group)
        y = g @ w
        r = fc.reduce_scatter_tensor(y, "sum", 0, group)
        s = fc.all_reduce(r.sum(0), "sum", group)
        a = fc.all_to_all_single(r, None, None, group)
        return torch.relu(a) + s

    x = torch.randn(1024, 1024, device=device, dtype=torch.bfloat16)
    w = torch.randn(1024, 1024, device=device, dtype=torch.bfloat16)
    return step, (x, w)


def dtensors() -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    device = start()
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    w = distribute_tensor(torch.randn(1024, 4096, device=device), mesh, [Shard(1)])
    x = distribute_tensor(torch.randn(512, 1024, device=device), mesh, [Replicate()])

    def call(x: Any, w: Any) -> Any:
        return torch.relu(x @ w).redistribute(mesh, [Replicate()]).to_local()

    return call, (x, w)
