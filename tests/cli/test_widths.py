"""Every table of the command line on narrow terminals: no number is cut, no text becomes a column
of single letters, and no line is wider than the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden import screen, shown
from handmade import candidate, kernel, run

from perfcli.model import ExternCall, Origin
from perfcli.options import listing
from perfcli.storing import store

WIDTHS = (60, 80, 100)
MAX_READS = "triton.mix_order_reduction_max_reads"
BAD = ["-o", f"{MAX_READS}=1000"]
MODEL = ["gqa-transformer", "-p", "layers=3"]
COMMANDS = {
    "run": ["run", *MODEL, *BAD],
    "inspect-kernel": ["inspect-kernel", *MODEL, *BAD, "3"],
    "kernels of a run": ["inspect-kernel", *MODEL, *BAD],
    "explain": ["explain", *MODEL, *BAD],
    "explain nothing": ["explain", *MODEL],
    "compare": ["compare", *MODEL, "-b", f"{MAX_READS}=1000"],
    "knobs": ["knobs", "fusion"],
    "knobs --diff": ["knobs", "--diff", "2.13", "2.15"],
    "knobs --performance": ["knobs", "--performance"],
    "kernels": ["kernels"],
    "one family": ["kernels", "softmax", "--target", "h100"],
    "runs": ["runs"],
    "scenarios": ["scenarios"],
    "one scenario": ["scenarios", "softmax"],
}
NUMBER = re.compile(r"(?<![\w.,…-])[+−]?\d[\d,.]*\d(?![\w,.…-])")


def read_output(text: str) -> str:
    """Return what a terminal shows, without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def find_cut_numbers(text: str) -> list[str]:
    """Return ``2…``: a number whose digits were replaced by an ellipsis."""
    return re.findall(r"(?<![\w…])[+−]?\d[\d,.]*…(?!\w)", text)


def find_thin_columns(text: str) -> list[str]:
    """Return three letters that stand alone below each other, as a folded word leaves them."""
    lines = text.splitlines()
    found = []
    for upper, middle, lower in zip(lines, lines[1:], lines[2:], strict=False):
        for match in re.finditer(r"(?<!\S)(?<!\d )[A-Za-z=_](?!\S)", upper):
            place = match.start()
            below = [line[max(place - 1, 0) : place + 2].strip() for line in (middle, lower)]
            if all(len(each) == 1 and each.isalpha() for each in below):
                found.append(match[0] + "".join(below))
    return found


