"""Makes up a run that nobody compiled: the same request gives the same run.

The made-up model has one forward and four backward kernels per layer. A read limit above 10
(``triton.mix_order_reduction_max_reads``) fuses three of the backward kernels of the first layer
into one that spills, unless ``triton.mix_order_reduction`` is off, which makes the sums read more.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from perfcli import __version__
from perfcli.blobs import blob_id, pack
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
    LaunchWork,
    LineCounts,
    OptionValue,
    Origin,
    Run,
    SourceFacts,
    Traffic,
    WarpWork,
)

_ROWS, _COLUMNS = 48 * 2048, 512
_MATRIX_BYTES = 2 * _ROWS * _COLUMNS


@dataclass(frozen=True, slots=True)
class _Plan:
    """Describes a kernel to be made up."""

    name: str
    layer: int
    graph: str
    loads: int
    stores: int
    ops: tuple[str, ...]
    kind: KernelKind = "reduction"
    stack: int = 0
    """Bytes per thread at 4 warps; half of it at 8."""


def _make_up_work(kernel: KernelFacts, candidate: Candidate) -> LaunchWork:
    """Return the work of one block per row, whose lines of 128 bytes are read and written whole."""
    sectors = _COLUMNS * 2 // 32
    facts = kernel.source_facts
    loads, stores = (facts.loads, facts.stores) if facts else (0, 0)
    loaded, stored = float(loads * sectors), float(stores * sectors)
    traffic = Traffic(
        requests=loaded / 4, lines=loaded / 4, load_sectors=loaded, new_sectors=loaded,
        store_requests=stored / 4, store_sectors=stored, warp_store_sectors=stored,
        block_store_sectors=stored,
        touched={f"in_ptr{n}": float(sectors) for n in range(loads)},
        swept={f"in_ptr{n}": 1.0 for n in range(loads)},
    )  # fmt: skip
    words = (candidate.stack_bytes or 0) // 4
    warp = WarpWork(
        issued={"fp32": 40.0 * loads, "lsu": float(loads + stores + 2 * words)},
        stall_cycles=200.0 + 30.0 * words,
        rounds=1.0 + loads / 4,
        local_bytes=2.0 * words * 128,
        instructions=200 + 40 * loads,
        global_loads=float(loads),
        global_stores=float(stores),
    )
    return LaunchWork((_ROWS, 1, 1), candidate.num_warps, traffic, warp, warp)


def _made_up_kernel(plan: _Plan, blobs: dict[str, str]) -> KernelFacts:
    """Return the planned kernel in two launch configurations; its texts are added to ``blobs``."""
    lines = _source(plan)
    moved = (plan.loads + plan.stores) * _MATRIX_BYTES
    return KernelFacts(
        name=plan.name,
        kind=plan.kind,
        language="triton",
        graph=plan.graph,
        launches=1,
        origins=tuple(_origins(plan)),
        source=_keep("\n".join(lines) + "\n", blobs),
        source_hash=blob_id("\n".join(lines[2:]) + plan.graph + str([plan.layer, *plan.ops])),
        source_facts=_source_facts(plan),
        bytes_read=plan.loads * _MATRIX_BYTES,
        bytes_written=plan.stores * _MATRIX_BYTES,
        lower_bound_seconds=moved / 3.35e12,
        candidates=tuple(_candidate(plan, warps, blobs) for warps in (4, 8)),
        buffers=tuple(_buffers(plan)),
        sizes={"x": _ROWS, "r0_": _COLUMNS},
    )


def _source(plan: _Plan) -> list[str]:
    return [
        "@triton.jit",
        f"def {plan.name}(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):",
        *(f"    tmp{n} = tl.load(in_ptr{n} + x0)" for n in range(plan.loads)),
        *(f"    tl.store(out_ptr{n} + x0, tmp{n})" for n in range(plan.stores)),
    ]


def _source_facts(plan: _Plan) -> SourceFacts:
    loads = [Access("load", f"in_ptr{n}", 3 + n, 1, 1) for n in range(plan.loads)]
    first = 3 + plan.loads
    stores = [Access("store", f"out_ptr{n}", first + n, 0, 0) for n in range(plan.stores)]
    return SourceFacts(
        loads=plan.loads,
        loads_in_loops=plan.loads,
        stores=plan.stores,
        stores_in_loops=0,
        atomics=0,
        reductions=len(plan.ops),
        loops=1,
        accesses=(*loads, *stores),
        passes={access.pointer: 1 for access in loads},
        buffers_read=plan.loads,
        buffers_written=plan.stores,
    )


def _origins(plan: _Plan) -> Iterator[Origin]:
    for number, op in enumerate(plan.ops):
        yield Origin(
            node=f"{op}_{plan.layer}",
            op=f"aten.{op}.Tensor",
            module=f"blocks.{plan.layer}",
            shape=(48, 2048, _COLUMNS),
            location=f"model.py:{20 + number}",
            code=f"x = {op}(x)",
        )


def _buffers(plan: _Plan) -> Iterator[Buffer]:
    matrix = ("bfloat16", (_ROWS, _COLUMNS), (_COLUMNS, 1), _MATRIX_BYTES)
    for n in range(plan.loads):
        name = f"primals_{20 * plan.layer + n}"
        yield Buffer(f"in_ptr{n}", name, "input", *matrix, graph_input=True)
    for n in range(plan.stores):
        yield Buffer(f"out_ptr{n}", f"buf_{plan.name}_{n}", "output", *matrix)


def _candidate(plan: _Plan, warps: int, blobs: dict[str, str]) -> Candidate:
    spilled = plan.stack * 4 // warps
    local = spilled // 4
    role = plan.name.rsplit("_", 1)[0]
    of = f"of {plan.name}, {warps} warps\n"
    return Candidate(
        config={"XBLOCK": 1, "R0_BLOCK": _COLUMNS},
        num_warps=warps,
        num_stages=1,
        registers=255 if plan.stack else 16 + 2 * plan.loads,
        stack_bytes=spilled,
        shared_bytes=112928 if plan.stack else 1024,
        local_loads=local,
        local_stores=local,
        local_loads_in_loops=local,
        local_stores_in_loops=0,
        global_loads={"128": plan.loads},
        global_stores={"128": plan.stores},
        lines={str(3 + n): _line(n, local if n == 0 else 0) for n in range(plan.loads)},
        blocks_per_sm=8,
        occupancy=0.125 if plan.stack else 0.5,
        occupancy_limit="registers",
        binary_hash=blob_id(f"{plan.loads} {plan.stores} {plan.stack} {warps} {role}"),
        ttgir=_keep(f"// ttgir {of}", blobs),
        ptx=_keep(f"// ptx {of}", blobs),
        sass=_keep(f"// sass {of}", blobs),
    )


def _line(number: int, local_loads: int) -> LineCounts:
    text = f"tmp{number} = tl.load(in_ptr{number} + x0)" if local_loads else ""
    return LineCounts(1, 0, local_loads, 0, text)


def _keep(text: str, blobs: dict[str, str]) -> str:
    name, packed = _pack_once(text)
    blobs[name] = packed
    return name


@functools.lru_cache(4096)
def _pack_once(text: str) -> tuple[str, str]:
    return blob_id(text), pack(text)


_MAX_READS = "triton.mix_order_reduction_max_reads"
_MIX_ORDER = "triton.mix_order_reduction"


def weigh_kernels(kernels: Iterable[KernelFacts]) -> tuple[KernelFacts, ...]:
    """Return kernels that were made up with their work."""
    return tuple(
        replace(k, candidates=tuple(replace(c, work=_make_up_work(k, c)) for c in k.candidates))
        for k in kernels
    )


def make_up_run(request: CompileRequest) -> Bundle:
    """Return the run and its texts, without an id."""
    settings = {_MAX_READS: 10, _MIX_ORDER: True, **request.variant.options}
    layers = _layers(request)
    blobs: dict[str, str] = {}
    kernels = [_made_up_kernel(plan, blobs) for plan in _plans(layers, settings)]
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
        graphs=_graphs(layers),
        externs=_externs(layers),
        compile_seconds={"trace": 1.5, "kernels": 2.5},
        notes=("made up by the fake executor",),
        settings={name: settings[name] for name in (_MAX_READS, _MIX_ORDER)},
        threads=request.threads,
        inputs=request.inputs,
        script=request.script,
        world=request.world,
    )
    return Bundle(run, blobs)


def _layers(request: CompileRequest) -> int:
    layers = request.params.get("layers", 3)
    return int(layers) if isinstance(layers, int | str) and str(layers).isdigit() else 3


def _graphs(layers: int) -> tuple[GraphFacts, ...]:
    return (
        GraphFacts("forward 0", "forward", 0, 20 * layers, 3 * 10**9),
        GraphFacts("backward 0", "backward", 0, 40 * layers, 4 * 10**9),
    )


def _externs(layers: int) -> tuple[ExternCall, ...]:
    return (
        ExternCall("aten.mm", "forward 0", 4 * layers),
        ExternCall("aten.mm", "backward 0", 8 * layers),
    )


# --- kernels ---------------------------------------------------------------------------------


def _plans(layers: int, settings: Mapping[str, OptionValue]) -> list[_Plan]:
    """Return all kernels, the forward's first."""
    limit, mix_order = settings[_MAX_READS], settings[_MIX_ORDER] is True
    over_fused = mix_order and isinstance(limit, int) and limit > 10
    plans = [
        plan
        for layer in range(layers)
        for plan in _layer(layer, over_fused and layer == 0, mix_order)
    ]
    return sorted(plans, key=lambda plan: plan.graph, reverse=True)


def _layer(layer: int, over_fused: bool, mix_order: bool) -> Iterator[_Plan]:
    yield _Plan(f"triton_red_fused_rms_norm_{layer}", layer, "forward 0", 3, 1, ("rms_norm",))
    backward = (("mul", 5), ("add", 5), ("sum", 4 if mix_order else 8))
    if over_fused:
        name = f"triton_red_fused_add_mul_rms_norm_sum_{layer}"
        ops = tuple(op for op, _ in backward)
        yield _Plan(name, layer, "backward 0", 17, 5, ops, "mix-order-reduction", stack=368)
    else:
        for op, loads in backward:
            yield _Plan(f"triton_red_fused_{op}_{layer}", layer, "backward 0", loads, 2, (op,))
    yield _Plan(f"triton_poi_fused_leaky_relu_{layer}", layer, "backward 0", 2, 1, ("pow",))
