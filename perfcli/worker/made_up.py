"""A run that nobody compiled, for ``fake``: the same request gives the same run.

The made-up model has one forward and four backward kernels per layer. A read limit above 10
(``triton.mix_order_reduction_max_reads``) fuses three of the backward kernels of the first layer
into one that spills, unless ``triton.mix_order_reduction`` is off, which makes the sums read more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from perfcli import __version__
from perfcli.model import (
    Bundle,
    CompileRequest,
    Environment,
    ExternCall,
    GraphFacts,
    Launch,
    OptionValue,
    Run,
)
from perfcli.worker.made_up_kernel import Plan, made_up_kernel

_MAX_READS = "triton.mix_order_reduction_max_reads"
_MIX_ORDER = "triton.mix_order_reduction"


def made_up(request: CompileRequest) -> Bundle:
    """The run and its texts, without an id."""
    settings = {_MAX_READS: 10, _MIX_ORDER: True, **request.variant.options}
    layers = _layers(request)
    blobs: dict[str, str] = {}
    kernels = [made_up_kernel(plan, blobs) for plan in _plans(layers, settings)]
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


def _plans(layers: int, settings: Mapping[str, OptionValue]) -> list[Plan]:
    """All kernels, the forward's first."""
    limit, mix_order = settings[_MAX_READS], settings[_MIX_ORDER] is True
    over_fused = mix_order and isinstance(limit, int) and limit > 10
    plans = [
        plan
        for layer in range(layers)
        for plan in _layer(layer, over_fused and layer == 0, mix_order)
    ]
    return sorted(plans, key=lambda plan: plan.graph, reverse=True)


def _layer(layer: int, over_fused: bool, mix_order: bool) -> Iterator[Plan]:
    yield Plan(f"triton_red_fused_rms_norm_{layer}", layer, "forward 0", 3, 1, ("rms_norm",))
    backward = (("mul", 5), ("add", 5), ("sum", 4 if mix_order else 8))
    if over_fused:
        name = f"triton_red_fused_add_mul_rms_norm_sum_{layer}"
        ops = tuple(op for op, _ in backward)
        yield Plan(name, layer, "backward 0", 17, 5, ops, "mix-order-reduction", stack=368)
    else:
        for op, loads in backward:
            yield Plan(f"triton_red_fused_{op}_{layer}", layer, "backward 0", loads, 2, (op,))
    yield Plan(f"triton_poi_fused_leaky_relu_{layer}", layer, "backward 0", 2, 1, ("pow",))
