"""Files of options: what is written is read back, and what is wrong is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.model import OptionValue
from perfcli.options import files


def read(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "options.toml"
    path.write_text(text)
    return files.read_file(path)


def test_tables_and_dotted_names_are_the_same(tmp_path: Path) -> None:
    text = '"triton.w" = [1]\nFLAG = "0"\n[triton]\nx = 1\n[triton.y]\nz = true\n'
    assert read(tmp_path, text) == ["triton.w=[1]", "FLAG=0", "triton.x=1", "triton.y.z=true"]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    options: dict[str, OptionValue] = {
        "online_softmax": False,
        "triton.max_tiles": 2,
        "min_overlap_ratio": 0.5,
        "memory_pool": 'a "b" \\ \x7f\n',
        "realize_acc_reads_size_threshold": None,
        "FLAG": "1",
    }
    text = files.write_options(options, {"scenario": "x", "time_ratio": [0.9, 0.8, 1.0]})
    assert read(tmp_path, text) == [
        "online_softmax=false",
        "triton.max_tiles=2",
        "min_overlap_ratio=0.5",
        'memory_pool=a "b" \\ \x7f\n',
        "realize_acc_reads_size_threshold=none",
        "FLAG=1",
    ]


def test_nothing_found_sets_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, files.write_options({}, {"scenario": "x"})) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not TOML"),
        ("day = 2026-01-01", "day is no value that an option can have"),
        ("[options]\nx = 1\n[other]\ny = 2\n", r"other stands outside of \[options\]: put it"),
        ("options = 3", "options is a table of options, not 3"),
        ("\0", "is not TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PerfcliError, match=message):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match=r"can't read .*nosuch.toml: No such file"):
        files.read_file(tmp_path / "nosuch.toml")


def test_a_file_is_told_from_an_option(tmp_path: Path) -> None:
    path = tmp_path / "a=b.toml"
    path.touch()
    names = ("tuned.toml", "OPT=x.toml", "tuned.json", str(path))
    assert [files.is_file(name) for name in names] == [True, False, False, True]
