"""Says how much host time a call of each operator takes, against torch's own operators.

    python bench/operator_calls.py [--json FILE] [--check | --only-check] [--operator NAME]…

On a GPU the problems are so small that the device waits for the host, and the time per call is the
host's. ``--check`` also captures a CUDA graph of each, forward and backward, once after warming up,
once with kernels that were never launched, and once with rows that several blocks share, and
compares what its replay and what torch.compile (``reduce-overhead``) compute with eager calls.

Without a GPU the lowest layer is a stand-in: tensors are on the CPU, Triton compiles for sm_90, and
the driver's C function returns at once. Everything above it is what runs on a GPU; what is missing
is the driver's own launch (about 2 µs) and CUDA's allocator. Products are computed, though.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import triton  # noqa: E402
from torch import Tensor  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402

import perfcli.operators  # noqa: E402

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
ROWS, COLUMNS = (64, 1024) if ON_GPU else (2, 64)
LONG = (300, 90001)
"""Rows and columns of problems whose blocks wait for one another, in launches of norms' gradients
that are cooperative and begin early."""
Operators = Mapping[str, tuple[Callable[..., Any], Callable[..., Any], list[Tensor]]]
GOAL = 15.0
"""µs of host time that a call may take."""
ROUNDS = 3


class Launcher:
    """Is Python above a C function, as Triton's launchers are; the arguments of those are others in
    each version."""

    global_scratch_size = profile_scratch_size = 0

    def __init__(self, launch: Callable[..., None]) -> None:
        self.launch = launch

    def __call__(self, *given: Any) -> None:
        self.launch(*given[:6], given[7:9], given[9:])


class StandIn:
    """Is a driver of Triton that launches nothing."""

    def __init__(self) -> None:
        self.launches = 0
        self.utils = SimpleNamespace(
            load_binary=lambda *_: (0, 0, 32, 0, 1024),
            get_device_properties=lambda _: {"max_shared_mem": 232448, "warpSize": 32},
        )

    def launcher_cls(self, _source: Any, _metadata: Any) -> Launcher:
        return Launcher(self.launch)

    def launch(self, *_arguments: Any) -> None:
        self.launches += 1

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


def stand_in() -> StandIn:
    """Make Triton launch nothing, and the operators take tensors on the CPU."""
    made = StandIn()
    triton.runtime.driver.set_active(made)
    calls: Any = import_module("perfcli.kernels._operators.calls")
    calls._check_devices = lambda _tensors: None
    return made


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)


def list_operators(rows: int = ROWS, columns: int = COLUMNS) -> Operators:
    """Return ours, torch's and the arguments of each, those with gradients first."""
    ours = perfcli.operators.register()
    x, weight, residual = normal(rows, columns), normal(columns), normal(rows, columns)
    target = torch.randint(0, columns, (rows,), device=DEVICE)

    def add_and_norm(x: Tensor, weight: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        total = x + residual
        return F.rms_norm(total, (columns,), weight, 1e-6), total

    classes = normal(columns, min(columns, COLUMNS)).T.contiguous() / 8
    linear = [x, classes, target % COLUMNS]

    def linear_loss(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(x @ weight.T, target)

    return {
        "softmax": (ours.softmax, lambda x: torch.softmax(x, -1), [x]),
        "log_softmax": (ours.log_softmax, lambda x: torch.log_softmax(x, -1), [x]),
        "cross_entropy": (ours.cross_entropy, F.cross_entropy, [x, target]),
        "cross_entropy none": (
            lambda x, target: ours.cross_entropy(x, target, "none"),
            lambda x, target: F.cross_entropy(x, target, reduction="none"),
            [x, target],
        ),
        "rms_norm": (
            ours.rms_norm,
            lambda x, weight: F.rms_norm(x, (columns,), weight, 1e-6),
            [x, weight],
        ),
        "rms_norm_residual": (
            lambda x, weight, residual: ours.rms_norm_residual(x, residual, weight),
            add_and_norm,
            [x, weight, residual],
        ),
        "layer_norm": (
            ours.layer_norm,
            lambda x, weight, bias: F.layer_norm(x, (columns,), weight, bias),
            [x, weight, normal(columns)],
        ),
        "linear_cross_entropy": (ours.linear_cross_entropy, linear_loss, linear),
        "linear_cross_entropy, float32": (  # which torch multiplies
            ours.linear_cross_entropy,
            linear_loss,
            [each.float() if each.is_floating_point() else each for each in linear],
        ),
        "column_sum": (lambda x: ours.column_sum([x]), lambda x: x.sum(0), [x]),
    }


def time_call(call: Callable[[], Any], seconds: float = 0.05) -> float:
    """Return µs per call: the least of several loops, since others use this machine."""
    for _ in range(5):
        call()
    synchronize()
    started, count = time.perf_counter(), 20
    best = float("inf")
    while time.perf_counter() - started < seconds or best == float("inf"):
        first = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - first) / count)
        synchronize()
    return best * 1e6


def synchronize() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def as_leaves(arguments: Sequence[Tensor]) -> list[Tensor]:
    return [
        each.detach().clone().requires_grad_() if each.is_floating_point() else each
        for each in arguments
    ]


