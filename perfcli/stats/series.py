"""Rounds as two columns of seconds, with the pair of processes that each round came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

    @property
    def logs(self) -> list[float]:
        return paired.log_ratios(self.base, self.head)


CALM_ROUNDS = 20
CALM_SHARE = 0.25


def calm(rounds: Sequence[Round]) -> Sequence[Round]:
    """Those in which each side had a step that nothing interrupted, if they are enough: at least
    20 and a quarter. Whether a step is interrupted is decided by what else runs, for both sides
    alike."""
    found = [r for r in rounds if r.base.calm and r.head.calm]
    return found if len(found) >= max(CALM_ROUNDS, CALM_SHARE * len(rounds)) else rounds


def of_steps(rounds: Iterable[Round], *, wall: bool = False) -> Series:
    """The calm rounds of kind ``step``: a turn's value is the median of its steps."""
    return join(
        calm([r for r in rounds if r.kind == "step"]),
        lambda r: paired.turn_value(r.base, wall=wall),
        lambda r: paired.turn_value(r.head, wall=wall),
    )


def join(
    rounds: Iterable[Round],
    base: Callable[[Round], float | None],
    head: Callable[[Round], float | None],
) -> Series:
    """One value of each side; rounds where either is None are dropped and counted."""
    kept: list[tuple[float, float, int]] = []
    dropped = 0
    for r in rounds:
        left, right = base(r), head(r)
        if left is None or right is None:
            dropped += 1
        else:
            kept.append((left, right, r.process))
    left_column, right_column, processes = zip(*kept, strict=True) if kept else ((), (), ())
    return Series(left_column, right_column, processes, dropped)
