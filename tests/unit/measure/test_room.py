from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.measure import room


def test_the_smaller_of_machine_and_control_group(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:     4 kB\n")
    assert room.available(meminfo, tmp_path) == 4096
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 2000\nfile 1500\n")
    assert room.available(meminfo, tmp_path) == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert room.available(meminfo, tmp_path) == 4096
    assert room.available(tmp_path / "none", tmp_path) is None


def test_more_than_there_is() -> None:
    room.require(10, 10)
    room.require(10, None)
    with pytest.raises(MemoryError):
        room.require(11, 10)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_of_a_full_memory(error: Exception, full: bool) -> None:
    assert room.is_out_of_memory(error) is full


@pytest.mark.torch
@pytest.mark.parametrize(("free", "ample"), [(800, True), (799, False)])
def test_both_sides_check_at_once_where_there_is_ample_memory(
    free: int, ample: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 1000))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 100)
    assert room.is_ample("cuda") is ample
    assert room.is_ample("cpu")
