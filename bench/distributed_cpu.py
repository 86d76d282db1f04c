"""Holds DDP and FSDP2 without other ranks against a real process group of two CPU ranks (gloo).

    python bench/distributed_cpu.py

In each model's third step, what is called in which order: compiled graphs, forward and backward,
and between them the collectives with their bytes; and of all steps the text of each graph, and why
Dynamo broke graphs. No kernels are generated: for those, ``distributed.py`` needs GPUs. Exits with
1 where anything differs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.backends.common import aot_autograd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WORLD = 2


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 512, norm: bool = False, unused: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(5))
        self.small = nn.ModuleList(nn.Linear(width, 64) for _ in range(2))
        self.norm = nn.BatchNorm1d(64) if norm else nn.Identity()
        self.unused = nn.Linear(width, width) if unused else None
        self.back = nn.Linear(64, width)
        self.width = width

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.back(self.norm(self.small[1](x)) + self.small[0](x)).sum(0)


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(512, 512)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x))


SMALL = {"bucket_cap_mb": 2}
DDP: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "outside": ("outside", {}, {}),
    "inside": ("inside", SMALL, {}),
    "small buckets": ("outside", SMALL, {}),
    "module.compile": ("method", {"bucket_cap_mb": 3}, {}),
    "buffers": ("outside", SMALL, {"norm": True}),
    "unused": ("outside", {**SMALL, "find_unused_parameters": True}, {"unused": True}),
    "static graph": ("outside", {**SMALL, "static_graph": True}, {}),
    "views": ("inside", {**SMALL, "gradient_as_bucket_view": True}, {}),
    "large": ("inside", {}, {"width": 2048}),
    "no_sync": ("inside", SMALL, {}),
}
"""What is compiled, options of DDP, and of the model."""
FSDP = {"layers": {}, "kept": {"reshard_after_forward": False}}


def make_backend(log: Any, graphs: list[str]) -> Any:
    """Return a backend that logs each call of a graph, and runs it eagerly."""

    def compile_as(kind: str) -> Any:
        def compile_graph(module: Any, _inputs: Any) -> Any:
            name = f"{kind} {sum(text.startswith(kind) for text in graphs)}"
            graphs.append(f"{kind} {module.code}")

            def run(args: list[Any]) -> Any:
                log.append(name)
                return module.forward(*args)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compile_graph

    return aot_autograd(fw_compiler=compile_as("forward"), bw_compiler=compile_as("backward"))


def build_ddp(case: str, backend: Any, real_log: Any) -> tuple[Any, Any, Any]:
    """Return what is called, the wrapper, and its input. ``real_log`` hears of buckets, which C++
    sends; None where they are recorded."""
    how, options, model = DDP[case]
    net = Net(**model)
    if how == "inside":
        compiled: Any = torch.compile(net, backend=backend)
        called = wrapper = nn.parallel.DistributedDataParallel(compiled, **options)
    elif how == "method":
        net.compile(backend=backend)
        called = wrapper = nn.parallel.DistributedDataParallel(net, **options)
    else:
        wrapper = nn.parallel.DistributedDataParallel(net, **options)
        called = torch.compile(wrapper, backend=backend)
    if real_log is not None:

        def hear(_state: Any, bucket: Any) -> Any:
            sent = bucket.buffer()
            real_log.append(f"all_reduce {sent.numel() * sent.element_size()}")
            done: Any = torch.futures.Future()
            done.set_result(sent)
            return done

        hear.__annotations__ = {}  # DDP compares them with its own classes
        wrapper.register_comm_hook(None, hear)
    return called, wrapper, torch.randn(8, net.width)


def build_fsdp(case: str, backend: Any) -> tuple[Any, Any, Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (WORLD,))
    model = nn.Sequential(*(Layer() for _ in range(3)))
    for layer in model:
        layer.compile(backend=backend)
        fully_shard(layer, mesh=mesh, **FSDP[case])
    fully_shard(model, mesh=mesh, **FSDP[case])
    return model, model, torch.randn(8, 512)


def take_steps(case: str, built: tuple[Any, Any, Any], forget: Any) -> None:
    called, wrapper, x = built
    for _ in range(3):
        forget()
        wrapper.zero_grad()
        if case == "no_sync":
            with wrapper.no_sync():
                called(x).sum().backward()
        called(x).sum().backward()


def hear_collectives(log: list[str]) -> None:
    """Log what FSDP2 calls."""
    kinds = {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter"}
    kinds |= {"all_gather_single": "all_gather", "reduce_scatter_single": "reduce_scatter"}
    for name, kind in kinds.items():
        if (original := getattr(dist, name, None)) is None:
            continue

        def call(*args: Any, of: Any = original, kind: str = kind, **named: Any) -> Any:
            tensors = [t for t in (*args, *named.values()) if isinstance(t, torch.Tensor)]
            log.append(f"{kind} {max(t.numel() * t.element_size() for t in tensors)}")
            return of(*args, **named)

        setattr(dist, name, functools.wraps(original)(call))


def forget_all() -> None:
    """Forget what Dynamo compiled and counted."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def list_breaks() -> dict[str, int]:
    """Return how often Dynamo broke a graph for each reason."""
    found: Counter[str] = Counter()
    for reason, count in torch._dynamo.utils.counters["graph_break"].items():
        found[reason.splitlines()[0]] += count
    return dict(found)


