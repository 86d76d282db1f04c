"""An executor that compiles nothing: deterministic bundles, so that the whole command line is
tested without torch (hidden ``--fake``, or ``PERFCLI_FAKE=1``).

The made-up model has one forward and four backward kernels per layer. A read limit above 10
(``triton.mix_order_reduction_max_reads``) fuses three of the backward kernels of the first layer
into one that spills, unless ``triton.mix_order_reduction`` is off, which makes the sums read more.
``PERFCLI_FAKE=user:1`` plants a failure in request 1: ``user``, ``compile``, ``killed``, ``hang``
or ``interrupt``; ``user:NAME`` in requests that set the option NAME.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfcli import __version__
from perfcli.blobs import blob_id, pack
from perfcli.environment import Interpreter
from perfcli.errors import CompileFailed, UserCodeFailed, WorkerFailed
from perfcli.model import (
    Access,
    Buffer,
    Bundle,
    Candidate,
    CompileRequest,
    Environment,
    ExternCall,
    GraphFacts,
    KernelFacts,
    KernelKind,
    Launch,
    LineCounts,
    Origin,
    Run,
    SourceFacts,
)
from perfcli.worker.executor import Progress

FAILURES = ("user", "compile", "killed", "hang", "interrupt")
_MAX_READS = "triton.mix_order_reduction_max_reads"
_MIX_ORDER = "triton.mix_order_reduction"


class FakeExecutor:
    """``plan`` is ``1`` for all well, or a failure and the request it hits, ``killed:1``."""

    def __init__(self, plan: str = "1") -> None:
        failure, _, request = plan.partition(":")
        self.failure = failure if failure in FAILURES else None
        self.failing = request or "0"

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[Bundle]:
        for number, request in enumerate(requests):
            progress(Progress(number, "import", 0, None, "importing torch"))
            progress(Progress(number, "trace", 0, None, "tracing"))
            if self.failure and self.failing in (str(number), *request.variant.options):
                raise _failure(self.failure, request)
            bundle = made_up(request)
            total = len(bundle.run.kernels)
            for done in range(total + 1):
                progress(Progress(number, "kernels", done, total, "compiling kernels"))
            progress(Progress(number, "done", total, total))
            yield bundle


def fake_interpreter(python: str | None = None) -> Interpreter:
    """This interpreter's torch where it has one, for its options; else an empty one."""
    torch = importlib.util.find_spec("torch")
    folder = Path(torch.origin).parent if torch and torch.origin else Path()
    return Interpreter(python or "python", "3.11.9", "2.13.0", folder, "3.7.1", None, None, "fake")


def _failure(kind: str, request: CompileRequest) -> BaseException:
    name = request.scenario
    failures: Mapping[str, BaseException] = {
        "user": UserCodeFailed(
            f"{name} raised ValueError: no such layer",
            'Traceback (most recent call last):\n  File "model.py", line 7, in forward\n'
            "ValueError: no such layer",
        ),
        "compile": CompileFailed(
            f"Inductor could not compile forward 0 of {name}: LoweringException: no lowering"
        ),
        "killed": WorkerFailed(
            f"the worker for {name} was killed by signal 9 (out of memory?)", "last line of its log"
        ),
        "hang": WorkerFailed(f"the worker for {name} gave no answer within 600 s: --timeout"),
        "interrupt": KeyboardInterrupt(),
    }
    return failures[kind]


def made_up(request: CompileRequest) -> Bundle:
    layers = request.params.get("layers", 3)
    layers = int(layers) if isinstance(layers, int | str) and str(layers).isdigit() else 3
    blobs: dict[str, str] = {}
    settings = {_MAX_READS: 10, _MIX_ORDER: True, **request.variant.options}
    limit, mix_order = settings[_MAX_READS], settings[_MIX_ORDER] is True
    over_fused = mix_order and isinstance(limit, int) and limit > 10
    kernels = [
        made
        for layer in range(layers)
        for made in _layer(layer, over_fused and layer == 0, mix_order, blobs)
    ]
    kernels.sort(key=lambda kernel: kernel.graph, reverse=True)
    if request.device == "cpu":
        kernels = [replace(k, language="cpp", kind="cpp", candidates=()) for k in kernels]
    run = Run(
        id="",
        created="",
        scenario=request.scenario,
        params=request.params,
        mode="training",
        dynamic=request.dynamic,
        device=request.device,
        target=request.target,
        variant=request.variant,
        environment=Environment("2.13.0", "3.7.1", "3.11.9", "12.8", "linux", __version__),
        kernels=tuple(kernels),
        launches=tuple(Launch(k.graph, k.name) for k in kernels),
        graphs=(
            GraphFacts("forward 0", "forward", 0, 20 * layers, 3 * 10**9),
            GraphFacts("backward 0", "backward", 0, 40 * layers, 4 * 10**9),
        ),
        externs=(
            ExternCall("aten.mm", "forward 0", 4 * layers),
            ExternCall("aten.mm", "backward 0", 8 * layers),
        ),
        compile_seconds={"trace": 1.5, "kernels": 2.5},
        notes=("made up by the fake executor",),
        settings={name: settings[name] for name in (_MAX_READS, _MIX_ORDER)},
    )
    return Bundle(run, blobs)


