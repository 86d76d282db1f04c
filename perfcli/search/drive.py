"""Runs a search: asks the oracle for what the ledger does not know, until it ends or must stop.

The ledger keeps what is known: the class of each set, and the answer for each class.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

from perfcli.errors import PerfcliError
from perfcli.search.question import Answer, K, Query, Search, Stopped, T


@dataclass(frozen=True, slots=True)
class Code:
    """Holds what a set of changes compiles to."""

    name: str | None
    """Hash of the generated code; ``None`` where it does not compile."""
    failure: str = ""


class Ledger(Generic[K]):
    """Remembers classes and answers. Sets with identical code are one class and share its answer.
    To go on with an earlier search, give what its ledger had in ``codes`` and ``answers``; both are
    plain data. What has no answer is not asked again either: leave out what may have one by now."""

    def __init__(
        self, codes: Mapping[K, Code] | None = None, answers: Mapping[str, Answer] | None = None
    ) -> None:
        self.codes: dict[K, Code] = dict(codes or {})
        self.answers: dict[str, Answer] = dict(answers or {})
        self.compiled = 0
        """Sets whose class was asked for, not counting what was known from the start."""
        self.judged = 0
        """Classes that were judged, each time counted, not counting what was known."""

    @property
    def classes(self) -> int:
        return len({code.name for code in self.codes.values() if code.name is not None})

    @property
    def unresolved(self) -> tuple[tuple[K, str], ...]:
        """Return the sets without an answer, and why."""
        known = [(key, self.known(key)) for key in self.codes]
        return tuple((k, a.reason) for k, a in known if a and a.outcome == "unresolved")

    def known(self, key: K) -> Answer | None:
        code = self.codes.get(key)
        if code is None:
            return None
        if code.name is None:
            return Answer("unresolved", reason=code.failure or "does not compile")
        answer = self.answers.get(code.name)
        return replace(answer, code=code.name) if answer else None

    def add_code(self, key: K, code: Code) -> None:
        self.codes[key] = code
        self.compiled += 1

    def add_answer(self, code: str, answer: Answer) -> None:
        self.answers[code] = answer
        self.judged += 1


class _Oracle(Protocol[K]):
    """Tests sets of changes in two steps, since compiling can be done for several sets at once."""

    def compile(
        self, wanted: Sequence[K]
    ) -> Mapping[K, Code] | Generator[tuple[K, Code], None, None]:
        """Return the classes of these sets, at once or as they come. May be interrupted
        (KeyboardInterrupt), or closed before its end; a set that does not compile is a ``Code``
        with its failure."""
        ...

    def judge(self, key: K, code: str, fresh: bool) -> Answer:
        """Return the answer for a class, ``key`` being the set that was asked for. ``fresh``: it is
        known and shall be measured once more; a test that is exact gives the same answer."""
        ...


Stop = Callable[[Ledger[K]], str]
Watch = Callable[[Query[K], Answer | None], None]


def budget(seconds: float, clock: Callable[[], float]) -> Stop[K]:
    """Stop after so many seconds from now on, as ``clock`` has them."""
    end = clock() + seconds
    return lambda _: f"after {seconds:g} s (--budget)" if clock() >= end else ""


Width = Callable[[Query[K]], int]


def drive(
    search: Search[K, T],
    oracle: _Oracle[K],
    ledger: Ledger[K],
    *,
    width: int | Width[K] = 1,
    stops: Sequence[Stop[K]] = (),
    watch: Watch[K] = lambda question, answer: None,
    at_hand: Callable[[str], bool] = lambda code: False,
) -> T:
    """Run the search and return what it returns.

    ``width``: so many sets are compiled for a question, at once or as the oracle can. ``stops`` are
    asked before each question that is not answered from the ledger, and as sets are compiled; the
    first reason ends the search, as KeyboardInterrupt does, or ``Stopped`` raised by the oracle:
    what was compiled by then and has its answer ``at_hand`` is answered still. ``watch`` is called
    before a question is answered, and with its answer; where several sets are compiled for it,
    also for each as it comes.
    """
    made = _Drive(oracle, ledger, width, stops, watch, at_hand)
    step: Callable[[], Query[K]] = lambda: next(search)  # noqa: E731
    while True:
        try:
            question = step()
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            watch(question, None)
            answer = made.answer(question)
            watch(question, answer)
        except Stopped as stop:
            step = made.halt(search, stop)
        except KeyboardInterrupt:
            step = made.halt(search, Stopped("interrupted"))
        else:
            step = _send(search, answer)


def _send(search: Search[K, T], answer: Answer) -> Callable[[], Query[K]]:
    return lambda: search.send(answer)


@dataclass(slots=True)
class _Drive(Generic[K]):
    oracle: _Oracle[K]
    ledger: Ledger[K]
    width: int | Width[K]
    stops: Sequence[Stop[K]]
    watch: Watch[K]
    at_hand: Callable[[str], bool]
    halted: Stopped | None = None
    """Nothing is begun any more."""

    def halt(self, search: Search[K, T], stop: Stopped) -> Callable[[], Query[K]]:
        """Stop the search and let it ask on only for what is known."""
        self.halted = stop
        return lambda: search.throw(stop)

    def answer(self, question: Query[K]) -> Answer:
        ledger = self.ledger
        known = ledger.known(question.wanted)
        exact = known is not None and known.evidence is None
        if known is not None and (exact or not question.fresh):
            return known
        self._check()
        if question.wanted not in ledger.codes:
            self._compile(question)
            known = ledger.known(question.wanted)
            if known is not None:
                return known
            if self.halted is not None:
                raise self.halted
        code = ledger.codes[question.wanted].name
        assert code is not None  # else its answer is known: unresolved
        ledger.add_answer(code, self.oracle.judge(question.wanted, code, known is not None))
        answer = ledger.known(question.wanted)
        assert answer is not None
        return answer

    def _check(self) -> None:
        if self.halted is not None:
            raise self.halted
        for stop in self.stops:
            if reason := stop(self.ledger):
                raise Stopped(reason)

    def _compile(self, question: Query[K]) -> None:
        left = self._batch(question)
        several = len(left) > 1
        try:
            with contextlib.closing(self._arriving(tuple(left))) as arriving:
                for key, code in arriving:
                    self._take(key, code)
                    if several:
                        step = question.step if key == question.wanted else ""
                        told = replace(question, wanted=key, maybe=(), step=step)
                        self.watch(told, self.ledger.known(key))
                    left.remove(key)
                    if left:
                        self._check()
        except Stopped as stop:
            self.halted = stop
        except KeyboardInterrupt:
            self.halted = Stopped("interrupted")
        if question.wanted not in self.ledger.codes:
            raise self.halted or PerfcliError("the set that was asked for was not compiled")

    def _arriving(self, wanted: tuple[K, ...]) -> Generator[tuple[K, Code], None, None]:
        found = self.oracle.compile(wanted)
        if isinstance(found, Mapping):
            yield from found.items()
            return
        with contextlib.closing(found):
            yield from found

    def _batch(self, question: Query[K]) -> list[K]:
        width = self.width if isinstance(self.width, int) else self.width(question)
        known = self.ledger.codes
        more = [key for key in dict.fromkeys(question.maybe) if key not in known]
        return [question.wanted, *(key for key in more if key != question.wanted)][:width]

    def _take(self, key: K, code: Code) -> None:
        ledger = self.ledger
        ledger.add_code(key, code)
        if code.name is not None and self.at_hand(code.name) and ledger.known(key) is None:
            ledger.add_answer(code.name, self.oracle.judge(key, code.name, False))
