"""What pytest-benchmark runs, in the tools' environment: see accuracy_tools.py."""

from __future__ import annotations

import os
from typing import Any

from accuracy_ask import STEPS, ask


def test_step(benchmark: Any) -> None:
    benchmark(ask, int(os.environ[STEPS]))
