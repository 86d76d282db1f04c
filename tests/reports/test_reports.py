"""Reports against golden files; ``PERFCLI_UPDATE_GOLDEN=1 pytest tests/reports`` writes them anew.

Look at the difference before committing it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from golden import PLACES, check, screen, shown
from handmade import ENVIRONMENT, kernel, run

from perfcli.diff.compare import compare
from perfcli.diff.metrics import _change
from perfcli.diff.verdict.conclude import conclude
from perfcli.loading import registry
from perfcli.model import (
    BreakPlace,
    Candidate,
    Comparison,
    Cost,
    Cure,
    ExternCall,
    Finding,
    KernelFacts,
    LineCounts,
    Origin,
    Report,
    SourceFacts,
    Trial,
    TrialOutcome,
    Variant,
)


def worse() -> Comparison:
    """A fused kernel that spills, a split one, a changed one, a new and a gone one."""
    base = [
        kernel("triton_red_fused__to_copy_mul_sum_4", "1", "2", loads=6, registers=40),
        kernel("triton_red_fused_add_mul_5", "3", "4", loads=5, registers=36),
        kernel("triton_per_fused_add_native_layer_norm_backward_sum_6", "5", "6", loads=3),
        kernel("triton_poi_fused_gelu_7", "7", "8", "9", launches=3, read=4 * 10**8),
        kernel("triton_poi_fused_neg_8", "10", registers=20),
        kernel("triton_poi_fused_gone_9", "11"),
        kernel("triton_poi_fused_kept_10", "12", launches=11),
    ]
    head = [
        kernel(
            "triton_red_fused__to_copy_add_mul_native_layer_norm_backward_sum_4",
            *("1", "2", "3", "4", "5", "6"),
            loads=17,
            stores=3,
            stack=368,
            registers=255,
            shared=112928,
            read=9 * 10**8,
        ),
        kernel("triton_poi_fused_gelu_5", "7", launches=3, read=3 * 10**8),
        kernel("triton_poi_fused_gelu_6", "8", "9", launches=3, read=3 * 10**8),
        kernel("triton_poi_fused_neg_7", "10", registers=22, text="changed"),
        kernel("triton_poi_fused_new_8", "13"),
        kernel("triton_poi_fused_kept_9", "12", launches=11, text="triton_poi_fused_kept_10"),
    ]
    externs = (ExternCall("aten.mm", "forward 0", 12),)
    option = "triton.mix_order_reduction_max_reads"
    return compare(
        run(base, id="base-id", variant=Variant("default"), externs=externs, peak=10**9),
        run(
            head,
            id="head-id",
            variant=Variant(f"{option}=1000", {option: 1000}),
            externs=externs,
            peak=10**9,
            environment=replace(ENVIRONMENT, triton="3.9.0"),
        ),
    )


def spilling() -> KernelFacts:
    facts = SourceFacts(17, 14, 3, 1, 1, 3, 1, (), {"in_ptr0": 2, "in_ptr1": 1}, 16, 3)
    good = Candidate(
        {"XBLOCK": 1, "R0_BLOCK": 2048},
        num_warps=16,
        num_stages=1,
        registers=128,
        stack_bytes=16,
        shared_bytes=2048,
        local_loads=4,
        local_stores=4,
        local_loads_in_loops=4,
        local_stores_in_loops=0,
        global_loads={"128": 10, "64": 4, "16": 1},
        global_stores={"128": 3},
        lines={"3": LineCounts(2, 0, 0, 0), "5": LineCounts(1, 0, 4, 4), "7": LineCounts(0, 3)},
        occupancy=0.25,
        occupancy_limit="registers",
    )
    bad = replace(good, num_warps=8, registers=255, stack_bytes=368, occupancy=0.125)
    failed = Candidate({"XBLOCK": 8}, 16, 1, error="out of resources: shared memory")
    made = kernel("triton_red_fused_add_mul_sum_4", graph="backward 0", launches=11)
    return replace(
        made,
        kind="mix-order-reduction",
        source_facts=facts,
        candidates=(bad, good, failed),
        origins=(
            Origin(
                "mul_7",
                "aten.mul.Tensor",
                "blocks.3.norm",
                (48, 2048, 512),
                "model.py:31",
                "return x * self.weight",
            ),
            Origin("sum_2", "aten.sum.dim_IntList", "", ("s0", 512), "", ""),
        ),
        notes=("candidates of dynamic_scale_rblock are not known without a device",),
    )


SOURCE = """@triton.jit
def kernel(in_ptr0, out_ptr0, XBLOCK: tl.constexpr):
    tmp0 = tl.load(in_ptr0 + x0)  # [red]not markup[/red] \x1b[31mnor an escape
    for r0 in tl.range(0, 512):
        tmp1 = tl.exp(tmp0)

    tl.store(out_ptr0 + x0, tmp1)
