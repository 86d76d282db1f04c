"""Checks of what operators do from the second call on: without a GPU, with a driver for Triton that
launches nothing and keeps what it was to launch.

test_operators.py has ``called_checks.py`` make them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import torch
import triton
from operator_calls import Launcher, list_operators, stand_in
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

DRIVER = stand_in()
reduction: Any = import_module("perfcli.kernels._operators.reduction")
replay: Any = import_module("perfcli.kernels._operators.replay")
calls: Any = import_module("perfcli.kernels._operators.calls")


def make_many(x: Tensor, y: Tensor, weights: Tensor, scale: float = 2.0) -> tuple[Tensor, ...]:
    """Do all that a family may do on the host: views, copies, fills, writes in place, products."""
    room = x.new_empty((2, *x.shape))
    first, second = room.unbind(0)
    first.copy_(x)
    second[:] = y.expand(x.shape)
    second += first
    second[1:].mul_(scale)
    product = torch.empty((x.shape[0], weights.shape[1]), dtype=x.dtype)
    torch.mm(second, weights, out=product)
    highest, where = product.max(1)
    padded = x.new_zeros(x.numel() + 3)[3:].view(x.shape)
    padded += torch.where(padded > highest[:, None], padded, highest[:, None])
    flat = x.new_empty(x.numel())
    flat.copy_(second.reshape(-1))  # in another shape than it is returned
    halves = product.new_zeros(8).view(torch.float16)
    halves[3:5] = second[0, 0].half()
    others = (product.T, where.clone(), padded.reshape(-1), halves.float())
    return second.contiguous(), *others, flat.view(x.shape)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape)


def differ(found: Sequence[Tensor], expected: Sequence[Tensor]) -> str:
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if mine.stride() != theirs.stride() or not torch.equal(mine, theirs):
            return f"result {number}: {mine} {mine.stride()}, not {theirs} {theirs.stride()}"
    return ""


def repeats() -> str:
    """The second call has other tensors; and the first had one of them twice."""
    ran = 0

    def counted(x: Tensor, y: Tensor, weights: Tensor, scale: float = 2.0) -> Any:
        nonlocal ran
        ran += 1
        return make_many(x, y, weights, scale)

    call = replay.PlanReplay(counted, "(Tensor x, Tensor y, Tensor weights, float scale=2.0)")
    same = normal(4, 6)
    for x, y in ((same, same), (normal(4, 6), normal(4, 6)), (normal(4, 6), normal(4, 6))):
        given = (x, y, normal(6, 5))
        if wrong := differ(call(*given), make_many(*given)):
            return wrong
    if wrong := differ(call(*given, 3.0), make_many(*given, 3.0)):
        return wrong
    call(normal(6, 4).T, *given[1:])
    return "" if ran == 3 else f"ran {ran} times for three layouts"


def keep_launches() -> list[tuple[Any, ...]]:
    kept: list[tuple[Any, ...]] = []

    def launcher(_source: Any, _metadata: Any) -> Launcher:
        return Launcher(lambda *arguments: kept.append(arguments))

    DRIVER.launcher_cls = launcher  # type: ignore[method-assign]
    return kept


KEPT = keep_launches()


def planned() -> list[Any]:
    """Count plans: one per family's operation that is computed the slow way."""
    found: list[Any] = []
    plain = calls.FamilyKernels.__call__

    def counted(self: Any, operation: str, *rest: Any) -> Any:
        found.append(operation)
        return plain(self, operation, *rest)

    calls.FamilyKernels.__call__ = counted
    return found


PLANNED = planned()


def launched(call: Callable[[], Any], tensors: Sequence[Tensor]) -> list[tuple[Any, ...]]:
    """All arguments of its launches; addresses by the argument they belong to, others unnamed."""
    KEPT.clear()
    results = call()
    outputs = results if isinstance(results, tuple) else (results,)
    names = {each.data_ptr(): f"argument {n}" for n, each in enumerate(tensors)}
    names |= {each.data_ptr(): f"output {n}" for n, each in enumerate(outputs)}

    def name(value: Any) -> Any:
        address = value.data_ptr() if isinstance(value, Tensor) else value
        if isinstance(value, Tensor) or (isinstance(value, int) and value > 1 << 32):
            return names.get(address, "elsewhere")
        return value

    return [(*each[:4], *map(name, each[-1])) for each in KEPT]


def launches(name: str) -> str:
    """The second call launches what the first one did, for its own tensors, and plans nothing."""
    ours, _, given = list_operators()[name]
    others = [torch.randn_like(x) if x.is_floating_point() else x.clone() for x in given]
    first = launched(lambda: ours(*given), given)
    before = len(PLANNED)
    second = launched(lambda: ours(*others), others)
    if len(PLANNED) != before:
        return "planned again"
    # Of float32, torch multiplies x, and another kernel adds up the losses.
    alone = name != "linear_cross_entropy, float32"
    if alone and not any("argument 0" in each for each in second):
        return f"nobody reads the argument: {second}"
    if alone and not any("output 0" in each for each in second):
        return f"nobody writes the output: {second}"
    return "" if first == second else f"{second}, first {first}"


def gradients(name: str) -> str:
    """So does the second backward."""
    ours, _, given = list_operators()[name]
    kept = []
    for _ in range(2):
        leaves = [x.clone().requires_grad_() if x.is_floating_point() else x.clone() for x in given]
        found = ours(*leaves)
        KEPT.clear()
        before = len(PLANNED)
        (found[0] if isinstance(found, tuple) else found).sum().backward()
        kept.append([each[:4] for each in KEPT])
    if len(PLANNED) != before:
        return "planned again"
    return "" if kept[0] == kept[1] else f"{kept}"


def hooks() -> str:
    """Somebody who watches launches is told of every one."""
    ours, _, given = list_operators()["softmax"]
    ours(*given)
    chain = triton.knobs.runtime.launch_enter_hook
    hook = print
    chain.add(hook)
    try:
        KEPT.clear()
        ours(*given)
        if len(KEPT) != 1 or hook not in KEPT[0][-2][0].calls:
            return f"the launcher got no hook: {KEPT}"
    finally:
        chain.remove(hook)
    return ""


class Current:
    """Stands for ``torch.cuda.device`` where there is none."""

    now: list[Any] = []  # noqa: RUF012 (one for all)

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.now.append(self.device)

    def __exit__(self, *_: Any) -> None:
        self.now.pop()


def devices() -> str:
    """Losses are reduced, and their gradient spread, on the device where they are, whichever is
    current."""
    seen: list[Any] = []
    torch.cuda.device = Current
    reduction.launch = lambda _, plan, __: seen.append((plan.variant, *Current.now))
    with FakeTensorMode():
        there = torch.device("cuda:1")
        losses = torch.empty(5, device=there)
        targets = torch.empty(5, dtype=torch.int64, device=there)
        loss, scale = reduction.reduce_losses(losses, targets, -100, True)
        reduction.spread_gradient(loss, scale, 5)
    return "" if seen == [("reduce", there), ("spread", there)] else f"{seen}"


NAMES = tuple(list_operators())
CHECKS: dict[str, Callable[[], str]] = {
    "repeats": repeats,
    **{f"launches {name}": lambda n=name: launches(n) for name in NAMES},  # type: ignore[misc]
    **{
        f"gradients {name}": lambda n=name: gradients(n)  # type: ignore[misc]
        for name in NAMES
        if name != "column_sum"  # a view of what came
    },
    "hooks": hooks,
    "devices": devices,
}
