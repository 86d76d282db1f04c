"""Claims about mix-order reductions that take in more than their registers hold."""

from __future__ import annotations

from perfcli.model import Scalar
from perfcli.reproduce.claim import (
    Blame,
    Claim,
    ClaimedEffect,
    Setup,
    Source,
    TwoVariants,
    Way,
)

_SOURCE = Source("PR #179494", "https://github.com/pytorch/pytorch/pull/179494", seed=4)
_OFF = ("triton.mix_order_reduction=false",)
_LIMIT = "triton.mix_order_reduction_max_reads"
_UNLIMITED = (f"{_LIMIT}=1000",)
_SMOKE: dict[str, Scalar] = {"layers": 2, "batch": 8}
_OVER_FUSED = "side.mix_order_reads > 10 and side.mix_order_spills > 16"
"""Few words cost little (PC101)."""
_SUSPECTS = ("triton.coalesce_tiling_analysis=false", "loop_ordering_after_fusion=false")


def _model(name: str, says: str, params: dict[str, Scalar]) -> Claim:
    return Claim(
        name=f"mix-order-{name}",
        says=says,
        source=_SOURCE,
        holds="torch 2.10 to 2.12",
        shown_by=TwoVariants(
            "gqa-transformer",
            (
                Way(Setup(_OFF), Setup(), until=(2, 12)),
                Way(Setup(), Setup(_UNLIMITED), imitates=True),
            ),
            params=params,
            smoke={**params, **_SMOKE},
            finding="PC103",
            blame=Blame("spills", _SUSPECTS),
            cures=tuple((f"{_LIMIT}={reads}",) for reads in (5, 10, 15, 20)),
        ),
        symptom=_OVER_FUSED,
        shows=("bad.mix_order", "good.mix_order"),
        effect=ClaimedEffect(99.471, 105.764, "ms", "an H100"),
        fixed_in=(2, 13),
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
        "the same with learned norm weights, scales and a mixed residual, three layers in the "
        "batch of its profile",
        {"layers": 3, "batch": 48, "learned": True},
    ),
)
