"""Which line of the model a failed gate names, and that the cause comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from golden import shown
from handmade import kernel, run

from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare
from perfcli.gate import view
from perfcli.gate.judging import Policy, judge
from perfcli.gate.limits import SIGNS, USUAL
from perfcli.loading import registry
from perfcli.model import BreakPlace, Document, Judged, Judgement, KernelFacts, Origin

ROOT = "/home/me/repo"
NORM = Origin("mul_1", "aten.mul.Tensor", "norm", (8, 8), f"{ROOT}/norm.py:12", "x = x * w")
SUM = Origin("sum_1", "aten.sum.dim_IntList", "norm", (8,), f"{ROOT}/norm.py:13", "x = x.sum(1)")
PLANTED = Origin("cumsum", "aten.cumsum.default", "norm", (8,), f"{ROOT}/norm.py:14", "x.cumsum(0)")
REASON = "Failed to trace builtin operator"
PRINT = BreakPlace(f"{ROOT}/norm.py:15", "print(x.mean())", "Dynamo can't trace `print`")


def made(name: str, *origins: Origin, **more: Any) -> KernelFacts:
    return kernel(name, origins=origins, **more)


def judged(base: Sequence[KernelFacts], head: Sequence[KernelFacts], **more: Any) -> Judgement:
    comparison = diagnose(compare(run(base, peak=10), run(head, id="head", peak=10, **more)))
    found = judge(comparison, Policy(USUAL, signs=frozenset(SIGNS)))
    check = Judged(
        "norm@h100", found.outcome, found.reason, comparison, found.limits, found.findings
    )
    return Judgement((check,), found.outcome, "1 check: 1 failed", 1, root=ROOT)


def read(judgement: Judgement) -> list[str]:
    return shown(view.report(judgement, quiet=False), 300).splitlines()


def with_print() -> Judgement:
    """``print()`` broke the graph: more kernels, more bytes, and the break itself."""
    return judged(
        [made("triton_red_fused_mul_sum_0", NORM, SUM)],
        [
            made("triton_poi_fused_mul_0", NORM, read=9000, graph="forward 0"),
            made("triton_per_fused_sum_0", SUM, read=9000, graph="forward 1"),
        ],
        graph_breaks={REASON: 6},
        break_places={REASON: (PRINT,)},
    )


def test_a_graph_break_is_said_first_with_its_line() -> None:
    lines = read(with_print())
    (headline,) = [line for line in lines if line.startswith("  FAIL")]
    assert headline.startswith(
        f"  FAIL    norm@h100  graph breaks 0 → 6, at most +0: {REASON} "
        "(norm.py:15: print(x.mean())) (and "
    )
    details = lines[lines.index("norm@h100") + 1 :]
    assert details[0] == f"  broken: graph breaks 0 → 6, at most +0: {REASON}"
    assert details[1] == "    norm.py:15  print(x.mean())"
    assert any(line.startswith("  broken: bytes moved") for line in details)


def test_no_peak_is_called_better_where_the_graph_broke() -> None:
    assert not any("better" in line and "peak memory" in line for line in read(with_print()))


def test_the_markdown_has_the_cause_and_its_line() -> None:
    text = registry.load_declared("reports", "markdown", Document).render(with_print())
    limits = text.partition("**Limits**")[2].splitlines()[2:]
    assert limits[0].startswith("- **broken** total: graph breaks 0 → 6")
    assert limits[1] == "  - `norm.py:15`: `print(x.mean())`"
    assert "`norm.py:12`" in text
    assert ROOT not in text


@pytest.mark.parametrize("lines", [True, False])
def test_the_line_that_the_base_does_not_have_is_to_blame(lines: bool) -> None:
    """As it stands first in no kernel; a baseline's file has operators and no lines."""
    old = [NORM, SUM] if lines else [Origin(o.node, o.op, o.module, o.shape) for o in (NORM, SUM)]
    judgement = judged(
        [made("triton_red_fused_mul_sum_0", *old)],
        [made("triton_red_fused_mul_sum_0", NORM, SUM, PLANTED, read=9000, text="other")],
    )
    (check,) = judgement.checks
    assert f"({ROOT}/norm.py:14: x.cumsum(0))" in check.reason
    assert "    norm.py:14  x.cumsum(0)" in read(judgement)


def test_lines_of_libraries_come_after_those_of_the_model() -> None:
    library = Origin("a", "aten.rsqrt.default", "norm", (), "/x/site-packages/lib/a.py:3", "rsqrt")
    judgement = judged(
        [made("triton_0", NORM)],
        [made("triton_0", library, NORM, read=9000, text="other")],
    )
    assert "    norm.py:12  x = x * w" in read(judgement)


def test_without_lines_the_text_stands_alone() -> None:
    judgement = judged(
        [kernel("triton_0", "mul")], [kernel("triton_0", "mul", read=9000, text="other")]
    )
    (check,) = judgement.checks
    assert "bytes moved" in check.reason
    assert "(" not in check.reason.partition("at most")[2].replace("(and", "")
