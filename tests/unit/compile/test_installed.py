"""Patches of this process: installed, counted, told, and undone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from perfcli.compile.patches import installed
from perfcli.compile.patches.patching import Patching
from perfcli.errors import CompileFailed
from perfcli.model import OptionValue
from perfcli.options.patches import PATCHES, Patch

pytest.importorskip("torch")
NAME = "triton.mix_order_reduction_max_reads"
CHUNKS = "patch.chunks"


@pytest.fixture
def torch() -> SimpleNamespace:
    """A piece of torch, as far as patches see it."""

    def lower(x: int) -> int:
        return x

    return SimpleNamespace(__name__="lowering", lower=lower, table={"softmax": "torch's"})


@pytest.fixture
def chunks(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patch]:
    """A patch of it, for every release, that is undone whatever the test does."""
    patch = replace(
        PATCHES[NAME],
        name=CHUNKS,
        type="int",
        first=(2, 0),
        last=(9, 0),
        needs=(),
        verb="split",
        unit="row",
        counter=CHUNKS,
    )

    def apply(patching: Patching, value: int) -> None:
        original = patching.find(torch, "lower", "x")
        table = patching.find(torch, "table")

        def lower(x: int) -> int:
            patching.count()
            return int(original(x)) * value

        patching.replace(torch, "lower", lower)
        patching.put(table, "softmax", "ours")
        patching.find(torch, "asked") if value == 13 else None

    module = ModuleType("chunks")
    module.__dict__["apply"] = apply
    monkeypatch.setitem(PATCHES, CHUNKS, patch)
    monkeypatch.setitem(installed._FILES, CHUNKS, "chunks")
    monkeypatch.setattr(installed, "import_module", lambda name: module)
    monkeypatch.setattr(installed, "_active", {})
    yield patch


def test_it_acts_is_counted_and_is_undone(torch: Any, chunks: Patch) -> None:
    before = (torch.lower, dict(torch.table))
    undo = installed.install(CHUNKS, 3)
    assert installed.settings() == {CHUNKS: 3}
    assert installed.counters() == {}
    assert installed.notes() == ("patched: patch.chunks=3 acted nowhere",)
    assert [torch.lower(2), torch.lower(5)] == [6, 15]
    assert torch.table == {"softmax": "ours"}
    assert installed.counters() == {CHUNKS: 2}
    assert installed.notes() == ("patched: patch.chunks=3 split 2 rows",)
    installed.reset_counters()
    assert installed.counters() == {}
    undo()
    assert (torch.lower, torch.table) == before
    assert (installed.settings(), installed.notes()) == ({}, ())


def test_what_it_did_not_understand_is_told(torch: Any, chunks: Patch) -> None:
    undo = installed.install(CHUNKS, 3)
    (_, patching) = installed._active[CHUNKS]
    patching.leave()
    torch.lower(2)
    assert installed.notes() == (
        "patched: patch.chunks=3 split 1 row and left 1 row as torch has it",
    )
    installed.reset_counters()
    assert installed.notes() == ("patched: patch.chunks=3 acted nowhere",)
    undo()


def test_a_value_that_switches_it_off_changes_nothing(torch: Any, chunks: Patch) -> None:
    installed.install(CHUNKS, 0)
    assert torch.lower(2) == 2
    assert (installed.settings(), installed.notes()) == ({}, ())


@pytest.mark.parametrize("value", [True, "10", 1.5, None, -1])
def test_a_value_that_it_does_not_take_is_refused(chunks: Patch, value: OptionValue) -> None:
    with pytest.raises(CompileFailed, match=r"^patch.chunks needs a whole number from 0 up, got "):
        installed.install(CHUNKS, value)


def test_a_missing_piece_is_named_and_what_was_done_is_undone(torch: Any, chunks: Patch) -> None:
    with pytest.raises(
        CompileFailed,
        match=r"has no lowering.asked, which patch.chunks is built on "
        r"\(perfcli's patch is for torch 2.0 to 9.0\)",
    ):
        installed.install(CHUNKS, 13)
    assert (torch.lower(2), torch.table) == (2, {"softmax": "torch's"})
    assert installed.settings() == {}


def test_other_parameters_are_a_missing_piece(torch: Any, chunks: Patch) -> None:
    torch.lower = lambda x, y: x
    with pytest.raises(CompileFailed, match=r"has no lowering.lower\(x\), which"):
        installed.install(CHUNKS, 3)


def test_a_torch_that_it_does_not_fit_is_refused(
    torch: Any, chunks: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(chunks, first=(2, 0), last=(2, 1), in_later=True)
    monkeypatch.setitem(PATCHES, CHUNKS, old)
    with pytest.raises(
        CompileFailed,
        match=r"^patch.chunks: perfcli's patch is for torch 2.0 to 2.1, and .* has it already",
    ):
        installed.install(CHUNKS, 3)
    assert torch.lower(2) == 2


def test_it_is_not_installed_twice(chunks: Patch) -> None:
    undo = installed.install(CHUNKS, 3)
    with pytest.raises(CompileFailed, match=r"patch.chunks is 3 in this process already"):
        installed.install(CHUNKS, 4)
    undo()


def test_there_is_no_such_patch() -> None:
    with pytest.raises(
        CompileFailed, match=r"there is no patch patch.wishful: there are triton.mix"
    ):
        installed.install("patch.wishful", True)


def test_every_patch_has_its_file() -> None:
    assert installed._FILES.keys() == PATCHES.keys()
