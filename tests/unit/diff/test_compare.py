"""Two hand-made runs, and what is said about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import ENVIRONMENT, H100, kernel, run

from perfcli.diff.compare import compare, list_overrides
from perfcli.errors import NotComparable, PerfcliError
from perfcli.model import Change, Comparison, CompiledCall, ExternCall, KernelFacts, Outcome, Run


def total(comparison: Comparison, metric: str) -> Change:
    (found,) = [c for c in comparison.totals if c.metric == metric]
    return found


def test_identical_runs_are_the_same() -> None:
    kernels = [kernel("a", "mul"), kernel("b", "add")]
    comparison = compare(run(kernels), run(kernels, id="head"))
    assert comparison.outcome == "same"
    assert comparison.reason == "both kernels are identical"
    assert all(c.outcome == "same" for c in comparison.totals)


def test_a_fused_kernel_that_spills_is_the_reason() -> None:
    base = [
        kernel("a", "mul", loads=6),
        kernel("b", "add", loads=5),
        kernel("c", "sum", loads=3),
        kernel("z", "neg"),
    ]
    head = [
        kernel("big", "mul", "add", "sum", loads=17, stack=368, registers=255, read=1000),
        kernel("z", "neg"),
    ]
    comparison = compare(run(base), run(head, id="head"))
    assert comparison.outcome == "worse"
    assert comparison.reason == (
        "spilled words 0 → 92: big fuses 3 kernels "
        "(3 kernels, 14 loads → 1 kernel, 17 loads, +92 spilled words), though bytes moved −3 kB"
    )
    assert total(comparison, "spilled_words") == Change("spilled_words", 0, 92, "worse")
    assert total(comparison, "kernels").head == 2
    assert total(comparison, "stack_bytes").head == 368
    assert total(comparison, "registers") == Change("registers", 32, 255, "worse")


def test_bytes_count_every_launch_and_the_tolerance() -> None:
    base = run([kernel("a", "mul", launches=10, read=900, written=100, text="1")])
    near = run([kernel("a", "mul", launches=10, read=905, written=100, text="2")])
    far = run([kernel("a", "mul", launches=10, read=906, written=100, text="2")])
    assert total(compare(base, near), "bytes_moved") == Change("bytes_moved", 10000, 10050, "same")
    assert compare(base, near).outcome == "same"
    assert compare(base, far).outcome == "worse"
    assert compare(far, base).outcome == "better"
    assert "bytes moved 10.1 kB → 10 kB (−0.596 %)" in compare(far, base).reason


def test_more_launches_of_identical_code_are_worse() -> None:
    base, head = run([kernel("a", "mul")]), run([kernel("a", "mul", launches=2)])
    assert compare(base, head).outcome == "worse"


def test_a_form_that_is_never_launched_costs_nothing() -> None:
    """``triton.multi_kernel`` generates a second form, which the device may choose."""
    looped = kernel("looped", "a", "b", loads=3)
    held = kernel("held", "a", "b", launches=0, loads=9, stack=400, registers=255, shared=5000)
    for pair in (([looped], [looped, held]), ([looped, held], [looped])):
        base, head = run(pair[0]), run(pair[1], id="head")
        comparison = compare(base, head)
        assert comparison.outcome == "same"
        assert all(c.delta == 0 for c in comparison.totals)
        assert [c.delta for group in comparison.groups for c in group.changes if c.delta] == []
        rows = [n for group in comparison.groups for n in (*group.match.base, *group.match.head)]
        assert len(rows) == 3
    spills = replace(looped, candidates=held.candidates, source_hash="other")
    comparison = compare(run([looped, held]), run([spills, held], id="head"))
    assert total(comparison, "spilled_words") == Change("spilled_words", 0, 100, "worse")
    assert total(comparison, "kernels") == Change("kernels", 1, 1, "same")


def test_peak_memory_has_its_own_tolerance() -> None:
    def at(peak: int, text: str) -> Comparison:
        return compare(
            run([kernel("a", "m")], peak=1000), run([kernel("a", "m", text=text)], peak=peak)
        )

    assert at(1010, "other").outcome == "same"
    assert at(1011, "other").outcome == "worse"
    assert "peak memory" in at(1011, "other").reason
    assert at(900, "other").outcome == "better"


def test_peak_memory_of_another_number_of_graphs_is_neither_better_nor_worse() -> None:
    whole = run([kernel("a", "m")], peak=462)
    pieces = run([kernel("a", "m"), kernel("b", "n", graph="forward 1")], peak=361)
    for base, head in ((whole, pieces), (pieces, whole)):
        assert total(compare(base, head), "peak_memory_bytes").outcome == "unknown"


STEP = [kernel("a", "m", graph="forward 0"), kernel("b", "n", graph="backward 0")]
PIECES = [*STEP, kernel("c", "m", graph="forward 1"), kernel("d", "n", graph="backward 1")]


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [(1000, 900, "better"), (1000, 1010, "same"), (1000, 1011, "unknown")],
)
def test_a_whole_step_that_needs_no_more_than_its_largest_piece_has_not_grown(
    before: int, after: int, outcome: str
) -> None:
    pieces = run(PIECES, peak=before, graph_breaks={"item": 1})
    change = total(compare(pieces, run(STEP, peak=after)), "peak_memory_bytes")
    assert change.outcome == outcome


@pytest.mark.parametrize(
    "more",
    [
        {"graph_breaks": {"print": 1}},
        {"notes": ("Dynamo left 2 of 3 functions to run eagerly",)},
        {"environment": replace(ENVIRONMENT, torch="2.11.0")},
        {"mode": "forward"},  # a forward and a backward are not one graph
    ],
)
def test_the_peak_of_a_step_that_is_not_whole_says_nothing(more: dict[str, Any]) -> None:
    pieces = run(PIECES, peak=1000, mode=more.get("mode", "training"))
    comparison = compare(pieces, run(STEP, peak=900, **more))
    assert total(comparison, "peak_memory_bytes").outcome == "unknown"


def test_peak_memory_of_another_torch_decides_nothing() -> None:
    kernels = [kernel("a", "mul")]
    other = replace(ENVIRONMENT, torch="2.11.0")
    comparison = compare(run(kernels, peak=1000), run(kernels, peak=9000, environment=other))
    assert comparison.outcome == "same"
    assert total(comparison, "peak_memory_bytes").outcome == "unknown"


def test_more_memory_for_identical_kernels_is_worse() -> None:
    kernels = [kernel("a", "mul")]
    assert compare(run(kernels, peak=1000), run(kernels, peak=2000)).outcome == "worse"


def test_a_change_that_moves_nothing_is_the_same() -> None:
    base, head = [kernel("a", "mul")], [kernel("a", "mul", text="new")]
    comparison = compare(run(base, peak=9), run(head, peak=9))
    assert comparison.outcome == "same"
    assert comparison.reason == (
        "1 group of kernels changed, but neither spills, bytes nor peak memory"
    )


def test_what_is_not_known_is_not_said_to_be_the_same() -> None:
    base, head = [kernel("a", "mul")], [kernel("a", "mul", text="new")]
    comparison = compare(run(base), run(head))
    assert comparison.reason == "1 group of kernels changed, but neither spills nor bytes"
    other = replace(ENVIRONMENT, torch="2.11.0")
    comparison = compare(run(base, peak=1), run(head, peak=9, environment=other))
    assert comparison.outcome == "same"
    assert comparison.reason == (
        "1 group of kernels changed, but neither spills nor bytes (peak memory can't be compared)"
    )


def test_bytes_known_on_one_side_alone_are_no_verdict() -> None:
    base = run([kernel("a", "mul"), kernel("b", "add")])
    head = run([kernel("a", "mul", text="x", read=None, written=None), kernel("b", "add")])
    for comparison in (compare(base, head), compare(head, base)):
        assert comparison.outcome == "unknown"
        assert comparison.reason.startswith("bytes moved can't be compared")


def test_gpu_kernels_that_nobody_could_read_are_no_verdict() -> None:
    base = run([kernel("a", "mul", registers=None, read=900)])
    head = run([kernel("a", "mul", registers=None, text="x", read=100)])
    comparison = compare(base, head)
    assert comparison.outcome == "unknown"
    assert comparison.reason.startswith("spilled words can't be compared")
    assert compare(head, base).outcome == "worse"


def test_an_unread_kernel_makes_the_verdict_unknown() -> None:
    base = run([kernel("a", "mul"), kernel("b", "add", stack=8)])
    head = run([kernel("a", "mul", text="x", registers=None), kernel("b", "add", stack=8)])
    comparison = compare(base, head)
    assert comparison.outcome == "unknown"
    assert total(comparison, "spilled_words").outcome == "unknown"


def test_a_cpu_run_has_no_rows_for_registers() -> None:
    def side(text: str, read: int) -> Comparison:
        cpu = kernel("a", "mul", registers=None, text=text, read=read)
        gone = kernel("b", "add", registers=None)
        return compare(
            run([replace(cpu, language="cpp"), gone], device="cpu", target=None),
            run(
                [kernel("a", "mul", registers=None, text="h", read=3000)], device="cpu", target=None
            ),
        )

    comparison = side("b", 1000)
    metrics = {c.metric for c in comparison.totals}
    assert not metrics & {"registers", "spilled_words", "shared_bytes"}
    assert comparison.outcome == "worse"


def test_nothing_known_is_unknown() -> None:
    blind: dict[str, Any] = {"registers": None, "read": None, "written": None}
    base, head = run([kernel("a", "m", **blind)]), run([kernel("a", "m", text="x", **blind)])
    assert compare(base, head).outcome == "unknown"


def test_runs_without_kernels() -> None:
    with pytest.raises(PerfcliError, match="nothing to compare") as caught:
        compare(run([]), run([]))
    assert caught.value.exit_code == 2
    nothing, something = run([]), run([kernel("a", "mul")])
    for base, head in ((nothing, something), (something, nothing)):
        one = compare(base, head)
        assert one.outcome == "unknown"
        assert "has no generated kernel, the other side 1 kernel" in one.reason


@pytest.mark.parametrize(
    ("aspect", "other", "says"),
    [
        ("scenario", {"scenario": "softmax"}, "scenario rmsnorm → softmax"),
        ("params", {"params": {"rows": 64, "cols": 1}}, "parameter cols none → 1, rows 32 → 64"),
        ("params", {"params": {"rows": 32, "bn": True}}, "parameter bn none → true"),
        ("mode", {"mode": "forward"}, "mode training → forward"),
        ("device", {"device": "cpu"}, "device cuda → cpu"),
        ("target", {"target": replace(H100, name="b200", capability=(10, 0))}, "b200 (sm_100"),
        ("dynamic", {"dynamic": True}, "dynamic off → on"),
    ],
)
def test_unlike_runs_refuse(aspect: str, other: dict[str, object], says: str) -> None:
    kernels = [kernel("a", "mul")]
    base, head = run(kernels), run(kernels, **other)  # type: ignore[arg-type]
    with pytest.raises(NotComparable) as caught:
        compare(base, head)
    assert says in str(caught.value)
    assert f"--allow {aspect}" in str(caught.value)
    assert caught.value.exit_code == 4
    assert compare(base, head, allow=[aspect]).outcome == "same"


def test_all_differences_are_named_at_once() -> None:
    kernels = [kernel("a", "mul")]
    with pytest.raises(NotComparable, match="--allow mode --allow dynamic"):
        compare(run(kernels), run(kernels, mode="forward", dynamic=True))


def test_the_words_that_allow_every_difference() -> None:
    base = run([kernel("a", "mul")])
    head = replace(base, params={"rows": 64}, mode="forward")
    assert list_overrides(base, base) == []
    assert list_overrides(base, head) == ["--allow", "params", "--allow", "mode"]
    assert compare(base, head, allow=list_overrides(base, head)[1::2]).outcome == "same"


def test_a_users_file_is_the_same_scenario_in_another_checkout() -> None:
    kernels = [kernel("a", "mul")]
    compare(run(kernels, scenario="a/model.py:net"), run(kernels, scenario="/b/model.py:net"))


def test_an_unknown_aspect() -> None:
    with pytest.raises(PerfcliError, match=r"'param'.*params"):
        compare(run([kernel("a")]), run([kernel("a")]), allow=["param"])


def test_settings_of_the_models_own_compile_are_told() -> None:
    call = CompiledCall("Net", "model.py:3", mode="reduce-overhead", options={"max_fusion_size": 1})
    kernels = [kernel("a", "mul")]
    comparison = compare(run(kernels), replace(run(kernels, id="head"), compiled=(call,)))
    assert comparison.differences == (
        "the model's own torch.compile has defaults → mode='reduce-overhead', "
        "options={'max_fusion_size': 1}",
    )


def test_differences_of_the_environment() -> None:
    other = replace(ENVIRONMENT, torch="2.15.0", ptxas=None, variables={"A": "1"})
    kernels = [kernel("a", "mul")]
    comparison = compare(run(kernels), run(kernels, environment=other))
    assert comparison.differences == (
        "torch 2.13.0 → 2.15.0",
        "ptxas 12.8 → none",
        "environment variable A none → 1",
    )


def test_extern_calls_and_breaks_are_totals() -> None:
    externs = (ExternCall("aten.mm", "forward 0", 3), ExternCall("aten.bmm", "forward 0", 1))
    base = run([kernel("a", "mul")], externs=externs)
    head = run([kernel("a", "mul")], externs=externs[:1], graph_breaks={"print": 12, "item": 1})
    comparison = compare(base, head)
    assert total(comparison, "extern_calls").delta == -1
    assert total(comparison, "graph_breaks") == Change("graph_breaks", 0, 13, "worse")


def test_equally_many_unknown_kernels_have_to_be_the_same_ones() -> None:
    def side(known: str, unknown: str) -> list[KernelFacts]:
        return [kernel(known, known), kernel(unknown, unknown, read=None, written=None)]

    base, head = run(side("a", "b")), run(side("b", "a"))
    assert total(compare(base, head), "bytes_moved").outcome == "unknown"
    assert compare(base, head).outcome == "unknown"
    same = run([*side("a", "b"), kernel("c", "c", read=None, written=None)])
    assert total(compare(same, same), "bytes_moved").outcome == "same"


def test_an_unknown_kernel_that_is_launched_more_often_moves_more() -> None:
    def side(launches: int) -> Run:
        unknown = kernel("b", "b", read=None, written=None, launches=launches)
        return run([kernel("a", "a"), unknown])

    assert total(compare(side(1), side(2)), "bytes_moved").outcome == "unknown"
    assert total(compare(side(1), side(2)), "spilled_words").outcome == "same"


def test_one_more_sweep_over_the_same_bytes_is_worse() -> None:
    base = run([kernel("a", "softmax", bytes_swept=1500)])
    head = run([kernel("a", "softmax", text="three sweeps", bytes_swept=2500)])
    comparison = compare(base, head)
    assert total(comparison, "bytes_moved").outcome == "same"
    assert comparison.outcome == "worse"
    assert comparison.reason == (
        "bytes swept 1.5 kB → 2.5 kB (+66.7 %): a changed "
        "(1 kernel, 2 loads → 1 kernel, 2 loads, +1 kB bytes swept)"
    )
    assert compare(head, base).outcome == "better"


def test_sweeps_that_are_not_known_leave_the_verdict_to_the_bytes() -> None:
    base = run([kernel("a", "m", bytes_swept=1500), kernel("b", "n", bytes_swept=1500)])
    head = run([kernel("a", "m", text="x"), kernel("b", "n", bytes_swept=1500)])
    comparison = compare(base, head)
    assert total(comparison, "bytes_swept").outcome == "unknown"
    assert comparison.outcome == "same"
    assert comparison.reason == (
        "1 group of kernels changed, but neither spills nor bytes (bytes swept can't be compared)"
    )
    both = compare(base, run([kernel("a", "m", text="x", bytes_swept=1500), base.kernels[1]]))
    assert both.reason == ("1 group of kernels changed, but neither spills, bytes nor bytes swept")


def test_what_would_have_decided_alike_is_said() -> None:
    base = run([kernel("a", "1", read=1000)], peak=1000)
    head = run([kernel("a", "1", read=2000, text="x")], id="head", peak=1220)
    because = compare(base, head).because
    assert because is not None
    # Not lower-bound time: it is bytes in another unit.
    assert because.also == "peak memory +220 B (+22 %)"
    alone = compare(base, replace(head, graphs=base.graphs)).because
    assert alone is not None and alone.also == ""


def cpp(name: str, loads: int, vectors: int | None, text: str = "") -> KernelFacts:
    made = kernel(name, "1", registers=None, read=None, written=None, language="cpp", text=text)
    assert made.source_facts is not None
    facts = replace(made.source_facts, loads=loads, vector_loads=vectors, vector_stores=vectors)
    return replace(made, source_facts=facts)


@pytest.mark.parametrize(
    ("loads", "vectors", "outcome"),
    [
        (4, 0, "worse"),  # two of two vectors became scalars
        (6, 2, "same"),  # a tail more
        (4, 4, "better"),
    ],
)
def test_a_cpu_kernel_that_loses_its_vectors_is_worse(
    loads: int, vectors: int, outcome: Outcome
) -> None:
    base = run([cpp("a", 4, 2)], device="cpu", target=None)
    head = run([cpp("a", loads, vectors, text="x")], id="head", device="cpu", target=None)
    comparison = compare(base, head)
    assert comparison.outcome == outcome
    assert total(comparison, "vector_loads").outcome == outcome
    assert total(comparison, "vector_stores").head == vectors
    if outcome == "worse":
        assert comparison.reason == (
            "vector loads 2 → 0 (−100 %): a changed "
            "(1 kernel, 4 loads → 1 kernel, 4 loads, −2 vector loads)"
        )
    on_gpu = compare(run([kernel("b")]), run([kernel("b", text="x")], id="head"))
    assert all("vector" not in change.metric for change in on_gpu.totals)


@pytest.mark.parametrize(
    ("loads", "vectors", "reason"),
    [
        (2, 0, "loads 4 → 2 (−50 %), vector loads 2 → 0 (−100 %), vector stores 2 → 0 (−100 %)"),
        (6, 3, "loads 4 → 6 (+50 %), vector loads 2 → 3 (+50 %), vector stores 2 → 3 (+50 %)"),
    ],
)
def test_vectors_that_came_or_went_with_scalars_are_not_said_to_have_stayed(
    loads: int, vectors: int, reason: str
) -> None:
    base = run([cpp("a", 4, 2)], device="cpu", target=None)
    head = run([cpp("a", loads, vectors, text="x")], id="head", device="cpu", target=None)
    comparison = compare(base, head)
    assert total(comparison, "vector_loads").outcome == "same"  # neither lost nor won
    assert comparison.outcome == "unknown"
    assert comparison.reason == f"{reason}: what that costs, counts can't tell"


def test_kernels_whose_code_is_not_known_are_not_said_to_be_the_same() -> None:
    hidden = kernel("triton_a_0", source_hash="", candidates=(), source_facts=None)
    known = kernel("triton_b_1", "2")
    alike = compare(run([hidden]), run([hidden], id="head"))
    assert alike.outcome == "unknown"
    assert alike.reason == "the kernels look the same; nothing is known of their code"
    partly = compare(run([hidden, known]), run([hidden, known], id="head"))
    assert partly.outcome == "unknown"
    assert partly.reason == "nothing is known of the code of 1 of 2 kernels"


def test_what_finishes_a_kernels_results_counts_in_the_step_alone() -> None:
    """1,500 bytes of the kernel itself, 700 of the sums after each of its two launches."""
    made = run([replace(kernel("k"), launches=2, finishing_bytes=700, bytes_swept=2000)])
    assert made.kernels[0].bytes_moved == 1500
    total = {change.metric: change.head for change in compare(made, made).totals}
    assert total["bytes_moved"] == 2 * (1500 + 700)
    assert total["bytes_swept"] == 2 * (2000 + 700)
    assert total["lower_bound_seconds"] == pytest.approx(2 * 2200 / H100.bandwidth)


@pytest.mark.parametrize(
    ("moved", "more"), [(1, ""), (3, ""), (4, " and 1 more"), (6, " and 3 more")]
)
def test_three_operators_that_are_called_otherwise_are_named(moved: int, more: str) -> None:
    """And one that is called as often on both sides is none of them."""
    same = ExternCall("aten.bmm", "forward 0", 5)
    calls = tuple(ExternCall(f"aten.op{n}", "forward 0", n) for n in range(1, moved + 1))
    kernels = [kernel("triton_poi_fused_add_0", "add")]
    found = compare(run(kernels, externs=(same,)), run(kernels, id="head", externs=(same, *calls)))
    named = ", ".join(f"aten.op{n} +{n}" for n in range(1, min(moved, 3) + 1))
    total = 5 + moved * (moved + 1) // 2
    assert found.besides == (f"extern calls 5 → {total} ({named}{more})",)


def test_graph_breaks_are_summed_on_both_sides() -> None:
    """Also where other calls break as many: then the sums are alike."""
    kernels = [kernel("triton_poi_fused_add_0", "add")]
    sides: list[tuple[dict[str, int], dict[str, int], tuple[str, ...]]] = [
        ({"print": 2}, {"print": 2, "item": 3}, ("graph breaks 2 → 5",)),
        ({"print": 2}, {"item": 2}, ("graph breaks 2 → 2",)),
        ({"print": 2}, {"print": 2}, ()),
    ]
    for ours, theirs, besides in sides:
        found = compare(
            run(kernels, graph_breaks=ours), run(kernels, id="head", graph_breaks=theirs)
        )
        assert found.besides == besides
