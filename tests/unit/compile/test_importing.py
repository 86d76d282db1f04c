"""Garbage is not looked for among what is imported."""

from __future__ import annotations

import gc

import pytest

from perfcli.compile.importing import without_collection


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
