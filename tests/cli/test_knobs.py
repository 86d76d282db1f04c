from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcli.cli import main
from perfcli.console import table
from perfcli.errors import PerfcliError
from perfcli.machine import environment
from perfcli.options import listing
from perfcli.options.catalogue import load_catalogue
from perfcli.options.patches import PATCHES


@pytest.fixture
def torch_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torch of which only the configuration files exist, without options that patches need. The
    patches that need none would be in every list."""
    for name in [name for name, patch in PATCHES.items() if not patch.needs]:
        monkeypatch.delitem(PATCHES, name)
    for package in ("_inductor", "_dynamo", "_functorch"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "config.py").write_text("")
    (tmp_path / "_inductor" / "config.py").write_text(
        "import os\n"
        "# joins kernels\n"
        'online_softmax = os.environ.get("TORCHINDUCTOR_ONLINE_SOFTMAX", "1") == "1"\n'
        "softmax_rows: int | None = None\n"
        "class triton:\n    max_tiles = 3\n"
        "_private = 1\n"
    )
    (tmp_path / "version.py").write_text("__version__ = '2.11.0'\n")
    found = environment.Interpreter(
        "/x/python", "3.11.0", "2.11.0", tmp_path, None, None, None, "0" * 64
    )
    monkeypatch.setattr(listing, "probe", lambda python, needs_triton: found)
    return tmp_path


def test_a_list_is_plain_and_aligned_in_a_pipe(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs"]) == 0
    assert capsys.readouterr().out == (
        "option            type        default  since   variable\n"
        "online_softmax    bool        true     ≤2.8.0  TORCHINDUCTOR_ONLINE_SOFTMAX\n"
        "softmax_rows      int | None  none\n"
        "triton.max_tiles  int         3        ≤2.8.0\n"
    )


def test_one_hit_is_shown_whole(torch_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs", "ONLINE"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("online_softmax (torch 2.11.0)\n  type     bool\n  default  true\n")
    assert "  variable TORCHINDUCTOR_ONLINE_SOFTMAX\n" in out
    assert out.endswith("2.14.1, 2.15.0\n  joins kernels\n")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("softmax", ["online_softmax", "softmax_rows"]),
        ("triton.*", ["triton.max_tiles"]),
        ("inductor_online", ["online_softmax"]),
        ("joins", ["online_softmax"]),
        ("_private", ["_private"]),
    ],
)
def test_search(
    torch_dir: Path, capsys: pytest.CaptureFixture[str], pattern: str, names: list[str]
) -> None:
    assert main(["knobs", pattern, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["torch"] == "2.11.0"
    assert [option["name"] for option in document["options"]] == names


def test_json_to_a_file_leaves_the_table(
    torch_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "knobs.json"
    assert main(["knobs", "softmax_rows", "--json", str(path)]) == 0
    assert capsys.readouterr().out.startswith("softmax_rows")
    option = json.loads(path.read_text())["options"][0]
    assert (option["type"], option["default"], option["default_known"]) == (
        "int | None",
        None,
        True,
    )


def test_a_file_that_cannot_be_written(
    torch_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs", "softmax", "--json", str(tmp_path / "no" / "file.json")]) == 2
    assert "can't write " in capsys.readouterr().err


def test_nothing_found_names_the_nearest(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs", "onlin_softmaxx"]) == 2
    assert "no option matches 'onlin_softmaxx'; the nearest are online_softmax" in (
        capsys.readouterr().err
    )


def test_without_torch_the_newest_known_release_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(python: str | None, needs_triton: bool) -> None:
        raise PerfcliError("no torch")

    monkeypatch.setattr(listing, "probe", nothing)
    assert main(["knobs", "mix_order_reduction_max_reads"]) == 0
    out, err = capsys.readouterr()
    assert "no torch here: these are Inductor's options in torch 2.15.0" in err
    assert "triton.mix_order_reduction_max_reads (torch 2.15.0)" in out
    assert "  default  10\n" in out
    assert main(["knobs", "x", "--python", "/no/such"]) == 2


def test_diff_of_two_releases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs", "mix_order", "--diff", "2.11.0", "2.13.0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["option", "change", "torch", "2.11.0", "torch", "2.13.0"]
    assert [line.split() for line in lines[1:]] == [
        [
            "triton.mix_order_reduction_allow_multi_stages",
            *("default", "changed", "false", "true"),
        ],
        ["triton.mix_order_reduction_max_reads", "added", "10"],
    ]


def test_diff_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs", "max_reads", "--diff", "2.11", "2.13", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "perfcli": "knob-changes",
        "format": 1,
        "from": "2.11.0",
        "to": "2.13.0",
        "changes": [
            {
                "name": "triton.mix_order_reduction_max_reads",
                "kind": "added",
                "before": None,
                "after": "10",
            }
        ],
    }


def test_diff_without_difference_and_with_an_unknown_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["knobs", "--diff", "2.13.0", "2.13.0"]) == 0
    assert "no difference" in capsys.readouterr().out
    assert main(["knobs", "--diff", "2.13.0", "7.0"]) == 2
    assert "no options known for torch '7.0'" in capsys.readouterr().err


def test_a_terminal_gets_at_most_100_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    rows = [("a" * 60, "int", "1", "2.8.0", "TORCHINDUCTOR_" + "B" * 50), ("b", "c", "d", "e", "")]
    table.show(("option", "type", "default", "since", "variable"), rows, stack_last=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.strip().startswith("TORCHINDUCTOR_BBB") for line in lines)
    assert "variable" not in lines[0]


def test_long_cells_do_not_widen_the_others() -> None:
    text = table.plain(("a", "b"), [("x" * 80, "1"), ("y", "2")])
    assert text.splitlines() == ["a  b", "x" * 80 + "  1", "y  2"]


def test_what_perfcli_brings_says_so(torch_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """torch 2.11 has mix-order reduction, and no option to limit it."""
    config = torch_dir / "_inductor" / "config.py"
    config.write_text("class triton:\n    mix_order_reduction = True\n")
    load_catalogue.cache_clear()
    assert main(["knobs", "triton"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[2].split() == [
        "triton.mix_order_reduction_max_reads",
        *("int", "|", "None", "0", "patch"),
    ]
    note = "perfcli's patch, from torch 2.13, PR #179494"
    assert err == f"triton.mix_order_reduction_max_reads: {note}\n"
    assert main(["knobs", "max_reads", "--json", "-"]) == 0
    (option,) = json.loads(capsys.readouterr().out)["options"]
    assert (option["note"], option["type"], option["default"]) == (note, "int | None", 0)
    assert main(["knobs", "max_reads"]) == 0
    assert f"  note     {note}\n" in capsys.readouterr().out


def test_performance_lists_what_this_torch_has(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs", "--performance"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == [
        *("option", "default", "try", "changes", "on", "since", "what", "it", "does"),
    ]
    assert [line.split()[:6] for line in lines[1:]] == [
        ["triton.max_tiles", "3", "1,", "2", "kernels", "GPU"],
        ["online_softmax", "true", "false", "kernels", "GPU", "≤2.8.0"],
    ]
    assert lines[2].endswith("in one sweep over each row; false takes two sweeps.")
    assert err.startswith("2 options; torch 2.11.0 lacks split_reductions, ")


def test_performance_shows_one_option_with_its_sources(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs", "--performance", "ONLINE"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("online_softmax (torch 2.11.0)\n  Computes the maximum and the sum ")
    assert "  default  true\n  try      false\n  changes  kernels\n  on       GPU\n" in out
    assert out.endswith("\n           https://github.com/pytorch/pytorch/issues/153241\n")


def test_performance_as_json(torch_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs", "--performance", "tiles", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["perfcli"], document["torch"]) == ("performance-knobs", "2.11.0")
    (option,) = document["options"]
    assert (option["name"], option["values"], option["default"]) == ("triton.max_tiles", [1, 2], 3)
    assert (option["range"], option["acts"], option["needs_device"]) == ([1, 3], "kernels", False)
    assert "split_reductions" in document["not_in_this_torch"]


def test_performance_searches_sentences_and_says_what_it_does_not_know(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs", "--performance", "one sweep"]) == 0
    assert capsys.readouterr().out.startswith("online_softmax (torch 2.11.0)\n")
    assert main(["knobs", "--performance", "softmax_rows"]) == 2
    assert "none of the options worth trying matches 'softmax_rows'" in capsys.readouterr().err
    assert main(["knobs", "--performance", "--diff", "2.11", "2.13"]) == 2
    assert "--performance lists options, --diff compares releases: give one" in (
        capsys.readouterr().err
    )


def test_performance_without_torch_is_that_of_the_newest_known_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(python: str | None, needs_triton: bool) -> None:
        raise PerfcliError("no torch")

    monkeypatch.setattr(listing, "probe", nothing)
    assert main(["knobs", "--performance", "scalar_accumulators"]) == 0
    out, err = capsys.readouterr()
    assert "no torch here: these are Inductor's options in torch 2.15.0" in err
    assert out.startswith("triton.scalar_accumulators (torch 2.15.0)\n")
    assert "  try      false\n" in out


def test_patches_are_listed_with_what_they_fit(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = torch_dir / "_inductor" / "config.py"
    config.write_text("class triton:\n    mix_order_reduction = True\n")
    load_catalogue.cache_clear()
    assert main(["knobs", "--patches", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["perfcli"], document["torch"]) == ("patches", "2.11.0")
    here = {patch["name"]: patch["here"] for patch in document["patches"]}
    assert here.keys() == PATCHES.keys()
    assert here["triton.mix_order_reduction_max_reads"] == "fits"
    assert main(["knobs", "max_reads", "--patches"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "triton.mix_order_reduction_max_reads (torch 2.11.0)"
    assert [line.split(maxsplit=1)[1] for line in lines[3:9]] == [
        *("int | None", "0", "10, 5, 20", "torch 2.13, PR #179494", "torch 2.10 to 2.12", "fits"),
    ]


def test_a_patch_that_does_not_fit_says_why(
    torch_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (torch_dir / "version.py").write_text("__version__ = '2.9.1'\n")
    load_catalogue.cache_clear()
    assert main(["knobs", "max_reads", "--patches"]) == 0
    assert "  here     torch 2.9.1 is too old\n" in capsys.readouterr().out
    assert main(["knobs", "split_online"]) == 2
    assert capsys.readouterr().err == (
        "perfcli: no option matches 'split_online'; perfcli knobs --patches says why "
        "patch.split_online_softmax does not fit\n"
    )


def test_there_is_no_such_patch(torch_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs", "wishful", "--patches"]) == 2
    assert "no patch matches 'wishful': there are triton.mix" in capsys.readouterr().err
    assert main(["knobs", "--patches", "--performance"]) == 2
    assert "--patches lists what perfcli can patch: give it" in capsys.readouterr().err
