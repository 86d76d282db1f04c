"""Kernels that Inductor generates, run in Triton's interpreter against float64, without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warm import WarmProcess, make_request

from perfcli.machine.environment import cache_dir

_ROOT = Path(__file__).parents[1]
_FIXTURES = _ROOT / "tests" / "fixtures"


def generate(process: WarmProcess, asked: Sequence[str]) -> list[dict[str, Any]]:
    """What is generated for cases of ``fixtures/reduction_cases.py``, with options:
    ``softmax,patch.loop_peeling=true``."""
    request = make_request(cache_dir())
    found = []
    for each in asked:
        name, *settings = each.split(",")
        options = {key: json.loads(value) for key, value in (s.split("=") for s in settings)}
        found.append(process.call(request, _FIXTURES / "generated_modules.py", name, options))
    return found


def interpret(modules: Sequence[dict[str, Any]], blocks: Sequence[str]) -> list[dict[str, Any]]:
    """The errors of each output, relative to what is allowed, in each of these launch
    configurations: ``XBLOCK=2,R0_BLOCK=512``."""
    given = "".join(f"{json.dumps(each)}\n" for each in modules)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(_FIXTURES / "run_modules.py"), *blocks],
        input=given,
        capture_output=True,
        text=True,
        # Threads wait for each other longer than such tensors take.
        env={**os.environ, "PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]
