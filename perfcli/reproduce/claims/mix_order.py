"""Claims about mix-order reductions that take in more than their registers hold."""

from __future__ import annotations

from perfcli.model import Scalar
from perfcli.reproduce.claim import Blame, Claim, ClaimedEffect, Setup, Source, TwoVariants, Way

_SOURCE = Source("PR #179494", "https://github.com/pytorch/pytorch/pull/179494", seed=4)
_OFF = ("triton.mix_order_reduction=false",)
_LIMIT = "triton.mix_order_reduction_max_reads"
_UNLIMITED = (f"{_LIMIT}=1000",)
_SMOKE: dict[str, Scalar] = {"layers": 2, "batch": 8}
_OVER_FUSED = "side.mix_order_reads > 10 and side.mix_order_spills > 16"
"""Few words cost little (PC101)."""
_OVER_LIMIT = "side.mix_order_reads > 10 and side.mix_order_spills > 255"
"""More words spilled than a thread can have registers. What the report's limit lets through spills
some as well."""
_SUSPECTS = ("triton.coalesce_tiling_analysis=false", "loop_ordering_after_fusion=false")


_WAYS = (Way(Setup(_OFF), Setup(), until=(2, 12)), Way(Setup(), Setup(_UNLIMITED), imitates=True))
_CURES = tuple((f"{_LIMIT}={reads}",) for reads in (5, 10, 15, 20))
_STEP = ClaimedEffect(99.471, 105.764, "ms", "an H100")
_HOLDS, _FIXED_IN = "torch 2.10 to 2.12", (2, 13)


_LIMITED = (
    Way(Setup((f"{_LIMIT}=10",)), Setup(), until=(2, 12)),
    Way(Setup(), Setup(_UNLIMITED), imitates=True),
)
"""The report's own cure as the good side, instead of no mix-order kernels at all."""


def _model(
    name: str,
    says: str,
    params: dict[str, Scalar],
    ways: tuple[Way, ...] = _WAYS,
    symptom: str = _OVER_FUSED,
) -> Claim:
    return Claim(
        name=f"mix-order-{name}",
        says=says,
        source=_SOURCE,
        holds=_HOLDS,
        shown_by=TwoVariants(
            "gqa-transformer",
            ways,
            params=params,
            smoke={**params, **_SMOKE},
            finding="PC103",
            blame=Blame("spills", _SUSPECTS),
            cures=_CURES,
        ),
        symptom=symptom,
        shows=("bad.mix_order", "good.mix_order"),
        effect=_STEP,
        fixed_in=_FIXED_IN,
    )


def _kernel(reads: int, dtype: str) -> Claim:
    """Return the claim about one kernel alone; that of the step is the least that it has to
    cost."""
    params: dict[str, Scalar] = {"reads": reads, "dtype": dtype}
    return Claim(
        name=f"mix-order-{reads}-reads-{dtype}",
        says=f"a mix-order kernel that reads {reads} matrices of {dtype}, 98304 × 512, spills and "
        "is slower than the kernels that it is made of",
        source=_SOURCE,
        holds=_HOLDS,
        shown_by=TwoVariants(
            "mix-order",
            _WAYS,
            params=params,
            smoke=params,
            finding="PC103",
            blame=Blame("spills", _SUSPECTS),
            cures=_CURES[1:2],
        ),
        symptom=_OVER_FUSED,
        expects=("bad.kernels < good.kernels",),
        effect=ClaimedEffect(1.0, _STEP.ratio, "", "an H100, of a whole step"),
        fixed_in=_FIXED_IN,
    )


CLAIMS = (
    _model(
        "printed",
        "the transformer as it is printed trains in 105.8 ms instead of 99.5: mix-order kernels "
        "make 11 to 19 loads and spill registers",
        {},
    ),
    _model(
        "learned",
        "the transformer with learned norm weights, scales and a mixed residual, three layers in "
        "the batch of its profile",
        {"layers": 3, "batch": 48, "learned": True},
    ),
    _model(
        "float32",
        "that model with parameters in float32 under the autocast, and so a residual stream in "
        "float32; at most 10 reads per kernel make up for it",
        {"layers": 3, "batch": 48, "learned": True, "dtype": "float32"},
        _LIMITED,
        _OVER_LIMIT,
    ),
    Claim(
        name="mix-order-7-reads",
        says="7 reads are clean: fused, nothing is spilled, and nothing gets slower",
        source=_SOURCE,
        holds=_HOLDS,
        shown_by=TwoVariants("mix-order", _WAYS, params={"reads": 7}, smoke={"reads": 7}),
        expects=("bad.mix_order == 1", "bad.mix_order_spills <= 16", "pair.slower == 0"),
        is_control=True,
    ),
    *(_kernel(reads, dtype) for reads in (11, 16) for dtype in ("bfloat16", "float32")),
)
