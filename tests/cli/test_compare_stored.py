"""compare with two stored runs: which measurement of them is shown, and what is said of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfcli.storing import store, timings

CPU = ("compare", "gqa-transformer", "-p", "layers=3", "--device", "cpu")
MIX = (*CPU, "-b", "triton.mix_order_reduction=false")
Measured = Callable[[str], Path]


@pytest.fixture
def measured(perfcli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measured:
    """Measures, with what the workers do; gives the new file."""
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))

    def run(plan: str) -> Path:
        before = set(timings.FOLDER.glob("*"))
        monkeypatch.setenv("PERFCLI_FAKE", f"1;{plan}")
        perfcli(*MIX, "--seed", "7")
        (path,) = set(timings.FOLDER.glob("*")) - before
        return path

    return run


def ids() -> list[str]:
    base, head = [stored.header.id for stored in store.runs()]
    return [base, head]


def first_word(result: Any) -> str:
    word: str = result.out.split()[0]
    return word


def damage(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:5], b'{"round": 7}', *lines[6:]]))


@pytest.mark.parametrize("cut_short", ["fail=interrupt:base:20", "fail=dies:head:30"])
def test_one_that_ran_to_its_end_is_preferred(
    perfcli: Any, measured: Measured, cut_short: str
) -> None:
    """The first is precise enough, the second spends its budget."""
    for plan, word in (("ratio=1.05", "SLOWER"), ("ratio=0.8;noise=0.2", "FASTER")):
        measured(plan)
        newer = measured(f"ratio=1;{cut_short}")
        assert not timings.read(newer).stopped.endswith(("enough", "spent"))
        result = perfcli("compare", *ids())
        assert first_word(result) == word
        assert "warning" not in result.err


def test_one_that_was_interrupted_is_shown_where_it_is_the_only_one(
    perfcli: Any, measured: Measured
) -> None:
    measured("ratio=1.05;fail=interrupt:base:30")
    result = perfcli("compare", *ids())
    assert "interrupted" in result.out


def test_the_next_that_can_be_read_is_shown(perfcli: Any, measured: Measured) -> None:
    measured("ratio=1.05")
    later, newest = measured("ratio=0.9"), measured("ratio=0.9")
    damage(newest)
    later.write_text(later.read_text().replace('"format":1', '"format":2'))
    result = perfcli("compare", *ids())
    assert first_word(result) == "SLOWER"
    (warning,) = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    assert f"{newest} is a broken measurement" in warning
    assert f"{later} has format 2, this perfcli reads up to 1" in warning
    assert "without times" not in warning


def test_without_any_that_can_be_read(perfcli: Any, measured: Measured) -> None:
    damage(measured("ratio=1.05"))
    result = perfcli("compare", *ids())
    assert "in line 6; measure again; the report follows without times" in result.err
    assert "SLOWER" not in result.out


def test_garbage_is_told_once(perfcli: Any, measured: Measured) -> None:
    for number in range(2):
        measured("ratio=1.05").write_text(f"garbage {number}")
    result = perfcli("compare", *ids())
    first = min(timings.FOLDER.glob("*")).name
    told = f"warning: 2 files in .perfcli/timings can't be read (the first is {first})"
    assert result.err.splitlines().count(told) == 1
    assert result.err.count("warning") == 1


def test_the_other_way_round_is_the_inverse(perfcli: Any, measured: Measured) -> None:
    measured("ratio=1.25;noise=0.01")
    base, head = ids()
    found = []
    for order in ((base, head), (head, base)):
        result = perfcli("compare", *order, "--json", "out.json")
        found.append(json.loads(Path("out.json").read_text())["timing"])
        assert first_word(result) == ("SLOWER" if order == (base, head) else "FASTER")
        assert ("base and head exchanged" in result.out) == (order == (head, base))
    one, other = (each["step"] for each in found)
    assert one["ratio"] == pytest.approx(1.25, rel=0.01)
    assert other["ratio"] == pytest.approx(1 / one["ratio"])
    assert (other["low"], other["high"]) == pytest.approx((1 / one["high"], 1 / one["low"]))
    assert found[0]["measurement"] == found[1]["measurement"]
