"""Times calls of library operators, in a worker process on a machine with a GPU.

Each call runs several times with its inputs out of the L2 cache ("cold"), then several times in a
row ("hot"); a time is that of all kernels that the call launches, by CUPTI. Values are random.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfcli.facts.operator_work import count_operator_work
from perfcli.model import Buffer, OptionValue
from perfcli.model.kernel_work import OPERATOR_BATCH, ColdAndHot, OperatorCase, TimedOperator

_REPETITIONS = 5
_FLUSHED = 256 << 20
"""Bytes that are read to leave nothing else in the L2 cache; more than twice what GPUs have."""
_HOST_CALLS = 200
_SPIN = 50
"""Cycles of the kernels that mark where a call begins and ends."""


@dataclass(frozen=True, slots=True)
class _Call:
    """Holds one call, and what is counted of it."""

    operator: str
    """As generated code names it."""
    reads: Sequence[tuple[str, Any]]
    """Arguments with their tensors."""
    writes: Sequence[Any]
    arguments: Mapping[str, OptionValue]
    run: Callable[[], Any]


def time_operators(
    cases: Sequence[OperatorCase],
) -> Iterator[list[tuple[int, tuple[TimedOperator, ...]]]]:
    """Yield batches of cases by their number with the times of their calls, those of their
    gradients included: none where a library does not take a case. Batches whose times the profiler
    lost are left out."""
    import torch

    _warm_up()
    flushed = torch.zeros(_FLUSHED, dtype=torch.int8, device="cuda")
    for start in range(0, len(cases), OPERATOR_BATCH):
        yield _time_batch(list(enumerate(cases))[start : start + OPERATOR_BATCH], flushed)


def _warm_up() -> None:
    """Keep the GPU busy until its clocks are up."""
    import torch

    busy = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
    start = time.monotonic()
    while time.monotonic() - start < 2:
        busy @ busy
        torch.cuda.synchronize()


def _time_batch(
    cases: Sequence[tuple[int, OperatorCase]], flushed: Any
) -> list[tuple[int, tuple[TimedOperator, ...]]]:
    import torch

    segments = _Segments(flushed)
    works: dict[tuple[int, int], Any] = {}
    with torch.autograd.profiler.profile(
        use_cpu=False, use_device="cuda", use_kineto=True
    ) as profile:
        for number, case in cases:
            try:
                for place, call in enumerate(_make_calls(case)):
                    call.run()
                    call.run()
                    works[number, place] = _count(call)
                    for cold in (True, False):
                        for _ in range(_REPETITIONS):
                            segments.run((number, place, cold), call.run, cold)
            except Exception as error:  # a library that does not take these sizes
                if "CUDA error" in str(error):  # the device is lost
                    raise
        torch.cuda.synchronize()
    times = segments.read(profile.kineto_results.events())
    if works and not times:
        return []
    found: list[tuple[int, tuple[TimedOperator, ...]]] = []
    for number, _ in cases:
        places = [place for which, place in works if which == number]
        timed = tuple(
            TimedOperator(works[number, place], each)
            for place in places
            if works[number, place] is not None
            and (each := _both(times, number, place)) is not None
        )
        found.append((number, timed))
    return found


def _both(
    times: Mapping[tuple[int, int, bool], list[float]], number: int, place: int
) -> ColdAndHot | None:
    cold, hot = (tuple(times.get((number, place, how), ())) for how in (True, False))
    is_whole = len(cold) == len(hot) == _REPETITIONS and all((*cold, *hot))
    return (cold, hot) if is_whole else None


class _Segments:
    """Puts calls between two kernels that only spin, and finds what ran between them."""

    def __init__(self, flushed: Any) -> None:
        self._labels: list[tuple[int, int, bool]] = []
        self._flushed = flushed

    def run(self, label: tuple[int, int, bool], call: Callable[[], Any], cold: bool) -> None:
        import torch

        if cold:
            self._flushed.max()
        torch.cuda._sleep(_SPIN)
        try:
            call()
        finally:
            torch.cuda._sleep(_SPIN)
            self._labels.append(label)

    def read(self, events: Any) -> dict[tuple[int, int, bool], list[float]]:
        """Return microseconds by label; nothing where the profiler lost events."""
        import torch

        on_device = [e for e in events if e.device_type() == torch.autograd.DeviceType.CUDA]
        found: list[float] = []
        inside = False
        marks = 0
        for event in sorted(on_device, key=lambda each: each.start_ns()):
            if "spin_kernel" in event.name():
                inside, marks = not inside, marks + 1
                found += [0.0] if inside else []
            elif inside and "Sync" not in event.name():
                found[-1] += event.duration_ns() / 1e3
        times: dict[tuple[int, int, bool], list[float]] = {}
        if marks == 2 * len(self._labels):
            for label, micros in zip(self._labels, found, strict=True):
                times.setdefault(label, []).append(round(micros, 3))
        return times


def _count(call: _Call) -> Any:
    reads = [_describe(name, tensor, "input") for name, tensor in call.reads]
    writes = [_describe("", tensor, "output") for tensor in call.writes]
    return count_operator_work(call.operator, reads, writes, call.arguments)


def _describe(name: str, tensor: Any, role: Any) -> Buffer:
    dtype = str(tensor.dtype).removeprefix("torch.")
    size = tensor.numel() * tensor.element_size()
    return Buffer(name, "", role, dtype, tuple(tensor.shape), tuple(tensor.stride()), size)


# --- calls -----------------------------------------------------------------------------------


def _make_calls(case: OperatorCase) -> Iterator[_Call]:
    """Yield the calls of a case."""
    import torch

    p: Mapping[str, Any] = case.settings
    torch.backends.cuda.matmul.allow_tf32 = p["dtype"] == "tf32"
    torch.backends.cudnn.allow_tf32 = p["dtype"] == "tf32"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(p["dtype"], torch.float32)
    yield from _MAKERS[case.family](p, dtype)


def _random(*shape: int, dtype: Any) -> Any:
    import torch

    return torch.randn(*shape, dtype=dtype, device="cuda")


def _make_product(p: Mapping[str, Any], dtype: Any) -> Iterator[_Call]:
    import torch

    lead = (p["b"],) if p["op"] in ("bmm", "baddbmm") else ()
    left, right = (
        _random(*lead, columns, rows, dtype=dtype).transpose(-1, -2)
        if turned
        else _random(*lead, rows, columns, dtype=dtype)
        for rows, columns, turned in ((p["m"], p["k"], p["ta"]), (p["k"], p["n"], p["tb"]))
    )
    out = torch.empty(*lead, p["m"], p["n"], dtype=dtype, device="cuda")
    added = {"addmm": (p["n"],), "baddbmm": (p["b"], 1, p["n"])}.get(p["op"])
    operands = [*([_random(*added, dtype=dtype)] if added else []), left, right]
    reads = [("", each) for each in operands]
    run = getattr(torch, p["op"])
    yield _Call(
        f"aten.{p['op']}.out", reads, [out], {"tf32": p["dtype"] == "tf32"},
        lambda: run(*operands, out=out),
    )  # fmt: skip


def _make_attention(p: Mapping[str, Any], dtype: Any) -> Iterator[_Call]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }[p["library"]]

    def make(length: int) -> Any:
        shape = (p["b"], length, p["h"], p["d"]) if p["bshd"] else (p["b"], p["h"], length, p["d"])
        made = _random(*shape, dtype=dtype)
        return (made.transpose(1, 2) if p["bshd"] else made).requires_grad_()

    query, key, value = make(p["s"]), make(p["kv"]), make(p["kv"])
    mask = _random(p["b"], p["h"], p["s"], p["kv"], dtype=dtype) if p["mask"] else None

    def forward() -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, mask, p["drop"], bool(p["causal"])
            )

    name = f"aten._scaled_dot_product_{p['library']}_attention"
    reads = [("query", query), ("key", key), ("value", value)]
    reads += [("attn_bias", mask)] if mask is not None else []
    given: Mapping[str, OptionValue] = {"is_causal": bool(p["causal"]), "dropout_p": p["drop"]}
    yield _Call(name, reads, [query], given, forward)
    out = forward()
    gradient = torch.randn_like(out)
    yield _Call(
        f"{name}_backward", [("grad_out", gradient), *reads], [query, key, value], given,
        lambda: torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True),
    )  # fmt: skip


def _make_convolution(p: Mapping[str, Any], dtype: Any) -> Iterator[_Call]:
    import torch

    dims, groups = p["nd"], p["g"]
    channels = (p["ci"], p["co"] // groups) if p["tr"] else (p["co"], p["ci"] // groups)
    image = _random(p["n"], p["ci"], *[p["hw"]] * dims, dtype=dtype)
    weight = _random(*channels, *[p["k"]] * dims, dtype=dtype)
    if p["cl"]:
        image, weight = (t.contiguous(memory_format=torch.channels_last) for t in (image, weight))
    sizes = [[p[name]] * dims for name in ("st", "pad")]
    given = (*sizes, [1] * dims, bool(p["tr"]), [0] * dims, groups)
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    arguments: dict[str, Any] = dict(zip(names, given, strict=True))
    arguments["tf32"] = p["dtype"] == "tf32"
    aten = torch.ops.aten
    out = aten.convolution(image, weight, None, *given)
    yield _Call(
        "aten.convolution", [("", image), ("", weight)], [out], arguments,
        lambda: aten.convolution(image, weight, None, *given),
    )  # fmt: skip
    gradient = torch.randn_like(out)
    for mask in ([True, False, False], [False, True, False]):
        yield _Call(
            "aten.convolution_backward", [("", gradient), ("", image), ("", weight)],
            [image if mask[0] else weight], {**arguments, "output_mask": mask},
            lambda mask=mask: aten.convolution_backward(  # type: ignore[misc]
                gradient, image, weight, None, *given, mask
            ),
        )  # fmt: skip


_PICKED = 64
"""Values of a row that ``topk`` looks for."""


def _make_other(p: Mapping[str, Any], dtype: Any) -> Iterator[_Call]:
    import torch

    op, rows, width = p["op"], p["rows"], p["width"]
    x, out = _random(rows, width, dtype=dtype), torch.empty(rows, width, dtype=dtype, device="cuda")
    rows_of = torch.randint(0, rows, (rows,), device="cuda")
    reads, writes = [x], [out]
    run: Callable[[], Any]
    if op == "copy":
        run = lambda: out.copy_(x)  # noqa: E731
    elif op == "copy_":
        turned = _random(width, rows, dtype=dtype).t()
        reads, run = [turned], lambda: out.copy_(turned)
    elif op == "cat":
        both = torch.empty(2 * rows, width, dtype=dtype, device="cuda")
        reads, writes, run = [x, x], [both], lambda: torch.cat([x, x], out=both)
    elif op == "index":
        reads, run = [x, rows_of], lambda: torch.ops.aten.index(x, [rows_of])
    elif op == "index_put":
        reads = [out, rows_of, x]
        run = lambda: torch.ops.aten.index_put_(out, [rows_of], x, True)  # noqa: E731
    elif op == "scatter_add":
        places = torch.randint(0, rows, (rows, width), device="cuda")
        reads, run = [out, places, x], lambda: out.scatter_add_(0, places, x)
    elif op == "sort":
        order = torch.empty(rows, width, dtype=torch.int64, device="cuda")
        writes, run = [out, order], lambda: torch.sort(x, out=(out, order))
    elif op == "topk":
        best = torch.topk(x, min(_PICKED, width))
        writes, run = [best.values, best.indices], lambda: torch.topk(x, min(_PICKED, width))
    elif op == "cumsum":
        run = lambda: torch.cumsum(x, -1, out=out)  # noqa: E731
    else:
        reads = [x, rows_of]
        run = lambda: torch.ops.aten.embedding_dense_backward(x, rows_of, rows, -1, False)  # noqa: E731
    yield _Call(f"aten.{op}.default", [("", each) for each in reads], writes, {}, run)


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], Any], Iterator[_Call]]] = {
    "product": _make_product,
    "attention": _make_attention,
    "convolution": _make_convolution,
    "other": _make_other,
}


def time_host() -> dict[str, float]:
    """Return what the host needs for a call, in microseconds, of calls that the device is done with
    at once."""
    import torch

    half = torch.bfloat16
    a, c = _random(64, 64, dtype=half), _random(64, dtype=half)
    q, out = _random(1, 2, 64, 64, dtype=half), torch.empty_like(a)
    x, w = _random(1, 8, 8, 8, dtype=half), _random(8, 8, 3, 3, dtype=half)
    given = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    attend = torch.ops.aten._scaled_dot_product_cudnn_attention
    calls: dict[str, Callable[[], Any]] = {
        "operator": lambda: torch.addmm(c, a, a, out=out),
        "attention": lambda: attend(q, q, q, None, True, 0.0, True),
        "convolution": lambda: torch.ops.aten.convolution(x, w, None, *given),
    }
    found: dict[str, float] = {}
    for name, call in calls.items():
        try:
            for _ in range(20):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(_HOST_CALLS):
                call()
        except RuntimeError:  # no cuDNN attention on this GPU
            continue
        found[name] = round((time.perf_counter() - start) / _HOST_CALLS * 1e6, 1)
        torch.cuda.synchronize()
    return found
