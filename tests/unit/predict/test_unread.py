"""Kernels that read a part of their input, against one that reads all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.model import KernelFacts
from perfcli.predict.unread import list_unread

BLOCKS = 4096
SECTORS = 1024
"""That each block reads."""


def reading(share: float, *, indirect: bool = False) -> KernelFacts:
    """A kernel whose blocks read their share, and that of their neighbours for the rest."""
    made = weighed_kernel("a", "add", blocks=BLOCKS)
    (config,) = made.candidates
    assert config.work is not None
    traffic = replace(config.work.traffic, touched={"in_ptr0": share * SECTORS})
    work = replace(config.work, traffic=traffic, accesses=(), indirect=indirect)
    return replace(made, bytes_read=BLOCKS * SECTORS * 32, candidates=(replace(config, work=work),))


@pytest.mark.parametrize(("share", "found"), [(1 / 16, True), (0.5, False), (1.0, False)])
def test_a_kernel_that_stays_at_its_first_row_is_wrong(share: float, found: bool) -> None:
    shares = [read for _, read in list_unread(weighed_run(reading(share)))]
    assert shares == ([pytest.approx(share)] if found else [])


def test_one_launch_configuration_that_reads_all_is_enough() -> None:
    """What another one reads may have been miscounted."""
    (low,), (all_of_it,) = reading(0.01).candidates, reading(1.0).candidates
    both = replace(reading(1.0), candidates=(low, all_of_it))
    assert not [*list_unread(weighed_run(both))]


def test_what_depends_on_data_is_not_known() -> None:
    assert not [*list_unread(weighed_run(reading(0.01, indirect=True)))]
    assert not [*list_unread(weighed_run(kernel("b", "mul", read=1024)))]
