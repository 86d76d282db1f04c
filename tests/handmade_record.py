"""A small measurement by hand, as its file holds it."""

from __future__ import annotations

from dataclasses import replace

from perfcli.model import (
    DeviceState,
    Machine,
    MeasuredLaunch,
    Measurement,
    MemoryUse,
    Prepared,
    Round,
    Turn,
)


def prepared(side: str) -> Prepared:
    machine = Machine("EPYC", "2.13.0", threads=1, cpus=(0,), facts={"fixed_layout": True})
    launch = MeasuredLaunch("cpp_fused_é_0", "forward 0", source_hash="ab", grid=(1, 2, 3))
    memory = MemoryUse(10, None, "caching allocator", ((0.0, 5), (0.25, 10)))
    return Prepared(side, 0, machine, 0.003, 1.5, (launch,), 1, memory)  # type: ignore[arg-type]


def measured(number: int) -> Round:
    state = DeviceState(throttle=("thermal",), others_utilisation=0.5)
    base = Turn((0.1 + 0.2, 5e-324), (0.3,), ((0.1,), (0.2,)), state)
    return Round(number, 0, "step", "head", number / 3, base, Turn((1 / 3,)))


def measurement(id: str = "261121-120000-aaaa", rounds: int = 3, **more: object) -> Measurement:
    made = Measurement(
        id=id,
        created="2026-11-21T12:00:00Z",
        base="run-a",
        head="run-b",
        scenario="softmax",
        device="cpu",
        seed=7,
        budget_seconds=20.0,
        method="a pair of workers, interleaved",
        prepared=(prepared("base"), prepared("head")),
        rounds=tuple(measured(number) for number in range(rounds)),
        stopped="precise enough",
        notes=("a note",),
    )
    return replace(made, **more)  # type: ignore[arg-type]
