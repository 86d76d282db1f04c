"""Kernels through Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import perfcli

Excesses = Mapping[Any, Mapping[str, float]]


@pytest.fixture(scope="session")
def interpreted(once: Callable[..., Excesses]) -> Callable[[str, Sequence[Any]], Excesses]:
    """Of a family and its lines (see ``family_interpreted.py``): of each line and output the
    largest error over what is allowed."""

    def run(family: str, lines: Sequence[Any]) -> Excesses:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("family_interpreted.py")), family],
            input=json.dumps(lines),
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(perfcli.__file__).parents[1]),
                "OMP_NUM_THREADS": "1",  # threads wait longer than such tensors take
            },
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(zip(lines, map(json.loads, done.stdout.splitlines()), strict=True))

    return lambda family, lines: once(f"{family} {lines}", lambda: run(family, lines))
