from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, run
from handmade_reductions import OLD, split_softmax

from perfcli.model import Finding, KernelFacts, Run
from perfcli.rules.online_softmax_split import RULE

PATCHED = {"patch.split_online_softmax": True}
SETTINGS = {"online_softmax": True, "split_reductions": True}


def found(kernels: list[KernelFacts], **more: Any) -> list[Finding]:
    given: dict[str, Any] = {"environment": OLD, "settings": SETTINGS, **more}
    return list(RULE.of_run(run(kernels, **given)))


def test_two_sweeps_of_a_split_softmax() -> None:
    (finding,) = found(split_softmax(4, 1048576))
    assert finding.headline == (
        "triton_red_fused_softmax_0 and 3 more kernels sweep 8.39 MB 2 times "
        "for a softmax's maximum and sum"
    )
    assert finding.evidence == (
        "4 kernels and 16.8 MB, where a split online softmax takes 2 kernels and 8.39 MB",
        "4 rows of 1,048,576: Inductor splits fewer than 264 rows (2 for each of 132 SMs) "
        "of more than 8,192, as here",
    )
    assert (finding.kernels, finding.amount) == ((0, 1, 2, 3), 4 * 1048576 * 2)
    assert "2.13" in finding.advice
    # Without a split, four multiprocessors would work.
    assert [dict(cure.options) for cure in finding.cures] == [PATCHED]


def test_rows_enough_for_every_multiprocessor_need_no_split() -> None:
    (finding,) = found(split_softmax(263, 49152))
    assert [dict(cure.options) for cure in finding.cures] == [PATCHED, {"split_reductions": False}]


@pytest.mark.parametrize(
    ("rows", "columns", "settings", "cures"),
    [
        (64, 131072, SETTINGS, [PATCHED]),
        (140, 131072, SETTINGS, [PATCHED]),
        (263, 49152, {"split_reductions": False}, []),
        (64, 131072, {**SETTINGS, **PATCHED}, []),
    ],
)
def test_no_cure_that_loses_or_is_set(
    rows: int, columns: int, settings: dict[str, Any], cures: list[dict[str, bool]]
) -> None:
    (finding,) = found(split_softmax(rows, columns), settings=settings)
    assert [dict(cure.options) for cure in finding.cures] == cures


def test_a_shape_that_does_not_explain_it() -> None:
    (finding,) = found(split_softmax(264, 49152))
    assert finding.evidence[1].endswith("which these are not")


def test_a_torch_that_splits_online_softmax_is_not_advised_to_be_newer() -> None:
    (finding,) = found(split_softmax(4, 1048576), environment=ENVIRONMENT)
    assert finding.advice == ""
    assert len(finding.evidence) == 1
    assert all(dict(cure.options) != PATCHED for cure in finding.cures)


def test_a_split_online_softmax_is_fine() -> None:
    assert found(split_softmax(4, 1048576, online=True)) == []


def test_a_dynamic_length_has_a_rule_of_its_own() -> None:
    kernels = [replace(k, dynamic_sizes=("x", "r0_")) for k in split_softmax(4, 1048576)]
    assert found(kernels) == []


def test_sweeps_over_different_inputs_are_fine() -> None:
    maximum, _, total, _ = split_softmax(4, 1048576)
    other = replace(total, buffers=tuple(replace(b, name="arg1_1") for b in total.buffers))
    assert found([maximum, other]) == []


def test_a_source_that_could_not_be_read_says_nothing() -> None:
    kernels = [replace(k, source_facts=None) for k in split_softmax(4, 1048576)]
    assert found(kernels) == []


@pytest.mark.torch
def test_todays_torch_keeps_it(compile_run: Callable[..., Run]) -> None:
    compiled = compile_run("softmax", "h200", params=(("rows", 2), ("columns", 65536)))
    assert sum(k.kind == "reduction" for k in compiled.kernels) == 1
    assert list(RULE.of_run(compiled)) == []
