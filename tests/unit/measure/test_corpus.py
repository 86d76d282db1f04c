"""Kernels of the calibration, compiled for real, without a device."""

from __future__ import annotations

import os

import pytest

from perfcli.calibrate.corpus import _list_cases
from perfcli.calibrate.measuring import _count
from perfcli.machine import targets
from perfcli.measure.corpus import compile_cases
from perfcli.model.kernel_work import CorpusCase, CorpusRequest


@pytest.fixture(autouse=True)
def cache(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.torch
def test_work_is_counted_of_cases_that_share_their_code() -> None:
    copy = next(
        c for c in _list_cases() if c.kernel == "strided_copy" and c.constants["XBLOCK"] == 1024
    )
    twice = CorpusCase(
        copy.kernel, (2 * copy.grid[0], 1, 1), copy.warps,
        tuple((name, kind, 2 * n) for name, kind, n in copy.tensors),
        {**copy.scalars, "n": 2 * copy.scalars["n"]}, copy.constants,
    )  # fmt: skip
    refused = CorpusCase(
        copy.kernel, copy.grid, copy.warps, copy.tensors, copy.scalars, {"XBLOCK": 1000}
    )
    request = CorpusRequest((copy, twice, refused), targets.get("h200"), 2)
    (code,) = compile_cases(request)  # Triton takes powers of two only
    assert sorted(code.cases) == [0, 1]
    works = [_count(code.ttgir, code.sass, case) for case in (copy, twice)]
    first, second = works
    assert first is not None and second is not None
    assert second.blocks == 2 * first.blocks
    # A block copies 1024 elements of bf16: 2048 bytes are 64 sectors of 32 bytes each way.
    for each in (first, second):
        assert each.traffic.new_sectors == 64
        assert each.traffic.block_store_sectors == 64
