"""Counts, errors and coverage over the pairs of a campaign, as Markdown. Pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence

from accuracy_records import VERDICTS, Record

HEADER = (
    "tool",
    "planted",
    "pairs",
    *(f"{verdict}" for verdict in VERDICTS),
    "wrong (95 %)",
    "found (95 %)",
    "error, median",
    "error, 95th",
    "coverage",
    "measuring",
)


def table(records: Sequence[Record]) -> str:
    """One row per tool and planted change. Counts are ``quiet + loaded``."""
    rows = [HEADER, tuple("---" for _ in HEADER)]
    rows += [_row(group) for group in _groups(records)]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def clopper_pearson(hits: int, trials: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy.stats import beta

    low = float(beta.ppf(0.025, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def is_wrong(record: Record) -> bool:
    """A false alarm where nothing was planted; where something was, that there is nothing, or a
    gain."""
    return record.verdict in (("faster", "same") if record.planted else ("slower", "faster"))


def errors(records: Sequence[Record]) -> list[float]:
    """How far each estimate is from the truth: |ratio / true ratio - 1|."""
    return [abs(r.ratio / r.true_ratio - 1) for r in records if r.ratio is not None]


def percentile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the sorted values, as numpy's default."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _groups(records: Sequence[Record]) -> list[list[Record]]:
    groups: dict[tuple[str, float, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.tool, record.planted, record.settings].append(record)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[1], key[0], key[2]))]


def _row(group: Sequence[Record]) -> tuple[str, ...]:
    first = group[0]
    judged = [r for r in group if r.verdict != "failed"]
    wrong = sum(is_wrong(r) for r in judged)
    slower = sum(r.verdict == "slower" for r in judged)
    return (
        first.tool,
        f"+{first.planted:g} %" if first.planted else "none",
        _by_load(group, None),
        *(_by_load(group, verdict) for verdict in VERDICTS),
        _share(wrong, len(judged)),
        _share(slower, len(judged)) if first.planted else "",
        *_error_cells(errors(judged)),
        _coverage(judged),
        _seconds(judged),
    )


def _by_load(group: Sequence[Record], verdict: str | None) -> str:
    counts = Counter(r.loaded for r in group if verdict in (None, r.verdict))
    return f"{counts[False]} + {counts[True]}"


def _share(hits: int, trials: int) -> str:
    if not trials:
        return "–"
    low, high = clopper_pearson(hits, trials)
    return f"{hits} of {trials} ({low:.1%} to {high:.1%})"


def _error_cells(found: Sequence[float]) -> tuple[str, str]:
    if not found:
        return "–", "–"
    return f"{statistics.median(found):.2%}", f"{percentile(found, 0.95):.2%}"


def _coverage(group: Sequence[Record]) -> str:
    intervals = [(r.low, r.true_ratio, r.high) for r in group]
    known = [(a, b, c) for a, b, c in intervals if a is not None and c is not None]
    return _share(sum(a <= b <= c for a, b, c in known), len(known))


def _seconds(group: Sequence[Record]) -> str:
    known = [r.seconds for r in group if r.seconds is not None]
    return f"{statistics.median(known):.1f} s" if known else "–"
