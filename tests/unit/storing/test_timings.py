"""A measurement's file: all that was finished comes back, whatever ended the process."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import handmade_record
import msgspec
import pytest
from handmade_record import measured, measurement

from perfcli.errors import PerfcliError
from perfcli.model import StartPhase, Turn
from perfcli.storing import timings


def begun(folder: Path, rounds: int) -> timings.Recorder:
    given = measurement()
    recorder = timings.Recorder(given, folder)
    recorder.prepared(given.prepared[0])
    for number in range(rounds):
        recorder.round(measured(number), 0.1)
    return recorder


def test_a_measurement_comes_back_equal_to_the_last_bit(tmp_path: Path) -> None:
    given = measurement()
    assert timings.read(timings.write(given, tmp_path)) == given


def test_each_line_is_plain_json(tmp_path: Path) -> None:
    lines = timings.write(measurement(), tmp_path).read_text().splitlines()
    kinds = [next(iter(json.loads(line))) for line in lines]
    assert kinds == ["perfcli", "prepared", "prepared", "round", "round", "round", "end"]
    assert json.loads(lines[0])["format"] == timings.FORMAT


def test_every_round_is_in_the_file_before_the_next(tmp_path: Path) -> None:
    recorder = begun(tmp_path, 0)
    for number in range(3):
        recorder.round(measured(number))
        assert len(timings.read(recorder.path).rounds) == number + 1


def test_without_its_last_line_it_was_broken_off(tmp_path: Path) -> None:
    found = timings.read(begun(tmp_path, 2).path)
    assert (found.stopped, found.notes) == (timings.BROKEN_OFF, ())
    assert len(found.rounds) == 2


def test_what_ended_it_is_what_the_end_says(tmp_path: Path) -> None:
    recorder = begun(tmp_path, 1)
    recorder.end("interrupted", "alternating fresh processes", ("no room for both",))
    found = timings.read(recorder.path)
    assert found.stopped == "interrupted"
    assert found.method == "alternating fresh processes"
    assert found.notes == ("no room for both",)


def test_a_cut_at_any_byte_of_the_last_line_loses_that_line_alone(tmp_path: Path) -> None:
    path = timings.write(measurement(), tmp_path)
    text = path.read_bytes()
    start = text.rindex(b"\n", 0, -1) + 1
    for length in range(start, len(text)):
        path.write_bytes(text[:length])
        found = timings.read(path)
        assert found.rounds == measurement().rounds
        assert found.stopped == timings.BROKEN_OFF
        assert bool(found.notes) == (length > start)
    assert "cut" in found.notes[0]


def test_damage_in_the_middle_names_the_line(tmp_path: Path) -> None:
    path = timings.write(measurement(), tmp_path)
    lines = path.read_bytes().split(b"\n")
    for bad in (lines[3][:-4], b'{"round":{"number":"x"}}', b'{"surprise":1}', b"\xff", b""):
        path.write_bytes(b"\n".join([*lines[:3], bad, *lines[4:]]))
        with pytest.raises(PerfcliError, match=r"broken measurement: .* in line 4; measure again"):
            timings.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "nonsense\n",
        '{"perfcli":"run","format":1}\n',
        '{"perfcli":"measurement"}\n',
        '{"perfcli":"measurement","format":0}\n',
    ],
)
def test_other_files_are_no_measurements(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(PerfcliError, match="is not a measurement of perfcli"):
        timings.read(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = timings.write(measurement(), tmp_path)
    path.write_text(path.read_text().replace('"format":5', '"format":6'))
    with pytest.raises(PerfcliError, match="has format 6, this perfcli reads up to 5: upgrade"):
        timings.read(path)


def test_the_first_format_has_no_clock_of_the_device(tmp_path: Path) -> None:
    path = timings.write(measurement(), tmp_path)
    text = path.read_text().replace('"format":3', '"format":1')
    for later in ('"device_clock":"",', '"device_seconds":null,', '"no_graph":"",'):
        assert later in text
        text = text.replace(later, "")
    path.write_text(text)
    assert timings.read(path).prepared == measurement().prepared


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match="no such file"):
        timings.read(tmp_path / "none.jsonl")


def test_an_older_reader_passes_over_fields_that_came_later(tmp_path: Path) -> None:
    path = timings.write(measurement(), tmp_path)
    path.write_text(path.read_text().replace('{"number":0,', '{"number":0,"later":1,'))
    assert timings.read(path) == measurement()


def test_no_measurement_is_written_over(tmp_path: Path) -> None:
    timings.write(measurement(), tmp_path)
    with pytest.raises(PerfcliError, match="can't write"):
        timings.write(measurement(), tmp_path)


def test_nothing_measured_leaves_no_file(tmp_path: Path) -> None:
    recorder = begun(tmp_path, 0)
    recorder.close()
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_git_ignores_the_folder(tmp_path: Path) -> None:
    timings.write(measurement(), tmp_path / ".perfcli" / "timings")
    assert (tmp_path / ".perfcli" / ".gitignore").read_text() == "*\n"


def test_a_folder_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "timings").write_text("a file")
    with pytest.raises(PerfcliError, match="can't write"):
        timings.Recorder(measurement(), tmp_path / "timings")


def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    recorder = begun(tmp_path, 2)
    size = recorder.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
        recorder.round(measured(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    recorder.round(measured(3))
    recorder.end("budget spent")
    assert recorder.failure.startswith("no space left to write")
    assert [r.number for r in timings.read(recorder.path).rounds] == [0, 1]


def test_a_killed_process_leaves_all_that_was_finished(tmp_path: Path) -> None:
    folders = [str(Path(file).parent) for file in (__file__, handmade_record.__file__)]
    code = textwrap.dedent(f"""
        import os, sys
        sys.path[:0] = {folders!r}
        from pathlib import Path
        from test_timings import begun
        begun(Path({str(tmp_path)!r}), 5)
        os.kill(os.getpid(), 9)
    """)
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    (path,) = tmp_path.iterdir()
    assert len(timings.read(path).rounds) == 5


def test_a_number_that_is_none_is_refused_on_reading(tmp_path: Path) -> None:
    given = measurement(rounds=1)
    broken = replace(given.rounds[0], head=Turn((float("nan"),)))
    path = timings.write(replace(given, rounds=(broken, given.rounds[0])), tmp_path)
    assert msgspec.json.decode(path.read_bytes().splitlines()[3])["round"]["head"]["seconds"] == [
        None
    ]
    with pytest.raises(PerfcliError, match="line 4"):
        timings.read(path)


def test_what_the_start_took_comes_back(tmp_path: Path) -> None:
    phases = (
        StartPhase("command", "compile", 0.5, 9.25, 0.125),
        StartPhase("base", "import", 0.75, 4.0, 3.5),
        StartPhase("base", "timing launch configurations", None, 1.5),
    )
    given = measurement(start=phases)
    assert timings.read(timings.write(given, tmp_path)) == given
    exchanged = timings._exchange(given)
    assert [phase.of for phase in exchanged.start] == ["command", "head", "head"]
