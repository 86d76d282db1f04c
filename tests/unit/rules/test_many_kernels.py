"""Rules over runs of thousands of kernels: the work grows with their number, not its square."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import kernel, run

from perfcli.model import Buffer
from perfcli.rules import unfused_reduction

MANY = 2000


def test_reductions_that_share_nothing_are_not_held_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = 0
    really = unfused_reduction._saved_bytes

    def count(*both: Any) -> int:
        nonlocal held
        held += 1
        return really(*both)

    monkeypatch.setattr(unfused_reduction, "_saved_bytes", count)
    buffers = [
        Buffer("in_ptr0", f"buf{n // 2}", "input", "float32", (64, 64), (64, 1), 16384)
        for n in range(MANY)
    ]
    kernels = [
        kernel(f"k_{n}", kind="reduction", sizes={"x": 64, "r0_": 64}, buffers=(buffer,))
        for n, buffer in enumerate(buffers)
    ]
    assert list(unfused_reduction._check(run(kernels))) == []
    assert held == MANY  # each with the one other reader of its buffer
