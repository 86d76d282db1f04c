"""Which reductions of a transformer's backward are fused, and do the fused kernels spill?

A small GPT with grouped queries, normalised queries and keys and a squared leaky ReLU, trained
in bfloat16 under autocast: the listing of pytorch #179494, where mix-order reductions made the
step 6 % slower on an H100. The listing has no learned norm weights and yields no mix-order
kernel; ``learned`` adds the weights, per-channel scales and residual mix of the model that the
report came from, with norms written out as decoder libraries do (``norms=operator`` keeps
``F.rms_norm``).

Seen with torch 2.13 for an H200, ``-p learned=true -p layers=3 -p batch=48``: 23 backward
kernels, at most 2 spilled words. Without a read limit, as before torch 2.13
(``triton.mix_order_reduction_max_reads=1000``), 20 kernels, and the worst makes 17 loads, uses
255 registers and spills 92 words per thread. With ``dtype=float32`` and torch 2.11 one spills 598
words, and a limit of 10 makes the step 10.7 % shorter on an H200 (docs/mix-order.md).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import Expectation, Parameter, Scenario, Workload

from ._rows import FLOATS, default_dtype, torch_dtype


def build(params: Mapping[str, Any]) -> Workload:
    import torch
    import torch.nn.functional as F

    _check(params)
    from ._gqa_model import Additions, Model, written_out_rms_norm

    learned, norms = params["learned"], params["norms"]

    def wanted(name: str) -> bool:
        return bool(learned if params[name] == "auto" else params[name] == "true")

    def type_of(name: str) -> Any:
        return None if params[name] == "auto" else torch_dtype(params[name])

    written_out = learned if norms == "auto" else norms == "written-out"
    additions = Additions(
        norm_weights=wanted("norm_weights"),
        scales=wanted("scales"),
        residual_mix=wanted("residual_mix"),
        skips=params["skips"],
        controls=type_of("controls"),
        residual=type_of("residual"),
        rms_norm=written_out_rms_norm if written_out else F.rms_norm,
    )
    with default_dtype(params["dtype"]):
        model = Model(
            params["vocabulary"],
            params["dim"],
            params["layers"],
            params["heads"],
            params["kv_heads"],
            additions,
        )
    size = (params["batch"], params["sequence"])
    inputs = tuple(torch.randint(0, params["vocabulary"], size) for _ in range(2))

    def reference(x: Any, y: Any) -> Any:
        return copy.deepcopy(model).double()(x, y)

    autocast = None if params["autocast"] == "none" else params["autocast"]
    return Workload(model, inputs, mode=params["mode"], autocast=autocast, reference=reference)


def _check(params: Mapping[str, Any]) -> None:
    for name in ("layers", "dim", "heads", "kv_heads", "vocabulary", "batch", "sequence"):
        if params[name] < 1:
            raise PerfcliError(f"gqa-transformer needs {name} of 1 or more, not {params[name]}")
    dim, heads, kv_heads = params["dim"], params["heads"], params["kv_heads"]
    if dim % heads:
        raise PerfcliError(f"gqa-transformer needs dim ({dim}) to be a multiple of heads ({heads})")
    if heads % kv_heads:
        raise PerfcliError(
            f"gqa-transformer needs heads ({heads}) to be a multiple of kv-heads ({kv_heads})"
        )


_CHOICE = ("auto", "true", "false")

REPORTED = {"layers": 3, "batch": 48, "learned": True}
"""Three layers of the model of pytorch #179423, in the batch of its profile."""

SCENARIO = Scenario(
    name="gqa-transformer",
    question="Which reductions of the backward are fused, and do the fused kernels spill?",
    parameters={
        "layers": Parameter(11, "transformer blocks"),
        "dim": Parameter(512, "width of the residual stream"),
        "heads": Parameter(8, "query heads"),
        "kv_heads": Parameter(4, "key and value heads"),
        "vocabulary": Parameter(4096, "number of tokens"),
        "batch": Parameter(32, "sequences"),
        "sequence": Parameter(2048, "tokens of one sequence"),
        "dtype": Parameter("bfloat16", "type of the parameters", FLOATS),
        "learned": Parameter(False, "learned norm weights and per-channel scales"),
        "norm_weights": Parameter("auto", "norms have a weight; auto: as learned", _CHOICE),
        "scales": Parameter(
            "auto", "both branches of a block have a scale per channel; auto: as learned", _CHOICE
        ),
        "residual_mix": Parameter(
            "auto",
            "each block mixes its input with the embedding, per channel; auto: as learned",
            _CHOICE,
        ),
        "skips": Parameter(
            False, "the second half of the blocks adds what the first half returned, scaled"
        ),
        "controls": Parameter(
            "auto",
            "type of the weights and scales named so far; auto: as dtype",
            ("auto", "float32"),
        ),
        "residual": Parameter(
            "auto",
            "type of the embedding, and so of the residual stream; auto: as dtype",
            ("auto", "float32"),
        ),
        "norms": Parameter(
            "auto",
            "F.rms_norm, or RMSNorm in plain arithmetic; auto: written out where learned",
            ("auto", "operator", "written-out"),
        ),
        "autocast": Parameter(
            "bfloat16", "type of the ambient autocast", ("bfloat16", "float16", "none")
        ),
        "mode": Parameter("training", "forward only, or with backward", ("forward", "training")),
    },
    presets={
        "smoke": {
            "layers": 2,
            "dim": 64,
            "heads": 4,
            "kv_heads": 2,
            "vocabulary": 256,
            "batch": 2,
            "sequence": 64,
        },
        "full": {},
    },
    build=build,
    toggles=(
        "triton.mix_order_reduction_max_reads=1000",
        "triton.mix_order_reduction",
        "triton.persistent_reductions",
        "loop_ordering_after_fusion",
    ),
    expects=(
        Expectation(()),
        # Two words that some configuration spills outside of any loop.
        Expectation(("PC101",), params=REPORTED),
        Expectation(
            ("PC101", "PC102", "PC103", "PC106"),
            params=REPORTED,
            options={"triton.mix_order_reduction_max_reads": 1000},
            compared=True,
        ),
        Expectation((), preset="smoke"),
    ),
    # One loss, about log(vocabulary), through some rounding in every layer.
    tolerance={"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-5, "float64": 1e-12},
    origin="https://github.com/pytorch/pytorch/pull/179494",
)