"""


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_comparison_fits(width: int) -> None:
    text = shown(screen().comparison(worse(), PLACES), width)
    assert max(map(len, text.splitlines())) <= width
    check(f"comparison_{width}.txt", text)


def test_colours() -> None:
    check("comparison_colours.txt", shown(screen().comparison(worse(), PLACES), colour=True))


@pytest.mark.parametrize("width", range(40, 220, 7))
def test_no_width_breaks_the_layout(width: int) -> None:
    text = shown(screen().comparison(worse(), PLACES), width)
    assert max(map(len, text.splitlines())) <= max(width, 54)
    assert "Kernels that changed" in text


def test_runs_that_are_not_stored_have_no_commands() -> None:
    text = shown(screen().comparison(worse(), [("", ""), ("", "")]))
    assert "inspect-kernel" not in text
    assert "Stored" not in text


def test_graph_breaks_that_came_or_went_are_shown_with_their_reasons() -> None:
    base = run([kernel("a")], graph_breaks={"print": 2, "item": 1})
    head = run([kernel("a")], graph_breaks={"item": 1, "len\x1b": 12})
    lines = shown(screen().comparison(compare(base, head))).splitlines()
    assert [line for line in lines if line.startswith("graph breaks:")] == [
        "graph breaks: 2 → 0 × print",
        "graph breaks: 0 → 12 × len�",
    ]
    assert any(line.split()[:5] == ["graph", "breaks", "3", "13", "+10"] for line in lines)


def test_peaks_of_other_graphs_are_said_to_be_not_comparable() -> None:
    base = run([kernel("a", "1")], peak=462 * 10**6)
    head = run([kernel("a", "1"), kernel("b", "2", graph="forward 1")], peak=361 * 10**6)
    text = shown(screen().comparison(compare(base, head)), 80)
    (line,) = [line for line in text.splitlines() if line.startswith("peak memory")]
    assert " ".join(line.split()) == "peak memory 462 MB 361 MB −101 MB not comparable"


def test_unchanged_kernels_take_one_line() -> None:
    same = compare(
        run([kernel("a", "1"), kernel("b", "2")]), run([kernel("a", "1"), kernel("b", "2")])
    )
    text = shown(screen().comparison(same, PLACES))
    assert text.startswith("SAME  both kernels are identical\n")
    assert "2 kernels did not change" in text
    assert "Kernels that changed" not in text


def test_patches_stand_below_the_sides() -> None:
    notes = ("patched: patch.a=true split 2 rows", "another note")
    head = run([kernel("triton_a")], notes=notes)
    text = shown(screen().comparison(conclude(compare(run([kernel("triton_a")]), head))), 100)
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line]
    assert ["patched", "patch.a=true split 2 rows"] in lines
    assert "another note" not in text


def test_brief_is_the_verdict() -> None:
    assert shown(screen().comparison(worse(), PLACES, brief=True), 300).count("\n") == 1


def test_many_groups_end_in_one_line() -> None:
    base = [kernel(f"k{n}", f"{n}") for n in range(60)]
    head = [kernel(f"k{n}", f"{n}", text=f"new {n}", stack=4 * n) for n in range(60)]
    text = shown(screen().comparison(compare(run(base), run(head)), PLACES))
    assert "… and 35 more: --json FILE has them all" in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("+")]
    assert names[:3] == ["k59", "k58", "k57"]


def test_what_got_better_comes_first_where_the_run_got_better() -> None:
    base = [kernel(f"k{n}", f"{n}", text=f"old {n}", stack=4 * n) for n in range(6)]
    head = [kernel(f"k{n}", f"{n}") for n in range(6)]
    text = shown(screen().comparison(compare(run(base), run(head)), PLACES))
    names = [line.split()[2] for line in text.splitlines() if line.startswith("+")]
    assert names[0] == "k5"


def test_together_leaves_out_what_is_never_launched() -> None:
    base = [kernel("a", "mul", loads=6), kernel("b", "add", loads=5)]
    base.append(kernel("held", "mul", "add", loads=90, launches=0))
    head = [kernel("big", "mul", "add", loads=17)]
    comparison = compare(run(base), run(head, id="head"))
    (group,) = [g for g in comparison.groups if len(g.match.base) == 3]
    whole = replace(comparison, groups=(group,))
    (together,) = [line for line in shown(screen().comparison(whole)).splitlines() if "Σ" in line]
    assert together.split()[2] == "11"


def test_a_doubtful_match_says_so() -> None:
    """Not where they are all that the graph has: then they belong together."""
    other = kernel("triton_poi_fused_add_0")
    base = [kernel("triton_poi_fused_mul_3"), other]
    head = [kernel("triton_poi_fused_mul_4", stack=8), other]
    text = shown(screen().comparison(compare(run(base), run(head)), PLACES))
    assert "changed (a guess, by name)" in text


def test_a_kernel() -> None:
    check("kernel_100.txt", shown(screen().kernel(4, spilling(), SOURCE)))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_kernels_name_and_source_fit(width: int) -> None:
    """All of the name, part of the source: --source has all of it."""
    name = "triton_per_fused__to_copy_add_div_embedding_dense_backward_expand_mul_pow_sum_17"
    text = shown(screen().kernel(29, replace(spilling(), name=name), SOURCE), width)
    title, _, _ = text.partition("\nwhat ")
    assert title.replace("\n    ", "") == f"29  {name}"
    assert all(len(line) <= width for line in title.splitlines())
    _, _, source = text.partition("\nSource\n")
    assert max(map(len, source.splitlines())) <= width
    assert "tl.store(" in source


def test_bytes_swept_are_a_row_where_they_say_more_than_the_bytes_moved() -> None:
    moved = _change("bytes_moved", 2e9, 3e9)
    for swept, rows in ((moved, 0), (_change("bytes_swept", 2e9, 4e9), 1)):
        totals = (moved, replace(swept, metric="bytes_swept"))
        text = shown(screen().comparison(replace(worse(), totals=totals)))
        assert text.count("bytes swept ") == rows


def test_a_kernel_without_source_binary_or_origins() -> None:
    bare = replace(kernel("mystery"), source_facts=None, candidates=(), bytes_read=None)
    text = shown(screen().kernel(0, bare, None))
    assert text.startswith("0  mystery\n")
    assert "registers" not in text


def test_tiles_are_shown_where_there_are_any() -> None:
    made = spilling()
    assert "TMA" not in shown(screen().kernel(0, made, None))
    best = made.best
    assert best is not None
    tiled = replace(made, candidates=(replace(best, tma_loads=2, tma_stores=0),))
    assert "whole tiles    2 loads (TMA)\n" in shown(screen().kernel(0, tiled, None))


def test_a_cpu_kernels_vectors_and_parallel_regions() -> None:
    facts = spilling().source_facts
    assert facts is not None
    facts = replace(facts, vector_loads=16, vector_stores=2, parallel_regions=1)
    cpu = replace(spilling(), language="cpp", candidates=(), source_facts=facts)
    lines = [" ".join(line.split()) for line in shown(screen().kernel(0, cpu, None)).splitlines()]
    assert "loads 17, 14 in 1 loop, 16 vectorised" in lines
    assert "stores 3, 2 vectorised" in lines
    assert "parallel 1 OpenMP region" in lines


def test_bytes_of_every_sweep() -> None:
    swept = kernel("a", read=2000, written=1000, bytes_swept=5000)
    text = shown(screen().kernel(0, swept, None))
    assert "2 kB read, 1 kB written, per launch; 5 kB with every sweep" in text
    assert "sweep" not in shown(screen().kernel(0, replace(swept, bytes_swept=3000), None))


def test_a_run() -> None:
    made = replace(
        worse().head,
        notes=("a [bold]note[/bold] with \x1b[31m",),
        graph_breaks={"builtin: print": 1, "Unsupported [b]method\x1b[31m": 11},
        compile_seconds={"trace": 4.0, "kernels": 8.5},
    )
    text = shown(screen().run(made, ".perfcli/runs/head-id.json", "head-id"))
    assert "\x1b" not in text
    assert ", 12 graph breaks\n" in text
    check("run_100.txt", text)


def test_a_run_shows_the_lines_of_its_graph_breaks() -> None:
    said = "Operator `aten._unique2.default`'s output shape depends on input Tensor data."
    first = BreakPlace("/home/me/models/u.py:4", "return torch.unique(x)", said)
    more = [BreakPlace(f"/home/me/models/u.py:{n}", "x.item()") for n in range(5, 9)]
    places = {"Dynamic shape operator": (first, *more)}
    made = run([kernel("a")], graph_breaks={"Dynamic shape operator": 5}, break_places=places)
    lines = shown(screen().run(made)).splitlines()
    start = lines.index("graph break: 5 × Dynamic shape operator")
    assert lines[start + 1 : start + 6] == [
        "  …/models/u.py:4  return torch.unique(x)",
        f"    {said}",
        "  …/models/u.py:5  x.item()",
        "  …/models/u.py:6  x.item()",
        "  … and 2 more lines: perfcli explain lists all",
    ]


def test_a_runs_command_quotes_its_path() -> None:
    text = shown(screen().run(worse().head, "my runs/a.json", "my runs/a.json"))
    assert "look closer: perfcli inspect-kernel 'my runs/a.json' " in text


def test_a_run_without_kernels_says_why() -> None:
    nothing = run([], graph_breaks={"item": 1, "print": 3}, externs=(ExternCall("aten.mm", "", 2),))
    first = shown(screen().run(nothing), 200).splitlines()[0]
    assert first == (
        "torch.compile made no kernels: no graph was compiled; only library "
        "operators (2 × aten.mm); graph breaks: 3 × print (and 1 other reason)"
    )


def test_paths_and_ids_are_shown_without_escapes() -> None:
    places = [("base\x1b[31m", "a/\x1b[31m.json"), ("head\x1b[31m", "b/\x1b[31m.json")]
    assert "\x1b" not in shown(screen().comparison(worse(), places))
    for brief in (False, True):
        one = screen().run(worse().head, "a/\x1b[31m.json", "head\x1b[31m", brief=brief)
        assert "\x1b" not in shown(one)
        assert "head�[31m" in shown(one)


def test_json() -> None:
    report = registry.load_declared("reports", "json", Report)
    text = report.render(worse())
    assert text.endswith("}\n")
    document = json.loads(text)
    assert document["format"] == 2
    numbers = [k["number"] for group in document["groups"] for k in group["base"]]
    assert sorted(numbers) == list(range(7))
    check("comparison.json", text)


# --- the first lines -------------------------------------------------------------------------


def first_lines(comparison: Comparison, width: int = 100) -> list[str]:
    text = shown(screen().comparison(comparison, PLACES), width)
    return text.split("\n\n", maxsplit=1)[0].splitlines()


def blamed(**more: Any) -> Finding:
    kernel_name = worse().head.kernels[0].name
    return Finding("PC103", "error", f"{kernel_name} fuses 17 reads", (0,), **more)


def test_the_first_lines_name_the_kernels_the_cause_and_the_cure() -> None:
    cure = Cure({"triton.mix_order_reduction_max_reads": 10})
    findings = (
        blamed(appearance="same"),
        blamed(appearance="gone", on_base=True),
        blamed(appearance="new", cures=(cure,)),
    )
    lines = first_lines(replace(worse(), findings=findings))
    assert lines[0] == (
        "WORSE  spilled words 0 → 92: "
        "triton_red_fused__to_copy_a…e_layer_norm_backward_sum_4 fuses 3 kernels"
    )
    assert lines[1:4] == [
        "cause   PC103 it fuses 17 reads",
        "cure    triton.mix_order_reduction_max_reads=10",
        "sum     3 kernels, 14 loads → 1 kernel, 17 loads, +92 spilled words",
    ]
    assert lines[4].startswith("from    triton_red_fused…to_copy_mul_sum_4 (6 loads), ")
    assert lines[-2:] == [
        "also    bytes moved +1.5 GB (+125 %)",
        "besides 1 finding fixed (PC103)",
    ]
    assert len(lines) <= 8


def test_findings_that_the_first_lines_do_not_name_are_counted() -> None:
    info = Finding("PC104", "info", "x", (1,), appearance="new")
    more = (
        blamed(appearance="new"),
        info,
        replace(info, code="PC105", appearance=""),
        replace(info, severity="warning", appearance="worse"),
        replace(info, code="PC901", doubt=True),
        replace(info, appearance="same"),
        *(Finding("PC204", "error", "y", (n,), appearance="gone", on_base=True) for n in (0, 1)),
    )
    lines = first_lines(replace(worse(), findings=more))
    assert [line for line in lines if line.startswith("besides")] == [
        "besides 2 findings fixed (PC204)",
        "besides 2 new notes (PC104, PC105)",
        "besides 1 worse warning (PC104)",
    ]


def test_what_else_is_said_of_the_kernel_to_blame_stands_in_its_block() -> None:
    spills = Finding("PC101", "warning", "z", (0,), appearance="new", explained_by="PC103")
    lines = first_lines(replace(worse(), findings=(blamed(appearance="new"), spills)))
    assert not any(line.startswith("besides") for line in lines)
    lines = first_lines(replace(worse(), findings=(blamed(appearance="same"), spills)))
    assert "cause   PC101 z" in lines


def test_a_warning_that_decided_is_said_once_with_its_kernel_and_cure() -> None:
    base = run([kernel("long_name_1", "1", read=4000), kernel("b", "2")])
    head = run([kernel("both", "1", "2", read=1000)], id="head")
    warning = Finding("PC205", "warning", "both is slow", (0,), cures=(Cure({"a": 1}),))
    new = replace(warning, appearance="new")
    lines = first_lines(conclude(replace(compare(base, head), findings=(new,))))
    assert lines == [
        "UNSURE  bytes moved 6 kB → 1.5 kB (−75 %), but PC205: both is slow",
        "cure    a=1",
        "sum     2 kernels, 4 loads → 1 kernel, 2 loads, −4.5 kB bytes moved",
        "from    long_name_1 (2 loads), b (2 loads)",
    ]


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ("helps", "cure    a=false (proven)"),
        ("helps at a cost", "cure    a=false (proven), costs +1 GB bytes moved (+50 %)"),
        ("does not help", "cure    none found: what was tried does not help"),
        ("failed", "cure    none found: what was tried failed"),
    ],
)
def test_a_cure_that_was_tried(outcome: TrialOutcome, says: str) -> None:
    moved = _change("bytes_moved", 2e9, 3e9)
    trial = Trial(Cure({"a": False}), outcome, changes=(moved,))
    finding = blamed(appearance="new", trials=(trial,))
    assert first_lines(replace(worse(), findings=(finding,)))[2] == says


def test_the_cause_is_what_was_set_though_another_is_graver() -> None:
    """Both got worse; one of them is cured by what the base has, the other was there before."""
    name = worse().head.kernels[0].name
    graver = Finding("PC204", "warning", f"{name} loads narrowly", (0,), appearance="worse")
    cures = (Cure({"online_softmax": True}),)
    reads = Finding("PC203", "info", f"{name} reads it 3 times", (0,), appearance="worse")
    pair = (graver, replace(reads, cures=cures))
    comparison = replace(worse(), findings=pair)
    assert first_lines(comparison)[1].startswith("cause   PC204")
    base = replace(comparison.base, settings={"online_softmax": True})
    head = replace(comparison.head, settings={"online_softmax": False})
    lines = first_lines(replace(comparison, base=base, head=head))
    assert lines[1:3] == ["cause   PC203 it reads it 3 times", "cure    online_softmax=true"]


def costing(finding: Finding, share: float) -> Finding:
    return replace(finding, cost=Cost(share * 1e-3, 0.0, share * 2e-3, share))


def test_the_cause_is_what_costs_most_whichever_kernel_it_is_about() -> None:
    """Another kernel's finding before that of the kernel to blame; what costs as much, not."""
    elsewhere = Finding("PC210", "warning", "other is idle", (1,), appearance="new")
    here = blamed(appearance="new")

    def cause(*found: Finding) -> list[str]:
        return first_lines(replace(worse(), findings=found))[1:2]

    found = (costing(here, 0.02), costing(elsewhere, 0.3))
    assert cause(*found) == ["cause   PC210 other is idle, costs 300 µs of a step (30 %)"]
    assert cause(here, found[1]) == cause(*found)
    assert cause(found[1], costing(here, 0.2))[0].startswith("cause   PC103 it fuses 17 reads")
    assert cause(here, costing(elsewhere, 0.004)) == ["cause   PC103 it fuses 17 reads"]
    assert cause(here, replace(found[1], appearance="same")) == cause(here)


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        (Cost(0.0, -1e-6, 2e-6, 0.0), "dropped, costs up to 2 µs of a step"),
        (Cost(3e-6, 1e-6, 9e-6, 0.125), "dropped, costs 3 µs of a step (12 %)"),
        (Cost(3e-6, 1e-6, 9e-6), "dropped, costs 3 µs of a step"),
        (Cost(-1e-5, -2e-5, -5e-6, -0.1), "dropped, costs nothing by estimate"),
        (Cost(-1e-8, -2e-8, -5e-9, -0.1), "dropped"),
        (Cost(1e-9, 0.0, 2e-9, 0.0), "dropped"),
        (None, "dropped"),
    ],
)
def test_what_a_finding_costs(cost: Cost | None, says: str) -> None:
    finding = Finding("PC401", "warning", "dropped", (0,), cost=cost)
    text = shown(screen().explanation(worse().head, [finding]))
    assert f"warning PC401  {says}\n" in text


