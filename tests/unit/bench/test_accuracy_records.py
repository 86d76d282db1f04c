from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import accuracy_records as records
import pytest
from accuracy_records import Campaign, Pair

CAMPAIGN = Campaign("softmax", ("rows=4",), "smoke", 3.0, 20.0, seed=1, load="half")
SAID = {"verdict": "slower", "ratio": 1.03}


def written(path: Path, *numbers: int, tool: str = "perfcli") -> None:
    for number in numbers:
        pair = Pair(number, number, loaded=False)
        records.append(path, [records.record(tool, pair, CAMPAIGN, SAID, 1.0)])


def test_of_every_two_pairs_one_is_loaded_and_not_always_the_same() -> None:
    loaded = [pair.loaded for pair in records.pairs(CAMPAIGN, 40)]
    assert all(loaded[n] != loaded[n + 1] for n in range(0, 40, 2))
    assert 4 < sum(loaded[::2]) < 16


def test_more_pairs_keep_the_first_ones() -> None:
    assert list(records.pairs(CAMPAIGN, 60))[:20] == list(records.pairs(CAMPAIGN, 20))


@pytest.mark.parametrize(("load", "loaded"), [("all", 6), ("none", 0)])
def test_all_or_none_loaded(load: str, loaded: int) -> None:
    found = records.pairs(replace(CAMPAIGN, load=load), 6)
    assert sum(pair.loaded for pair in found) == loaded


def test_pairs_have_seeds_of_their_own() -> None:
    seeds = {p.seed for seed in (1, 2) for p in records.pairs(replace(CAMPAIGN, seed=seed), 60)}
    assert len(seeds) == 120


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    written(path, 0, 2)
    left = records.missing(path, CAMPAIGN, 4, ["perfcli"])
    assert [pair.number for pair in left] == [1, 3]


def test_a_pair_is_missing_until_every_tool_has_it(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    written(path, 0, 1, tool="one")
    written(path, 1, tool="other")
    left = records.missing(path, CAMPAIGN, 2, ["one", "other"])
    assert [pair.number for pair in left] == [0]


def test_a_line_cut_off_by_a_kill_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    written(path, 0, 1)
    path.write_text(path.read_text()[:-20])
    assert [p.number for p in records.missing(path, CAMPAIGN, 2, ["perfcli"])] == [1]
    written(path, 1)
    assert [record.pair for record in records.read(path)] == [0, 1]


def test_another_campaign_in_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    written(path, 0)
    with pytest.raises(ValueError, match="other settings"):
        records.missing(path, replace(CAMPAIGN, planted=0.0), 2, ["perfcli"])
