from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import H100

from perfcli.facts.occupancy import bytes_swept, lower_bound_seconds
from perfcli.model import SourceFacts


def test_bytes_over_bandwidth() -> None:
    assert lower_bound_seconds(3_350_000_000, H100) == pytest.approx(1e-3)
    assert lower_bound_seconds(0, H100) == 0


def test_unknown_stays_unknown() -> None:
    assert lower_bound_seconds(None, H100) is None
    assert lower_bound_seconds(1, replace(H100, bandwidth=0.0)) is None


def test_each_further_sweep_reads_its_argument_again() -> None:
    facts = SourceFacts(
        loads=4,
        loads_in_loops=4,
        stores=1,
        stores_in_loops=1,
        atomics=0,
        reductions=2,
        loops=3,
        accesses=(),
        passes={"in_ptr0": 3, "in_ptr1": 1},
        buffers_read=2,
        buffers_written=1,
    )
    arguments = {"in_ptr0": 1000, "in_ptr1": 10}
    # 1000 + 10 read and 1000 written once, in_ptr0 twice more.
    assert bytes_swept(2010, arguments, facts) == 2010 + 2 * 1000
    assert bytes_swept(None, arguments, facts) is None
    assert bytes_swept(2010, arguments, None) is None
