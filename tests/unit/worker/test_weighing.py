"""Work that can't be counted is left out; a fault of perfcli is not hidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import candidate, kernel

from perfcli.blobs import pack
from perfcli.facts.work import launch_work
from perfcli.facts.work.ttgir import UnreadableTtgir
from perfcli.worker.weighing import _add_work, _count

SOURCE = "@h.pointwise(inductor_meta={'grid_type': 'Grid1D'})\ndef k(): pass\n"


def count(source: str, ttgir: str) -> Any:
    made = replace(candidate(), ttgir="t", sass="s", config={"XBLOCK": 32})
    blobs = {"t": pack(ttgir), "s": pack("")}
    return _count(source, made, blobs, kernel("triton_x", sizes={"x": 64}))


@pytest.mark.parametrize("source", [SOURCE, "def k(:\n"], ids=["no TTGIR", "no Python"])
def test_text_that_is_not_understood_has_no_work(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERFCLI_DEBUG", raising=False)
    assert count(source, "module {}") is None


def test_what_was_not_understood_is_shown_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERFCLI_DEBUG", "1")
    with pytest.raises(UnreadableTtgir, match="no public function"):
        count(SOURCE, "module {}")


def test_a_fault_of_perfcli_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AttributeError("misspelled")

    monkeypatch.delenv("PERFCLI_DEBUG", raising=False)
    monkeypatch.setattr(launch_work, "work_of", fail)
    with pytest.raises(AttributeError, match="misspelled"):
        count(SOURCE, "module {\ntt.func public @k() {\n}\n}")


def test_strides_that_the_kernel_is_given_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """With dynamic sizes, ``ks0`` beside the numbers of elements."""
    given: dict[str, int] = {}

    def note(_: Any, __: Any, ___: str, ____: Any, arguments: dict[str, int], *rest: Any) -> None:
        given.update(arguments)
        raise ValueError

    monkeypatch.delenv("PERFCLI_DEBUG", raising=False)
    monkeypatch.setattr(launch_work, "work_of", note)
    made = replace(candidate(), ttgir="t", sass="s", config={"XBLOCK": 32})
    blobs = {"t": pack("module {\ntt.func public @k() {\n}\n}"), "s": pack("")}
    dynamic = kernel("triton_x", sizes={"x": 64}, scalars={"ks0": 50257})
    assert _count(SOURCE, made, blobs, dynamic) is None
    assert given == {"xnumel": 64, "ks0": 50257}


UNKNOWN = """#loc = loc("k.py":1:0)
#loc4 = loc("k.py":4:0)
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%in: !tt.ptr<f32>) attributes {noinline = false} {
    %i = tt.get_program_id x : i32
    BODY
    tt.return
  }
}
"""
FLOATING = """%f = arith.sitofp %i : i32 to f32
    %j = arith.fptosi %f : f32 to i32
    %p = tt.addptr %in, %j : !tt.ptr<f32>, i32
    %v = tt.load %p : !tt.ptr<f32> loc(#loc4)"""
TILE = "%v = tt.descriptor_load %in : f32 loc(#loc4)"


@pytest.mark.parametrize(
    ("body", "counted", "note"),
    [
        (FLOATING, True, "where it reads or writes can't be computed: line 4"),
        (
            TILE,
            False,
            "its work is not counted: what tt.descriptor_load in line 4 reads and writes is not "
            "known",
        ),
        ("%v = tt.load %in : !tt.ptr<f32> loc(#loc4)", True, ""),
    ],
)
def test_what_can_not_be_evaluated_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, counted: bool, note: str
) -> None:
    monkeypatch.delenv("PERFCLI_DEBUG", raising=False)
    made = replace(candidate(), ttgir="t", sass="s", config={"XBLOCK": 32})
    blobs = {"t": pack(UNKNOWN.replace("BODY", body)), "s": pack(""), "k": pack(SOURCE)}
    given = kernel("triton_x", sizes={"x": 64}, candidates=(made,))
    for _ in range(2):  # the second time from what was kept
        found = _add_work(replace(given, source="k"), blobs, tmp_path)
        assert (found.candidates[0].work is not None) is counted
        assert found.notes == ((note,) if note else ())
