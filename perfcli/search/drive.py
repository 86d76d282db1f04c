"""Runs a search: asks the oracle for what the ledger does not know, until it ends or must stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from perfcli.errors import PerfcliError
from perfcli.search.answer import Answer
from perfcli.search.ledger import Code, Ledger
from perfcli.search.question import K, Question, Search, Stopped, T


class Oracle(Protocol[K]):
    """The test, in two steps, as compiling is what can be done for several sets at once."""

    def compile(self, wanted: Sequence[K]) -> Mapping[K, Code]:
        """The classes of these sets, of the first in any case. May be interrupted
        (KeyboardInterrupt); a set that does not compile is a ``Code`` with its failure."""
        ...

    def judge(self, key: K, code: str, fresh: bool) -> Answer:
        """The answer for a class, ``key`` being the set that was asked for. ``fresh``: it is known
        and shall be measured once more; a test that is exact gives the same answer."""
        ...


Stop = Callable[[Ledger[K]], str]
Watch = Callable[[Question[K], Answer | None], None]


def max_runs(most: int) -> Stop[K]:
    """Stops once ``most`` sets were compiled, or classes were judged ``most`` times. What is known
    is free; of sets that are compiled at once the last ones may exceed it."""
    reason = f"after {most} runs (--max-runs)"
    return lambda ledger: reason if max(ledger.compiled, ledger.judged) >= most else ""


def budget(seconds: float, clock: Callable[[], float]) -> Stop[K]:
    """Stops after so many seconds from now on, as ``clock`` has them."""
    end = clock() + seconds
    return lambda _: f"after {seconds:g} s (--budget)" if clock() >= end else ""


def drive(
    search: Search[K, T],
    oracle: Oracle[K],
    ledger: Ledger[K],
    *,
    width: int = 1,
    stops: Sequence[Stop[K]] = (),
    watch: Watch[K] = lambda question, answer: None,
) -> T:
    """What the search returns.

    ``width``: so many sets are compiled at once. ``stops`` are asked before each question that is
    not answered from the ledger; the first reason ends the search, as KeyboardInterrupt does, or
    ``Stopped`` raised by the oracle. ``watch`` is called before
    a question is answered, and with its answer.
    """
    step: Callable[[], Question[K]] = lambda: next(search)  # noqa: E731
    while True:
        try:
            question = step()
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            watch(question, None)
            answer = _answer(question, oracle, ledger, width, stops)
            watch(question, answer)
        except Stopped as stop:
            step = _throw(search, stop)
        except KeyboardInterrupt:
            step = _throw(search, Stopped("interrupted"))
        else:
            step = _send(search, answer)


def _send(search: Search[K, T], answer: Answer) -> Callable[[], Question[K]]:
    return lambda: search.send(answer)


def _throw(search: Search[K, T], stop: Stopped) -> Callable[[], Question[K]]:
    return lambda: search.throw(stop)


def _answer(
    question: Question[K],
    oracle: Oracle[K],
    ledger: Ledger[K],
    width: int,
    stops: Sequence[Stop[K]],
) -> Answer:
    known = ledger.known(question.wanted)
    exact = known is not None and known.evidence is None
    if known is not None and (exact or not question.fresh):
        return known
    _check(stops, ledger)
    if question.wanted not in ledger.codes:
        _compile(question, oracle, ledger, width)
        known = ledger.known(question.wanted)
        if known is not None:
            return known
    code = ledger.codes[question.wanted].name
    assert code is not None  # else its answer is known: unresolved
    ledger.add_answer(code, oracle.judge(question.wanted, code, known is not None))
    answer = ledger.known(question.wanted)
    assert answer is not None
    return answer


def _check(stops: Sequence[Stop[K]], ledger: Ledger[K]) -> None:
    for stop in stops:
        if reason := stop(ledger):
            raise Stopped(reason)


def _compile(question: Question[K], oracle: Oracle[K], ledger: Ledger[K], width: int) -> None:
    more = [key for key in dict.fromkeys(question.maybe) if key not in ledger.codes]
    batch = [question.wanted, *(key for key in more if key != question.wanted)][:width]
    for key, code in oracle.compile(batch).items():
        ledger.add_code(key, code)
    if question.wanted not in ledger.codes:
        raise PerfcliError("the set that was asked for was not compiled")
