from __future__ import annotations

import statistics
from itertools import islice

from load_generator import LONGEST_SECONDS, SHORTEST_SECONDS, phases


def test_the_seed_decides_the_phases() -> None:
    assert list(islice(phases(7), 20)) == list(islice(phases(7), 20))
    assert list(islice(phases(7), 20)) != list(islice(phases(8), 20))


def test_bursts_and_pauses_are_as_long_on_average_and_of_both_kinds() -> None:
    drawn = list(islice(phases(1), 2000))
    spans = [span for _, busy, pause in drawn for span in (busy, pause)]
    assert min(spans) >= SHORTEST_SECONDS
    assert max(spans) <= LONGEST_SECONDS
    busy, pause = (statistics.mean(column) for column in zip(*[d[1:] for d in drawn], strict=True))
    assert abs(busy / (busy + pause) - 0.5) < 0.02
    assert 0.45 < sum(kind == "cpu" for kind, *_ in drawn) / len(drawn) < 0.55
