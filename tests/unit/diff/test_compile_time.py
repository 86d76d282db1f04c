from __future__ import annotations

import pytest
from handmade import kernel, run

from perfcli.diff.compile_time import compare_compile_times, decides_alone
from perfcli.model import CompileWork, Outcome, Run


def made(seconds: float, yardstick: float = 0.012) -> Run:
    return run([kernel("k")], compile_work=CompileWork(seconds, yardstick))


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        (2.0, 2.9, "same"),  # less than a second
        (10.0, 12.9, "same"),  # less than 1.3 times
        (10.0, 13.1, "worse"),
        (13.1, 10.0, "better"),
    ],
)
def test_beyond_the_noise(base: float, head: float, outcome: Outcome) -> None:
    change = compare_compile_times(made(base), made(head))
    assert change is not None
    assert (change.base, change.head, change.outcome) == (base, head, outcome)
    assert not decides_alone(change)


def test_a_slower_processor_explains_it() -> None:
    """The loop took 1.5 times as long on the head's side: up to 1.95 times is no change."""
    slowed = compare_compile_times(made(10.0, 0.012), made(19.0, 0.018))
    beyond = compare_compile_times(made(10.0, 0.012), made(20.0, 0.018))
    faster = compare_compile_times(made(19.0, 0.018), made(10.0, 0.012))
    assert slowed is not None and slowed.outcome == "same"
    assert beyond is not None and beyond.outcome == "worse"
    assert faster is not None and faster.outcome == "same"


def test_measured_on_a_loaded_machine() -> None:
    """Processor and loop times of eight compilations of one model, while other programs kept two
    cores busy four times over (2026-11-23): no two of them differ."""
    seen = [
        (2.049, 0.017301), (2.0792, 0.014195), (1.9369, 0.01459), (2.0602, 0.018189),
        (1.9906, 0.014504), (1.9639, 0.012163), (2.0741, 0.015599), (1.8376, 0.012565),
    ]  # fmt: skip
    runs = [made(*each) for each in seen]
    changes = [compare_compile_times(a, b) for a in runs for b in runs]
    assert {change.outcome for change in changes if change} == {"same"}


def test_a_run_that_does_not_know() -> None:
    assert compare_compile_times(run([kernel("k")]), made(1.0)) is None