def _layer(
    layer: int, over_fused: bool, mix_order: bool, blobs: dict[str, str]
) -> Iterator[KernelFacts]:
    yield _kernel(
        f"triton_red_fused_rms_norm_{layer}", layer, "forward 0", 3, 1, ["rms_norm"], blobs
    )
    backward = (("mul", 5), ("add", 5), ("sum", 4 if mix_order else 8))
    if over_fused:
        yield _kernel(
            f"triton_red_fused_add_mul_rms_norm_sum_{layer}",
            layer,
            "backward 0",
            17,
            5,
            [op for op, _ in backward],
            blobs,
            "mix-order-reduction",
            stack=368,
        )
    else:
        for op, loads in backward:
            name = f"triton_red_fused_{op}_{layer}"
            yield _kernel(name, layer, "backward 0", loads, 2, [op], blobs)
    yield _kernel(f"triton_poi_fused_leaky_relu_{layer}", layer, "backward 0", 2, 1, ["pow"], blobs)


def _kernel(
    name: str,
    layer: int,
    graph: str,
    loads: int,
    stores: int,
    ops: Sequence[str],
    blobs: dict[str, str],
    kind: KernelKind = "reduction",
    stack: int = 0,
) -> KernelFacts:
    lines = ["@triton.jit", f"def {name}(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):"]
    lines += [f"    tmp{n} = tl.load(in_ptr{n} + x0)" for n in range(loads)]
    lines += [f"    tl.store(out_ptr{n} + x0, tmp{n})" for n in range(stores)]
    accesses = [Access("load", f"in_ptr{n}", 3 + n, 1, 1) for n in range(loads)]
    accesses += [Access("store", f"out_ptr{n}", 3 + loads + n, 0, 0) for n in range(stores)]
    moved = 2 * 48 * 2048 * 512
    size = (loads + stores) * moved
    return KernelFacts(
        name=name,
        kind=kind,
        language="triton",
        graph=graph,
        launches=1,
        origins=tuple(
            Origin(
                f"{op}_{layer}",
                f"aten.{op}.Tensor",
                f"blocks.{layer}",
                (48, 2048, 512),
                f"model.py:{20 + n}",
                f"x = {op}(x)",
            )
            for n, op in enumerate(ops)
        ),
        source=_keep("\n".join(lines) + "\n", blobs),
        source_hash=_digest("\n".join(lines[2:]) + graph + str(ops)),
        source_facts=SourceFacts(
            loads,
            loads,
            stores,
            0,
            0,
            len(ops),
            1,
            tuple(accesses),
            {f"in_ptr{n}": 1 for n in range(loads)},
            loads,
            stores,
        ),
        bytes_read=loads * moved,
        bytes_written=stores * moved,
        lower_bound_seconds=size / 3.35e12,
        candidates=tuple(_candidate(name, warps, loads, stores, stack, blobs) for warps in (4, 8)),
        buffers=tuple(_buffers(name, layer, loads, stores)),
        sizes={"x": 48 * 2048, "r0_": 512},
    )


def _buffers(name: str, layer: int, loads: int, stores: int) -> Iterator[Buffer]:
    matrix = ("bfloat16", (48 * 2048, 512), (512, 1), 2 * 48 * 2048 * 512)
    for n in range(loads):
        yield Buffer(f"in_ptr{n}", f"primals_{20 * layer + n}", "input", *matrix, graph_input=True)
    for n in range(stores):
        yield Buffer(f"out_ptr{n}", f"buf_{name}_{n}", "output", *matrix)


def _candidate(
    name: str, warps: int, loads: int, stores: int, stack: int, blobs: dict[str, str]
) -> Candidate:
    spilled = stack * 4 // warps
    local = spilled // 4
    return Candidate(
        config={"XBLOCK": 1, "R0_BLOCK": 512},
        num_warps=warps,
        num_stages=1,
        registers=255 if stack else 16 + 2 * loads,
        stack_bytes=spilled,
        shared_bytes=112928 if stack else 1024,
        local_loads=local,
        local_stores=local,
        local_loads_in_loops=local,
        local_stores_in_loops=0,
        global_loads={"128": loads},
        global_stores={"128": stores},
        lines={str(3 + n): _line(n, local if n == 0 else 0) for n in range(loads)},
        blocks_per_sm=8,
        occupancy=0.125 if stack else 0.5,
        occupancy_limit="registers",
        binary_hash=_digest(f"{loads} {stores} {stack} {warps} {name.rsplit('_', 1)[0]}"),
        ttgir=_keep(f"// ttgir of {name}, {warps} warps\n", blobs),
        ptx=_keep(f"// ptx of {name}, {warps} warps\n", blobs),
        sass=_keep(f"// sass of {name}, {warps} warps\n", blobs),
    )


def _line(number: int, local_loads: int) -> LineCounts:
    text = f"tmp{number} = tl.load(in_ptr{number} + x0)" if local_loads else ""
    return LineCounts(1, 0, local_loads, 0, text)


def _keep(text: str, blobs: dict[str, str]) -> str:
    blobs[blob_id(text)] = pack(text)
    return blob_id(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
