"""What PC101 to PC107 say about the regression that perfcli was made to find, compiled for an
H100 (the same two runs as compile/test_example.py)."""

from __future__ import annotations

import importlib.metadata
from collections import defaultdict
from collections.abc import Callable

import pytest

from perfcli.model import Finding, Run
from perfcli.rules import (
    held_copies,
    launch_configuration,
    low_occupancy,
    over_fused_mix_order,
    register_spills,
    shared_memory_budget,
    spills_in_loop,
)

pytest.importorskip("torch")

RELEASE = tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(RELEASE < (2, 13), reason="the read limit is an option since torch 2.13"),
]

Compile = Callable[..., Run]
MAX_READS, MIX_ORDER = "triton.mix_order_reduction_max_reads", "triton.mix_order_reduction"
PARAMS = (("layers", 3), ("batch", 48), ("learned", True))
RULES = (
    register_spills.RULE,
    spills_in_loop.RULE,
    over_fused_mix_order.RULE,
    low_occupancy.RULE,
    shared_memory_budget.RULE,
    launch_configuration.RULE,
    held_copies.RULE,
)


def by_code(run: Run) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = defaultdict(list)
    for rule in RULES:
        found[rule.code] += rule.of_run(run)
    return found


def test_by_default_two_spilled_words_are_worth_knowing(compile_run: Compile) -> None:
    found = by_code(compile_run("gqa-transformer", params=PARAMS, options=()))
    assert {code for code in found if found[code]} <= {"PC101"}
    assert {f.severity for some in found.values() for f in some} <= {"info"}
    assert all((f.amount or 0) <= 4 for f in found["PC101"])


def test_without_the_read_limit_one_kernel_is_over_fused(compile_run: Compile) -> None:
    run = compile_run("gqa-transformer", params=PARAMS, options=((MAX_READS, 1000),))
    found = by_code(run)
    (fused,) = found["PC103"]
    assert fused.severity == "warning"
    assert (fused.amount or 0) > 75
    assert [dict(cure.options) for cure in fused.cures] == [{MAX_READS: 10}, {MIX_ORDER: False}]
    (number,) = fused.kernels
    assert run.kernels[number].kind == "mix-order-reduction"
    for code in ("PC101", "PC102", "PC106"):
        worst = [f for f in found[code] if f.severity == "warning"]
        assert [f.kernels for f in worst] == [(number,)], code
    assert "XBLOCK 4 → 1" in found["PC106"][0].headline
    assert not any(found[code] for code in ("PC104", "PC105", "PC107"))
