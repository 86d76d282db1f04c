"""Rounds as two columns of seconds, with the pair of processes that each round came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from perfcli.model import Round, Turn
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


def of_steps(rounds: Iterable[Round], *, wall: bool = False) -> Series:
    """The rounds of kind ``step``: a turn's value is the median of its steps."""
    steps = (r for r in rounds if r.kind == "step")
    return join(steps, *[lambda turn: paired.turn_value(turn, wall=wall)] * 2)


def join(
    rounds: Iterable[Round],
    base: Callable[[Turn], float | None],
    head: Callable[[Turn], float | None],
) -> Series:
    """One value of each side's turn; rounds where either is None are dropped and counted."""
    kept: list[tuple[float, float, int]] = []
    dropped = 0
    for r in rounds:
        left, right = base(r.base), head(r.head)
        if left is None or right is None:
            dropped += 1
        else:
            kept.append((left, right, r.process))
    return Series(
        tuple(k[0] for k in kept), tuple(k[1] for k in kept), tuple(k[2] for k in kept), dropped
    )
