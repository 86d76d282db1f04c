"""Rounds as two columns of seconds, with the pair of processes that each round came from."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from perfcli.model import Round
from perfcli.stats import paired


@dataclass(frozen=True, slots=True)
class Series:
    """One value per round and side, seconds; ``dropped`` rounds had a clock that jumped."""

    base: tuple[float, ...]
    head: tuple[float, ...]
    processes: tuple[int, ...]
    dropped: int = 0
    numbers: tuple[int, ...] = ()
    """Of the rounds; empty where nothing but their order is known."""

    @property
    def logs(self) -> list[float]:
        return paired.log_ratios(self.base, self.head)


CALM_ROUNDS = 20
CALM_SHARE = 0.25


def _calm_rounds(rounds: Sequence[Round]) -> Sequence[Round]:
    """Return the rounds in which each side had a step that nothing interrupted, if they are enough:
    at least 20 and a quarter. Whether a step is interrupted is decided by what else runs, for both
    sides alike."""
    found = [r for r in rounds if r.base.calm and r.head.calm]
    return found if len(found) >= max(CALM_ROUNDS, CALM_SHARE * len(rounds)) else rounds


def step_series(rounds: Iterable[Round], *, wall: bool = False) -> Series:
    """Return the calm rounds of kind ``step``: a turn's value is the median of its steps."""
    return join(
        _calm_rounds([r for r in rounds if r.kind == "step"]),
        lambda r: paired.turn_value(r.base, wall=wall),
        lambda r: paired.turn_value(r.head, wall=wall),
    )


def join(
    rounds: Iterable[Round],
    base: Callable[[Round], float | None],
    head: Callable[[Round], float | None],
) -> Series:
    """Return one value of each side; rounds where either is None are dropped and counted."""
    kept: list[tuple[float, float, int, int]] = []
    dropped = 0
    for r in rounds:
        left, right = base(r), head(r)
        if left is None or right is None:
            dropped += 1
        else:
            kept.append((left, right, r.process, r.number))
    columns = zip(*kept, strict=True) if kept else ((), (), (), ())
    left_column, right_column, processes, numbers = columns
    return Series(left_column, right_column, processes, dropped, numbers)


def align(several: Sequence[Series]) -> list[Series]:
    """Return each series reduced to the rounds that all of them have; as they are where rounds have
    no numbers and all have as many. Those without any value are left out."""
    filled = [each for each in several if each.base]
    if not all(each.numbers for each in filled):
        return filled if len({each.processes for each in filled}) == 1 else []
    shared = set.intersection(*(set(each.numbers) for each in filled)) if filled else set()
    return [_keep_only(each, shared) for each in filled] if shared else []


def _keep_only(whole: Series, numbers: Container[int]) -> Series:
    places = [place for place, number in enumerate(whole.numbers) if number in numbers]
    return Series(
        tuple(whole.base[p] for p in places),
        tuple(whole.head[p] for p in places),
        tuple(whole.processes[p] for p in places),
        whole.dropped,
        tuple(whole.numbers[p] for p in places),
    )


def seconds_spent(rounds: Iterable[Round]) -> float:
    """Return the seconds until the last round was through."""
    return max((r.at + r.took for r in rounds), default=0.0)
