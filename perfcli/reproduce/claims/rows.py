"""Claims about rows that Inductor reads in a poor way: element by element, or held as float32."""

from __future__ import annotations

from perfcli.model import Problem
from perfcli.reproduce.claim import (
    Blame,
    Claim,
    ClaimedEffect,
    Launches,
    Setup,
    Source,
    TwoVariants,
    Way,
)

_PEELING = Source("PR #179941", "https://github.com/pytorch/pytorch/pull/179941", seed=2)
_MASKS = Source("issue #148402", "https://github.com/pytorch/pytorch/issues/148402", seed=2)
_RFC = Source("RFC #179711", "https://github.com/pytorch/pytorch/issues/179711", seed=2)
_NARROW = "side.load_bits <= 16"
"""No launch configuration loads more than one element at once."""
_SUSPECTS = ("split_reductions=false", "triton.persistent_reductions=false")
_OTHERS = ("split_reductions=false", "loop_ordering_after_fusion=false")
_GB200 = "a GB200"
_RECOMPUTE = "patch.recompute_half_inputs=true"
_WITHDRAWN = (
    "its author withdrew the numbers on 2026-05-06: the L2 cache was warm, since nothing waited "
    "for the flush"
)


def _peeling(name: str, dynamic: bool, ratio: float) -> Claim:
    what = "dynamic" if dynamic else "static"
    return Claim(
        name=f"loop-peeling-{name}",
        says=f"softmax of 32768 × 50257 bf16 is {ratio:g} times as fast with an unmasked main loop "
        f"({what} shape)",
        source=_PEELING,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "softmax",
            (Way(Setup(("patch.loop_peeling=true",), dynamic=dynamic), Setup(dynamic=dynamic)),),
            params={"rows": 32768, "columns": 50257},
            smoke={"rows": 512, "columns": 8193},
            finding="PC202" if dynamic else "PC204",
            blame=Blame("estimated-time", _SUSPECTS),
        ),
        symptom=_NARROW,
        shows=("good.load_bits",),
        effect=ClaimedEffect(1.0, ratio, "", _GB200),
    )


def _narrow(name: str, says: str, stride: int, effect: ClaimedEffect | None) -> Claim:
    return Claim(
        name=f"narrow-loads-{name}",
        says=says,
        source=_MASKS,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "softmax",
            (
                Way(
                    Setup(params={"columns": 50304}, smoke={"columns": 8192}),
                    Setup(
                        params={"columns": 50257, "stride": stride},
                        smoke={"columns": 8145, "stride": 8192 if stride else 0},
                    ),
                ),
            ),
            params={"rows": 32768},
            smoke={"rows": 4096},
            finding="PC204",
        ),
        symptom=_NARROW,
        effect=effect,
    )


def _recomputed(rows: int, columns: int, before: float, after: float) -> Claim:
    return Claim(
        name=f"recompute-{rows}x{columns}",
        says=f"Inductor's RMSNorm of {rows} × {columns} bf16, with rows held as half precision and "
        f"converted again: {before} → {after} % of the bandwidth",
        source=_RFC,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "rmsnorm",
            (Way(Setup((_RECOMPUTE,)), Setup()),),
            params={"rows": rows, "columns": columns},
            smoke={"rows": 512, "columns": columns},
            blame=Blame("swept", _OTHERS),
        ),
        symptom="side.passes >= 1.5",
        expects=("good.spilled_words == 0",),
        shows=("good.registers", "bad.registers"),
        effect=ClaimedEffect(1.0, after / before, "", _GB200),
        withdrawn=_WITHDRAWN,
    )


def _held(
    variant: str, where: str, problem: Problem, before: float, after: float, corrected: str = ""
) -> Claim:
    rows, columns = problem.rows, problem.columns
    return Claim(
        name=f"{variant}-{rows}x{columns}",
        says=f"RMSNorm of {rows} × {columns} bf16 with rows {where}: {before} → {after} % of the "
        "bandwidth, against max-autotune",
        source=_RFC,
        holds="torch 2.8 to 2.15",
        shown_by=Launches("rmsnorm", variant, (problem,), against="inductor-max-autotune"),
        shows=("good.registers", "good.spilled_words"),
        effect=ClaimedEffect(1.0, after / before, "", _GB200),
        withdrawn=f"{_WITHDRAWN}; corrected {corrected}" if corrected else _WITHDRAWN,
    )


def _tiled(rows: int, columns: int, before: float, after: float, corrected: str) -> Claim:
    where, problem = "kept in registers as half precision", Problem("rmsnorm", rows, columns)
    return _held("register-tiled", where, problem, before, after, corrected)


def _shared(rows: int, columns: int, before: float, after: float) -> Claim:
    problem = Problem("rmsnorm", rows, columns)
    return _held("tma", "held in shared memory by TMA", problem, before, after)


_COLUMNS = (2048, 4096, 8192, 16384, 32768)

CLAIMS = (
    _peeling("static", False, 1.42),
    _peeling("dynamic", True, 1.22),
    _narrow(
        "odd",
        "rows of 50257 are loaded element by element, and softmax takes 4.65 ms instead of the "
        "3.63 ms of rows of 50304",
        0,
        ClaimedEffect(3.63, 4.65, "ms", "an H100, torch 2.11"),
    ),
    _narrow(
        "padded",
        "padding the stride to 50304 does not help rows of 50257: the mask keeps loads narrow",
        50304,
        None,
    ),
    Claim(
        name="recompute-registers",
        says="a persistent reduction holds rows as float32 copies; half precision takes fewer "
        "registers",
        source=_RFC,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "rmsnorm",
            (Way(Setup((_RECOMPUTE,)), Setup()),),
            params={"rows": 32768, "columns": 1024},
            smoke={"rows": 512, "columns": 1024},
            blame=Blame("registers", _SUSPECTS[:1]),
        ),
        symptom="side.held_copies > 0",
        expects=("good.registers < bad.registers",),
    ),
    _recomputed(8192, 8192, 71.8, 94.2),
    _recomputed(16384, 4096, 80.8, 97.4),
    _recomputed(32768, 2048, 86.4, 97.3),
    _recomputed(32768, 4096, 63.8, 89.1),
    _recomputed(16384, 8192, 76.6, 88.2),
    _recomputed(32768, 8192, 80.2, 90.7),
    _tiled(8192, 8192, 71.8, 94.2, "to 82 → 88 %"),
    _tiled(16384, 4096, 80.8, 97.4, "to 81 → 89 %"),
    _tiled(32768, 2048, 86.4, 97.3, "to a gain of 1.13"),
    _shared(32768, 4096, 63.8, 89.1),
    _shared(16384, 8192, 76.6, 88.2),
    _shared(32768, 8192, 80.2, 90.7),
    _shared(32768, 32768, 83.3, 87.3),
    _shared(16384, 16384, 90.8, 88.1),
    Claim(
        name="tma-registers",
        says="with rows in shared memory, a kernel needs about 22 registers at any length",
        source=_RFC,
        holds="hand-written kernels",
        shown_by=Launches(
            "rmsnorm", "tma", tuple(Problem("rmsnorm", 16384, columns) for columns in _COLUMNS)
        ),
        expects=("good.registers <= 32",),
    ),
)
