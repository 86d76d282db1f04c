from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from handmade import kernel, run

from perfcli.model import Buffer, Finding, KernelFacts, Launch, Run
from perfcli.rules.accumulated_reads import RULE

TERM = 256 * 2**20
SETTINGS = {
    "realize_acc_reads_size_threshold": None,
    "max_fusion_unique_io_buffers": None,
    "realize_acc_reads_threshold": None,
}


def buffer(name: str, role: Any = "input", size: int = TERM, graph_input: bool = False) -> Buffer:
    return Buffer(name, name, role, "float32", (size // 4,), (1,), size, graph_input)


def summing(
    terms: int, *more: Buffer, name: str = "triton_poi_fused_add_0", graph: str = "inference 0"
) -> KernelFacts:
    """A kernel that adds so many terms into the last of them."""
    read = [buffer(f"buf{n}", "input" if n else "inplace") for n in range(terms)]
    return kernel(name, "add", graph=graph, buffers=(*read, *more))


def found(
    kernels: Sequence[KernelFacts], peak: int | None = 17 * TERM, **more: Any
) -> list[Finding]:
    given: dict[str, Any] = {"settings": SETTINGS, **more}
    return list(RULE.of_run(run(kernels, peak=peak, **given)))


def test_sixteen_terms_of_a_peak_of_seventeen() -> None:
    (finding,) = found([summing(16)])
    assert finding.headline == (
        "triton_poi_fused_add_0 needs 16 terms at the same time, "
        "4.29 GB of the peak memory of 4.56 GB"
    )
    assert finding.evidence == (
        "16 intermediate buffers of 268 MB have no later reader among the kernels: "
        "94.1 % of the peak",
        "added one at a time, 3 would do: 805 MB",
    )
    assert (finding.metric, finding.amount) == ("peak_memory_bytes", 13 * TERM)
    assert [dict(cure.options) for cure in finding.cures] == [
        {"patch.accumulated_reads_size": 2 * TERM},
        {"max_fusion_unique_io_buffers": 4},
        {"max_fusion_unique_io_buffers": 4, "realize_acc_reads_threshold": 2},
    ]


def test_the_number_of_reads_that_inductor_allows_is_fine() -> None:
    assert found([summing(8)], peak=9 * TERM) == []
    assert len(found([summing(9)], peak=10 * TERM)) == 1


def test_what_could_be_spared_must_be_a_quarter_of_the_peak() -> None:
    assert len(found([summing(16)], peak=52 * TERM)) == 1
    assert found([summing(16)], peak=53 * TERM) == []
    assert found([summing(16)], peak=None) == []


def test_what_could_be_spared_must_be_a_percent_of_the_device() -> None:
    small = [buffer(f"buf{n}", "input" if n else "inplace", TERM // 8) for n in range(16)]
    kernels = [kernel("sum", "add", graph="inference 0", buffers=tuple(small))]
    assert found(kernels, peak=17 * TERM // 8) == []
    assert len(found(kernels, peak=17 * TERM // 8, target=None, device="cpu")) == 1


def test_inputs_of_the_graph_exist_anyway() -> None:
    inputs = tuple(buffer(f"arg{n}_1", graph_input=True) for n in range(16))
    assert found([summing(8, *inputs)]) == []


def test_so_does_what_a_later_kernel_reads() -> None:
    reader = kernel(
        "later", buffers=tuple(buffer(f"buf{n}") for n in range(1, 9)), graph="inference 0"
    )
    assert found([summing(16), reader]) == []
    order = tuple(Launch("inference 0", name) for name in ("later", "triton_poi_fused_add_0"))
    assert len(found([summing(16), reader], launches=order)) == 1


def test_what_later_operators_read_is_not_known() -> None:
    own = summing(16)
    product = Launch("inference 0", "aten.mm", extern=True)
    others = [Launch("inference 0", f"aten.op{n}", extern=True) for n in range(3)]
    elsewhere = Launch("inference 1", "aten.mm", extern=True)
    kernel_launch = Launch("inference 0", own.name)
    (before,) = found([own], launches=(product, kernel_launch, elsewhere))
    assert len(before.evidence) == 2
    (after,) = found([own], launches=(product, kernel_launch, product, product))
    assert after.evidence[2] == (
        "not known: whether library operators that are called later (2 aten.mm) read terms, which "
        "these would keep in memory"
    )
    finishing = Launch("inference 0", "aten.sum", extern=True, finishing=True)
    (finished,) = found([own], launches=(kernel_launch, finishing))
    assert finished.evidence == before.evidence
    (many,) = found([own], launches=(kernel_launch, product, product, *others))
    assert "(2 aten.mm, 1 aten.op0, 1 aten.op1, …)" in many.evidence[2]


def test_each_term_written_on_its_own_is_no_sum() -> None:
    written = tuple(buffer(f"out{n}", "output") for n in range(15))
    assert found([summing(16, *written)], peak=32 * TERM) == []


def test_smaller_buffers_are_not_counted() -> None:
    small = tuple(buffer(f"small{n}", size=TERM // 4) for n in range(4))
    assert found([summing(8, *small)], peak=9 * TERM) == []


def test_the_forward_of_a_training_step_keeps_its_values_anyway() -> None:
    assert found([summing(16, graph="forward 0")]) == []
    assert len(found([summing(16, graph="backward 0")])) == 1


def test_only_what_this_torch_has_and_is_not_set_is_proposed() -> None:
    old = {"realize_acc_reads_size_threshold": None, "realize_acc_reads_threshold": 8}
    (finding,) = found([summing(16)], settings=old)
    (cure,) = finding.cures
    assert cure.options == {"realize_acc_reads_size_threshold": 2 * TERM}
    assert "lowering" not in cure.why
    (finding,) = found([summing(16)], settings={**SETTINGS, "max_fusion_unique_io_buffers": 3})
    assert len(finding.cures) == 1
    patched = {**SETTINGS, "patch.accumulated_reads_size": TERM}
    (finding,) = found([summing(16)], settings=patched)
    assert all("patch.accumulated_reads_size" not in cure.options for cure in finding.cures)
    (finding,) = found([summing(16)], settings={})
    assert finding.cures == ()


def test_a_limit_that_the_scheduler_does_not_heed_is_named() -> None:
    limited = {**SETTINGS, "realize_acc_reads_size_threshold": TERM}
    (finding,) = found([summing(16)], settings=limited)
    assert finding.evidence[-1] == (
        "realize_acc_reads_size_threshold is set to 268435456, and did not prevent it: since "
        "torch 2.10 the scheduler does not heed it"
    )
    assert finding.cures[0].options == {"patch.accumulated_reads_size": 2 * TERM}
    assert len(finding.cures) == 3


# --- real ------------------------------------------------------------------------------------

RELEASE = (
    tuple(map(int, importlib.metadata.version("torch").split(".")[:2]))
    if importlib.util.find_spec("torch")
    else (0, 0)
)
Compile = Callable[..., Run]


def real(compile_run: Compile, *options: tuple[str, Any]) -> list[Finding]:
    return list(RULE.of_run(compile_run("accumulate", options=options, params=(("size", 8192),))))


@pytest.mark.torch
@pytest.mark.skipif(RELEASE < (2, 10), reason="the scheduler's limit is an option since 2.10")
def test_the_scenario_is_cured_by_limits_on_bytes_and_on_buffers(compile_run: Compile) -> None:
    (finding,) = real(compile_run)
    assert finding.amount == 12 * 8192 * 8192 * 4
    # The last product with the last addition: it reads the sum and the last term.
    assert "called later (1 aten.addmm.out) read terms" in finding.evidence[2]
    assert finding.origin is not None
    assert finding.origin.code == "total = total + x"
    by_bytes, by_buffers, both = finding.cures
    assert real(compile_run, *by_bytes.options.items()) == []
    assert real(compile_run, *by_buffers.options.items()) == []
    assert real(compile_run, *both.options.items()) == []
