"""A baseline against the run that it was made of, and against others."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from handmade import digest, kernel, run

from perfcli.diagnosis import diagnose, explain
from perfcli.diff.compare import compare
from perfcli.gate.baseline import facts, file
from perfcli.gate.baseline.fit import fit_entry
from perfcli.gate.baseline.reading import BaselineEntry, Made
from perfcli.model import Comparison, KernelFacts, Origin, Run

SHAPE = (48, 2048, 512)


def entry_of(base: Run) -> BaselineEntry:
    checks = {
        "a@h100": file.BaselineCheck(Made("2026-11-22", "x"), facts._plain(base, explain(base)))
    }
    return file._read(file._text(checks), "file")["a@h100"].entry()


def against(base: Run, head: Run) -> Comparison:
    fit, findings = fit_entry(entry_of(base), head)
    return diagnose(compare(fit, head), findings)


def layer(
    number: int, *, module: str = "norm", text: str = "", shift: int = 0, **more: object
) -> KernelFacts:
    nodes = tuple(
        Origin(f"{op}_{number + shift}", f"aten.{op}.Tensor", f"blocks.{number}.{module}", SHAPE)
        for op in ("mul", "sum", "add")
    )
    name = f"triton_red_fused_add_mul_sum_{number + shift}"
    return kernel(name, origins=nodes, text=text or f"layer {number}", **more)  # type: ignore[arg-type]


def relations(comparison: Comparison) -> Counter[str]:
    return Counter(group.match.relation for group in comparison.groups)


def test_the_run_itself_is_the_same_in_every_number() -> None:
    head = run([layer(n, stack=368 if n == 1 else 0) for n in range(3)], peak=10**9, id="head")
    comparison = against(head, head)
    assert (comparison.outcome, relations(comparison)) == ("same", {"same": 3})
    assert all(c.base == c.head and c.outcome == "same" for c in comparison.totals)
    assert {f.code: f.appearance for f in comparison.findings} == {"PC101": "same"}
    assert comparison.differences == ()
    names = [kernel.name for kernel in head.kernels]
    assert [kernel.name for kernel in comparison.base.kernels] == names
    assert comparison.base.launches == head.launches


def test_other_numbers_and_another_module_name_are_the_same() -> None:
    base = run([layer(n) for n in range(3)])
    head = run([layer(n, module="ln", shift=5) for n in range(3)], id="head")
    comparison = against(base, head)
    assert (comparison.outcome, relations(comparison)) == ("same", {"same": 3})


def sized(number: int, *shapes: tuple[int | str, ...], text: str, op: str = "mul") -> KernelFacts:
    """A kernel that multiplies tensors of these shapes."""
    nodes = (
        Origin(f"{op}_{10 * number + n}", f"aten.{op}.Tensor", "norm", shape)
        for n, shape in enumerate(shapes)
    )
    name = f"triton_poi_fused_{op}_{number}"
    return kernel(name, origins=tuple(nodes), text=f"{text} {number}")


STATIC = ((8, 1024), (8, 8), (64, 1024), (8, 1024, 64))
DYNAMIC = (("s77", 1024), ("s77", 8), ("8*s77", 1024), ("s77", 1024, 64))
RENAMED = (("s3", 1024), ("s3", 8), ("8*s3", 1024), ("s3", 1024, 64))


@pytest.mark.parametrize("shapes", list(itertools.permutations((STATIC, DYNAMIC, RENAMED), 2)))
def test_kernels_that_became_dynamic_are_no_new_ones(shapes: Any) -> None:
    """``mark_dynamic``: each kernel has other code, and symbols for what were numbers. Without
    names of nodes that is all there is to tell them by."""
    base, head = (
        run([sized(n, shape, text=text) for n, shape in enumerate(side)], id=text)
        for side, text in zip(shapes, ("base", "head"), strict=True)
    )
    comparison = against(base, head)
    assert relations(comparison) == {"changed": 4}
    matches = [group.match for group in comparison.groups]
    assert {m.method for m in matches} == {"nodes"}
    for ours, theirs in ((m.base[0], m.head[0]) for m in matches):
        assert comparison.base.kernels[ours].source_hash == digest(f"base {theirs}")[:16]


def test_a_symbol_stands_for_one_size() -> None:
    """``add`` is of the batch alone, so ``s0`` is 8: then the second ``mul`` is not of it."""
    base = [sized(0, (8,), text="x", op="add"), sized(1, (16, 4), (8, 4), text="x")]
    head = [sized(0, ("s0",), text="y", op="add"), sized(1, ("s0", 4), ("s1", 4), text="y")]
    fit, _ = fit_entry(entry_of(run(base)), run(head, id="head"))
    names = {origin.shape: origin.node for origin in fit.kernels[1].origins}
    assert names == {("s0", 4): "mul_10", ("s1", 4): "mul_11"}


def test_another_size_is_another_node() -> None:
    base, head = run([sized(0, (8, 4), text="x")]), run([sized(0, ("s0", 5), text="y")], id="head")
    (made,) = fit_entry(entry_of(base), head)[0].kernels
    assert [origin.shape for origin in made.origins] == [(8, 4)]


def test_a_changed_kernel_is_found_among_its_twins() -> None:
    base = run([layer(n) for n in range(3)])
    head = run([layer(0), layer(1, text="new", stack=368, loads=9), layer(2)], id="head")
    comparison = against(base, head)
    (changed,) = [g for g in comparison.groups if g.match.relation == "changed"]
    assert changed.match.head == (1,)
    assert comparison.base.kernels[changed.match.base[0]].source_hash == digest("layer 1")[:16]
    assert comparison.outcome == "worse"
    assert [(f.code, f.appearance) for f in comparison.findings] == [("PC101", "new")]


def test_a_changed_kernel_in_renamed_modules_is_found_by_its_work() -> None:
    base = run([layer(n) for n in range(3)])
    head = [layer(0, module="ln"), layer(1, module="ln", text="new", loads=9)]
    head.append(layer(2, module="ln"))
    comparison = against(base, run(head, id="head"))
    assert relations(comparison) == {"same": 2, "changed": 1}


def test_fused_kernels_are_seen_to_be() -> None:
    two = [kernel("a_0", "mul", "add"), kernel("b_1", "sum", "neg")]
    one = kernel("ab_0", "mul", "add", "sum", "neg", text="both")
    assert relations(against(run(two), run([one], id="head"))) == {"fused": 1}
    assert relations(against(run([one]), run(two, id="head"))) == {"split": 1}


def test_kernels_by_another_name_come_and_go_as_findings() -> None:
    base = run([kernel("triton_poi_fused_add_0", "add"), kernel("triton_poi_fused_neg_1", "neg")])
    head = [kernel("triton_poi_fused_add_mul_0", "add", text="triton_poi_fused_add_0")]
    head.append(kernel("triton_poi_fused_exp_1", "exp"))
    findings = {f.code: f for f in against(base, run(head, id="head")).findings}
    assert findings["PC801"].evidence == ("triton_poi_fused_exp_1: 1 launch, 1.5 kB each",)
    assert findings["PC802"].evidence == ("triton_poi_fused_neg: 1 launch, 1.5 kB each",)
    assert findings["PC803"].evidence == ("triton_poi_fused_add → triton_poi_fused_add_mul",)
    assert {findings[code].severity for code in ("PC801", "PC802", "PC803")} == {"info"}


def test_two_stored_runs_say_nothing_of_names() -> None:
    base = run([kernel("a_0", "add")])
    head = run([kernel("b_0", "exp")], id="head")
    codes = {f.code for f in diagnose(compare(base, head)).findings}
    assert not codes & {"PC801", "PC802", "PC803"}


def test_versions_that_differ_are_kept_and_builds_do_not() -> None:
    base = run([layer(0)])
    tools = replace(base.environment, torch="2.13.0+cpu", triton="3.8.0", platform="elsewhere")
    fit, _ = fit_entry(entry_of(base), replace(base, environment=tools))
    assert (fit.environment.torch, fit.environment.triton) == ("2.13.0+cpu", "3.7.1")
    assert fit.environment.platform == "elsewhere"


def test_twins_under_two_names_are_not_renamed() -> None:
    twins = [
        kernel("triton_poi_fused_add_0", "add", text="same"),
        kernel("triton_poi_fused_sub_1", "sub", text="same"),
    ]
    head = [replace(twins[0], origins=twins[1].origins), replace(twins[1], origins=())]
    assert not against(run(twins), run(head, id="head")).findings
