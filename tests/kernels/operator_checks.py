"""Checks of the operators: on a GPU, or with TRITON_INTERPRET=1 through Triton's interpreter.

test_operators.py starts it in a process of its own. Prints a line of JSON per check: its name, and
what went wrong (empty: nothing); of those alone in whose name one of the arguments is."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import perfcli.operators
from perfcli.compile.cpp_cache import keep_cpp_work
from perfcli.errors import PerfcliError
from perfcli.handwritten.interpreter import prepare

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
OPS = perfcli.operators.register()
RAW = torch.ops.perfcli
"""What torch's dispatcher knows."""
_operator_calls = import_module("perfcli.kernels._operators.calls")
EPS = 1e-5
ROUNDING = {torch.float32: 2.0**-18, torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9}
"""Of the largest value: a few roundings of the dtype."""


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(DEVICE, dtype)


def targets(shape: tuple[int, ...], classes: int) -> Tensor:
    found = torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(4))
    found.view(-1)[0] = -100
    return found.to(DEVICE)


def both(x: Tensor, weight: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return F.rms_norm(total, (x.shape[-1],), weight, EPS), total


Arguments = tuple[Tensor, ...]
Function = Callable[..., Any]
Pair = tuple[Function, Function, Callable[[torch.dtype], Arguments]]
"""Ours, torch's, and what makes the arguments of both."""


def linear(
    how: str, hidden: int, ignored: int = -100, smoothing: float = 0.0, softcap: float = 0.0
) -> Pair:
    target = targets((7,), 5)
    target[target == -100] = ignored

    def theirs(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        logits = x @ weight.T
        logits = softcap * torch.tanh(logits / softcap) if softcap else logits
        return F.cross_entropy(
            logits, target, ignore_index=ignored, reduction=how, label_smoothing=smoothing
        )

    return (
        lambda x, w, t: OPS.linear_cross_entropy(x, w, t, how, ignored, smoothing, softcap),
        theirs,
        lambda dtype: (
            rows(7, hidden, dtype=dtype),
            rows(33, hidden, dtype=dtype),
            target,
        ),
    )


PAIRS: dict[str, Pair] = {
    "softmax": (
        OPS.softmax,
        lambda x: torch.softmax(x, -1),
        lambda dtype: (rows(2, 3, 37, dtype=dtype),),
    ),
    "log_softmax": (
        OPS.log_softmax,
        lambda x: torch.log_softmax(x, -1),
        lambda dtype: (rows(5, 130, dtype=dtype)[:, :101],),  # rows are apart
    ),
    **{
        f"cross_entropy, {how}": (
            lambda x, t, how=how: OPS.cross_entropy(x, t, how),
            lambda x, t, how=how: F.cross_entropy(x, t, reduction=how),
            lambda dtype: (rows(7, 33, dtype=dtype), targets((7,), 33)),
        )
        for how in ("mean", "sum", "none")
    },
    # Of half precision, those of 32 columns by tiles of our own, and of 24 in chunks.
    "linear_cross_entropy, mean": linear("mean", 32, smoothing=0.1, softcap=4.0),
    "linear_cross_entropy, sum": linear("sum", 32, ignored=2),
    "linear_cross_entropy, none": linear("none", 24),
    "rms_norm": (
        lambda x, weight: OPS.rms_norm(x, weight, EPS),
        lambda x, weight: F.rms_norm(x, (x.shape[-1],), weight, EPS),
        lambda dtype: (rows(2, 3, 48, dtype=dtype), rows(48, dtype=dtype)),
    ),
    "rms_norm_residual": (
        lambda x, weight, residual: OPS.rms_norm_residual(x, residual, weight, EPS),
        both,
        lambda dtype: (
            rows(6, 29, dtype=dtype),
            rows(29, dtype=dtype),
            rows(6, 29, dtype=dtype) / 2,
        ),
    ),
    "layer_norm": (
        lambda x, weight, bias: OPS.layer_norm(x, weight, bias, EPS),
        lambda x, weight, bias: F.layer_norm(x, (x.shape[-1],), weight, bias, EPS),
        lambda dtype: tuple(rows(*shape, dtype=dtype) for shape in ((2, 3, 48), (48,), (48,))),
    ),
    "layer_norm_residual": (
        lambda x, weight, bias, r: OPS.layer_norm_residual(x, r, weight, bias, EPS)[:2],
        lambda x, weight, bias, r: (
            F.layer_norm(x + r, (x.shape[-1],), weight, bias, EPS),
            x + r,
        ),
        lambda dtype: (
            *(rows(*shape, dtype=dtype) for shape in ((6, 29), (29,), (29,))),
            rows(6, 29, dtype=dtype) / 2,
        ),
    ),
    "column_sum": (
        lambda *inputs: OPS.column_sum(list(inputs)),
        lambda *inputs: sum(inputs).sum((0, 1)),
        lambda dtype: (rows(2, 9, 21, dtype=dtype), rows(2, 9, 21, dtype=dtype) / 3),
    ),
}


# --- numbers -------------------------------------------------------------------------------------


def results(function: Function, arguments: Arguments) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs, and gradients of all arguments that can have one; of a fixed direction."""
    own = [
        a.detach().as_strided(a.shape, a.stride()).clone().requires_grad_()
        if a.is_floating_point()
        else a
        for a in arguments
    ]
    found = function(*own)
    outputs = list(found) if isinstance(found, tuple) else [found]
    directions = [rows(*each.shape).to(each.dtype) for each in outputs]
    needed = [a for a in own if a.is_floating_point()]
    return outputs, list(torch.autograd.grad(outputs, needed, directions))


def compare(name: str, dtype: torch.dtype) -> str:
    ours, reference, make = PAIRS[name]
    arguments = make(dtype)
    wide = tuple(a.double() if a.is_floating_point() else a for a in arguments)
    found, expected = results(ours, arguments), results(reference, wide)
    if not INTERPRETED:  # what comes from the second call on is what the first one noted
        found = results(ours, arguments)
    for kind, mine, theirs in zip(("output", "gradient"), found, expected, strict=True):
        for number, (value, truth) in enumerate(zip(mine, theirs, strict=True)):
            largest = float(truth.abs().max())
            error = float((value.double() - truth).abs().max())
            if value.shape != truth.shape or not error <= ROUNDING[dtype] * max(largest, 1.0):
                return f"{kind} {number}: off by {error}, largest {largest}"
    return ""


def gradcheck(name: str) -> str:
    """By differences in float32: ε and what is allowed are as wide as that needs."""
    ours, _, make = PAIRS[name]
    arguments = tuple(
        a.detach().clone().requires_grad_() if a.is_floating_point() else a[:5]
        for a in (x[..., :5, :] if x.dim() > 1 else x for x in make(torch.float32))
    )
    good = torch.autograd.gradcheck(
        ours, arguments, eps=2e-2, atol=4e-3, rtol=2e-2, fast_mode=True, nondet_tol=0.0
    )
    return "" if good else "gradcheck fails"


# --- what torch asks of an operator --------------------------------------------------------------


def opcheck(operator: Any, arguments: Sequence[Any]) -> str:
    done = torch.library.opcheck(operator, tuple(arguments), raise_exception=False)
    return "; ".join(f"{test}: {came}" for test, came in done.items() if came != "SUCCESS")


def gradient() -> Tensor:
    return rows(4, 19).requires_grad_()


OPCHECKS: dict[str, Callable[[], tuple[Any, Sequence[Any]]]] = {
    "softmax": lambda: (RAW.softmax, [gradient()]),
    "log_softmax": lambda: (RAW.log_softmax, [gradient()]),
    "softmax_backward": lambda: (RAW.softmax_backward, [rows(4, 19), rows(4, 19)]),
    **{
        f"cross_entropy_parts {how}": lambda how=how: (  # type: ignore[misc]
            RAW.cross_entropy_parts,
            [gradient(), targets((4,), 19), how],
        )
        for how in ("mean", "none")
    },
    "cross_entropy": lambda: (RAW.cross_entropy, [gradient(), targets((4,), 19), "mean"]),
    "cross_entropy_backward": lambda: (
        RAW.cross_entropy_backward,
        [rows(1)[0], rows(4, 19), targets((4,), 19), rows(4), rows(1)[0]],
    ),
    "linear_cross_entropy_parts": lambda: (
        RAW.linear_cross_entropy_parts,
        [gradient(), rows(33, 19).requires_grad_(), targets((4,), 33), "mean", -100, 0.1, 2.0],
    ),
    "linear_cross_entropy_backward": lambda: (
        RAW.linear_cross_entropy_backward,
        [
            rows(1)[0],
            rows(4, 19),
            rows(33, 19),
            targets((4,), 33),
            rows(4),
            rows(1)[0],
            -100,
            0.0,
            0.0,
        ],
    ),
    "rms_norm": lambda: (RAW.rms_norm, [gradient(), rows(19).requires_grad_(), 1e-5]),
    "rms_norm_backward": lambda: (
        RAW.rms_norm_backward,
        [rows(4, 19), rows(4, 19), rows(19), 1e-5],
    ),
    "layer_norm": lambda: (
        RAW.native_layer_norm,
        [gradient(), rows(19).requires_grad_(), rows(19).requires_grad_(), 1e-5],
    ),
    "layer_norm_residual_backward": lambda: (
        RAW.layer_norm_residual_backward,
        [rows(4, 19), rows(4, 19), rows(4, 19), rows(19), rows(4), rows(4).exp()],
    ),
    "rms_norm_residual": lambda: (
        RAW.rms_norm_residual,
        [gradient(), rows(4, 19).requires_grad_(), rows(19).requires_grad_(), 1e-5],
    ),
    "column_sum": lambda: (RAW.column_sum, [[gradient(), rows(4, 19)]]),
}


def block(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    y, total = OPS.rms_norm_residual(x, 0.5 * x, weight, EPS)
    z = OPS.softmax(y + 1.0) * OPS.log_softmax(total)
    return OPS.cross_entropy(z, target) + OPS.column_sum([z, y]).sum()


def compiled(backend: str, shapes: Sequence[tuple[int, int]], dynamic: bool) -> str:
    """No graph break, the same numbers and gradients as without torch.compile, and nothing compiled
    again for another shape. (The first may take two attempts, until a float is a constant.)"""
    graphs, first = 0, 0

    def counted(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    torch._dynamo.reset()
    fast = torch.compile(block, backend=counted, fullgraph=True, dynamic=dynamic)
    for count, columns in shapes:
        arguments = (rows(count, columns), rows(columns), targets((count,), columns))
        found, expected = results(fast, arguments), results(block, arguments)
        for mine, theirs in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
            if not torch.allclose(mine, theirs, rtol=1e-4, atol=1e-4):
                return f"{count} × {columns}: off by {float((mine - theirs).abs().max())}"
        first = first or graphs
    return "" if 0 < graphs == first else f"{graphs} graphs, {first} for the first shape"


# --- corners -------------------------------------------------------------------------------------


def refused(function: Callable[[], Any], words: str, kind: type[Exception] = PerfcliError) -> str:
    try:
        function()
    except kind as error:
        return "" if words in str(error) else f"said {error}"
    return "nothing was raised"


def twice() -> None:
    x = gradient()
    (once,) = torch.autograd.grad(OPS.softmax(x).square().sum(), x, create_graph=True)
    once.sum().backward()


def corners() -> str:
    masked = torch.full((2, 17), float("-inf"), device=DEVICE)
    masked[1] = 0.0
    y = OPS.softmax(masked)
    if not (y[0].isnan().all() and torch.allclose(y[1], torch.full_like(y[1], 1 / 17))):
        return f"a masked row gives {y}"
    if not OPS.cross_entropy(rows(3, 9), torch.full((3,), -100, device=DEVICE)).isnan():
        return "the mean of no losses is a number"
    for empty in (OPS.softmax(rows(0, 9)), OPS.rms_norm(rows(0, 9), rows(9), EPS)):
        if empty.shape != (0, 9):
            return f"no rows give {empty.shape}"
    if not torch.equal(OPS.column_sum([rows(0, 9)]), torch.zeros(9, device=DEVICE)):
        return "a sum of nothing is not zero"
    transposed, apart = rows(9, 4).T, rows(4, 9)[:, ::2]
    for x in (transposed, apart, rows(1, 9).expand(4, 9), rows(45)[1:37].view(4, 9)):
        if OPS.softmax(x).data_ptr() % 16:
            return f"strides {x.stride()}: the result begins between multiples of 16 bytes"
        if not torch.allclose(OPS.softmax(x), torch.softmax(x, -1), atol=1e-6):
            return f"strides {x.stride()} are wrong"
    return ""


def short_rows() -> str:
    """Rows of no element and of one, no rows and one, with their gradients, as torch has them."""
    for name, (ours, theirs, make) in PAIRS.items():
        for count, columns in ((3, 1), (1, 1), (1, 5), (0, 5), (3, 0), (0, 0)):
            classes = count if name.startswith("linear") else columns
            if classes == 0 and "cross_entropy" in name:
                continue  # no target is a class
            arguments = []
            for each in make(torch.float32):
                if not each.is_floating_point():
                    arguments.append(torch.zeros(count, dtype=torch.int64, device=DEVICE))
                else:
                    arguments.append(rows(*((count, columns) if each.dim() > 1 else (columns,))))
            if name == "column_sum":
                arguments = [each[None] for each in arguments]
            wide = tuple(a.double() if a.is_floating_point() else a for a in arguments)
            for mine, truth in zip(
                results(ours, tuple(arguments)), results(theirs, wide), strict=True
            ):
                for value, right in zip(mine, truth, strict=True):
                    if value.shape != right.shape or not torch.allclose(
                        value.double(), right.double(), atol=1e-5, equal_nan=True
                    ):
                        return f"{name} {count} × {columns}: {value}, not {right}"
    return ""


class Counting(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def modes() -> str:
    """A mode sees the operator and its gradient; a fake tensor gets the shape, dtype and strides
    that the real one has."""
    x = gradient()
    with Counting() as counting:
        OPS.softmax(x).sum().backward()
        OPS.cross_entropy(x, targets((4,), 19))
    for name in ("softmax", "softmax_backward", "cross_entropy_parts"):
        if counting.seen.count(f"perfcli.{name}.default") != 1:
            return f"{name} is not in {counting.seen}"
    if not torch.allclose(x.grad, torch.zeros_like(x), atol=1e-6):
        return f"the gradient of a constant is {x.grad}"
    for name, (ours, _, make) in PAIRS.items():
        given = [each.transpose(0, -1).contiguous().transpose(0, -1) for each in make(torch.half)]
        with FakeTensorMode() as mode:
            fake = ours(*(mode.from_tensor(each) for each in given))
        real = ours(*given)
        for one, other in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (fake, real)), strict=True
        ):
            if (one.shape, one.dtype, one.stride()) != (other.shape, other.dtype, other.stride()):
                return f"{name}: fake {one}, real {other.shape} {other.dtype} {other.stride()}"
    return ""


def autocast() -> str:
    """Results have the dtypes of torch's own operators, weights are cast, and so are gradients."""
    x, weight = rows(4, 19, dtype=torch.bfloat16).requires_grad_(), rows(19).requires_grad_()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        found = [
            OPS.softmax(x),
            OPS.log_softmax(x),
            OPS.cross_entropy(x, targets((4,), 19)),
            OPS.rms_norm(x, weight, EPS),
            OPS.layer_norm(x, weight, weight),
            *OPS.rms_norm_residual(x, x, weight, EPS),
            OPS.column_sum([x]),
            OPS.linear_cross_entropy(x, rows(7, 19), targets((4,), 7)),
        ]
    if {each.dtype for each in found} != {torch.float32}:
        return f"{[each.dtype for each in found]}"
    dx, dweight = torch.autograd.grad(found[3].square().sum(), (x, weight))
    return "" if (dx.dtype, dweight.dtype) == (x.dtype, weight.dtype) else f"{dx} {dweight}"


class LlamaRMSNorm(torch.nn.Module):  # type: ignore[misc]
    """Is written as that of Hugging Face's library."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(rows(size))
        self.variance_epsilon = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        result: Tensor = self.weight * wide.to(x.dtype)
        return result


def examples() -> str:
    """The drop-ins of docs/kernels.md do what they replace."""
    page = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "def replace_norms" in block), names)
    model = torch.nn.Sequential(LlamaRMSNorm(16), torch.nn.Linear(16, 11)).to(DEVICE)
    x, labels = rows(2, 5, 16), targets((2, 5), 11)
    logits = model(x)
    names["replace_norms"](model)
    if not torch.allclose(model(x), logits, atol=1e-5) or "forward" not in vars(model[0]):
        return "the norm is another"
    for items in (None, 3):
        loss = names["causal_loss"](logits, labels, 11, num_items_in_batch=items)
        sums = F.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum"
        )
        if not torch.allclose(loss, sums / (items or (labels[:, 1:] != -100).sum()), atol=1e-5):
            return f"the loss is {loss}"
    shifted = names["causal_loss"](logits, None, 11, shift_labels=labels)
    if not torch.allclose(shifted, F.cross_entropy(logits.flatten(0, 1), labels.flatten())):
        return f"the loss of labels that are shifted is {shifted}"
    query, key, value = rows(1, 4, 5, 8), rows(1, 2, 5, 8) / 2, rows(1, 2, 5, 8) / 3
    mask = torch.full((5, 5), float("-inf"), device=DEVICE).triu(1)
    found, _ = names["attend"](model, query, key, value, mask, 0.3)
    right = F.scaled_dot_product_attention(query, key, value, mask, scale=0.3, enable_gqa=True)
    return "" if torch.allclose(found, right.transpose(1, 2), atol=1e-5) else "attention is another"


CHECKS: dict[str, Callable[[], str]] = {
    **{
        f"{name} {str(dtype).removeprefix('torch.')}": lambda n=name, d=dtype: compare(n, d)  # type: ignore[misc]
        for name in PAIRS
        for dtype in ROUNDING
    },
    **{f"gradcheck {name}": lambda n=name: gradcheck(n) for name in PAIRS},  # type: ignore[misc]
    **{f"opcheck {name}": lambda n=name: opcheck(*OPCHECKS[n]()) for name in OPCHECKS},  # type: ignore[misc]
    "compiled, static": lambda: compiled("aot_eager", [(6, 40)], False),
    "compiled, dynamic": lambda: compiled("aot_eager", [(6, 40), (9, 56), (4, 33)], True),
    "compiled by Inductor": lambda: compiled("inductor", [(6, 40), (9, 56)], True),
    "corners": corners,
    "short rows": short_rows,
    "modes": modes,
    "autocast": autocast,
    "examples": examples,
    "float64 is refused": lambda: refused(lambda: OPS.softmax(rows(2, 9).double()), "float64"),
    "one dtype": lambda: refused(lambda: OPS.rms_norm(rows(2, 9), rows(9).half(), EPS), "weight"),
    "targets fit": lambda: refused(
        lambda: OPS.cross_entropy(rows(2, 9), targets((3,), 9)), "expected int64 targets"
    ),
    "targets fit weights": lambda: refused(
        lambda: OPS.linear_cross_entropy(rows(2, 9), rows(5, 8), targets((2,), 5)), "(classes, 9)"
    ),
    "known reductions": lambda: refused(
        lambda: OPS.cross_entropy(rows(2, 9), targets((2,), 9), "max"), "mean, sum, none"
    ),
    "something to add": lambda: refused(lambda: OPS.column_sum([]), "found none"),
    "one device": lambda: refused(
        lambda: _operator_calls._check_devices([rows(9), rows(9).to("meta")]),
        f"{rows(9).device} and meta",
    ),
    "no second gradient": lambda: refused(twice, "", RuntimeError),
}

if __name__ == "__main__":
    if INTERPRETED:
        prepare()
    # With the header that another test compiled, which takes longer than all of the rest.
    keep_cpp_work(os.environ.get("PERFCLI_CACHE_DIR", ""))
    warnings.simplefilter("ignore")  # of NumPy, about the infinities that kernels subtract
    for check, run in CHECKS.items():
        if not any(word in check for word in sys.argv[1:] or ("",)):
            continue
        try:
            wrong = run()
        except Exception:
            wrong = traceback.format_exc()[-1500:]
        sys.stdout.write(f"{json.dumps([check, wrong])}\n")
        sys.stdout.flush()
