from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from handmade import rewrite

from perfcli.blobs import blob_id, pack
from perfcli.storing import store

MAX_READS = "triton.mix_order_reduction_max_reads"
FUSED = "triton_red_fused_add_mul_rms_norm_sum_0"


@pytest.fixture
def run(perfcli: Any) -> str:
    """The id of a stored run with a spilling kernel, number 3."""
    assert perfcli("run", "gqa-transformer", "-p", "layers=3", "-o", f"{MAX_READS}=1000").code == 0
    (stored,) = store.runs()
    return stored.header.id


def test_a_kernel_by_number_name_part_and_pattern(perfcli: Any, run: str) -> None:
    views = [
        perfcli("inspect-kernel", run, wanted)
        for wanted in ("3", FUSED, "norm_SUM", "triton_red_*_sum_0")
    ]
    assert {view.code for view in views} == {0}
    assert len({view.out for view in views}) == 1
    assert views[0].out.startswith(f"3  {FUSED}\n")


def test_the_view_has_facts_origins_candidates_and_source(perfcli: Any, run: str) -> None:
    out = perfcli("inspect-kernel", run, "3").out
    assert "spilled words  46 (184 B stack), 46 STL, 46 LDL, 46 in loops" in out
    assert "occupancy      12.5 % (registers)" in out
    assert "by width       LDG 17 × 128 bit; STG 5 × 128 bit" in out
    assert "model.py:20  x = mul(x)\n    aten.mul.Tensor 48×2048×512  in blocks.0\n" in out
    assert "▸1" in out
    (spilling,) = [line for line in out.splitlines() if "!" in line]
    assert spilling.split() == ["1", "46", "!", "3", "tmp0", "=", "tl.load(in_ptr0", "+", "x0)"]


def test_another_candidate(perfcli: Any, run: str) -> None:
    out = perfcli("inspect-kernel", run, "3", "--candidate", "0").out
    assert "spilled words  92" in out
    assert "▸0" in out


@pytest.mark.parametrize("form", ["source", "ttgir", "ptx", "sass"])
def test_one_text_alone(perfcli: Any, run: str, form: str) -> None:
    out = perfcli("inspect-kernel", run, "3", f"--{form}").out
    expected = "@triton.jit\ndef" if form == "source" else f"// {form} of {FUSED}, 8 warps\n"
    assert out.startswith(expected)
    (path,) = [stored.path for stored in store.runs()]
    facts = store.read(path).kernels[3]
    blob = facts.source if form == "source" else getattr(facts.best, form)
    assert out == store.read_blob(path, blob)


def test_a_texts_candidate(perfcli: Any, run: str) -> None:
    assert "4 warps" in perfcli("inspect-kernel", run, "3", "--ptx", "--candidate", "0").out


def test_without_a_kernel_it_lists_them(perfcli: Any, run: str) -> None:
    out = perfcli("inspect-kernel", run).out
    assert len([line for line in out.splitlines() if "triton_" in line]) == 13
    assert "   3  triton_red_fuse" in out
    assert "forward 0\n" in out


def test_a_scenario_is_compiled_first(perfcli: Any) -> None:
    result = perfcli("inspect-kernel", "rmsnorm", "0")
    assert result.code == 0
    assert len(store.runs()) == 1


def test_json(perfcli: Any, run: str) -> None:
    perfcli("inspect-kernel", run, "3", "--json", "k.json")
    document = json.loads(Path("k.json").read_text())
    assert document["kernel"]["name"] == FUSED
    everything = json.loads(perfcli("inspect-kernel", run, "--json", "-").out)
    assert len(everything["kernels"]) == 13


def test_a_store_that_cannot_be_written_still_shows_the_source(perfcli: Any) -> None:
    Path(".perfcli").write_text("")
    result = perfcli("inspect-kernel", "rmsnorm", "0")
    assert "tl.load(in_ptr0" in result.out
    assert "ptx of" in perfcli("inspect-kernel", "rmsnorm", "0", "--ptx").out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["99"], "no kernel 99: the run has 13, numbered from 0"),
        (["triton_red_fused_add_mul_rms_norm_sum_9"], "did you mean"),
        (["leaky"], "3 kernels match 'leaky': give a number"),
        (["3", "--ptx", "--sass"], "one text at a time"),
        (["3", "--candidate", "7"], "2 candidates, numbered from 0"),
        (["3", "--candidate", "x"], "--candidate"),
    ],
)
def test_bad_input(perfcli: Any, run: str, argv: list[str], says: str) -> None:
    result = perfcli("inspect-kernel", run, *argv)
    assert result.code == 2
    assert says in result.err
    assert result.out == ""


def test_several_matches_are_listed_with_their_numbers(perfcli: Any, run: str) -> None:
    err = perfcli("inspect-kernel", run, "leaky").err
    assert "    4  backward 0   triton_poi_fused_leaky_relu_0" in err


@pytest.mark.parametrize("reference", ["2611", "nowhere.json", "no-such-scenario"])
def test_no_such_run(perfcli: Any, reference: str) -> None:
    result = perfcli("inspect-kernel", reference)
    assert result.code == 2
    assert reference in result.complaint


def test_a_text_that_was_not_stored(perfcli: Any, run: str) -> None:
    (path,) = [stored.path for stored in store.runs()]
    document = json.loads(path.read_text())
    document["blobs"] = {}
    path.write_text(json.dumps(document))
    assert "does not hold the text" in perfcli("inspect-kernel", run, "3", "--ptx").complaint
    assert perfcli("inspect-kernel", run, "3").code == 0


def test_a_cpu_kernel_has_no_ptx(perfcli: Any) -> None:
    result = perfcli("inspect-kernel", "rmsnorm", "0", "--ptx", "--device", "cpu")
    assert result.code == 2
    assert "has no ptx" in result.complaint


def test_escape_sequences_of_a_file_do_not_reach_the_terminal(perfcli: Any, run: str) -> None:
    """Nor a pipe, which may end there: ``perfcli inspect-kernel … --source | less -R``."""
    (path,) = [stored.path for stored in store.runs()]
    document = json.loads(path.read_text())
    text = "x = 1\n\x1b]0;title\x07\x1b[2J\u202e\tend\n"
    for kernel in document["run"]["kernels"]:
        kernel["source"] = blob_id(text)
    document["blobs"] = {blob_id(text): pack(text)}
    rewrite(path, document)
    result = perfcli("inspect-kernel", run, "3", "--source")
    assert result.out == "x = 1\n�]0;title��[2J�\tend\n"