def test_the_cause_is_no_consequence_however_grave() -> None:
    name = worse().head.kernels[0].name
    spills = Finding("PC101", "error", f"{name} spills", (0,), explained_by="PC103")
    cause = replace(blamed(), severity="warning")
    found = tuple(replace(finding, appearance="new") for finding in (spills, cause))
    lines = first_lines(replace(worse(), findings=found))
    assert lines[1] == "cause   PC103 it fuses 17 reads"
    alone = first_lines(replace(worse(), findings=found[:1]))
    assert alone[1] == "cause   PC101 it spills"
    of_both = first_lines(replace(worse(), findings=(replace(cause, appearance=""),)))
    assert of_both[1] == "cause   PC103 it fuses 17 reads"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160, 300])
def test_no_first_line_is_too_long_or_broken_in_a_name(width: int) -> None:
    finding = blamed(appearance="new")
    lines = first_lines(replace(worse(), findings=(finding,)), width)
    assert max(map(len, lines)) <= max(width, 40)
    assert sum("_sum_4 fuses" in line or line.endswith("_sum_4") for line in lines) >= 1


def test_extern_calls_and_breaks_are_said_beside_identical_kernels() -> None:
    mm = ExternCall("aten.mm", "forward 0", 12)
    base = run([kernel("a", "1")], externs=(mm,))
    head = run([kernel("a", "1")], externs=(replace(mm, count=11),), graph_breaks={"item": 3})
    (line,) = first_lines(compare(base, head))
    assert line == (
        "SAME  the only kernel is identical, but extern calls 12 → 11 (aten.mm −1) and "
        "graph breaks 0 → 3"
    )
    grown = run([kernel("a", "1", stack=8, text="x")], externs=(replace(mm, count=13),))
    assert "besides extern calls 12 → 13 (aten.mm +1)" in first_lines(compare(base, grown))