def test_the_checks_find_what_they_are_for() -> None:
    assert find_cut_numbers("registers  2…") == ["2…"]
    assert find_cut_numbers("triton_red_2…b 255") == []
    assert find_thin_columns("1  X  2\n   B  3\n   L\n") == ["XBL"]
    assert find_thin_columns("a x\nof 2\nb\n") == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_width_cuts_numbers_or_folds_words(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.setattr(listing, "load_installed", lambda python: listing.load_newest())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    if name == "runs":
        perfcli(*COMMANDS["run"])
    monkeypatch.setenv("COLUMNS", "220")
    wide = read_output(perfcli(*COMMANDS[name]).out)
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = read_output(perfcli(*COMMANDS[name]).out)
    assert find_cut_numbers(narrow) == []
    assert find_thin_columns(narrow) == []
    assert set(NUMBER.findall(narrow)) <= set(NUMBER.findall(wide))
    lines = [line.rstrip() for line in narrow.splitlines() if "perfcli " not in line]
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_configuration_stands_below_its_numbers(width: int) -> None:
    config = {"XBLOCK": 4, "RSPLIT_SIZE": 64, "R0_BLOCK": 1024, "NUM_STAGES": 1, "YBLOCK": 16}
    both = tuple(
        replace(candidate(warps, registers=255, shared_bytes=112_928), config=config)
        for warps in (4, 8)
    )
    made = kernel("triton_red_fused_add_2", "1", candidates=both)
    text = shown(screen().kernel(0, made, None), width)
    assert find_thin_columns(text) == []
    assert max(map(len, text.splitlines())) <= width
    for word in ("XBLOCK=4", "RSPLIT_SIZE=64", "R0_BLOCK=1024", "NUM_STAGES=1", "YBLOCK=16"):
        assert text.count(word) == 2
    assert text.split().count("255") == 3  # the facts and both candidates
    assert text.count("112,928 B") == 3


@pytest.mark.parametrize("width", WIDTHS)
def test_large_numbers_of_kernels_are_whole(width: int) -> None:
    """Wider than any column is planned for."""
    made = [
        kernel(f"triton_red_fused_add_mul_{n}", "1", loads=1_234_567 + n, stack=4 * 12_345_678)
        for n in range(3)
    ]
    text = shown(screen().run(run(made), sort="loads"), width)
    assert find_cut_numbers(text) == []
    assert all(f"1,234,56{7 + n}" in text for n in range(3))
    assert "3,703,704" in text  # 3 · 1,234,567 + 3
    assert max(map(len, text.splitlines())) <= width


# --- what run lists --------------------------------------------------------------------------


def unet(number: int = 66) -> Any:
    """Kernels whose names differ at their end alone, each from a module of its own."""
    made = [
        kernel(
            f"triton_poi_fused_add_convolution_mul_native_group_norm_silu_backward_{n}",
            read=n * 10**6,
            written=0,
            origins=(Origin("mul", "aten.mul.Tensor", f"down.{n}.norm", (), f"unet.py:{n}"),),
        )
        for n in range(number)
    ]
    externs = (
        ExternCall("aten.convolution", "forward 0", 15),
        ExternCall("aten.mm", "backward 0", 2),
    )
    return run(made, externs=externs)


def listed(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines() if re.match(r" +\d+  triton", line)]


def test_the_costliest_kernels_come_first_with_their_module_and_a_total() -> None:
    text = shown(screen().run(unet(), top=10), 100)
    assert listed(text) == list(range(65, 55, -1))
    assert "down.65.norm" in text
    (total,) = [line for line in text.splitlines() if "Σ" in line]
    assert "all 66 kernels" in total
    assert "2.15 GB" in total  # 65 · 66 / 2 MB
    assert "… and 56 more: --top 0 lists all" in text


def test_without_a_module_the_line_of_the_model_is_shown() -> None:
    origins = (
        Origin("a", "aten.mul.Tensor", "", (), "/home/me/models/gpt.py:31"),
        Origin("b", "aten.add.Tensor", "", (), "/home/me/models/gpt.py:31"),
        Origin("c", "aten.add.Tensor", "", (), "/home/me/models/gpt.py:7"),
    )
    text = shown(screen().run(run([kernel("a", origins=origins)])), 100)
    assert "gpt.py:31 +1" in text


def test_extern_operators_are_listed_with_their_calls() -> None:
    text = shown(screen().run(unet()), 100)
    assert text.splitlines()[0].startswith("66 generated kernels, 66 launches, ")
    assert "17 extern calls" in text.splitlines()[0]
    rows = [line.split() for line in text.splitlines() if " aten." in line]
    assert rows == [["15", "aten.convolution", "forward", "0"], ["2", "aten.mm", "backward", "0"]]
    assert "numbers of generated kernels leave these calls out" in text


def test_all_kernels_and_another_order(perfcli: Any) -> None:
    few = perfcli("run", *MODEL, "--top", "3")
    assert len(listed(few.out)) == 3
    every = perfcli("run", *MODEL, "--top", "0", "--sort", "regs")
    facts = store.read(store.runs()[0].path).kernels
    registers = [facts[number].best.registers for number in listed(every.out)]  # type: ignore[union-attr]
    assert len(registers) == len(facts)
    assert registers == sorted(registers, reverse=True)  # type: ignore[type-var]
    least = perfcli("run", *MODEL, *BAD, "--sort", "occupancy", "--top", "1").out
    assert "12.5 %" in least  # the kernel that spills has the fewest warps


def test_an_unknown_column_is_refused_before_anything_is_compiled(perfcli: Any) -> None:
    result = perfcli("run", *MODEL, "--sort", "colour")
    assert result.code == 2
    assert result.complaint == (
        "perfcli: can't sort by 'colour': one of time, loads, stores, vector, spilled, regs, "
        "bytes, shared, occup."
    )
    assert not list(Path().rglob("*.json"))


def test_the_json_of_a_run_has_all_kernels(perfcli: Any) -> None:
    import json

    perfcli("run", *MODEL, "--top", "1", "--json", "run.json")
    assert len(json.loads(Path("run.json").read_text())["run"]["kernels"]) == 15
