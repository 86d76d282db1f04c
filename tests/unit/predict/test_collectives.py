import pytest

from perfcli.facts.collectives import count_collective
from perfcli.machine import targets
from perfcli.predict.collectives import estimate_collective


def test_a_large_collective_takes_what_its_link_takes() -> None:
    # 1 GiB over 2 ranks sends 1 GiB at 80 % of 450 GB/s: 2.98 ms, and 12 µs to begin.
    found = estimate_collective(count_collective("all_reduce", 1 << 30, 2), targets.get("h200"))
    assert found is not None
    assert found.seconds == pytest.approx(2.9946e-3, rel=1e-4)
    assert found.low < found.seconds / 2 < found.seconds * 2 < found.high


def test_between_machines_the_network_decides() -> None:
    # 16 ranks: 15/16 of 1 GB at 50 GB/s, 14 further ranks of 1.5 µs, and 12 µs to begin.
    work = count_collective("all_gather", 1_000_000_000, 16)
    found = estimate_collective(work, targets.get("h100"))
    assert found is not None
    assert found.seconds == pytest.approx(18.75e-3 + 21e-6 + 12e-6)
    assert "400 Gbit/s" in found.doubts[0]


def test_few_ranks_may_be_on_as_many_machines() -> None:
    # 8 ranks: twice 7/8 of 1 GB at 50 GB/s, 2 × 6 further ranks of 1.5 µs, and 12 µs to begin.
    work = count_collective("all_reduce", 1_000_000_000, 8, machines=8)
    found = estimate_collective(work, targets.get("h200"))
    assert found is not None
    assert found.seconds == pytest.approx(35e-3 + 18e-6 + 12e-6)
    assert "400 Gbit/s" in found.doubts[0]