# --- what changed and what did not -----------------------------------------------------------


def test_two_kernels_of_220_are_named() -> None:
    def node(layer: int, role: int) -> tuple[Origin, ...]:
        module = f"blocks.{layer}.part_{role}"
        return tuple(
            Origin(f"{op}_{11 * layer + role}", f"aten.{op}.default", module, (8, 512))
            for op in ("mul", "add", "rsqrt")
        )

    base = [
        kernel(f"triton_red_fused_add_mul_{11 * layer + role}", origins=node(layer, role))
        for layer in range(20)
        for role in range(11)
    ]
    # Renamed and in another order, as any change to fusion does it.
    head = [
        replace(k, name=f"triton_red_fused_add_mul_{(n + 37) % 220}") for n, k in enumerate(base)
    ]
    other = replace(base[0].candidates[0], registers=64, stack_bytes=16, binary_hash="other")
    for number in (17, 141):
        head[number] = replace(head[number], candidates=(other,), source_hash=f"other {number}")
    changed = {base[17].name, base[141].name, head[17].name, head[141].name}
    text = shown(screen().comparison(compare(run(base), run(head[::-1])), PLACES))
    rows = [line.split() for line in text.splitlines() if line.startswith(("− ", "+ "))]
    assert {row[2] for row in rows} == changed
    assert len(rows) == 4
    assert "218 kernels did not change" in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source_hash": "x"}, "same numbers, other code"),
        ({}, "same source, other machine code"),
        ({"kind": "reduction", "source_hash": "x"}, "pointwise → reduction"),
        ({"num_warps": 8, "source_hash": "x"}, "same numbers, other warps"),
        ({"launches": 3, "same": True}, "1 → 3 launches"),
    ],
)
def test_a_change_that_no_number_shows_is_said(change: dict[str, Any], says: str) -> None:
    base = kernel("a", "1", read=None, written=None)
    warps = change.pop("num_warps", 4)
    same = change.pop("same", False)
    candidate = replace(base.candidates[0], num_warps=warps)
    if not same:
        candidate = replace(candidate, binary_hash="other")
    head = replace(base, candidates=(candidate,), **change)
    assert says in shown(screen().comparison(compare(run([base]), run([head])), PLACES))


