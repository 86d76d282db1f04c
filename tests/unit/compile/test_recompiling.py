"""Calls with other sizes, in real workers. What is expected was counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perfcli.compile.recompiling import _read_guard
from perfcli.errors import UserCodeFailed
from perfcli.model import Run
from perfcli.rules import recompilations, skipped_graphs

Compile = Callable[..., Run]
SIZES = ((("batch", 8),), (("batch", 16),))


def find_line(text: str) -> int:
    model = Path(__file__).parents[2] / "fixtures" / "models" / "called_again.py"
    return 1 + [line.strip() for line in model.read_text().splitlines()].index(text)


def name_place(location: str) -> str:
    return Path(location).name


@pytest.fixture(scope="session")
def called_again(compile_run: Compile) -> Run:
    """The one compilation that this file's tests share."""
    options = (("triton.cudagraphs", True),)
    return compile_run("called_again.py", options=options, varied=SIZES)


@pytest.mark.torch
def test_what_other_sizes_compile_again(called_again: Run) -> None:
    """The second size makes Dynamo take it as a symbol; the counter is another number each time."""
    found = called_again.recompilations
    assert found is not None
    assert (found.limit, dict(found.first_params)) == (8, {"batch": 4})
    (first,) = found.first
    assert (first.function, first.guard) == ("forward", "")
    assert (
        name_place(first.location) == f"called_again.py:{find_line('def forward(self, x, total):')}"
    )
    eight, sixteen = found.varied
    assert [dict(each.params) for each in found.varied] == [{"batch": 8}, {"batch": 16}]
    (size,), (counter,) = eight.compilations, sixteen.compilations
    assert size.guard == "tensor 'x' size mismatch at index 0. expected 4, actual 8"
    assert eight.dynamic
    assert counter.guard == "self.calls == 2" or counter.guard == "self.calls == 1"
    line = find_line("self.calls += 1")
    assert name_place(counter.guard_location) == f"called_again.py:{line}"
    assert counter.guard_code == "self.calls += 1"


@pytest.mark.torch
def test_other_sizes_leave_the_run_as_it_is(called_again: Run) -> None:
    """Its numbers are those of its own size: two kernels, once each."""
    assert {launch.graph for launch in called_again.launches} == {"inference 0"}
    assert [graph.name for graph in called_again.graphs] == ["inference 0"]
    assert [kernel.launches for kernel in called_again.kernels] == [1] * len(called_again.kernels)


@pytest.mark.torch
def test_what_keeps_it_from_being_recorded(called_again: Run) -> None:
    (obstacle,) = called_again.graph_obstacles or ()
    line = find_line("total.add_(x.sum(0))")
    assert (obstacle.effect, obstacle.code) == ("not recorded", "total.add_(x.sum(0))")
    assert obstacle.reason == "mutated inputs (1 instances)"
    assert name_place(obstacle.location) == f"called_again.py:{line}"
    (finding,) = skipped_graphs.RULE.of_run(called_again)
    assert finding.severity == "warning"
    assert "inference 0 is not recorded as a CUDA graph: mutated inputs" in finding.headline


@pytest.mark.torch
def test_every_size_of_three_is_a_warning(called_again: Run) -> None:
    (finding,) = recompilations.RULE.of_run(called_again)
    assert (finding.severity, finding.amount) == ("warning", 2)
    assert finding.headline.startswith("batch = 4, 8, 16: 2 recompilations")
    assert [dict(cure.options) for cure in finding.cures] == [
        {"dynamo.allow_unspec_int_on_nn_module": True}
    ]


@pytest.mark.torch
def test_what_compiling_took(called_again: Run) -> None:
    work = called_again.compile_work
    assert work is not None
    assert work.cpu_seconds > 0
    assert work.yardstick_seconds > 0
    assert work.nodes == sum(graph.nodes for graph in called_again.graphs)
    assert any("compile" in name for name in work.parts)


@pytest.mark.torch
def test_a_size_that_the_model_refuses(compile_run: Compile) -> None:
    """The module counts whatever it is given; the total is as wide as the first input."""
    with pytest.raises(UserCodeFailed) as refused:
        compile_run("refuses_others.py", varied=((("width", 32),),))
    said = str(refused.value)
    model = "the model of width=64 can't be called with the inputs of width=32: "
    assert said.startswith(f"--vary: {model}")
    assert "(64)" in said


def test_a_guard_in_words() -> None:
    reason = (
        "0/0: n == 1.5                    # return x * n  # mp/model.py:14 in g\n"
        'User stack trace:\n  File "/tmp/model.py", line 14, in g\n    return x * n'
    )
    pytest.importorskip("torch")
    assert _read_guard(reason) == ("n == 1.5", "/tmp/model.py:14", "return x * n")
    assert _read_guard("") == ("", "", "")
