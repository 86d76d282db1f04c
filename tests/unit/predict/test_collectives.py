import math

import pytest

from perfcli.facts.collectives import count_collective
from perfcli.machine import targets
from perfcli.model import OperatorWork, TimeEstimate
from perfcli.predict.collectives import estimate_collective

# The 10th, 50th and 90th percentile in microseconds, of 64 KiB, 256 KiB and so on to 1 GiB: two
# H200s of one host, NVLink, torch 2.11.0, NCCL 2.28.9, 2026-11-28 (bench/distributed.py device).
MEASURED = {
    "all_reduce": [
        *((9.5, 9.7, 10.2), (11.1, 12.2, 12.7), (16.6, 17.4, 17.9), (34.6, 35.4, 36.0)),
        *((75.2, 76.5, 77.6), (246.5, 247.9, 249.7), (883.5, 888.9, 896.4)),
        (3189.0, 3212.8, 3240.2),
    ],
    "all_gather": [
        *((8.7, 8.9, 9.3), (9.8, 10.7, 10.9), (13.4, 14.2, 14.4), (28.0, 29.1, 29.5)),
        *((55.3, 56.1, 57.7), (157.2, 159.0, 161.3), (545.2, 547.6, 552.9)),
        (1949.4, 1975.0, 1994.9),
    ],
    "reduce_scatter": [
        *((8.3, 8.8, 9.4), (9.6, 10.4, 11.3), (12.6, 13.6, 13.9), (25.2, 26.2, 26.7)),
        *((51.9, 53.3, 54.1), (165.8, 167.1, 168.8), (577.1, 582.3, 587.2)),
        (1933.2, 1981.6, 2027.0),
    ],
    "all_to_all": [
        *((9.4, 10.4, 11.4), (10.9, 11.7, 12.3), (15.5, 16.0, 16.8), (20.2, 23.1, 26.5)),
        *((46.1, 56.5, 69.8), (138.6, 140.8, 143.2), (465.7, 476.6, 488.6)),
        (1614.1, 1622.2, 1635.4),
    ],
}


def estimate(work: OperatorWork, gpu: str) -> TimeEstimate:
    found = estimate_collective(work, targets.get(gpu))
    assert found is not None
    return found


def is_wide(found: TimeEstimate) -> bool:
    """Return whether an interval is a factor of two either way."""
    return found.low < found.seconds / 2 < found.seconds * 2 < found.high


@pytest.mark.parametrize("kind", MEASURED)
def test_what_two_gpus_measured_is_estimated_closely(kind: str) -> None:
    for power, (low, middle, high) in enumerate(MEASURED[kind]):
        found = estimate(count_collective(kind, 65536 * 4**power, 2), "h200")
        assert abs(math.log(found.seconds * 1e6 / middle)) < math.log(1.14), (kind, power)
        assert found.low * 1e6 < low < high < found.high * 1e6, (kind, power)


def test_a_large_collective_takes_what_its_link_takes() -> None:
    # 1 GiB over 2 ranks sends 1 GiB at 79 % of 450 GB/s, which is 3020.4 µs; 7.8 µs to begin, and
    # twice the root of 4.3 × 3020.4, which is 227.9 µs.
    found = estimate(count_collective("all_reduce", 1 << 30, 2), "h200")
    assert found.seconds == pytest.approx(3256.1e-6, rel=1e-4)
    assert found.low == pytest.approx(found.seconds / 1.5)
    assert found.high == pytest.approx(found.seconds * 1.5)


def test_a_gather_reaches_less_of_the_link() -> None:
    # Half of 1 MiB at 67 % of 450 GB/s, which is 1.739 µs; 7.8 µs to begin, and twice the root of
    # 4.3 × 1.739, which is 5.469 µs.
    found = estimate(count_collective("all_gather", 1 << 20, 2), "h200")
    assert found.seconds == pytest.approx(15.008e-6, rel=1e-4)


def test_further_ranks_of_a_machine_are_an_assumption() -> None:
    # 8 ranks: twice 7/8 of 1 MB at 79 % of 450 GB/s, which is 4.923 µs; 7.8 µs to begin, 2 × 6
    # further ranks of 1.5 µs, and twice the root of 4.3 × 4.923, which is 9.202 µs.
    found = estimate(count_collective("all_reduce", 1_000_000, 8), "h200")
    assert found.seconds == pytest.approx(39.925e-6, rel=1e-4)
    assert is_wide(found)


@pytest.mark.parametrize(
    ("kind", "size", "gpu"),
    [
        ("all_reduce", 1 << 20, "h100"),
        ("all_reduce", 2048, "h200"),
        ("all_reduce", 1 << 31, "h200"),
        ("broadcast", 1 << 20, "h200"),
    ],
)
def test_what_was_not_measured_has_a_wide_interval(kind: str, size: int, gpu: str) -> None:
    assert is_wide(estimate(count_collective(kind, size, 2), gpu))


def test_between_machines_the_network_decides() -> None:
    # 16 ranks: 15/16 of 1 GB at 50 GB/s, 14 further ranks of 1.5 µs, and 12 µs to begin.
    found = estimate(count_collective("all_gather", 1_000_000_000, 16), "h100")
    assert found.seconds == pytest.approx(18.75e-3 + 21e-6 + 12e-6)
    assert is_wide(found)
    assert "400 Gbit/s" in found.doubts[0]


def test_few_ranks_may_be_on_as_many_machines() -> None:
    # 8 ranks: twice 7/8 of 1 GB at 50 GB/s, 2 × 6 further ranks of 1.5 µs, and 12 µs to begin.
    found = estimate(count_collective("all_reduce", 1_000_000_000, 8, machines=8), "h200")
    assert found.seconds == pytest.approx(35e-3 + 18e-6 + 12e-6)
    assert "400 Gbit/s" in found.doubts[0]


def test_two_ranks_of_two_machines_were_not_measured() -> None:
    assert is_wide(estimate(count_collective("all_reduce", 1 << 20, 2, machines=2), "h200"))
