"""Estimated times in every format of a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import handmade_timing as made
import jsonschema
import pytest
from golden import screen, shown
from handmade import kernel, run
from handmade_estimate import estimated, weighed_kernel, weighed_run, work
from handmade_html import rendered
from handmade_judgement import plain

from perfcli import units
from perfcli.diff.compare import compare
from perfcli.diff.verdict.conclude import conclude
from perfcli.loading import registry
from perfcli.model import (
    Comparison,
    Cost,
    Document,
    Finding,
    KernelFacts,
    Launch,
    Origin,
    Report,
    Run,
    StepEstimate,
    TimeEstimate,
    Variant,
)
from perfcli.predict.step import estimate_run

SCHEMAS = Path(__file__).parents[2] / "perfcli" / "data" / "schemas"
MISSING = ("triton_user: its work could not be counted",)


def validate(name: str, document: object) -> None:
    text = (SCHEMAS / f"{name}.schema.json").read_text()
    jsonschema.Draft202012Validator(json.loads(text)).validate(document)


@pytest.fixture
def slower() -> Comparison:
    return conclude(estimated("slower", 1.2, 1.5))


def lines_of(comparison: Comparison, width: int = 120) -> list[str]:
    return shown(screen().comparison(comparison), width).splitlines()


def test_the_screen_begins_with_the_estimate_and_its_kernel(slower: Comparison) -> None:
    lines = lines_of(slower)
    assert lines[0] == "SLOWER  estimated step 90.0 → 120.0 µs, +33 % [+20, +50]"
    assert lines[1].startswith("kernel  triton_red_fused_mul_add_4 changed, 40.00 → 60.00 µs, 67 %")


def test_the_screen_lists_kernels_with_their_parts(slower: Comparison) -> None:
    """20 of 30 µs of the change; 40 of 90 µs of the base's step."""
    lines = lines_of(slower)
    start = lines.index("Estimated")
    (row,) = [line for line in lines[start:] if "mul_add_4" in line and "67 %" in line]
    assert "40.00 → 60.00 µs" in row
    assert "+50.0 %" in row
    assert row.endswith("44 %")
    (new,) = [line for line in lines[start:] if "new_2" in line and "33 %" in line]
    assert "new" in new.replace("triton_poi_fused_new_2", "")


def test_what_has_no_estimate_is_named() -> None:
    lines = lines_of(conclude(estimated("unsure", 1.0, 1.0, missing=MISSING)))
    assert lines[0] == "UNSURE  the step's time can't be estimated"
    assert lines[1] == f"why     {MISSING[0]}"
    assert any(line.startswith("no estimate") and MISSING[0] in line for line in lines)


def test_measured_times_stand_before_estimated_ones(slower: Comparison) -> None:
    comparison, timing = made.gpu()
    both = made.conclude_timed(replace(comparison, estimate=None), timing)
    assert "Estimated" not in lines_of(both)
    names = [n for n, group in enumerate(both.groups) if group.match.relation != "same"]
    assert slower.estimate is not None
    groups = tuple(replace(g, group=names[0]) for g in slower.estimate.groups[:1])
    known = (None,) * len(both.base.kernels)
    steps = StepEstimate(1e-3, 9e-4, 2e-3, known, ()), StepEstimate(2e-3, 1e-3, 3e-3, known, ())
    change = replace(slower.estimate, base=steps[0], head=steps[1], groups=groups)
    lines = lines_of(replace(both, estimate=change))
    assert lines.index("Measured") < lines.index("Estimated") < lines.index("Generated code")


def test_json_has_both_steps_and_is_valid(slower: Comparison) -> None:
    render = registry.load_declared("reports", "json", Report).render
    document = json.loads(render(slower))
    validate("comparison", document)
    assert document["estimate"]["verdict"] == "slower"
    assert document["estimate"]["base"]["seconds"] == pytest.approx(90e-6)
    assert [group["head"] for group in document["estimate"]["groups"]] == pytest.approx(
        [60e-6, 10e-6]
    )
    gate = registry.load_declared("reports", "gate_json", Document)
    validate("gate", json.loads(gate.render(plain(slower))))


def test_json_has_the_estimate_of_each_kernel() -> None:
    base = weighed_run(weighed_kernel("triton_poi_fused_neg_1", "2"))
    head = weighed_run(weighed_kernel("triton_poi_fused_neg_1", "2", text="other"), id="head")
    document = json.loads(
        registry.load_declared("reports", "json", Report).render(compare(base, head))
    )
    validate("comparison", document)
    (kernel,) = document["groups"][0]["head"]
    assert kernel["estimate"]["low"] < kernel["estimate"]["seconds"] < kernel["estimate"]["high"]
    assert kernel["estimate"]["candidate"] == 0
    assert sum(kernel["estimate"]["bounds"].values()) == pytest.approx(1, abs=0.1)


