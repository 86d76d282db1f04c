from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, origins, run

from perfcli.diff.compare import compare
from perfcli.model import ExternCall, Finding, KernelFacts, Origin
from perfcli.rules.extern_changed import RULE, _family, _operator

FLASH = "aten._scaled_dot_product_flash_attention.default"
CUDNN = "aten._scaled_dot_product_cudnn_attention.default"


def calls(**counts: int) -> tuple[ExternCall, ...]:
    named = {"flash": FLASH, "cudnn": CUDNN}
    return tuple(
        ExternCall(named.get(name, f"aten.{name}.out"), "forward 0", count)
        for name, count in counts.items()
    )


def found(base: Any, head: Any, ours: Any = (), theirs: Any = ()) -> list[Finding]:
    left = run([kernel("k"), *ours], externs=base)
    right = run([kernel("k"), *theirs], externs=head, id="head")
    return list(RULE.of_comparison(compare(left, right)))


def test_another_attention_backend_is_worth_knowing() -> None:
    (finding,) = found(calls(flash=3, mm=12), calls(cudnn=3, mm=12))
    assert finding.severity == "info"
    assert finding.headline == (
        "forward calls other operators: aten._scaled_dot_product_flash_attention 3 → 0, "
        "aten._scaled_dot_product_cudnn_attention 0 → 3"
    )
    assert finding.subject == "forward"


def test_attention_that_falls_apart_is_a_warning() -> None:
    softmax = kernel("triton_per_fused__softmax_0", "amax", read=10**9, written=10**9)
    (finding,) = found(calls(flash=3), calls(bmm=6), theirs=[softmax])
    assert finding.severity == "warning"
    assert finding.headline == (
        "forward attention became generated kernels: "
        "aten._scaled_dot_product_flash_attention 3 → 0, aten.bmm 0 → 6"
    )
    assert finding.evidence == (
        "generated kernels: 1 launch → 2 launches",
        "their bytes: 1.5 kB → 2 GB",
    )


@pytest.mark.parametrize(
    ("head", "op", "severity"),
    [
        ({}, "aten.add.Tensor", "info"),
        ({}, "aten._softmax.default", "warning"),
        ({}, "prims.prepare_softmax_online.default", "warning"),
        ({}, "aten._log_softmax.default", "info"),
        ({"bmm": 1}, "aten.add.Tensor", "warning"),
        ({"baddbmm": 1}, "aten.add.Tensor", "warning"),
        ({"addmm": 1}, "aten.add.Tensor", "info"),
    ],
)
def test_attention_is_lost_where_its_parts_appear(
    head: dict[str, int], op: str, severity: str
) -> None:
    """A layer fewer with another kernel somewhere else is no attention that fell apart."""
    more = kernel("more", origins=(Origin("node", op),), read=10**9)
    (finding,) = found(calls(flash=3), calls(flash=2, **head), theirs=[more])
    assert finding.severity == severity


def test_a_softmax_that_was_there_is_no_lost_attention() -> None:
    softmax = kernel("softmax", origins=(Origin("node", "aten._softmax.default"),))
    more = kernel("more", "add", read=10**9)
    (finding,) = found(calls(flash=3), calls(flash=2), [softmax], [softmax, more])
    assert finding.severity == "info"


def product(launches: int, op: str = "aten.mm.default") -> KernelFacts:
    return kernel("triton_red_fused_mm_0", launches=launches, origins=(Origin("mm", op),))


def test_a_product_that_kernels_compute_now() -> None:
    (finding,) = found(calls(mm=4), calls(mm=2), theirs=[product(2)])
    assert finding.severity == "warning"
    assert "matrix product became generated kernels: aten.mm 4 → 2" in finding.headline
    (finding,) = found(calls(mm=4), calls(mm=2), theirs=[product(2, "aten.add.Tensor")])
    assert finding.severity == "info"
    (finding,) = found(calls(mm=4), calls(bmm=4), theirs=[product(2)])
    assert finding.severity == "info"


def test_a_template_was_chosen() -> None:
    template = replace(product(2), kind="template")
    (finding,) = found(calls(mm=4), calls(mm=2), theirs=[template])
    assert finding.severity == "info"


def test_a_kernel_that_became_an_operator_is_worth_knowing() -> None:
    (finding,) = found(calls(mm=2), calls(mm=4), ours=[product(2)])
    assert finding.severity == "info"


def test_equal_calls_raise_nothing() -> None:
    assert found(calls(mm=4, flash=1), calls(flash=1, mm=4)) == []
    other_name = (ExternCall("extern_kernels.mm", "forward 0", 3),)
    split = (
        ExternCall("aten.mm.out", "forward 0", 2),
        ExternCall("aten.mm.default", "forward 1", 1),
    )
    assert found(other_name, split) == []


def test_directions_are_told_apart() -> None:
    base = (*calls(mm=1), ExternCall("aten.mm.out", "backward 0", 2))
    head = (*calls(mm=2), ExternCall("aten.mm.out", "backward 0", 1))
    assert [f.subject for f in found(base, head)] == ["forward", "backward"]


@pytest.mark.parametrize(
    ("op", "name", "kind"),
    [
        ("aten.mm.out", "aten.mm", "matrix product"),
        ("extern_kernels.addmm", "aten.addmm", "matrix product"),
        (CUDNN, "aten._scaled_dot_product_cudnn_attention", "attention"),
        ("aten.convolution.default", "aten.convolution", "convolution"),
        ("aten._fused_rms_norm.default", "aten._fused_rms_norm", "aten._fused_rms_norm"),
        ("mylib::swish", "mylib.swish", "mylib.swish"),
    ],
)
def test_operators_without_their_overload(op: str, name: str, kind: str) -> None:
    assert _operator(op) == name
    assert _family(_operator(op)) == kind


def test_origins_without_an_operator_name_nothing() -> None:
    nameless = kernel("k2", origins=(Origin("view", ""), *origins("add")))
    (finding,) = found(calls(mm=2), calls(mm=1), theirs=[nameless])
    assert finding.severity == "info"
