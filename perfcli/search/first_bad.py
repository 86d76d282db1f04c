"""Finds the first bad version of a history that may branch and merge, from answers that may be
noisy.

A version is bad where it contains the first bad one: itself, or one of its ancestors. Each answer
moves the probabilities of all versions (Bayes); the next question is the one whose answer is least
known, which says most (Horstein, "Sequential transmission using noiseless feedback", IEEE
Transactions on Information Theory 9 (1963); Ben-Or and Hassidim, "The Bayesian learner is optimal
for noisy binary search", FOCS 2008). Of exact answers this is the bisection of git.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from perfcli.errors import PerfcliError
from perfcli.search.question import Answer, Query, Search, Stopped

SURE = 0.98
"""Probability from which a version counts as found."""
MOST_MEASUREMENTS = 12
"""Of one version's code; what is between good and bad after so many stays between."""
MOST_ASKED = 60
"""Noisy answers in all: who needs more is misled by the ends."""
MOST_UNRESOLVED = 20
"""Versions without an answer, after which what lies between them is left as it is."""
MOST_VERSIONS = 10_000
"""Of these the ancestors of each are held, one byte for each pair."""
_ROWS = 1024
_APART = 50.0
"""Natural logarithm of the odds against a version that tells two of identical code apart."""
_NEAR = 3.0
"""Versions within which one that has no answer makes it as likely as not that others have none."""

Status = Literal["found", "one of several", "unsure"]


@dataclass(frozen=True, slots=True)
class VersionHistory:
    """Holds versions, each after its parents (their places): all that the last one contains and the
    good one does not. The last one is known to be bad."""

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]

    @classmethod
    def chain(cls, names: Sequence[str]) -> VersionHistory:
        """Return versions one after the other."""
        return cls(tuple(names), tuple((n - 1,) if n else () for n in range(len(names))))


@dataclass(frozen=True, slots=True)
class Suspect:
    name: str
    probability: float


@dataclass(frozen=True, slots=True)
class FirstBad:
    """Holds what is known of the first bad version at the end of a search."""

    status: Status
    """``one of several``: what is between them has no answer; ``unsure``: not measured well
    enough."""
    suspects: tuple[Suspect, ...]
    """Those that are it with a probability of ``SURE`` together, in the history's order."""
    tested: Mapping[str, Answer]
    stopped: str = ""


def find_first_bad(history: VersionHistory, sure: float = SURE) -> Search[str, FirstBad]:
    """Search until one version is the first bad one with the probability ``sure``, or no question
    tells more. Raises PerfcliError for more than ``MOST_VERSIONS``."""
    known = _Known(history, sure)
    stopped = ""
    try:
        while (place := known.choose()) is not None:
            name = history.names[place]
            later = tuple(history.names[each] for each in known.list_next(place))
            answer = yield Query(name, later, name in known.tested, suspects=len(known.suspects()))
            known.add(place, answer)
    except Stopped as stop:
        stopped = stop.reason
    return known.result(stopped)