def test_markdown_says_it_all(slower: Comparison) -> None:
    text = registry.load_declared("reports", "markdown", Document).render(plain(slower))
    assert "SLOWER" in text
    assert "Estimated times of kernels, largest change first" in text
    assert "40.00 → 60.00 µs" in text


def test_junit_fails_the_kernels_that_take_longer(slower: Comparison) -> None:
    """The changed kernel spills as well, which explains it and fails nothing by itself."""
    text = registry.load_declared("reports", "junit", Document).render(plain(slower))
    assert "estimated time 40.00 → 60.00 µs" in text
    assert 'message="triton_red_fused_mul_add_4: estimated time' in text
    assert "add_4: spilled words" not in text


def test_the_page_has_a_section_and_a_column(slower: Comparison) -> None:
    text = rendered(plain(slower))
    assert ">Estimated</h" in text
    assert "80 % interval" in text
    assert "estimated time" in text
    assert "How it was estimated" in text
    assert ">Measured</h" not in text


# --- one run ---------------------------------------------------------------------------------


def test_kernels_of_a_run_are_ordered_by_time_with_their_part_of_the_step() -> None:
    """The second has three times the blocks of the first: about three quarters of the step."""
    one = weighed_kernel("triton_poi_fused_small_0", "1", blocks=20000)
    other = weighed_kernel("triton_poi_fused_large_1", "2", blocks=60000)
    lines = shown(screen().run(estimate_run(weighed_run(one, other))), 120).splitlines()
    rows = [line for line in lines if "triton_poi_fused" in line]
    assert ["large" in row for row in rows] == [True, False]
    parts = [int(row.split("%")[0].split()[-1]) for row in rows]
    assert parts == [pytest.approx(75, abs=3), pytest.approx(25, abs=3)]
    (head,) = [line for line in lines if "by estimate" in line]
    assert "2 generated kernels" in head


def test_a_run_without_estimates_has_no_column_of_times() -> None:
    kernel = replace(weighed_kernel("triton_poi_fused_small_0", "1"), estimate=None)
    lines = shown(screen().run(run([kernel])), 120).splitlines()
    assert not any("time" in line.split() or "by estimate" in line for line in lines)


def test_a_kernel_shows_its_estimate_and_that_of_each_configuration() -> None:
    kernel = weighed_kernel("triton_poi_fused_small_0", "1")
    two = replace(kernel, candidates=(*kernel.candidates, replace(kernel.candidates[0], work=None)))
    (shown_kernel,) = estimate_run(weighed_run(two)).kernels
    lines = shown(screen().kernel(0, shown_kernel, None), 140).splitlines()
    (fact,) = [line for line in lines if line.startswith("estimated")]
    assert "per launch" in fact
    assert "in nine of ten cases, with configuration 0" in fact
    start = lines.index("Candidates")
    assert "time" in lines[start + 1].split()
    assert "–" in lines[start + 4].split()


def test_registers_beside_a_time_are_those_of_the_expected_winner() -> None:
    """The configuration that spills least is slower, for it runs in 30 times the blocks."""
    kernel = weighed_kernel("triton_poi_fused_small_0", "1", blocks=4096)
    (fast,) = kernel.candidates
    slow = replace(fast, registers=64, stack_bytes=0, work=work(120000))
    two = replace(kernel, candidates=(slow, replace(fast, registers=128, stack_bytes=32)))
    (made_kernel,) = estimate_run(weighed_run(two)).kernels
    assert made_kernel.estimate is not None
    assert made_kernel.estimate.candidate == 1
    assert (made_kernel.best, made_kernel.spilled_words) == (slow, 0)  # what is counted

    lines = shown(screen().kernel(0, made_kernel, None), 140).splitlines()
    facts = {line[:13].strip(): line[15:] for line in lines if line[13:15] == "  "}
    assert facts["shown"] == "configuration 1, expected to win"
    assert facts["registers"] == "128"
    assert facts["spilled words"].startswith("8 (32 B stack)")
    lines = shown(screen().kernel(0, made_kernel, None, 0), 140).splitlines()
    assert "shown          configuration 0, which spills least" in lines

    lines = shown(screen().run(estimate_run(weighed_run(two))), 160).splitlines()
    assert "0 spilled words (8 where the expected configurations run)" in lines[0]
    (row,) = [line for line in lines if "triton_poi_fused_small_0" in line]
    titles = next(line for line in lines if "spilled" in line and "regs" in line)
    end = titles.index("spilled") + len("spilled")
    assert row[:end].split()[-1] == "8"
    end = titles.index("regs") + len("regs")
    assert row[:end].split()[-1] == "128"
    assert any(line.startswith("spills and registers are those of the launch") for line in lines)