def test_many_kernels_with_other_code_and_the_same_numbers_are_one_line() -> None:
    base = [kernel(f"k_{n}", str(n), read=None, written=None) for n in range(15)]
    head = [replace(each, source_hash=f"other {n}") for n, each in enumerate(base)]
    candidate = replace(base[0].candidates[0], binary_hash="other")
    head = [replace(each, candidates=(candidate,)) for each in head]
    text = shown(screen().comparison(compare(run(base), run(head)), PLACES))
    assert "\n15 kernels: other code, same numbers\n" in text
    assert not [line for line in text.splitlines() if line.startswith(("− ", "+ "))]
    two = shown(screen().comparison(compare(run(base[:2]), run(head[:2])), PLACES))
    assert two.count("same numbers, other code") == 2


def test_kernels_without_provenance_are_counted() -> None:
    base = [kernel("triton_poi_fused_mul_3"), kernel("b", "1")]
    head = [kernel("triton_poi_fused_mul_4", stack=8), kernel("b", "1")]
    text = shown(screen().comparison(compare(run(base), run(head)), PLACES))
    assert "2 kernels have no provenance: matched by name" in text


def test_columns_without_room_are_said_to_be_hidden() -> None:
    assert "hidden" not in shown(screen().comparison(worse(), PLACES), 100)
    assert "hidden at this width: shared, occup.\n" in shown(
        screen().comparison(worse(), PLACES), 80
    )


def test_the_mode_is_said_once() -> None:
    one = run([kernel("a", "1")], params={"rows": 1, "mode": "training"})
    text = shown(screen().run(one), 200)
    assert text.count("training") == 1
    assert "rows=1" in text


def test_columns_that_no_kernel_knows_are_left_out() -> None:
    made = kernel("cpp_fused_add_0", "1", registers=None, read=None, written=None, language="cpp")
    assert made.source_facts is not None
    made = replace(made, source_facts=replace(made.source_facts, vector_loads=2))
    changed = replace(made, source_hash="other", launches=2)
    base, head = run([made]), run([changed], id="head")
    for text in (shown(screen().run(head)), shown(screen().comparison(compare(base, head)))):
        (titles,) = [line.split() for line in text.splitlines() if line.startswith("kernel ")]
        assert titles == ["kernel", "loads", "stores", "vector"]
        assert "hidden" not in text
    some = shown(screen().run(run([made, kernel("triton_poi_1", "2")])), 120)
    (titles,) = [line.split() for line in some.splitlines() if line.startswith("kernel ")]
    assert titles[1:] == [
        *("bytes", "loads", "stores", "vector", "spilled", "regs", "shared", "occup."),
    ]
