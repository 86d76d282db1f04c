from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from pathlib import Path

import pytest
from handmade_trace import H200, TraceWriter, training_step

from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.importing import bringing
from perfcli.importing.bringing import (
    ImportOptions,
    bring_in_all,
    fingerprint,
    name_foreign,
)
from perfcli.model import Run

STEP = training_step()
QUIET = Notes(quiet=True)


def bring(*paths: Path, rank: int | None = None) -> Run:
    (bundle,) = bring_in_all([paths], ImportOptions(rank=rank), QUIET)
    return bundle.run


def write_ranks(folder: Path, ranks: list[int], world: int, named: bool = False) -> Path:
    for rank in ranks:
        writer = TraceWriter(STEP, seed=rank, rank=None if named else rank, world_size=world)
        writer.write(folder / f"rank-{rank}.json.gz")
    (folder / "README.txt").write_text("not a trace")
    return folder


# --- a run of a trace alone -----------------------------------------------------------------------


def test_a_trace_becomes_a_run(tmp_path: Path) -> None:
    run = bring(TraceWriter(STEP, noise=0).write(tmp_path / "new" / "a.json"))
    assert (run.scenario, run.mode, run.variant.name) == ("imported", "training", "new/a.json")
    assert run.target is not None
    assert run.target.name == "h200"
    assert [k.name for k in run.kernels] == [
        *(f"triton_poi_fused_add_{n}" for n in range(4)),
        "triton_red_fused_sum_4",
        "triton_red_fused_mul_sum_0",
        *(f"triton_poi_fused_mul_{n}" for n in range(1, 5)),
    ]
    sums = run.kernels[4]
    assert (sums.kind, sums.graph, sums.launches) == ("reduction", "forward 0", 1)
    assert sums.traced_seconds == pytest.approx(55e-6)
    assert sums.best is not None
    assert (sums.best.registers, sums.best.num_warps, sums.best.occupancy) == (64, 4, 0.5)
    assert {e.op: (e.count, round((e.traced_seconds or 0) * 1e6)) for e in run.externs} == {
        "aten.mm": (1, 200), "aten.fill_": (1, 3), "aten.copy_": (1, 6),
    }  # fmt: skip
    assert [launch.name for launch in run.launches][4:7] == [
        "triton_red_fused_sum_4", "aten.mm", "triton_red_fused_mul_sum_0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "count", "target"),
    [
        ("NVIDIA H200", 132, "h200"),
        ("NVIDIA H100 80GB HBM3", 132, "h100"),
        ("NVIDIA H100 PCIe", 114, None),
        ("AMD Instinct MI250X", 110, None),
    ],
)
def test_the_gpu_is_one_of_the_table_or_none(
    tmp_path: Path, name: str, count: int, target: str | None
) -> None:
    device = {**H200, "name": name, "numSms": count}
    run = bring(TraceWriter(STEP, device=device).write(tmp_path / "a.json"))
    assert (run.target and run.target.name) == target
    assert run.observed is not None
    assert run.observed.device == name


# --- what a path is -------------------------------------------------------------------------------


def test_what_is_imported_is_told_by_its_content(tmp_path: Path) -> None:
    trace = TraceWriter(STEP).write(tmp_path / "a.txt")
    text = tmp_path / "b.json"
    text.write_text('{"a": 1}')
    assert name_foreign(trace) == "a trace"
    assert not name_foreign(text)
    assert name_foreign(write_ranks(tmp_path / "ranks", [0], 1)) == "a folder of traces"
    assert not name_foreign(tmp_path / "none")


def test_archives_and_pickles_are_never_opened(tmp_path: Path) -> None:
    archive = tmp_path / "a.json"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("trace.json", " " * 50_000_000)
    with pytest.raises(PerfcliError, match="a zip archive: unpack it"):
        bring(archive)

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (pytest.fail, ("a pickle was loaded",))

    for data in (pickle.dumps(Bomb()), gzip.compress(pickle.dumps(Bomb(), 2))):
        snapshot = tmp_path / "snapshot.json"
        snapshot.write_bytes(data)
        with pytest.raises(PerfcliError, match="is a pickle, which could run any program"):
            bring(snapshot)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"perfcli":"run","format":1}', "is a run of perfcli already"),
        ("hello", "is none of the files that perfcli import reads: traces of torch.profiler"),
        ("", "is none of the files that perfcli import reads: traces of torch.profiler"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(PerfcliError, match=expected):
        bring(path)


def test_an_empty_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match="has nothing that perfcli import reads"):
        bring(tmp_path)
    with pytest.raises(PerfcliError, match="no such file or folder"):
        bring(tmp_path / "gone.json")


