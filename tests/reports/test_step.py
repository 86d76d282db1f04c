"""Lines about what a step is made of beside its generated kernels."""

from __future__ import annotations

from importlib import import_module

from handmade import kernel, run

from perfcli.diff.compare import gather_evidence
from perfcli.model import (
    BreakPlace,
    Compilation,
    CompileWork,
    ExternCall,
    GraphObstacle,
    HostEstimate,
    OperatorCall,
    OperatorWork,
    Recompilations,
    TimeEstimate,
    VariedCall,
)

_step = import_module("perfcli.reports._rows.step")
_totals = import_module("perfcli.reports._rows.totals")
list_step_changes, list_step_lines = _step.list_step_changes, _step.list_step_lines
write_places = _step.write_places
list_breaks, list_changed_breaks = _totals.list_breaks, _totals.list_changed_breaks

WORK = OperatorWork("product", "bf16", 2e9, 3e6, 1e6)
HOST = HostEstimate(98e-6, 30e-6, 754e-6, 2, 80e-6, 10e-6, 8.5e-6)
FIRST = Compilation("forward", "/m.py:5")
PLACES = {"print": (BreakPlace("/a/b/m.py:7", 'print("a")'), BreakPlace("/a/b/m.py:9"))}


def mm(count: int, seconds: float | None = 5e-6, work: OperatorWork | None = WORK) -> ExternCall:
    estimate = None if seconds is None else TimeEstimate(seconds, seconds, seconds)
    calls = (OperatorCall((), {}, work, count),)
    return ExternCall("aten.mm.out", "forward 0", count, calls, estimate)


def test_operators_are_totalled() -> None:
    """Three calls of 2 GFLOP, 4 MB and 5 µs each."""
    lines = dict(list_step_lines(run([kernel("k")], externs=(mm(3),))))
    assert lines["operators"] == "3 calls, 6 GFLOP, 12 MB, 15 µs by estimate"


def test_collectives_of_two_sides_are_counted_in_words() -> None:
    def reduce(count: int) -> ExternCall:
        sent = OperatorWork("collective", "bf16", 0.0, 1e6, 1e6, {"sent": 1e6}, "all_reduce")
        return mm(count, None, sent)

    sides = {n: run([kernel("k")], externs=(reduce(n),)) for n in (1, 2)}
    for base, head, text in [(1, 1, "1 call, 1 MB"), (1, 2, "1 → 2 calls"), (2, 1, "2 → 1 call,")]:
        lines = dict(list_step_changes(gather_evidence(sides[base], sides[head])))
        assert lines["collectives"].startswith(text)


def test_operators_without_an_estimate_or_known_work() -> None:
    lines = dict(list_step_lines(run([kernel("k")], externs=(mm(2), mm(1, None, None)))))
    assert lines["operators"] == "3 calls, 4 GFLOP, 8 MB, the work of 1 is not known"
    assert list_step_lines(run([kernel("k")], externs=(mm(1, None, None),))) == []


def test_both_sides_of_a_comparison() -> None:
    base, head = run([kernel("k")], externs=(mm(2),)), run([kernel("k")], externs=(mm(3),))
    (line,) = list_step_changes(gather_evidence(base, head))
    said = "2 → 3 calls, 4 GFLOP → 6 GFLOP, 8 MB → 12 MB, 10 µs → 15 µs by estimate"
    assert line == ("operators", said)
    (same,) = list_step_changes(gather_evidence(base, base))
    assert same == ("operators", "2 calls, 4 GFLOP, 8 MB, 10 µs by estimate")


def test_work_that_one_side_does_not_know_is_no_zero() -> None:
    """A baseline keeps the calls of operators, and not what they work."""
    base = run([kernel("k")], externs=(mm(3, None, None),))
    head = run([kernel("k")], externs=(mm(3),))
    for sides, whose in (((base, head), "base"), ((head, base), "head")):
        (line,) = list_step_changes(gather_evidence(*sides))
        said = f"3 calls, 6 GFLOP, 12 MB, the work of 3 of the {whose} is not known"
        assert line == ("operators", said)
    (line,) = list_step_changes(gather_evidence(run([kernel("k")]), head))
    assert line[1] == "0 → 3 calls, 0 FLOP → 6 GFLOP, 0 B → 12 MB, 0 s → 15 µs by estimate"


