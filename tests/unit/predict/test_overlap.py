"""What of collectives is hidden behind kernels, on a time line drawn by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade_estimate import weighed_run

from perfcli.facts.collectives import count_collective
from perfcli.machine import targets
from perfcli.model import Buffer, ExternCall, Launch, OperatorCall, OperatorWork, Run
from perfcli.predict.operators import estimate_call
from perfcli.predict.step import compare_steps, estimate_run, estimate_step

H100 = targets.get("h100")
OUTSIDE = "outside of graphs"
SIZES = {"m": 8192, "n": 8192, "k": 8192, "batch": 1, "left": 0, "right": 1, "align": 8}
FLAGS = {"batched": 0.0, "bias": 0.0, "added": 0.0}
PRODUCT = OperatorWork("product", "bf16", 2.0 * 8192**3, 0.0, 0.0, {**SIZES, **FLAGS})
SMALL, LARGE = (count_collective("all_reduce", size, 8) for size in (1 << 20, 1 << 30))
SENT = Buffer("", "", "input", "bfloat16", (1024,), (1,), 2048)
WAIT = count_collective("wait", 0, 1)

Step = tuple[str, OperatorWork, str, int | None]


def seconds(work: OperatorWork) -> float:
    found = estimate_call(work, H100)
    assert found is not None
    return found.seconds


def send(work: OperatorWork, result: str, after: int | None = None) -> Step:
    return "c10d.allreduce_", work, result, after


def wait(result: str) -> Step:
    return "c10d.wait", WAIT, result, None


MULTIPLY: Step = ("aten.mm.out", PRODUCT, "", None)


def run_of(*steps: Step) -> Run:
    """Return a run whose launches are these, each with a call of its own."""
    calls: dict[str, list[OperatorCall]] = {}
    launches = []
    for name, work, result, after in steps:
        known = calls.setdefault(name, [])
        operands = (result,) if result else ()
        launches.append(Launch(OUTSIDE, name, True, False, operands, len(known), after))
        known.append(OperatorCall((SENT,) * len(operands), {}, work))
    externs = tuple(ExternCall(n, OUTSIDE, len(c), tuple(c)) for n, c in calls.items())
    return replace(
        weighed_run(target=H100, externs=externs), launches=tuple(launches), kernels=(), world=8
    )


def hidden_of(*steps: Step) -> float:
    step = estimate_step(run_of(*steps))
    assert step is not None
    assert step.collectives is not None
    return step.collectives.hidden


def test_what_is_waited_for_at_once_hides_nothing() -> None:
    assert hidden_of(MULTIPLY, send(LARGE, "a"), wait("a"), MULTIPLY) == 0


def test_a_short_one_is_hidden_behind_what_runs_before_its_wait() -> None:
    """1 MiB takes tens of microseconds, the product more than a millisecond."""
    assert seconds(SMALL) < seconds(PRODUCT)
    assert hidden_of(send(SMALL, "a"), MULTIPLY, wait("a")) == pytest.approx(seconds(SMALL))


def test_no_more_is_hidden_than_the_kernels_beside_it_take() -> None:
    """1 GiB takes longer than the product."""
    assert seconds(LARGE) > seconds(PRODUCT)
    assert hidden_of(send(LARGE, "a"), MULTIPLY, wait("a")) == pytest.approx(seconds(PRODUCT))


def test_collectives_run_one_after_the_other() -> None:
    """Two of 1 GiB share the link: one product hides a part of the first, and of none besides."""
    steps = (send(LARGE, "a"), send(LARGE, "b"), MULTIPLY, wait("a"), wait("b"))
    assert hidden_of(*steps) == pytest.approx(seconds(PRODUCT))


def test_one_in_a_stream_of_its_own_begins_before_the_kernels_above_it() -> None:
    """As a gather of FSDP2's does, whose launch stands behind the layer that it runs beside."""
    above = (MULTIPLY, send(SMALL, "a", after=0), wait("a"))
    assert hidden_of(*above) == pytest.approx(seconds(SMALL))
    assert hidden_of(MULTIPLY, send(SMALL, "a"), wait("a")) == 0


def test_what_nobody_waits_for_has_until_the_end_of_the_step() -> None:
    assert hidden_of(send(SMALL, "a"), MULTIPLY) == pytest.approx(seconds(SMALL))


def test_the_interval_reaches_from_all_hidden_to_nothing_hidden() -> None:
    run = run_of(send(LARGE, "a"), MULTIPLY, wait("a"))
    step = estimate_step(run)
    assert step is not None
    ends = [estimate_call(work, H100) for work in (LARGE, PRODUCT)]
    low, high = (sum(getattr(e, end) for e in ends) for end in ("low", "high"))
    assert step.high == pytest.approx(high)
    least = min(estimate_call(work, H100).low for work in (LARGE, PRODUCT))  # type: ignore[union-attr]
    assert step.low == pytest.approx(low - least)
    assert step.seconds == pytest.approx(seconds(LARGE))


def test_two_steps_differ_by_as_much_as_may_be_hidden() -> None:
    """More bytes that kernels hide take no longer at best, and their own time at worst."""
    base = estimate_run(run_of(send(SMALL, "a"), MULTIPLY, wait("a")))
    head = estimate_run(run_of(send(SMALL, "a"), send(SMALL, "b"), MULTIPLY, wait("a"), wait("b")))
    change = compare_steps(base, head, ())
    assert change is not None
    assert change.ratio == pytest.approx(1)
    more = 1 + seconds(SMALL) / (seconds(SMALL) + seconds(PRODUCT))
    assert change.low is not None
    assert change.high is not None
    assert change.low < 1
    assert change.high > more
