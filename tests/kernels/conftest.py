"""Kernels through Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess

Excesses = Mapping[Any, Mapping[str, float]]


@pytest.fixture(scope="session")
def interpreted(
    once: Callable[..., Excesses], warm_process: WarmProcess
) -> Callable[[str, Sequence[Any]], Excesses]:
    """Of a family and its lines (see ``family_interpreted.py``): of each line and output the
    largest error over what is allowed."""
    program = Path(__file__).with_name("family_interpreted.py")

    def run(family: str, lines: Sequence[Any]) -> Excesses:
        return dict(zip(lines, warm_process.interpret(program, family, lines), strict=True))

    return lambda family, lines: once(f"{family} {lines}", lambda: run(family, lines))