def test_the_host_and_compiling() -> None:
    varied = (VariedCall({"batch": 8}, (FIRST,), dynamic=True), VariedCall({"batch": 16}))
    found = Recompilations((FIRST,), varied, 8, {"batch": 4})
    work = CompileWork(2.05, 0.012, 42)
    shown = run([kernel("k")], host=HOST, compile_work=work, recompilations=found)
    assert list_step_lines(shown) == [
        ("host", "2 launches, about 98 µs (30 µs to 754 µs), launched one by one"),
        ("compiling", "2.05 s of processor time for 42 FX nodes"),
        ("vary", "batch = 4, 8, 16: compilations 1, 1 (dynamic), 0"),
    ]


def test_the_host_is_compared_where_graphs_are_recorded_on_one_side() -> None:
    replayed = HostEstimate(88.5e-6, 20e-6, 7e-4, 2, 80e-6, 0, 8.5e-6, replays=1)
    base, head = (run([kernel("k")], host=each) for each in (HOST, replayed))
    (line,) = list_step_changes(gather_evidence(base, head))
    said = "2 launches, 98 µs → 88.5 µs, launched one by one → CUDA graphs replayed"
    assert line == ("host", said)
    assert list_step_changes(gather_evidence(base, base)) == []
    both = HostEstimate(2e-4, 20e-6, 7e-4, 9, 80e-6, 35e-6, 8.5e-6, replays=2, alone=7)
    (line,) = list_step_lines(run([kernel("k")], host=both))
    assert line[1].endswith(", 7 launched one by one and 2 CUDA graphs replayed")


def test_compiling_what_is_chosen_from_counts() -> None:
    work = CompileWork(2.05, 0.012, 42, choosing_seconds=88.4)
    (line,) = list_step_lines(run([kernel("k")], compile_work=work))
    said = "2.05 s of processor time for 42 FX nodes, 88.4 s for implementations to choose from"
    assert line == ("compiling", said)


def test_obstacles_where_graphs_were_asked_for() -> None:
    obstacle = GraphObstacle("forward 0", "not recorded", "cpu ops", "/m.py:3", "y = x.cpu()")
    asked = {"triton.cudagraphs": True}
    (line,) = list_step_lines(run([kernel("k")], settings=asked, graph_obstacles=(obstacle,)))
    assert line == ("CUDA graph", "forward 0 is not recorded: cpu ops at /m.py:3  y = x.cpu()")
    assert list_step_lines(run([kernel("k")], graph_obstacles=(obstacle,))) == []


# --- graph breaks come with their lines ------------------------------------------------------


def test_places_of_a_break() -> None:
    assert write_places(()) == ""
    many = [BreakPlace(f"/m.py:{n}") for n in range(5)]
    assert write_places(many) == " at /m.py:0; /m.py:1; /m.py:2; 2 more"


def test_a_break_names_its_line_alone_and_compared() -> None:
    whole = run([kernel("k")])
    broken = run([kernel("k")], graph_breaks={"print": 2}, break_places=PLACES)
    where = ' at …/b/m.py:7  print("a"); …/b/m.py:9'
    assert list_breaks(broken) == [f"2 × print{where}"]
    assert list_changed_breaks(gather_evidence(whole, broken)) == [f"0 → 2 × print{where}"]


def test_a_function_that_was_left_alone_names_its_line() -> None:
    left = run([kernel("k")], break_places={"Dynamic shape operator": (BreakPlace("/m.py:3"),)})
    assert list_breaks(left) == [
        "a function left to run eagerly: Dynamic shape operator at /m.py:3"
    ]
