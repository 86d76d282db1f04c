from __future__ import annotations

from typing import Any

from handmade import kernel, run

from perfcli.diagnosis import diagnose
from perfcli.diff.compare import gather_evidence
from perfcli.model import Compilation, Finding, Recompilations, Run, VariedCall
from perfcli.rules.recompilations import RULE

SIZE = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
FIRST = Compilation("forward", "/m.py:5")
AGAIN = Compilation("forward", "/m.py:5", SIZE)
COUNTER = Compilation("forward", "/m.py:5", "self.k == 1", "/m.py:7", "self.k += 1")
REFUSED = Compilation("forward", "/m.py:5", "self.k == 8", "/m.py:7", "self.k += 1", refused=True)


def find(first: Any, varied: Any = (), **more: Any) -> list[Finding]:
    found = Recompilations(tuple(first), tuple(varied), 8, {"batch": 4})
    return list(RULE.of_run(run([kernel("k")], recompilations=found, **more)))


def call(batch: int, *compilations: Compilation, dynamic: bool = False) -> VariedCall:
    return VariedCall({"batch": batch}, compilations, dynamic)


def test_one_compilation_is_silent() -> None:
    assert find([FIRST]) == []
    assert find([FIRST], [call(8), call(16)]) == []
    assert list(RULE.of_run(run([kernel("k")]))) == []


def test_the_second_size_makes_sizes_dynamic() -> None:
    (found,) = find([FIRST], [call(8, AGAIN, dynamic=True), call(16)])
    assert found.severity == "info"
    assert found.headline == "batch = 4, 8, 16: 1 recompilation, then its sizes were dynamic"
    assert found.evidence == (f"guard failed: {SIZE} (/m.py:5)",)


def test_two_sizes_say_nothing_of_a_third() -> None:
    (found,) = find([FIRST], [call(8, AGAIN)])
    assert found.severity == "info"


def test_a_compilation_for_each_size() -> None:
    (found,) = find([FIRST], [call(8, AGAIN), call(16, AGAIN)])
    assert (found.severity, found.amount) == ("warning", 2)
    assert "mark_dynamic" in found.advice
    assert found.cures == ()


def test_the_limit() -> None:
    eight = [FIRST, *[COUNTER] * 7]
    settings = {"dynamo.allow_unspec_int_on_nn_module": False}
    (found,) = find(eight, [call(8, REFUSED)], settings=settings)
    assert found.severity == "warning"
    assert found.headline.startswith("forward was compiled 8 times, Dynamo's limit")
    assert found.headline.endswith("self.k == 8")
    assert found.origin is not None
    assert (found.origin.location, found.origin.code) == ("/m.py:7", "self.k += 1")
    assert len(found.evidence) == 4
    assert found.evidence[-1] == "and 5 more failed guards"
    assert [dict(cure.options) for cure in found.cures] == [
        {"dynamo.allow_unspec_int_on_nn_module": True}
    ]


def test_layers_of_one_step() -> None:
    """Two recompilations are layers that differ; three are worth knowing."""
    assert find([FIRST, COUNTER, COUNTER]) == []
    (found,) = find([FIRST, COUNTER, COUNTER, COUNTER])
    assert (found.severity, found.headline) == ("info", "one step compiles forward 4 times")


def test_a_run_of_an_earlier_version() -> None:
    earlier: Run = run([kernel("k")])
    assert earlier.recompilations is None
    assert list(RULE.of_run(earlier)) == []


def test_sizes_that_compile_more_often_are_worse() -> None:
    """Kernels are the same on both sides; the other way round it is no regression."""
    few, many = (
        run(
            [kernel("k")],
            recompilations=Recompilations((FIRST,), varied, 8, {"batch": 4}),
        )
        for varied in ((call(8, AGAIN, dynamic=True), call(16)), (call(8, AGAIN), call(16, AGAIN)))
    )
    found = diagnose(gather_evidence(few, many))
    assert (found.outcome, found.reason) == ("worse", "recompilations 1 → 2 (+100 %), PC603")
    assert diagnose(gather_evidence(many, few)).outcome == "same"
    assert diagnose(gather_evidence(few, few)).outcome == "same"