def time_three(call: Callable[..., Any], arguments: Sequence[Tensor]) -> list[float]:
    """Return µs of a call without gradients, of one with, and of its backward."""
    leaves = as_leaves(arguments)
    needed = [each for each in leaves if each.requires_grad]
    found = call(*leaves)
    outputs = list(found) if isinstance(found, tuple) else [found]
    ones = [torch.ones_like(each) for each in outputs]

    def backward() -> None:
        torch.autograd.grad(outputs, needed, ones, retain_graph=True)

    return [
        time_call(lambda: call(*arguments)),
        time_call(lambda: call(*leaves)),
        time_call(backward),
    ]


def differentiate(
    call: Callable[..., Any], arguments: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return outputs and gradients."""
    needed = [each for each in arguments if each.requires_grad]
    found = call(*arguments)
    outputs = list(found) if isinstance(found, tuple) else [found]
    ones = [torch.ones_like(each) for each in outputs]
    return outputs, list(torch.autograd.grad(outputs, needed, ones))


def check_graph(call: Callable[..., Any], arguments: Sequence[Tensor], warm: bool) -> str:
    """Capture forward and backward, replay them on other values, and compare with eager calls."""
    leaves = as_leaves(arguments)
    if warm:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                differentiate(call, leaves)
        torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = differentiate(call, leaves)
    with torch.no_grad():
        for each in leaves:
            if each.is_floating_point():
                each.copy_(torch.randn_like(each) / 8)
    graph.replay()
    torch.cuda.synchronize()
    return compare(captured, differentiate(call, leaves))


def check_compiled(call: Callable[..., Any], arguments: Sequence[Tensor]) -> str:
    """Compile it with CUDA graphs, without a graph break, and compare with eager calls."""
    torch._dynamo.reset()
    fast = torch.compile(call, fullgraph=True, mode="reduce-overhead")
    leaves = as_leaves(arguments)
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        found = [[each.clone() for each in part] for part in differentiate(fast, leaves)]
    return compare((found[0], found[1]), differentiate(call, leaves))


def compare(
    found: tuple[list[Tensor], list[Tensor]], expected: tuple[list[Tensor], list[Tensor]]
) -> str:
    """Return what differs: the same kernels on the same values give the same bits, but for sums
    whose order is not fixed."""
    for mine, theirs in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        if mine.shape != theirs.shape or not torch.allclose(
            mine.float(), theirs.float(), rtol=2e-2, atol=1e-3, equal_nan=True
        ):
            return f"off by {float((mine.float() - theirs.float()).abs().max()):.3g}"
    return ""


def check_all(operators: Operators) -> dict[str, dict[str, str]]:
    """Check every operator in turn; what raises is told like what differs."""
    results: dict[str, dict[str, str]] = {}
    shared = list_operators(*LONG)
    for name, (ours, _, arguments) in operators.items():
        width = COLUMNS - 24
        odd = [
            each[..., :width].contiguous() if each.is_floating_point() else each % width
            for each in arguments
        ]
        checks: dict[str, Callable[[], str]] = {
            "graph": lambda o=ours, a=arguments: check_graph(o, a, True),  # type: ignore[misc]
            "cold graph": lambda o=ours, a=odd: check_graph(o, a, False),  # type: ignore[misc]
            "long rows": lambda o=shared[name]: check_graph(o[0], o[2], True),  # type: ignore[misc]
            "compiled": lambda o=ours, a=arguments: check_compiled(o, a),  # type: ignore[misc]
        }
        results[name] = {}
        for check, run in checks.items():
            try:
                wrong = run()
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            results[name][check] = wrong
            print(f"{name:30}{check:12}{wrong or 'right'}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true", help="on a GPU: CUDA graphs, torch.compile")
    parser.add_argument("--only-check", action="store_true", help="the same, and nothing is timed")
    parser.add_argument("--operator", action="append", help="of these operators alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = None if ON_GPU else stand_in()
    where = torch.cuda.get_device_name() if ON_GPU else "stand-in for a GPU: nothing is launched"
    print(f"{where}, torch {torch.__version__}, triton {triton.__version__}")
    print(f"µs of host time per call, {ROWS} × {COLUMNS} bfloat16; goal {GOAL:g}")
    print(f"{'':30}{'ours':>27}   {'torch':>27}")
    names = "".join(f"{name:>9}" for name in ("no grad", "forward", "backward"))
    print(f"{'':30}{names}   {names}")
    results: dict[str, Any] = {}
    operators = {
        name: each
        for name, each in list_operators().items()
        if given.operator is None or name in given.operator
    }
    for name, (ours, theirs, arguments) in operators.items():
        if given.only_check:
            break
        rounds = [[time_three(each, arguments) for each in (ours, theirs)] for _ in range(ROUNDS)]
        times = [[min(each) for each in zip(*of, strict=True)] for of in zip(*rounds, strict=True)]
        results[name] = times
        print(f"{name:30}" + "   ".join("".join(f"{t:9.1f}" for t in each) for each in times))
    if made is not None:
        print(f"{made.launches} launches went to the stand-in")
    if (given.check or given.only_check) and ON_GPU:
        results["checks"] = check_all(operators)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
