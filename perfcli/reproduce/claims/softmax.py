"""Claims about softmax: online or not, split or not, with a length that is not known."""

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

ONLINE = Source("PR #127011", "https://github.com/pytorch/pytorch/pull/127011", seed=1)
SPLIT = Source(
    "issue #153241, PR #184069", "https://github.com/pytorch/pytorch/pull/184069", seed=0
)
SPLIT_PATCH = ("patch.split_online_softmax=true",)
OFF = ("online_softmax=false",)
TWO_SWEEPS = "side.online == 0 and side.passes >= 3"
"""No kernel takes maximum and sum together, and the input is read three times."""
SUSPECTS = ("triton.persistent_reductions=false", "triton.coalesce_tiling_analysis=false")

_SPLIT_WAYS = (Way(Setup(SPLIT_PATCH), Setup()), Way(Setup(), Setup(OFF), imitates=True))


def _split(
    name: str,
    rows: int,
    columns: int,
    dtype: str,
    says: str,
    effect: ClaimedEffect | None,
) -> Claim:
    full: dict[str, Scalar] = {"rows": rows, "columns": columns, "dtype": dtype}
    return Claim(
        name=f"split-softmax-{name}",
        says=says,
        source=SPLIT,
        holds="torch 2.8 to 2.12",
        shown_by=TwoVariants(
            "softmax",
            _SPLIT_WAYS,
            params=full,
            smoke={**full, "rows": min(rows, 4), "columns": 65536},
            finding="PC201",
            blame=Blame("swept", SUSPECTS),
            cures=(("split_reductions=false",),),
        ),
        symptom=TWO_SWEEPS,
        expects=("bad.kernels > good.kernels",),
        effect=effect,
        fixed_in=(2, 13),
    )


CLAIMS = (
    Claim(
        name="online-softmax",
        says="softmax of 32768 × 50304 bf16 takes 8.07 ms in three sweeps, 6.23 ms with maximum "
        "and sum taken together",
        source=ONLINE,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "softmax",
            (Way(Setup(("online_softmax=true",)), Setup(OFF)),),
            params={"rows": 32768, "columns": 50304},
            smoke={"rows": 512, "columns": 8192},
            finding="PC203",
            blame=Blame("swept", SUSPECTS),
        ),
        symptom=TWO_SWEEPS,
        expects=("bad.bytes_swept >= 1.3 * good.bytes_swept",),
        effect=ClaimedEffect(6.2306, 8.0693, "ms", ""),
    ),
    _split(
        "4x1048576",
        4,
        2**20,
        "bfloat16",
        "a split softmax has 5 kernels where online would have 3, 1.16× slower",
        ClaimedEffect(0.0549, 0.0635, "ms", "B200"),
    ),
)
