"""Kernels that Inductor generates, run in Triton's interpreter against float64, without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]


def generate(cache: Path, asked: Sequence[str]) -> list[dict[str, Any]]:
    """What is generated for cases of ``fixtures/reduction_cases.py``, with options:
    ``softmax,patch.loop_peeling=true``."""
    return _run("generated_modules.py", str(cache), *asked)


def interpret(modules: Sequence[dict[str, Any]], blocks: Sequence[str]) -> list[dict[str, Any]]:
    """The errors of each output, relative to what is allowed, in each of these launch
    configurations: ``XBLOCK=2,R0_BLOCK=512``."""
    given = "".join(f"{json.dumps(each)}\n" for each in modules)
    return _run("run_modules.py", *blocks, given=given)


def _run(program: str, *arguments: str, given: str = "") -> list[dict[str, Any]]:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(_ROOT / "tests" / "fixtures" / program), *arguments],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]
