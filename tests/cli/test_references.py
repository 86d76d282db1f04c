"""What a user names: a stored run, a scenario, a file that is not there; and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perfcli.cli import COMMANDS
from perfcli.storing import store


def test_a_run_file_that_is_not_there(perfcli: Any) -> None:
    perfcli("run", "softmax")
    (run,) = (stored.header.id for stored in store.runs())
    result = perfcli("compare", run, "bad/nope.json")
    assert (result.code, result.complaint) == (
        2,
        "perfcli: no stored run 'bad/nope.json': there is no such file",
    )


def test_one_stored_run_is_no_comparison(perfcli: Any) -> None:
    perfcli("run", "softmax")
    (run,) = (stored.header.id for stored in store.runs())
    for command in ("compare", "run"):
        result = perfcli(command, run)
        assert result.code == 2
        assert f"{run} is a stored run, not a scenario" in result.complaint


def test_a_model_file_that_is_not_there(perfcli: Any) -> None:
    result = perfcli("run", "nope.py:model")
    assert result.code == 2
    assert "there is no file nope.py" in result.complaint


def test_a_device_is_no_model_file(perfcli: Any) -> None:
    result = perfcli("explain", "/dev/null")
    assert result.code == 2
    assert "/dev/null is not a regular file: expected path/to/file.py" in result.complaint


def test_what_cannot_be_allowed_is_said_before_compiling(perfcli: Any) -> None:
    result = perfcli("compare", "softmax", "--toggle", "online_softmax", "--allow", "foo")
    assert result.code == 2
    assert "can't allow 'foo'" in result.complaint
    assert store.runs() == []


def test_what_was_allowed_is_not_hidden(perfcli: Any) -> None:
    perfcli("run", "softmax", "--target", "b200")
    perfcli("run", "softmax", "--target", "l40s")
    base, head = (stored.header.id for stored in store.runs())
    result = perfcli("compare", base, head, "--allow", "target")
    assert re.search(r"target b200 .* → l40s", result.out.replace("\n", " "))


def test_options_for_compiling_do_not_go_with_a_stored_run(perfcli: Any) -> None:
    perfcli("run", "softmax")
    (run,) = (stored.header.id for stored in store.runs())
    result = perfcli("inspect-kernel", run, "0", "--target", "a100")
    assert result.code == 2
    assert "leave out the options for compiling" in result.complaint


def test_a_damaged_text_is_said(perfcli: Any) -> None:
    perfcli("run", "softmax")
    (stored,) = store.runs()
    text = stored.path.read_text()
    name = store.read(stored.path).kernels[0].source
    stored.path.write_text(re.sub(rf'("{name}":")[^"]{{8}}', r"\1AAAAAAAA", text))
    result = perfcli("inspect-kernel", stored.header.id, "0")
    assert result.code == 0
    assert "the source is not shown" in result.err
    assert "damaged" in result.err


@pytest.mark.parametrize("command", ["explain", "inspect-kernel"])
def test_what_is_neither_scenario_nor_run(perfcli: Any, command: str) -> None:
    unknown = perfcli(command, "nosuchrun")
    assert unknown.code == 2
    assert unknown.complaint == (
        "perfcli: no scenario and no stored run 'nosuchrun': known: accumulate, column-sum, "
        "cross-entropy, gqa-transformer, layernorm, mix-order, rmsnorm, softmax; "
        "perfcli runs lists the runs"
    )
    typo = perfcli(command, "sofmax")
    assert (
        "stored run 'sofmax': did you mean softmax? perfcli runs lists the runs" in typo.complaint
    )
    Path("mine.py").touch()
    assert "did you mean the file mine.py?" in perfcli(command, "mine").complaint


def test_the_list_of_commands_is_not_cut_off(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = perfcli("--help").out.splitlines()
    for lines in COMMANDS.values():
        for name, line in lines.items():
            assert [shown for shown in listed if shown.split() == [name, *line.split()]], name
    assert max(map(len, listed)) <= 80


def test_modules_in_quotes_are_two_sides(perfcli: Any) -> None:
    Path("pkg").mkdir()
    Path("pkg/fit.py").write_text("if __name__ == '__main__':\n    import torch\n")
    # Neither p nor j nor q in it is an option.
    result = perfcli("compare", "-m pkg.fit 3 qj", "-m pkg.fit 4 qj", "--no-time")
    assert (result.code, "-m pkg.fit 3 qj → -m pkg.fit 4 qj" in result.out) == (0, True)
    result = perfcli("bisect-config", "-m pkg.fit 3", "-m", "loads", "--bad", "max_fusion_size=1")
    assert "-m pkg.fit 3 · h100" in result.out


def test_an_option_that_looks_misspelt_is_noted(perfcli: Any) -> None:
    Path("train.py").write_text("if __name__ == '__main__':\n    import torch\n")
    words = ("--targe", "h200", "--timout=20", "--n-steps", "3", "--lr", "1")
    result = perfcli("run", "train.py", *words)
    assert result.code == 0
    notes = [line for line in result.err.splitlines() if "did you mean" in line]
    assert notes == [
        "note: --targe goes to the script; did you mean --target?",
        "note: --timout goes to the script; did you mean --timeout?",
    ]
    # Behind -- they are the script's for certain.
    assert "did you mean" not in perfcli("run", "train.py", "--", *words).err


def test_the_number_of_ranks_is_in_titles_and_listings(perfcli: Any) -> None:
    Path("train.py").write_text("if __name__ == '__main__':\n    import torch\n")
    assert (
        "train.py · training · h100 · world 8\n" in perfcli("run", "train.py", "--world", "8").out
    )
    perfcli("run", "train.py", "-o", "max_fusion_size=2")
    listed = perfcli("runs").out.splitlines()
    assert [line.strip() for line in listed if line.startswith(" ")] == [
        "world 8 · training · default",
        "training · max_fusion_size=2",
    ]
    first, second = (stored.header.id for stored in store.runs())
    compared = perfcli("compare", first, second, "--no-time").out
    assert "h100 · world 8 → none" in compared


def test_each_side_says_the_parameters_that_it_alone_has(perfcli: Any) -> None:
    sides = ("--a-param", "layers=1", "--b-param", "layers=2")
    found = perfcli("compare", "gqa-transformer", *sides, "--no-time").out
    lines = {line.split("  ")[0]: line for line in reversed(found.splitlines())}
    assert "layers=1 · default · torch" in " ".join(lines["base"].split())
    assert "layers=2 · default · torch" in " ".join(lines["head"].split())
    assert "batch=" not in lines["base"]
    result = perfcli("compare", "gqa-transformer", "-a:layers=1", "-b", "max_fusion_size=1")
    assert "a parameter of one side is given by --a-param layers=VALUE" in result.complaint
