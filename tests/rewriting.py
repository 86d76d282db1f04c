"""Rewrites the asserts of all test files before the workers of a run collect them: in a checkout
that has none rewritten, each worker would do so with all of them, which takes longer than all else
that it does until the first test."""

from __future__ import annotations

import contextlib
import os
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest


def rewrite_asserts(config: pytest.Config, processes: int) -> None:
    """Write the bytecode that pytest looks for, of the files that this run was asked for. What is
    missing, or what another pytest does in another way, each worker writes as ever."""
    if sys.dont_write_bytecode:
        return
    asked = [Path(each.partition("::")[0]) for each in config.args]
    found = chain.from_iterable([each] if each.is_file() else each.rglob("*.py") for each in asked)
    files = sorted(each for each in found if each.name.startswith(("test_", "conftest")))
    # Forked, so that nothing is imported again.
    children = [_fork_for(config, files[n::processes]) for n in range(processes)]
    for child in children:
        os.waitpid(child, 0)


def _fork_for(config: Any, files: list[Path]) -> int:
    if child := os.fork():
        return child
    try:
        with contextlib.suppress(Exception):
            for file in files:
                _rewrite(config, file)
    finally:
        os._exit(0)


def _rewrite(config: Any, file: Path) -> None:
    from _pytest.assertion import rewrite

    folder = rewrite.get_cache_dir(file)
    kept = folder / f"{file.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(file, kept) is None:
        version, code = rewrite._rewrite_test(file, config)
        folder.mkdir(parents=True, exist_ok=True)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, version, kept)