def run_real() -> dict[str, Any]:
    """Return the log and the graphs of each model as this rank of a process group runs it."""
    dist.init_process_group("gloo")
    found = {}
    log: list[str] = []
    for case in DDP:
        forget_all()
        graphs: list[str] = []
        built = build_ddp(case, make_backend(log, graphs), log)
        take_steps(case, built, log.clear)
        found[f"DDP, {case}"] = {"log": list(log), "graphs": graphs, "breaks": list_breaks()}
    hear_collectives(log)
    for case in FSDP:
        forget_all()
        graphs = []
        take_steps(case, build_fsdp(case, make_backend(log, graphs)), log.clear)
        found[f"FSDP2, {case}"] = {"log": list(log), "graphs": graphs, "breaks": list_breaks()}
    return found


def run_alone() -> dict[str, Any]:
    """Return the same of a rank without the others."""
    from torch._subclasses import FakeTensorMode

    from perfcli.compile.capture.captured import Capture
    from perfcli.compile.ranks import group

    capture, mode = Capture(), FakeTensorMode(allow_non_fake_inputs=True)
    group.install(WORLD, True, mode, capture)
    order: Any = capture.call_order
    found = {}
    for case in (*DDP, *FSDP):
        forget_all()
        graphs: list[str] = []
        backend = make_backend(order, graphs)
        with mode:
            built = build_ddp(case, backend, None) if case in DDP else build_fsdp(case, backend)
            take_steps(case, built, order.clear)
        log = [text for each in order if (text := describe(each))]
        name = f"DDP, {case}" if case in DDP else f"FSDP2, {case}"
        found[name] = {"log": log, "graphs": graphs, "breaks": list_breaks()}
    return found


def describe(entry: Any) -> str:
    """Return a call as the real ranks log it. They do not hear of buffers, which C++ sends, and of
    no waits."""
    from perfcli.facts.collectives import name_collective

    if isinstance(entry, str):
        return entry
    (launch,), (call,) = entry.launches, entry.called.values()
    kind = name_collective(launch.name)
    return "" if kind in ("wait", "broadcast") else f"{kind} {max(b.bytes for b in call.buffers)}"


def be_rank(side: str, file: Path) -> int:
    found = run_real() if side == "real" else run_alone()
    if os.environ["RANK"] == "0":
        file.write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


def compare_all() -> int:
    """Run both sides, print what is equal, and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for side, ranks in (("real", range(WORLD)), ("alone", range(1))):
            file = Path(folder, side)
            running = []
            for rank in ranks:
                env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD)}
                env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29741"}
                command = [sys.executable, "-W", "ignore", __file__, side, str(file)]
                running.append(subprocess.Popen(command, env=os.environ | env))
            for each in running:
                each.wait(300)
            found[side] = json.loads(file.read_text())
    wrong = 0
    for name, real in found["real"].items():
        alone = found["alone"][name]
        same = [real[part] == alone[part] for part in ("log", "graphs", "breaks")]
        wrong += not all(same)
        graphs, sent = len(real["graphs"]), sum("_" in each for each in real["log"])
        said = ["equal" if each else "DIFFERENT" for each in same]
        print(
            f"{name:22s} {graphs} graphs {said[1]}, {sent} collectives and calls {said[0]}, "
            f"{sum(real['breaks'].values())} breaks {said[2]}"
        )
        if not same[2]:
            print(f"    real  {real['breaks']}\n    alone {alone['breaks']}")
        if not same[0]:
            print(f"    real  {real['log']}\n    alone {alone['log']}")
    print(f"{len(found['real']) - wrong} of {len(found['real'])} equal, torch {torch.__version__}")
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", nargs="?", choices=("real", "alone"), help="of one rank")
    parser.add_argument("file", nargs="?", type=Path)
    options = parser.parse_args()
    return be_rank(options.side, options.file) if options.side else compare_all()


if __name__ == "__main__":
    raise SystemExit(main())