# --- several files --------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True])
def test_a_rank_that_is_missing_is_named(tmp_path: Path, named: bool) -> None:
    folder = write_ranks(tmp_path / "run", [0, 1, 2, 4, 5, 6, 7], 8, named)
    observed = bring(folder).observed
    assert observed is not None
    assert observed.rank == 0
    assert observed.notes == ("of 8 ranks, 3 is missing",)
    assert [rank.rank for rank in observed.ranks] == [0, 1, 2, 4, 5, 6, 7]


def test_a_rank_can_be_chosen(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", [0, 1], 2)
    chosen = bring(folder, rank=1).observed
    assert chosen is not None
    assert (chosen.rank, chosen.file) == (1, "rank-1.json.gz")
    with pytest.raises(PerfcliError, match="there is no trace of rank 5: 0, 1 are there"):
        bring(folder, rank=5)


def test_two_traces_of_one_rank_are_two_runs(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", [0, 1], 2)
    TraceWriter(STEP, rank=1, world_size=2).write(folder / "again.json")
    with pytest.raises(PerfcliError, match="are both of rank 1: import one run at a time"):
        bring(folder)


def test_traces_that_name_no_rank_are_not_taken_for_ranks(tmp_path: Path) -> None:
    paths = [TraceWriter(STEP).write(tmp_path / name) for name in ("before.json", "after.json")]
    with pytest.raises(PerfcliError, match=r"before\.json names no rank, .* perfcli compare A B"):
        bring(*paths)
    chosen = bring(*paths, rank=1).observed  # the user says that they are ranks
    assert chosen is not None
    assert (chosen.rank, chosen.file) == (1, "after.json")
    TraceWriter(STEP, rank=0).write(tmp_path / "before.json")
    with pytest.raises(PerfcliError, match=r"after\.json names no rank"):
        bring(*paths)


def test_a_snapshot_belongs_to_the_trace_beside_it(tmp_path: Path) -> None:
    TraceWriter(STEP).write(tmp_path / "a.json")
    segment = {"device": 0, "blocks": [{"size": 5_000_000, "state": "active_allocated"}]}
    (tmp_path / "memory.json").write_text(json.dumps({"segments": [segment], "device_traces": []}))
    observed = bring(tmp_path).observed
    assert observed is not None
    assert observed.peak_memory_bytes == 5_000_000
    assert len(observed.steps) == 5


def test_several_processes_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [TraceWriter(STEP, seed=n).write(tmp_path / f"{n}.json") for n in range(2)]
    alone = [bring(path) for path in paths]
    monkeypatch.setattr(bringing, "_WORTH_A_PROCESS", 0)
    together = bring_in_all([[path] for path in paths], ImportOptions(), QUIET)
    assert [bundle.run for bundle in together] == alone


def test_an_error_of_a_process_is_the_same_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = TraceWriter(STEP).write(tmp_path / "a.json")
    bad = tmp_path / "b.json"
    bad.write_text('{"traceEvents": []}')
    monkeypatch.setattr(bringing, "_WORTH_A_PROCESS", 0)
    with pytest.raises(PerfcliError, match=r"b\.json is a trace without events"):
        bring_in_all([[good], [bad]], ImportOptions(), QUIET)


def test_what_changed_is_imported_again(tmp_path: Path) -> None:
    path = TraceWriter(STEP).write(tmp_path / "a.json")
    before = fingerprint([path], ImportOptions())
    assert fingerprint([path], ImportOptions()) == before
    assert fingerprint([path], ImportOptions(rank=1)) != before
    TraceWriter(STEP, steps=6).write(path)
    assert fingerprint([path], ImportOptions()) != before
