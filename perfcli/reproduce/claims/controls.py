"""Negative controls: changes that make nothing worse, so that a finding would be a false alarm."""

from __future__ import annotations

from collections.abc import Mapping

from perfcli.model import Scalar
from perfcli.reproduce.claim import Claim, Setup, Source, TwoVariants, Way

_INDUCTOR = "https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_inductor"


def _control(
    name: str,
    says: str,
    file: str,
    scenario: str,
    way: Way,
    params: Mapping[str, Scalar],
    expects: tuple[str, ...] = ("pair.worse == 0",),
    smoke: Mapping[str, Scalar] | None = None,
) -> Claim:
    return Claim(
        name=f"control-{name}",
        says=says,
        source=Source(f"torch/_inductor/{file}", f"{_INDUCTOR}/{file}"),
        holds="all releases",
        shown_by=TwoVariants(
            scenario, (way,), params=params, smoke=params if smoke is None else smoke
        ),
        expects=expects,
        is_control=True,
    )


CLAIMS = (
    _control(
        "mix-order-few-rows",
        "4095 rows are too few for a mix-order kernel: the option changes nothing",
        "scheduler.py",
        "rmsnorm",
        Way(Setup(("triton.mix_order_reduction=false",)), Setup()),
        {"rows": 4095, "columns": 768, "mode": "training"},
        ("pair.same_code == 1", "pair.worse == 0"),
    ),
    _control(
        "online-short-rows",
        "rows of 1024 are held in registers: online softmax or not makes nothing worse",
        "lowering.py",
        "softmax",
        Way(Setup(("online_softmax=true",)), Setup(("online_softmax=false",))),
        {"rows": 32768, "columns": 1024},
        ("pair.slower == 0",),
        smoke={"rows": 512, "columns": 1024},
    ),
    _control(
        "five-terms",
        "five terms are below both thresholds: 8 and 16 reads give the same code",
        "ir.py",
        "accumulate",
        Way(Setup(("realize_acc_reads_threshold=8",)), Setup(("realize_acc_reads_threshold=16",))),
        {"repeats": 5},
        ("pair.same_code == 1", "pair.worse == 0"),
        smoke={"repeats": 5, "size": 512},
    ),
    _control(
        "one-row-more",
        # Not 264: with one row more, two full waves of 132 blocks become three.
        "300 and 301 rows of 50304 are both not split, and one row more does not make it slower",
        "choices.py",
        "softmax",
        Way(Setup(params={"rows": 300}), Setup(params={"rows": 301})),
        {"columns": 50304},
        ("good.kernels == 1", "bad.kernels == 1", "pair.slower == 0"),
        smoke={"columns": 16384},
    ),
    _control(
        "fused-random",
        "without `fallback_random` the terms are drawn inside the kernel that adds them, and need "
        "no memory",
        "inductor_prims.py",
        "accumulate",
        Way(Setup(("fallback_random=true",)), Setup()),
        {"terms": "random", "repeats": 20},
        ("good.peak_tensors >= 18", "bad.peak_tensors <= 2"),
        smoke={"terms": "random", "repeats": 20, "size": 512},
    ),
)
