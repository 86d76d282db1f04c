from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from handmade_trace import Traced, TraceWriter, training_step

from perfcli.errors import PerfcliError
from perfcli.importing import opening
from perfcli.importing.traces import events
from perfcli.importing.traces.chrome import read_chrome_trace
from perfcli.importing.traces.recording import Recording

STEP = training_step()


def write(folder: Path, text: str | bytes, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def count_by_name(found: Recording) -> dict[str, int]:
    counts: dict[str, int] = {}
    for number in found.works.name:
        counts[found.names.values[number]] = counts.get(found.names.values[number], 0) + 1
    return counts


def test_every_kernel_of_a_trace_is_read(tmp_path: Path) -> None:
    found = read_chrome_trace(TraceWriter(STEP, steps=3).write(tmp_path / "a.json"))
    assert count_by_name(found) == {each.name: 3 for each in STEP}
    assert len(found.launches.launch) == 3 * len(STEP)
    assert found.device == "NVIDIA H200"
    assert found.notes == []


@pytest.mark.parametrize("piece", [200, 777, 4096, 1 << 20])
def test_pieces_of_any_size_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    path = TraceWriter(STEP, steps=4).write(tmp_path / "a.json")
    whole = read_chrome_trace(path)
    monkeypatch.setattr(events, "_PIECE", piece)
    again = read_chrome_trace(path)
    assert list(again.works.seconds) == list(whole.works.seconds)
    assert again.events == whole.events == len(list(TraceWriter(STEP, steps=4).events()))


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
def test_layout_does_not_matter(tmp_path: Path, indent: int | None) -> None:
    writer = TraceWriter(STEP, steps=2)
    document = {**writer.head(), "traceEvents": list(writer.events()), "traceName": "x"}
    path = write(tmp_path, json.dumps(document, indent=indent))
    assert count_by_name(read_chrome_trace(path)) == {each.name: 2 for each in STEP}


def test_a_bare_list_of_events_may_lack_its_end(tmp_path: Path) -> None:
    listed = json.dumps(list(TraceWriter(STEP, steps=2).events()))
    for text in (listed, listed.removesuffix("]"), listed.removesuffix("]") + ","):
        found = read_chrome_trace(write(tmp_path, text))
        assert count_by_name(found) == {each.name: 2 for each in STEP}
        assert found.notes == []


@pytest.mark.parametrize("name", ["a.json.gz", "a.json"])
def test_a_file_is_compressed_or_not_whatever_its_name(tmp_path: Path, name: str) -> None:
    text = TraceWriter(STEP, steps=2).text().encode()
    for data in (text, gzip.compress(text)):
        found = read_chrome_trace(write(tmp_path, data, name))
        assert count_by_name(found) == {each.name: 2 for each in STEP}


# --- what is broken ---------------------------------------------------------------------------


def test_a_trace_that_is_cut_off_gives_what_is_left(tmp_path: Path) -> None:
    text = TraceWriter(STEP, steps=10).text()
    for data in (text[: len(text) // 2].encode(), gzip.compress(text.encode())[:-1000]):
        found = read_chrome_trace(write(tmp_path, data))
        assert 20 < len(found.works.start) < 10 * len(STEP)
        assert [note for note in found.notes if "cut off after" in note]


def test_a_trace_that_is_cut_off_before_its_first_kernel(tmp_path: Path) -> None:
    path = write(tmp_path, TraceWriter(STEP).text()[:900])
    with pytest.raises(PerfcliError, match="cut off after 3 events, before the first kernel"):
        read_chrome_trace(path)


def test_numbers_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"ph": "X", "cat": "kernel", "name": "nan", "ts": 1.0, "dur": float("nan")},
        {"ph": "X", "cat": "kernel", "name": "negative", "ts": 1.0, "dur": -4},
        {"ph": "X", "cat": "kernel", "name": "endless", "ts": 1.0, "dur": float("inf")},
        {"ph": "X", "cat": "kernel", "name": "nowhen", "ts": None, "dur": 3},
    ]
    found = read_chrome_trace(TraceWriter(STEP, extra=wrong).write(tmp_path / "a.json"))
    assert count_by_name(found) == {each.name: 5 for each in STEP}
    assert found.notes == ["4 events left out: no or an impossible time"]


def test_what_is_no_json_costs_its_event_alone(tmp_path: Path) -> None:
    lines = TraceWriter(STEP, steps=2).text().split("\n")
    place = next(n for n, line in enumerate(lines) if "triton_red_fused_sum_4" in line)
    lines[place] = lines[place].replace('"name": "', '"name": "a "quoted" ')
    found = read_chrome_trace(write(tmp_path, "\n".join(lines)))
    assert count_by_name(found) == {
        each.name: 2 - (each.name == "triton_red_fused_sum_4") for each in STEP
    }
    assert found.notes == ["1 event left out: unreadable"]


@pytest.mark.parametrize(
    "given", [{"a": [[[]]] * 3}, {"x": "y" * 3_000_000}, {"corr": 1e400}, {"z": [{"ph": "X"}] * 99}]
)
def test_huge_and_odd_arguments_do_no_harm(tmp_path: Path, given: dict[str, Any]) -> None:
    odd = {"ph": "X", "cat": "cpu_op", "name": "odd", "ts": 1.0, "dur": 1.0, "args": given}
    found = read_chrome_trace(TraceWriter(STEP, extra=[odd, odd]).write(tmp_path / "a.json"))
    assert count_by_name(found) == {each.name: 5 for each in STEP}
    assert found.notes == []


@pytest.mark.parametrize(
    "given",
    [
        {"grid": [1, 2], "block": "x", "registers per thread": -7, "correlation": 2**70},
        {"grid": [-1, 2, 3], "device": -2, "shared memory": 1e300},
        {"grid": [[1], 2, 3], "correlation": "12", "device": "x"},
        {},
    ],
)
def test_odd_arguments_of_a_kernel_are_left_out(tmp_path: Path, given: dict[str, Any]) -> None:
    odd = {"ph": "X", "cat": "kernel", "name": "odd", "ts": 1.0, "dur": 1.0, "args": given}
    found = read_chrome_trace(TraceWriter([], steps=0, extra=[odd]).write(tmp_path / "a.json"))
    assert found.shapes.values[found.works.shape[0]] == (None, None, (), ())
    assert found.works.device[0] == 0


def test_arguments_that_are_nested_too_deeply_cost_their_event(tmp_path: Path) -> None:
    deep = f'{{"ph": "X", "cat": "cpu_op", "name": "deep", "args": {"[" * 9999}{"]" * 9999}}}'
    first, mark, rest = TraceWriter(STEP).text().partition('"traceEvents": [\n')
    found = read_chrome_trace(write(tmp_path, f"{first}{mark}{deep},\n{rest}"))
    assert count_by_name(found) == {each.name: 5 for each in STEP}
    assert found.notes == ["1 event left out: unreadable"]


def test_raw_control_characters_and_wrong_types_are_read(tmp_path: Path) -> None:
    text = TraceWriter([Traced("plain", 4.0)], steps=2, noise=0).text()
    text = text.replace('"dur": 4.0', '"dur": "4.5", "x": 4').replace("plain", "con\ttrol\x1b[31m")
    found = read_chrome_trace(write(tmp_path, text))
    assert found.names.values[found.works.name[0]] == "con\ttrol\x1b[31m"
    assert list(found.works.seconds) == pytest.approx([4.5e-6] * 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        ('{"a": 1}', "no traceEvents"),
        ("[[1, 2], [3]]", "something else than events"),
        ('{"traceEvents": []}', "a trace without events"),
        ('{"traceEvents": [7]}', "something else than events"),
    ],
)
def test_what_is_no_trace_is_said_so(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(PerfcliError, match=expected):
        read_chrome_trace(write(tmp_path, text))


def test_a_trace_of_the_cpu_alone(tmp_path: Path) -> None:
    text = TraceWriter(STEP).text().replace('"kernel"', '"other"').replace("gpu_memcpy", "other")
    with pytest.raises(PerfcliError, match="though the host launched 60"):
        read_chrome_trace(write(tmp_path, text))
    with pytest.raises(
        PerfcliError, match=r"no kernel of a GPU among its .* ProfilerActivity.CUDA"
    ):
        read_chrome_trace(write(tmp_path, text.replace("cuda_driver", "other")))


def test_a_gzip_bomb_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_HARMLESS_BYTES", 4 << 20)
    spaces = gzip.compress(b" " * (1 << 20))
    path = write(tmp_path, gzip.compress(b'{"traceEvents": [') + spaces * 40)
    with pytest.raises(PerfcliError, match="unpacks to more than 300 times its size"):
        read_chrome_trace(path)
