"""What ``cures_on_device.py`` times: for each rule a scenario that raises it, and the variants that
its findings advise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Side:
    """One variant of a case."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False
    warps: int | None = None
    """Warps of mix-order kernels, in place of Inductor's own choice."""
    xblock: int | None = None
    """XBLOCK of mix-order kernels."""


@dataclass(frozen=True)
class Case:
    rule: str
    scenario: str
    sides: tuple[Side, ...]
    params: Mapping[str, Any] = field(default_factory=dict)


MIX_ORDER = {"layers": 3, "batch": 48, "learned": True}
LIMIT = "triton.mix_order_reduction_max_reads"

COLUMNS = tuple(
    Side(f"{number} columns", {"columns": number}) for number in (50257, 50264, 50272, 50304)
)

CASES = (
    Case(
        "PC101, PC103, PC106",
        "gqa-transformer",
        (
            Side("no read limit"),
            Side("at most 10 reads", options={LIMIT: 10}),
            Side("mix-order off", options={"triton.mix_order_reduction": False}),
            Side("no limit, 4 warps", warps=4),
            Side("no limit, 8 warps", warps=8),
            Side("no limit, XBLOCK 1", xblock=1),
        ),
        MIX_ORDER,
    ),
    Case(
        "PC103",
        "rmsnorm",
        (Side("mix-order"), Side("mix-order off", options={"triton.mix_order_reduction": False})),
        {"mode": "training"},
    ),
    Case(
        "PC201, PC205",
        "softmax",
        (Side("split"), Side("no split", options={"split_reductions": False})),
        {"rows": 4, "columns": 1048576},
    ),
    Case(
        "PC205",
        "layernorm",
        (Side("split"), Side("no split", options={"split_reductions": False})),
        {"rows": 8, "columns": 1048576},
    ),
    Case("PC202", "softmax", (Side("static"), Side("dynamic", dynamic=True))),
    Case(
        "PC203",
        "softmax",
        (
            Side("online"),
            Side("three passes", options={"online_softmax": False}),
            Side("multi-kernel", options={"triton.multi_kernel": 1}),
        ),
    ),
    Case(
        "PC203",
        "rmsnorm",
        (Side("default"), Side("multi-kernel", options={"triton.multi_kernel": 1})),
    ),
    Case(
        "PC204",
        "softmax",
        COLUMNS,
    ),
    Case(
        "PC204",
        "cross-entropy",
        COLUMNS,
    ),
    Case(
        "PC301",
        "accumulate",
        (
            Side("default"),
            Side("size threshold", options={"realize_acc_reads_size_threshold": 2 << 28}),
            Side("4 buffers", options={"max_fusion_unique_io_buffers": 4}),
            Side(
                "4 buffers, threshold 2",
                options={"max_fusion_unique_io_buffers": 4, "realize_acc_reads_threshold": 2},
            ),
        ),
    ),
)
