from __future__ import annotations

from typing import Any

import pytest
from accuracy_records import Record
from accuracy_table import HEADER, clopper_pearson, errors, is_wrong, percentile, table


def record(verdict: str, planted: float = 0.0, *, loaded: bool = False, **said: Any) -> Record:
    return Record("perfcli", 0, loaded, planted, "softmax", verdict, **said)


def cells(text: str) -> list[dict[str, str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [dict(zip(HEADER, row, strict=True)) for row in rows[2:]]


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 60, 0.0, 0.0596),  # 1 - 0.025 ** (1 / 60)
        (60, 60, 0.9404, 1.0),
        (8, 20, 0.1912, 0.6395),  # published tables
    ],
)
def test_exact_intervals(hits: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("verdict", "planted", "wrong"),
    [
        ("slower", 0.0, True),
        ("faster", 0.0, True),
        ("same", 0.0, False),
        ("unsure", 0.0, False),
        ("none", 0.0, False),
        ("slower", 3.0, False),
        ("faster", 3.0, True),
        ("same", 3.0, True),
        ("unsure", 3.0, False),
        ("none", 3.0, False),
    ],
)
def test_what_counts_as_wrong(verdict: str, planted: float, wrong: bool) -> None:
    assert is_wrong(record(verdict, planted)) is wrong


def test_errors_are_against_what_was_planted() -> None:
    found = errors([record("slower", 3.0, ratio=1.0403), record("unsure", 3.0)])
    assert found == pytest.approx([0.01])


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 2.5), (0.95, 3.85), (1, 4)])
def test_percentiles(share: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], share) == pytest.approx(value)


def test_a_row_counts_quiet_and_loaded_pairs_apart() -> None:
    (row,) = cells(
        table(
            [
                record("same", ratio=1.001, low=0.99, high=1.01, seconds=4.0),
                record("slower", loaded=True, ratio=1.02, low=1.01, high=1.03, seconds=20.0),
                record("same", loaded=True, ratio=0.998, low=0.99, high=1.004, seconds=6.0),
                record("failed", why="exit 2"),
            ]
        )
    )
    assert row["pairs"] == "2 + 2"
    assert row["same"] == "1 + 1"
    assert row["slower"] == "0 + 1"
    assert row["failed"] == "1 + 0"
    assert row["wrong (95 %)"].startswith("1 of 3 ")
    assert row["coverage"].startswith("2 of 3 ")
    assert row["measuring"] == "6.0 s"
    assert row["error, median"] == "0.20%"


def test_other_tools_and_changes_have_rows_of_their_own() -> None:
    rows = cells(table([record("slower", 3.0), record("same"), record("same")]))
    assert [row["planted"] for row in rows] == ["none", "+3 %"]
    assert rows[1]["found (95 %)"].startswith("1 of 1 ")
    assert rows[0]["error, median"] == "–"
