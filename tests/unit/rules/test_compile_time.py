from __future__ import annotations

from handmade import kernel, run

from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare, gather_evidence
from perfcli.model import Comparison, CompileWork, Run
from perfcli.rules.compile_time import RULE


def made(seconds: float, yardstick: float = 0.012, nodes: int = 40, **parts: float) -> Run:
    return run([kernel("k")], compile_work=CompileWork(seconds, yardstick, nodes, parts))


def between(base: Run, head: Run) -> Comparison:
    return gather_evidence(base, head)


def test_as_long_as_before_is_silent() -> None:
    assert list(RULE.of_comparison(between(made(2.0), made(2.5)))) == []
    assert list(RULE.of_comparison(between(run([kernel("k")]), made(9.0)))) == []


def test_what_grew_is_named() -> None:
    base = made(3.0, nodes=40, fusing=0.5, lowering=0.4)
    head = made(8.0, nodes=100, fusing=4.5, lowering=0.45)
    (found,) = RULE.of_comparison(between(base, head))
    assert found.headline == "compiling takes 3.000 → 8.000 s of processor time (+167 %)"
    assert found.evidence == ("FX nodes 40 → 100", "fusing 500.0 ms → 4.500 s on the wall") or (
        found.evidence == ("FX nodes 40 → 100", "fusing 0.500 → 4.500 s on the wall")
    )


def test_a_step_that_is_the_same_is_worse_for_it() -> None:
    """What was called the same is WORSE; a quarter more is not."""
    judged = diagnose(between(made(10.1), made(21.1)))
    assert judged.outcome == "worse"
    assert judged.reason.startswith("compile time 10.1 s → 21.1 s (+109 %), PC604")
    assert [f.code for f in judged.findings] == ["PC604"]
    assert compare(made(10.1), made(12.5)).outcome == "same"
    assert compare(made(21.1), made(10.1)).outcome == "same"
