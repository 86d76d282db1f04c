"""Estimates from bytes alone: wide, said so, and no verdict unless they clear their interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run
from handmade_estimate import weighed_kernel, weighed_run, work

from perfcli.diff.compare import compare
from perfcli.machine import targets
from perfcli.model import Buffer, EstimatedChange, KernelFacts
from perfcli.predict.moved_bytes import _estimate_from_bytes, _estimate_on_cpu
from perfcli.predict.step import estimate_run, estimate_step

H200 = targets.get("h200")


def uncounted(name: str, read: int = 10**9, written: int = 10**9, **more: Any) -> KernelFacts:
    """A kernel of which no configuration's work could be counted."""
    made = replace(weighed_kernel(name, "mul", **more), bytes_read=read, bytes_written=written)
    return replace(made, candidates=tuple(replace(c, work=None) for c in made.candidates))


def test_an_estimate_from_bytes_by_hand() -> None:
    """2 GB at 4.8 TB/s take 416.7 µs; 1.41 times that in the median, 1.06 to 5.36 in nine of ten,
    and a launch."""
    found = _estimate_from_bytes(uncounted("a"), H200, "nobody counted")
    assert found is not None
    least = 2e9 / 4.8e12
    assert found.seconds == pytest.approx(2e-6 + 1.41 * least)
    assert found.low == pytest.approx(1e-6 + 1.06 * least)
    assert found.high == pytest.approx(5e-6 + 5.36 * least)
    assert found.is_rough
    assert found.doubts == ("from its bytes alone: nobody counted",)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "user"},
        {"kind": "template"},
        {"bytes_read": None},
        {"bytes_read": 0, "bytes_written": 0},
        {"unknown_sizes": ("x",)},
        {"candidates": ()},
        {"source_facts": None},
    ],
)
def test_what_bytes_say_nothing_of_has_none(change: dict[str, Any]) -> None:
    assert _estimate_from_bytes(replace(uncounted("a"), **change), H200, "") is None


def test_atomics_take_as_long_as_they_meet() -> None:
    made = uncounted("a")
    assert made.source_facts is not None
    atomics = replace(made, source_facts=replace(made.source_facts, atomics=1))
    assert _estimate_from_bytes(atomics, H200, "") is None
    (only,) = made.candidates
    retries = replace(only, work=replace(work(), retries=True))
    assert _estimate_from_bytes(replace(made, candidates=(retries,)), H200, "") is None


def test_a_gpu_of_unknown_bandwidth_has_none() -> None:
    assert _estimate_from_bytes(uncounted("a"), replace(H200, bandwidth=0.0), "") is None


def test_a_step_says_which_of_its_kernels_are_rough() -> None:
    step = estimate_step(weighed_run(uncounted("rough"), weighed_kernel("known", "b"), target=H200))
    assert step is not None
    assert step.missing == ()
    assert step.rough == ("rough: estimated from its bytes alone: its work could not be counted",)
    rough, known = step.kernels
    assert rough is not None and known is not None
    assert (rough.is_rough, known.is_rough) == (True, False)
    assert step.seconds == pytest.approx(rough.seconds + known.seconds)


def changed(before: KernelFacts, after: KernelFacts) -> EstimatedChange:
    kept = weighed_kernel("kept", "k", text="k")
    base = weighed_run(before, kept, id="base", target=H200)
    head = weighed_run(after, kept, id="head", target=H200)
    estimate = compare(base, head).estimate
    assert estimate is not None
    return estimate


@pytest.mark.parametrize(
    ("times", "verdict"),
    [(1, "unsure"), (2, "unsure"), (3.5, "unsure"), (12, "slower"), (1 / 12, "faster")],
)
def test_bytes_alone_decide_only_where_they_clear_their_interval(
    times: float, verdict: str
) -> None:
    """What moves twice the bytes may take less, and what moves as many may take five times as long:
    a launch takes 1.06 to 5.36 times what memory needs."""
    size = 10**10
    before = uncounted("a", size, size, text="before")
    after = uncounted("a", int(size * times), int(size * times), text="after")
    estimate = changed(before, after)
    assert estimate.verdict == verdict
    assert estimate.rough == ("a: estimated from its bytes alone: its work could not be counted",)


def test_a_kernel_that_can_no_longer_be_counted_is_unsure() -> None:
    """Its bytes are the same, but nobody knows what it does with them."""
    known = replace(weighed_kernel("a", "mul", text="before"), bytes_read=10**9)
    after = uncounted("a", known.bytes_read or 0, known.bytes_written or 0, text="after")
    assert changed(known, after).verdict == "unsure"
    assert changed(after, known).verdict == "unsure"


def test_a_rough_kernel_that_stays_is_as_long_on_both_sides() -> None:
    made = uncounted("a", text="same")
    estimate = changed(made, made)
    assert (estimate.verdict, estimate.ratio, estimate.rough) == ("same", 1, ())


def test_a_small_rough_kernel_widens_the_step_a_little() -> None:
    """One of a hundredth of the step leaves it known to some percent."""
    before, after = (uncounted("a", 8 * 10**5, 8 * 10**5, text=t) for t in ("before", "after"))
    estimate = changed(before, replace(after, bytes_read=10**6))
    assert estimate.low is not None and estimate.high is not None
    assert 1.01 < estimate.high / estimate.low < 1.2


def test_why_it_is_unsure_names_the_kernel_and_its_reason() -> None:
    from perfcli.diff.verdict.words import _say_why_unsure

    before, after = uncounted("a", text="before"), uncounted("a", 2 * 10**9, text="after")
    assert _say_why_unsure(changed(before, after)) == (
        "a: estimated from its bytes alone: its work could not be counted"
    )


# --- CPUs --------------------------------------------------------------------------------------


def cpp(**more: Any) -> KernelFacts:
    made = kernel("cpp_fused_add_0", "add")
    buffers = tuple(
        Buffer(name, name, role, "float32", (1,), (1,), 3 * 10**8)  # type: ignore[arg-type]
        for name, role in (("in_ptr0", "input"), ("out_ptr0", "output"), ("in_out_ptr0", "inplace"))
    )
    return replace(made, language="cpp", kind="cpp", candidates=(), buffers=buffers, **more)


def test_a_kernel_of_a_cpu_is_between_its_caches_and_one_core() -> None:
    """1.2 GB: three buffers, of which one is read and written."""
    found = _estimate_on_cpu(cpp())
    assert found is not None
    assert found.seconds == pytest.approx(0.04, rel=0.01)
    assert found.low == pytest.approx(0.0012, rel=0.01)
    assert found.high == pytest.approx(1.2, rel=0.01)
    assert "measure" in found.doubts[0]
    assert _estimate_on_cpu(replace(cpp(), buffers=())) is None


def test_estimates_of_a_cpu_are_shown_and_decide_nothing() -> None:
    base, head = (
        replace(run([cpp(source_hash=str(n) * 64)], id=str(n)), device="cpu", target=None)
        for n in (1, 2)
    )
    (shown,) = estimate_run(base).kernels
    assert shown.estimate is not None and shown.estimate.is_rough
    assert estimate_step(base) is None
    assert compare(base, head).estimate is None
