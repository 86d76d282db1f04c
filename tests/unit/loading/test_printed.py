"""What a user's code printed before it failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perfcli.errors import UserCodeFailed
from perfcli.loading import registry, userfile
from perfcli.loading.printed import keep_output


def test_the_end_of_both_streams_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with keep_output() as printed:
        sys.stdout.write("first\n")
        sys.stderr.write("second\n")
        assert not sys.stdout.closed
    sys.stdout.write("after\n")
    assert printed.tell() == "\n\nit printed:\n  first\n  second"
    assert capsys.readouterr() == ("first\nafter\n", "second\n")


def test_nothing_printed_nothing_told() -> None:
    with keep_output() as printed:
        pass
    assert printed.tell() == ""


def test_only_the_last_lines_are_told() -> None:
    with keep_output() as printed:
        for number in range(100):
            sys.stdout.write(f"{number}\n")
    assert printed.tell().splitlines()[2:] == ["it printed:", *(f"  {n}" for n in range(80, 100))]


def test_what_is_printed_without_end_fills_neither_memory_nor_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfcli.loading.printed._MOST_LOGGED", 1000)
    with keep_output() as printed:
        sys.stdout.writelines(["a" * 900, "\n", "b" * 90000, "\nlast\n"])
        assert sys.getsizeof("".join(sys.stdout._parts)) < 10000  # type: ignore[union-attr]
    assert capsys.readouterr().out == "a" * 900 + "\n"
    *_, cut, last = printed.tell().splitlines()
    assert (cut, last) == (f"  {'b' * 400}…", "  last")


def test_a_failing_file_and_a_failing_builder_tell_what_they_printed(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("print('loading weights')\nraise OSError('none here')\n")
    with pytest.raises(UserCodeFailed) as raised:
        userfile.load_user_scenario(str(file))
    assert raised.value.detail.endswith("it printed:\n  loading weights")
    file.write_text(
        "import argparse\n"
        "def build():\n"
        "    argparse.ArgumentParser(prog='train').parse_args(['--steps'])\n"
        "    return abs, ()\n"
    )
    scenario = userfile.load_user_scenario(str(file))
    with pytest.raises(UserCodeFailed) as raised:
        registry.build(scenario, {})
    assert "unrecognized arguments: --steps" in raised.value.detail
