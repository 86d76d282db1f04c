"""Checks of who gets a call of an operator: its kernels at once, or torch's dispatcher, where
anything else could have a say. The operator is one of torch's own products on the CPU.

test_operators.py has ``called_checks.py`` make them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import perfcli.operators
from perfcli.errors import PerfcliError

direct: Any = import_module("perfcli.kernels._operators.direct")
dispatch: Any = import_module("perfcli.kernels._operators.dispatch")


def product(x: Tensor, weight: Tensor, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    y, squares = torch.empty_like(x), torch.empty_like(x)
    torch.mul(x, weight, out=y)
    y.mul_(scale)
    torch.mul(y, y, out=squares)
    return y, squares


def fake(x: Tensor, weight: Tensor, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.scale = inputs[2]


def differentiate(ctx: Any, dy: Tensor, *_: Any) -> Any:
    x, weight = ctx.saved_tensors
    return ctx.scale * dy * weight, ctx.scale * (dy * x).sum_to_size(weight.shape), None


SCHEMA = "(Tensor x, Tensor weight, float scale=2.0)"
PRODUCT = dispatch.Operator("product", f"{SCHEMA} -> (Tensor, Tensor)", product, fake)
PRODUCT.register_autograd(differentiate, setup_context=keep, constant=1)
FIRST = PRODUCT.define_first("first_product", f"{SCHEMA} -> Tensor")
DISPATCHED = 0


def through_dispatcher(*arguments: Any) -> Any:
    global DISPATCHED
    DISPATCHED += 1
    return torch.ops.perfcli.first_product(*arguments)


NODE = dispatch._make_node(keep, differentiate, False, first=True)
CALL = direct.make_direct(PRODUCT._run, through_dispatcher, NODE, PRODUCT._run.first)
X, WEIGHT = torch.randn(3, 4), torch.randn(4)
CALL(X, WEIGHT)


def dispatched(call: Callable[[], Any]) -> int:
    before = DISPATCHED
    call()
    return DISPATCHED - before


class Mode(TorchDispatchMode):  # type: ignore[misc]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Subclass(Tensor):  # type: ignore[misc]
    pass


def leaked() -> Tensor:
    """Return a tensor of a transform of torch.func that is over."""
    kept: list[Tensor] = []

    def square(x: Tensor) -> Tensor:
        kept.append(x * 1)
        return (x * x).sum()

    torch.func.grad(square)(X)
    return kept[0]


def at_once() -> str:
    """Calls that nothing else concerns; with other values and scales than the first one."""
    x, weight = torch.randn(3, 4), torch.nn.Parameter(torch.randn(4))
    with torch.inference_mode():
        CALL(x, weight, 3.0)
    calls: dict[str, Callable[[], Tensor]] = {
        "plain": lambda: CALL(x, weight.detach()),
        "a parameter": lambda: CALL(x, weight),
        "by name": lambda: CALL(weight=weight, x=x, scale=3.0),
    }
    for name, call in calls.items():
        expected = x * weight * (3.0 if name == "by name" else 2.0)
        for block in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):
            with block:
                before = DISPATCHED
                found = call()
                if before != DISPATCHED or not torch.equal(found, expected):
                    return f"{name}, {block}: {DISPATCHED - before} dispatched, {found}"
                if found.is_inference() != torch.is_inference_mode_enabled():
                    return f"{name}, {block}: inference {found.is_inference()}"
    return ""


def gradients() -> str:
    """They are right, and nobody is asked."""
    leaves = [X.clone().requires_grad_(), WEIGHT.clone().requires_grad_()]
    before = DISPATCHED
    found = torch.autograd.grad(CALL(*leaves).sum(), leaves)
    expected = (2.0 * WEIGHT.expand(3, 4), 2.0 * X.sum(0))
    good = all(torch.allclose(*pair) for pair in zip(found, expected, strict=True))
    return "" if good and before == DISPATCHED else f"{found}, {DISPATCHED - before} dispatched"


def with_a_say() -> str:
    """The dispatcher is asked while a mode, a tracer, autocast or a profiler is there."""
    blocks: dict[str, Any] = {
        "a mode": Mode(),
        "a function mode": FunctionMode(),
        "a default device": torch.device("cpu"),
        "fake tensors": FakeTensorMode(allow_non_fake_inputs=True),
        "a profiler": torch.profiler.profile(),
    }
    for name, block in blocks.items():
        with block:
            if dispatched(lambda: CALL(X, WEIGHT)) != 1:
                return f"{name} was passed by"
    if "perfcli::first_product" not in {each.name for each in blocks["a profiler"].events()}:
        return "the profiler does not know the operator's name"
    torch.set_autocast_enabled("cuda", True)
    try:
        if dispatched(lambda: CALL(X, WEIGHT)) != 1:
            return "autocast was passed by"
    finally:
        torch.set_autocast_enabled("cuda", False)
    return ""


def traced() -> str:
    """Tracers find the operator, and what they found computes."""
    traces: dict[str, Callable[[], Any]] = {
        "torch.jit.trace": lambda: torch.jit.trace(CALL, (X, WEIGHT), check_trace=False).graph,
        "make_fx": lambda: make_fx(lambda x, y: CALL(x, y))(X, WEIGHT).graph,
        "symbolic_trace": lambda: torch.fx.symbolic_trace(lambda x, y: CALL(x, y)).graph,
        "export": lambda: torch.export.export(Module(), (X, WEIGHT)).graph,
        "strict export": lambda: torch.export.export(Module(), (X, WEIGHT), strict=True).graph,
    }
    for name, trace in traces.items():
        if "perfcli" not in str(trace()) and dispatched(trace) != 1:
            return f"{name}: {trace()}"
    fast = torch.compile(CALL, fullgraph=True, backend="aot_eager")
    return "" if torch.equal(fast(X, WEIGHT), CALL(X, WEIGHT)) else "compiled, it is another"


class Module(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        found: Tensor = torch.ops.perfcli.first_product(x, weight)
        return CALL(x, weight) + found


def tensors() -> str:
    """Tensors that are more than memory with strides are the dispatcher's."""
    negative = torch._neg_view(X)
    for name, x in {"negative": negative, "a subclass": X.as_subclass(Subclass)}.items():
        before = DISPATCHED
        found = CALL(x, WEIGHT)
        expected = (-X if name == "negative" else X) * WEIGHT * 2.0
        if DISPATCHED - before != 1 or not torch.equal(found, expected):
            return f"{name}: {found}, not {expected}"
    for name, x in {"of a transform that is over": leaked(), "sparse": X.to_sparse()}.items():
        before = DISPATCHED
        try:
            found = CALL(x, WEIGHT)
            if not torch.equal(found, X * WEIGHT * 2.0):
                return f"{name}: {found}"
        except (RuntimeError, NotImplementedError):
            pass  # the dispatcher's refusal
        if DISPATCHED - before != 1:
            return f"{name}: the dispatcher was passed by"
    return ""


def transforms() -> str:
    """Transforms of torch.func are refused, not passed by."""
    for transform in (torch.func.vmap, torch.func.grad):
        before = DISPATCHED
        with suppress(RuntimeError):
            transform(lambda x: CALL(x, WEIGHT).sum())(X)
        if before == DISPATCHED:
            return f"{transform} was passed by"
    return ""


def nowhere() -> str:
    """Without a GPU and without the interpreter an operator says what it needs."""
    try:
        perfcli.operators.register().softmax(torch.zeros(2, 3))
    except PerfcliError as error:
        wanted = ("run on a GPU, and these tensors are on cpu", "TRITON_INTERPRET=1")
        return "" if all(words in str(error) for words in wanted) else f"said {error}"
    return "nothing was raised"


CHECKS = {
    check.__name__: check
    for check in (at_once, gradients, with_a_say, traced, tensors, transforms, nowhere)
}
