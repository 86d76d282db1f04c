"""Claims about softmax: online or not, split or not, with a length that is not known."""

from __future__ import annotations

from perfcli.model import Scalar
from perfcli.reproduce.claim import Blame, Claim, ClaimedEffect, Setup, Source, TwoVariants, Way

_ONLINE = Source("PR #127011", "https://github.com/pytorch/pytorch/pull/127011", seed=1)
_SPLIT = Source("issue #153241", "https://github.com/pytorch/pytorch/issues/153241", seed=0)
_RULE = Source("the split rule of #153241", "https://github.com/pytorch/pytorch/issues/153241", 0)
_DYNAMIC = Source(
    "choices of torch 2.10, PC202",
    "https://github.com/pytorch/pytorch/blob/v2.10.0/torch/_inductor/lowering.py",
)
_OFF = ("online_softmax=false",)
_APART = "side.online == 0 and side.passes >= 3"
"""No kernel takes maximum and sum together, and the input is read three times."""
_SPLIT_APART = "side.online == 0 and side.kernels > 3"
"""Two stages for the maximum, two for the sum, and one to write the result."""
_SUSPECTS = ("triton.persistent_reductions=false", "triton.coalesce_tiling_analysis=false")


def _split(
    rows: int, columns: int, dtype: str, says: str, effect: ClaimedEffect | None = None
) -> Claim:
    full: dict[str, Scalar] = {"rows": rows, "columns": columns, "dtype": dtype}
    return Claim(
        name=f"split-softmax-{rows}x{columns}",
        says=says,
        source=_SPLIT,
        holds="torch 2.8 to 2.12",
        shown_by=TwoVariants(
            "softmax",
            (
                Way(Setup(("patch.split_online_softmax=true",)), Setup()),
                Way(Setup(), Setup(_OFF), imitates=True),
            ),
            params=full,
            smoke={**full, "columns": min(columns, 65536)},
            finding="PC201",
            blame=Blame("swept", _SUSPECTS),
            cures=(("split_reductions=false",),),
        ),
        symptom=_SPLIT_APART,
        expects=("bad.kernels > good.kernels", "bad.bytes_swept > good.bytes_swept"),
        effect=effect,
        fixed_in=(2, 13),
    )


CLAIMS = (
    Claim(
        name="online-softmax",
        says="softmax of 32768 × 50304 bf16 takes 8.07 ms in three sweeps, and 6.23 ms with "
        "maximum and sum taken in one",
        source=_ONLINE,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "softmax",
            (Way(Setup(("online_softmax=true",)), Setup(_OFF)),),
            params={"rows": 32768, "columns": 50304},
            smoke={"rows": 512, "columns": 8192},
            finding="PC203",
            blame=Blame("swept", _SUSPECTS),
        ),
        symptom=_APART,
        expects=("bad.bytes_swept >= 1.3 * good.bytes_swept",),
        effect=ClaimedEffect(6.2306, 8.0693, "ms", ""),
    ),
    _split(
        1,
        2**20 + 13,
        "bfloat16",
        "a split softmax falls back to plain maximum and sum: more kernels, and the input is read "
        "once more",
    ),
    _split(
        4,
        2**20,
        "bfloat16",
        "split, a softmax has 5 kernels instead of 3 and takes 63.5 µs instead of 54.9 (4 × "
        "1048589, PR #184069)",
        ClaimedEffect(54.9, 63.5, "µs", "a B200"),
    ),
    _split(
        8,
        2**20,
        "float32",
        "split, log_softmax of 4 × 2^20 float32 takes 56.8 µs instead of 51.9 (PR #184069)",
        ClaimedEffect(51.9, 56.8, "µs", "a B200"),
    ),
    _split(
        263,
        50304,
        "bfloat16",
        "rows are split from 263 of them downwards on 132 multiprocessors, and lose online softmax",
    ),
    Claim(
        name="split-cliff",
        says="one row less and the reduction is split: 263 rows of 50304 take 47.3 µs, 264 rows "
        "39.3",
        source=_RULE,
        holds="torch 2.8 and later",
        shown_by=TwoVariants(
            "softmax",
            (
                Way(
                    Setup(params={"rows": 264, "columns": 50304}, smoke={"rows": 264}),
                    Setup(params={"rows": 263, "columns": 50304}, smoke={"rows": 263}),
                ),
            ),
            smoke={"columns": 16384},
            cures=(("split_reductions=false",),),
        ),
        symptom="side.kernels >= 3",
        effect=ClaimedEffect(39.3, 47.3, "µs", "an H200, torch 2.11"),
    ),
    Claim(
        name="dynamic-softmax",
        says="softmax of rows whose length is dynamic is not online: 8192 × 50304 bf16 takes 1.43 "
        "ms, and 1.32 where it is",
        source=_DYNAMIC,
        holds="torch 2.10 and later",
        shown_by=TwoVariants(
            "softmax",
            (Way(Setup(("unroll_reductions_threshold=2",), dynamic=True), Setup(dynamic=True)),),
            params={"rows": 8192, "columns": 50304},
            smoke={"rows": 512, "columns": 8192},
            finding="PC202",
            blame=Blame("swept", _SUSPECTS),
        ),
        symptom=_APART,
        effect=ClaimedEffect(1.32, 1.43, "ms", "an H100, torch 2.11"),
    ),
)
