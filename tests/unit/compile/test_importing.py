"""Garbage is not looked for among what is imported; libraries are loaded while Python imports."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from perfcli.compile.importing import collecting_rarely, without_collection


@pytest.mark.parametrize("collects", [True, False])
def test_what_is_made_in_the_block_is_never_gone_through(collects: bool) -> None:
    if not collects:
        gc.disable()
    try:
        with without_collection():
            assert not gc.isenabled()
            made = [[] for _ in range(1000)]  # type: ignore[var-annotated]
        assert gc.isenabled() is collects
        assert gc.get_freeze_count() >= len(made)
        seen = set(map(id, gc.get_objects()))
        assert not seen & set(map(id, made))
    finally:
        gc.unfreeze()
        gc.enable()


def test_garbage_is_looked_for_less_often_in_the_block() -> None:
    before = gc.get_threshold()
    with collecting_rarely():
        assert gc.get_threshold()[0] > 10 * before[0]
    assert gc.get_threshold() == before


_LOAD = """
import sys
from perfcli.compile import importing
importing.load_libraries()
loaded = [line.split()[-1] for line in open("/proc/self/maps") if "libtorch" in line]
assert any(path.endswith("/libtorch_cpu.so") for path in loaded), loaded
assert "sympy" in sys.modules and "torch" not in sys.modules
import torch
assert torch.linalg.inv(2 * torch.eye(2)).sum() == 1
"""


@pytest.mark.torch
def test_libraries_of_torch_are_loaded_before_it_is_imported() -> None:
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", _LOAD], check=True)