def test_without_an_estimate_the_one_that_spills_least_is_shown() -> None:
    kernel = weighed_kernel("triton_poi_fused_small_0", "1")
    (one,) = kernel.candidates
    two = replace(kernel, candidates=(replace(one, stack_bytes=32), replace(one, registers=99)))
    lines = shown(screen().kernel(0, two, None), 140).splitlines()
    assert "registers      99" in lines
    assert not any(line.startswith("shown") for line in lines)


def finished_run() -> Run:
    """Two launches of 4096 blocks, each followed by the sum of 8 MB of a workspace, which takes 18
    microseconds: 8 for the sum, 10 for the bytes. Another kernel of half as many blocks."""
    first = weighed_kernel("triton_red_fused_summed_0", "1")
    first = replace(first, finishing_bytes=8_000_000, launches=2)
    launch = Launch(first.graph, first.name)
    total = Launch(first.graph, "aten.sum.dim_IntList", extern=True, finishing=True)
    other = weighed_kernel("triton_poi_fused_other_1", "2", blocks=2048)
    launches = (launch, total, launch, total, Launch(other.graph, other.name))
    return estimate_run(replace(weighed_run(first, other), launches=launches))


def test_all_reports_count_what_finishes_a_kernel() -> None:
    made_run = finished_run()
    first, other = made_run.kernels
    assert first.estimate is not None
    assert first.estimate.finishing == pytest.approx(18e-6)
    step = 2 * (first.estimate.seconds + 18e-6)
    assert first.step_seconds == pytest.approx(step)
    moved = 2 * (2 * 4096 * 32768 + 8_000_000)
    assert first.step_bytes == moved

    (total,) = [c for c in compare(made_run, made_run).totals if c.metric == "bytes_moved"]
    assert total.base == moved + (other.step_bytes or 0)
    for view in (screen().run(made_run, sort="bytes"), screen().explanation(made_run, ())):
        rows = [line for line in shown(view, 160).splitlines() if "triton_red_fused_summed" in line]
        assert units.size(moved) in rows[0]
        assert units.seconds(step) in rows[0]
    explained = shown(screen().explanation(made_run, ()), 160).splitlines()
    (head,) = [line for line in explained if line.startswith("generated kernels: 3 launches")]
    assert units.size(total.base) in head
    both = step + (other.step_seconds or 0.0)
    assert f"{units.seconds(both)} by estimate" in head
    (fact,) = [
        line
        for line in shown(screen().kernel(0, first, None), 200).splitlines()
        if line.startswith("estimated")
    ]
    assert "and 18 µs to finish its results" in fact


def estimate_cell() -> Callable[..., Any]:
    cell: Callable[..., Any] = import_module("perfcli.reports._html.kernels")._estimate_cell
    return cell


def test_the_html_table_has_the_times_of_the_comparison() -> None:
    before = finished_run()
    after = replace(before, kernels=(replace(before.kernels[0], finishing_bytes=0),), launches=())
    comparison = compare(replace(before, weighed=True), replace(after, weighed=True))
    assert comparison.estimate is not None
    assert comparison.estimate.groups
    for each in comparison.estimate.groups:
        group = comparison.groups[each.group]
        base = [comparison.base.kernels[n] for n in group.match.base]
        head = [comparison.head.kernels[n] for n in group.match.head]
        cell = estimate_cell()(comparison.estimate, each.group, group, base, head)
        seconds = each.head if head else each.base
        assert cell.value == pytest.approx(seconds)
        if base and head:
            assert cell.delta == pytest.approx(each.head - each.base)


def test_what_is_the_same_takes_as_long_on_both_sides_in_the_html_table() -> None:
    """The estimate of a launch depends on what ran before it, which is another kernel."""
    comparison = conclude(estimated("slower", 1.2, 1.5))
    assert comparison.estimate is not None
    (number,) = [n for n, g in enumerate(comparison.groups) if g.match.relation == "same"]
    group = comparison.groups[number]
    sides = [
        [replace(comparison.base.kernels[1], estimate=TimeEstimate(us * 1e-6, 1e-6, 1e-4))]
        for us in (50, 57)
    ]
    cell = estimate_cell()(comparison.estimate, number, group, *sides)
    assert (cell.value, cell.delta, cell.before) == (pytest.approx(50e-6), 0.0, "")


