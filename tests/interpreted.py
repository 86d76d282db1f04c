"""Kernels that Inductor generates, run in Triton's interpreter against float64, without a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warm import WarmProcess, make_request

from perfcli.machine.environment import cache_dir

_FIXTURES = Path(__file__).parent / "fixtures"


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


def interpret(
    process: WarmProcess, modules: Sequence[dict[str, Any]], blocks: Sequence[str]
) -> list[dict[str, Any]]:
    """The errors of each output, relative to what is allowed, in each of these launch
    configurations: ``XBLOCK=2,R0_BLOCK=512``."""
    found: list[dict[str, Any]] = process.interpret(_FIXTURES / "run_modules.py", modules, blocks)
    return found
