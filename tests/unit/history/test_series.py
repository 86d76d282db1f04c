"""Entries as series: in the order of commits, kinds apart, changes and ends judged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from handmade_history import BLOCK, ROOT, entry, filled, listed, series
from msgspec import structs

from perfcli.errors import PerfcliError
from perfcli.history import view
from perfcli.history.changes import find_changes, hold
from perfcli.history.choosing import HistoryFilter, choose_series, choose_subjects
from perfcli.history.collecting import _list_points
from perfcli.history.entry import Entry, Point, Subject
from perfcli.history.plot import draw
from perfcli.history.series import choose_deciding, find_clocks_going_back, make_series


def test_points_are_in_the_order_of_commits_whatever_clocks_say() -> None:
    entries = listed(
        entry(3, 3.0, depth=3, created="2020-01-01T00:00:00Z"),
        entry(1, 1.0, depth=1, created="2026-01-01T00:00:00Z"),
        entry(2, 2.0, depth=2, created="2023-01-01T00:00:00Z"),
    )
    (found,) = make_series(entries)
    assert found.values == [1.0, 2.0, 3.0]


def test_without_depths_the_order_of_additions_counts() -> None:
    back = listed(
        entry(1, 1.0, created="2026-06-01T00:00:00Z"), entry(2, 2.0, created="2021-01-01T00:00:00Z")
    )
    (found,) = make_series(back)
    assert found.values == [1.0, 2.0]


def committed(number: int, time: str, branch: str = "main", repository: str = ROOT) -> Entry:
    made = entry(number, depth=number)
    about = {"time": time, "branch": branch, "repository": repository}
    return structs.replace(made, commit=structs.replace(made.commit, **about))


def test_a_clock_that_went_back_is_told_once() -> None:
    years = [committed(number, f"{2026 - number}-01-01T00:00:00Z") for number in (1, 2, 3)]
    (line,) = find_clocks_going_back(listed(*years))
    assert "a clock went back: commits " in line
    assert "made at 2025-01-01T00:00:00, then at 2024-01-01T00:00:00" in line
    assert list(find_clocks_going_back(listed(entry(1), entry(2)))) == []
    back = listed(entry(1, depth=1), entry(2, depth=2, created="2019-11-23T00:00:00Z"))
    assert "2019-11-23 to 2026-01-01" in view.title_subject(BLOCK, back)


def test_commits_that_need_not_contain_each_other_tell_no_clock() -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    for other in (
        committed(2, early, branch="side"),
        committed(2, early, repository="1" * 40),
        committed(1, early),
    ):
        assert list(find_clocks_going_back(listed(committed(1, late), other))) == []
    soon = committed(1, "2026-01-01T00:01:00Z"), committed(2, early)  # two machines' clocks
    assert list(find_clocks_going_back(listed(*soon))) == []
    # A branch that was written anew, with fewer commits.
    squashed = committed(2, early), committed(1, late)
    assert list(find_clocks_going_back(listed(*squashed))) == []
    # A branch that git did not name may be any.
    nameless = committed(1, late, branch=""), committed(2, early, branch="")
    assert list(find_clocks_going_back(listed(*nameless))) == []


def test_what_is_taken_over_or_added_late_is_no_clock_that_went_back() -> None:
    ours, theirs = filled(), filled()
    ours.add_all([(entry(1, created="2026-06-01T00:00:00Z"), "2026-06-02T00:00:00Z")], {})
    theirs.add_all([(entry(2, created="2026-03-01T00:00:00Z"), "2026-03-02T00:00:00Z")], {})
    assert ours.merge(theirs) == 1
    assert list(find_clocks_going_back(ours.entries(), "2026-07-01T00:00:00Z")) == []
    (line,) = find_clocks_going_back(ours.entries(), "2026-06-01T00:00:00Z")
    assert "added at 2026-06-02T00:00:00, and now it is 2026-06-01T00:00:00" in line


def test_kinds_controls_and_constants_are_never_mixed() -> None:
    made = [
        entry(1, 1.0, kind="measured", metric="step_time", basis="main a"),
        entry(2, 1.1, kind="measured", metric="step_time", basis="main b"),
        entry(3, 1e-3, kind="estimated", metric="estimated_seconds", basis="h100"),
        entry(4, 7.0),
        entry(5, 8.0, kernel="forward 0 triton_red"),
    ]
    found = make_series(listed(*made))
    assert [(each.kind, each.basis) for each in found] == [
        *(("measured", "main a"), ("measured", "main b")),
        *(("estimated", "h100"), ("static", "")),
    ]
    assert [each.basis for each in choose_deciding(found)] == ["main b"]
    both = make_series(listed(*made), kernels=True)
    assert [each.kernel for each in both if each.kernel] == ["forward 0 triton_red"]


def test_counts_judge_where_no_time_is_known() -> None:
    made = [entry(n, 1.0, metric=name) for n, name in enumerate(("kernels", "spilled_words"))]
    made.append(entry(3, 1.0, metric="peak_memory_bytes"))
    judging = choose_deciding(make_series(listed(*made)))
    assert [each.metric for each in judging] == ["spilled_words", "peak_memory_bytes"]


def test_peak_memory_of_a_model_in_other_pieces_is_another_series() -> None:
    """A graph break halves what the largest graph needs; when it is gone, nothing grew."""
    made = [
        entry(n, value, metric="peak_memory_bytes", basis=basis)
        for n, (value, basis) in enumerate([(8.0, ""), (4.0, "2 graphs"), (8.0, "")])
    ]
    stored = listed(*made)
    assert [each.values for each in make_series(stored)] == [[8.0, 8.0], [4.0]]
    assert [each.values for each in choose_deciding(make_series(stored))] == [[8.0, 8.0]]
    assert [each.values for each in choose_deciding(make_series(stored[:2]))] == [[4.0]]


def test_how_many_graphs_peak_memory_is_of() -> None:
    totals = {"graph_breaks": {"head": 1}, "graphs": {"head": 3}}
    peak = {"head": 5.0}
    document: dict[str, Any] = {
        "totals": {**totals, "peak_memory_bytes": peak},
        "groups": [],
        "timing": None,
    }
    points = {each.metric: each for each in _list_points({**document, "estimate": None})}
    assert points["peak_memory_bytes"] == Point("static", "", "peak_memory_bytes", 5.0, "3 graphs")
    assert points["graphs"].basis == ""
    whole = {"totals": {"graph_breaks": {"head": 0}, "peak_memory_bytes": peak}}
    (_, point) = _list_points({**document, **whole, "estimate": None})
    assert point.basis == ""


def test_every_change_of_an_exact_number_is_one() -> None:
    exact = series([5, 5, 6, 6, 4], "static", "spilled_words")
    found = find_changes(exact)
    assert [(c.index, c.before, c.after, c.is_worse) for c in found] == [
        (2, 5, 6, True),
        (4, 6, 4, False),
    ]
    assert find_changes(series([0.1 + 0.2, 0.3], "estimated", "estimated_seconds")) == []


def test_less_of_what_is_better_high_is_worse() -> None:
    (change,) = find_changes(series([8, 4], "static", "vector_loads"))
    assert change.is_worse
    assert hold(series([8, 4], "static", "vector_loads"), 0.02).verdict == "worse"


def test_ten_exact_commits_of_0_4_percent_are_a_drift() -> None:
    values = [1e-3 * 1.004 ** min(max(n - 5, 0), 10) for n in range(25)]
    held = hold(series(values, "estimated", "estimated_seconds"), 0.02)
    assert (held.verdict, held.is_drift) == ("worse", True)
    assert held.ratio == pytest.approx(1.004**10)
    assert (held.begins, held.ends) == (5, 15)
    assert hold(series(values[:9], "estimated", "estimated_seconds"), 0.02).verdict == "same"


def test_ten_measured_commits_of_0_4_percent_are_a_drift() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal(60)
    ramp = math.log(1.004) * np.clip(np.arange(60) - 20, 0, 10)
    held = hold(series(np.exp(noise + ramp).tolist()), 0.02)
    assert held.verdict == "worse"
    assert held.low is not None
    assert held.low > 1
    assert hold(series(np.exp(noise).tolist()), 0.02).verdict == "same"


def test_one_step_is_no_drift() -> None:
    held = hold(series([1.0] * 5 + [1.1] * 5, "estimated", "estimated_seconds"), 0.02)
    assert (held.verdict, held.is_drift) == ("worse", False)


def test_few_points_are_unsure() -> None:
    held = hold(series([1.0, 1.01, 1.0]), 0.02)
    assert (held.verdict, held.why) == ("unsure", "3 points are too few, 8 are needed")
    assert hold(series([1.0], "static", "kernels"), 0.02).verdict == "unsure"


def test_what_grew_from_nothing_is_worse() -> None:
    held = hold(series([0, 0, 46], "static", "spilled_words"), 0.02)
    assert (held.verdict, held.ratio, held.best, held.last) == ("worse", None, 0, 46)


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    history = filled(entry(1), entry(2))
    with pytest.raises(PerfcliError, match=r"no history of 'model.py:blok'.*model.py:block"):
        choose_subjects(history, HistoryFilter(scenarios=("model.py:blok",)))
    ((subject, entries),) = choose_subjects(history, HistoryFilter(scenarios=("model.py",)))
    assert (subject, len(entries)) == (BLOCK, 2)
    with pytest.raises(PerfcliError, match="spilled_words"):
        choose_series([(subject, entries)], HistoryFilter(metrics=("spilled",)))
    with pytest.raises(PerfcliError, match=r"nothing of --target a100: did you mean h100"):
        choose_subjects(history, HistoryFilter(target="a100"))
    with pytest.raises(PerfcliError, match=r"nothing of --label slow: there are none"):
        choose_subjects(history, HistoryFilter(target="h100", label="slow"))


def test_a_kernel_of_one_subject_only_is_found() -> None:
    other = structs.replace(BLOCK, target="a100")
    history = filled(entry(1, kernel="forward 0 triton_x"), entry(1, subject=other))
    subjects = choose_subjects(history, HistoryFilter())
    ((subject, _, (found,)),) = choose_series(subjects, HistoryFilter(kernel="triton_x"))
    assert (subject, found.kernel) == (BLOCK, "forward 0 triton_x")
    with pytest.raises(PerfcliError, match=r"kernel 'forward 1 triton_x': did you mean forward 0"):
        choose_series(subjects, HistoryFilter(kernel="forward 1 triton_x"))


def test_since_and_last_leave_points_out() -> None:
    history = filled(*(entry(n, depth=n + 1) for n in range(10)))
    since = HistoryFilter(since=f"{4:040x}")
    ((_, entries),) = choose_subjects(history, since)
    assert [each.entry.commit.depth for each in entries] == [5, 6, 7, 8, 9, 10]
    ((_, entries),) = choose_subjects(history, replace(since, last=2))
    assert [each.entry.commit.depth for each in entries] == [9, 10]


def test_since_goes_by_what_is_stored_where_git_knows_nothing() -> None:
    other = structs.replace(BLOCK, target="a100")
    ours = [entry(n, depth=n + 1) for n in (1, 3, 5, 7)]
    theirs = [entry(n, depth=n + 1, subject=other) for n in (2, 4, 6)]
    chosen = choose_subjects(filled(*ours, *theirs), HistoryFilter(since=f"{5:040x}"))
    assert [[each.entry.commit.depth for each in kept] for _, kept in chosen] == [[6, 8], [7]]
    unordered = [entry(1), entry(2, subject=other), entry(3), entry(4, subject=other)]
    chosen = choose_subjects(filled(*unordered), HistoryFilter(since=f"{3:040x}"))
    titles = [[each.entry.commit.title for each in kept] for _, kept in chosen]
    assert titles == [["Change 3"], ["Change 4"]]


def test_few_points_reach_the_right_end_where_the_last_commit_stands() -> None:
    plain = draw(series([1, 2, 9], "static", "kernels"), [], 60, plain=True)
    assert plain[0].index("*") == len(plain[12]) - 1
    assert plain[0].index("*") == len(plain[-1]) - 1


def test_a_flat_series_has_its_value_once_beside_it() -> None:
    plain = draw(series([7, 7, 7], "static", "kernels"), [], 60, plain=True)
    (line,) = (each for each in plain[:12] if "7" in each)
    assert line.lstrip().startswith("7|*")
    alone = draw(series([7], "static", "kernels"), [], 60, plain=True)
    assert alone[-1].split() == [f"{0:040x}"[:8], "2026-01-01"]


@pytest.mark.parametrize(
    ("values", "limit", "told"),
    [
        (
            [1.0, 1.447],
            50,
            r"PASS    estimated time: +44.7 % to its best, within the limit of 50 %",
        ),
        ([1.0, 1.0], 2, "SAME    estimated time: the same as at its best"),
        ([1.0, 1.447], 2, "WORSE   estimated time: +44.7 % to its best"),
    ],
)
def test_what_is_within_the_limit_is_not_called_the_same(
    values: list[float], limit: float, told: str
) -> None:
    held = hold(series(values, "estimated", "estimated_seconds"), limit / 100)
    assert next(view.describe_held(held, limit)) == told


def test_a_long_name_does_not_push_the_columns() -> None:
    name = "forward 0 triton_per_fused_" + "native_layer_norm_" * 5 + "12"
    (found,) = make_series(listed(entry(1, kernel=name)), kernels=True)
    cell, *_ = view.describe_row(found, [])
    assert len(cell) == 60
    assert cell.startswith("spilled words of forward 0")
    assert cell.endswith("_12")


def test_the_drawing_is_plain_in_a_pipe_and_dots_elsewhere() -> None:
    exact = series([1, 1, 1, 9, 9, 9], "static", "kernels")
    changes = find_changes(exact)
    plain = draw(exact, changes, 60, plain=True)
    assert all(line.isascii() for line in plain)
    assert plain[0].lstrip().startswith("9|")
    assert [line.count("*") for line in (plain[0], plain[11])] == [3, 3]
    assert plain[13].index("^") == plain[0].index("*")
    dots = draw(exact, changes, 60, plain=False)
    assert any("⠀" < letter <= "⣿" for letter in dots[0])
    assert max(map(len, [*plain, *dots])) <= 62


def test_a_subject_is_one_line() -> None:
    subject = Subject("m.py", {"fast": True}, "training", target="h200", world=2, label="nightly")
    assert str(subject) == "m.py · training · h200 · fast=true · world 2 · nightly"