def test_findings_of_a_run_stand_with_the_times_of_their_kernels() -> None:
    made_run = finished_run()
    finding = Finding("PC101", "warning", "it spills", kernels=(1,))
    lines = shown(screen().explanation(made_run, (finding,)), 160).splitlines()
    (row,) = [line for line in lines if line.startswith("1") and "fused_other" in line]
    assert units.seconds(made_run.kernels[1].step_seconds) in row
    assert any("kernels that take most time" in line for line in lines)


def test_kernels_of_one_module_are_told_apart_by_their_lines() -> None:
    def of_line(name: str, line: int, module: str = "norm") -> KernelFacts:
        place = Origin(name, "aten.mul.Tensor", module, (), f"/x/model.py:{line}")
        return replace(kernel(name, name), origins=(place,))

    kernels = (of_line("a", 31), of_line("b", 40), of_line("c", 50, "head"))
    text = shown(screen().run(run(kernels)), 160)
    places = [
        next(line for line in text.splitlines() if f" {name} " in line).split(f" {name} ")[1]
        for name in "abc"
    ]
    assert "norm :31 " in places[0]
    assert "norm :40 " in places[1]
    assert "head" in places[2]
    assert ":50" not in places[2]


def identical(**head: object) -> Comparison:
    one = weighed_kernel("triton_poi_fused_small_0", "1")
    variant = Variant("b", options=head)  # type: ignore[arg-type]
    return compare(weighed_run(one, id="a"), weighed_run(one, id="b", variant=variant))


def test_the_same_code_has_a_time_and_options_that_changed_nothing() -> None:
    comparison = identical(online_softmax=False)
    assert comparison.estimate is not None
    seconds = units.seconds(comparison.estimate.head.seconds)
    lines = lines_of(comparison)
    assert lines[0] == "SAME  the only kernel is identical"
    assert [line.split() for line in lines[1:3]] == [
        ["time", "estimated", "step", *seconds.split()],
        ["code", "the", "option", "online_softmax", "changed", "no", "kernel"],
    ]
    assert not any("changed no kernel" in line for line in lines_of(identical()))
    many = lines_of(identical(a=1, b=2, c=3, d=4, e=5))
    assert any("the options a, b, c, d and 1 more changed no kernel" in line for line in many)


def test_an_option_that_changed_a_kernel_is_not_said_to_have_changed_none() -> None:
    one = weighed_kernel("triton_poi_fused_small_0", "1")
    other = weighed_kernel("triton_poi_fused_small_0", "1", blocks=4100, text="other")
    variant = Variant("b", options={"online_softmax": False})
    comparison = compare(weighed_run(one, id="a"), weighed_run(other, id="b", variant=variant))
    assert not any("changed no kernel" in line for line in lines_of(comparison))


@pytest.mark.parametrize(
    ("code", "subject", "seconds", "named"),
    [
        ("PC103", "", 25e-6, True),
        ("PC501", "", 2e-6, False),  # of 30 µs that the step takes more
        ("PC601", "host", 46e-6, False),  # which the device does not wait for
    ],
)
def test_a_cause_accounts_for_the_longer_step(
    code: str, subject: str, seconds: float, named: bool
) -> None:
    cost = Cost(seconds, seconds / 2, seconds * 2, 0.3)
    finding = Finding(
        code, "warning", "it is slow", (0,), appearance="new", cost=cost, subject=subject
    )
    comparison = conclude(replace(estimated("slower", 1.2, 1.5), findings=(finding,)))
    text = shown(screen().comparison(comparison))
    assert text.startswith("SLOWER")
    assert (f"cause   {code} it is slow" in text) == named


@pytest.mark.parametrize(("amount", "named"), [(9e8, True), (1e8, False), (None, False)])
def test_a_cause_accounts_for_the_memory(amount: float | None, named: bool) -> None:
    """Of 1 GB more: a finding that costs time takes none."""
    one, other = (
        run([kernel("triton_poi_fused_a_0", "1", text=text)], id=text, peak=peak)
        for text, peak in (("base", 10**9), ("head", 2 * 10**9))
    )
    metric = "passed_bytes" if amount else "launches"
    cost = Cost(1e-5, 5e-6, 2e-5, 0.3)
    finding = Finding(
        "PC501",
        "warning",
        "lost",
        (0,),
        appearance="new",
        metric=metric,
        amount=amount or 5,
        cost=cost,
    )
    comparison = conclude(replace(compare(one, other), findings=(finding,)))
    text = shown(screen().comparison(comparison))
    assert text.startswith("WORSE  peak memory 1 GB → 2 GB")
    assert ("cause   PC501 lost" in text) == named