class _Known:
    def __init__(self, history: VersionHistory, sure: float) -> None:
        size = len(history.names)
        if size > MOST_VERSIONS:
            raise PerfcliError(
                f"{size:,} versions lie between good and bad, and at most {MOST_VERSIONS:,} can be "
                "searched"
            )
        self.history = history
        self.sure = sure
        self.tested: dict[str, Answer] = {}
        self._contains = np.zeros((size, size), dtype=bool)
        """By version: which others it contains."""
        for place, parents in enumerate(history.parents):
            self._contains[place, place] = True
            for parent in parents:
                self._contains[place] |= self._contains[parent]
        self._possible = np.ones(size, dtype=bool)
        self._noisy: dict[str, list[int]] = {}
        """Places of versions by their code, where its answer is noisy."""
        self._odds: dict[str, float] = {}
        self._measured: dict[str, int] = {}
        self._asked = 0
        self._failed: list[int] = []
        self._probabilities = np.full(size, 1.0 / size)
        self._bad = self._sum_up()

    def add(self, place: int, answer: Answer) -> None:
        self.tested[self.history.names[place]] = answer
        if answer.outcome == "unresolved":
            self._failed.append(place)
        elif answer.evidence is None:
            self._possible &= self._contains[place] == answer.is_bad
        else:
            self._asked += 1
            code = answer.code or self.history.names[place]
            places = self._noisy.setdefault(code, [])
            places += [place] if place not in places else []
            self._odds[code] = answer.evidence.log_odds
            self._measured[code] = answer.evidence.measurements
        self._probabilities = self._weigh()
        self._bad = self._sum_up()

    def _sum_up(self) -> Any:
        """Return how likely each version is bad; rows are taken in parts, since the product turns
        them into numbers of eight bytes."""
        suspects = np.flatnonzero(self._probabilities)
        likely = self._probabilities[suspects]
        rows = range(0, len(self._contains), _ROWS)
        parts = [self._contains[row : row + _ROWS, suspects] @ likely for row in rows]
        return np.concatenate(parts)

    def _weigh(self) -> Any:
        found = np.zeros(len(self.history.names))
        for code, places in self._noisy.items():
            inside = self._contains[places]
            half = self._odds[code] / 2
            told = np.where(inside.all(0), half, np.where(inside.any(0), -_APART, -half))
            found += told
        if (
            not self._possible.any()
        ):  # exact answers that contradict each other: it flips more often
            return self._probabilities
        found[~self._possible] = -np.inf
        found = np.exp(found - found.max())
        return found / found.sum()

    def choose(self) -> int | None:
        """Return the version to ask for; None where no answer would help, or none is needed."""
        given_up = len(self._failed) >= MOST_UNRESOLVED or self._asked >= MOST_ASKED
        if given_up or self._probabilities.max() >= self.sure:
            return None
        gains = self._gains()
        place = int(gains.argmax())
        return place if gains[place] > (1 - self.sure) / 2 else None

    def _gains(self) -> Any:
        """Return the probability of each version's less likely answer: 0 where that is known, or
        can't be found out."""
        gains = np.minimum(self._bad, 1 - self._bad)
        gains[self._failed] = 0
        for code, places in self._noisy.items():
            if self._measured[code] >= MOST_MEASUREMENTS:
                gains[places] = 0
        if self._failed:
            every = np.arange(len(gains))
            away = np.min(np.abs(every[:, None] - np.array(self._failed)), axis=1)
            gains *= away / (away + _NEAR)
        return gains

    def list_next(self, place: int) -> tuple[int, ...]:
        """Return the versions that come next after either answer, about."""
        near = [int(np.abs(self._bad - share).argmin()) for share in (0.25, 0.75)]
        told = (n for n in dict.fromkeys(near) if 0 < self._bad[n] < 1)
        return tuple(n for n in told if n != place)

    def suspects(self) -> list[int]:
        """Return the likeliest places that have the probability ``sure`` together."""
        order = np.argsort(-self._probabilities, kind="stable")
        reached = np.cumsum(self._probabilities[order])
        # All that is left of exact answers is alike: rounding must not leave one out.
        count = int(np.searchsorted(reached, min(self.sure, reached[-1]), side="left")) + 1
        least = self._probabilities[order[count - 1]] * (1 - 1e-9)
        return sorted(int(n) for n in np.flatnonzero(self._probabilities >= least))

    def result(self, stopped: str) -> FirstBad:
        places = self.suspects()
        found = tuple(Suspect(self.history.names[n], float(self._probabilities[n])) for n in places)
        status: Status = "unsure"
        if len(found) == 1 and found[0].probability >= self.sure:
            status = "found"
        elif self._failed and not stopped:
            status = "one of several"
        return FirstBad(status, found, dict(self.tested), stopped)
