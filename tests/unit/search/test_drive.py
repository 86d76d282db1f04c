from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import pytest
from unit.search.oracles import Exact, changes, letters, max_runs, names, planted, run, subset

from perfcli.errors import PerfcliError
from perfcli.search.culprits import find_culprits
from perfcli.search.drive import Code, Ledger, Stop, budget
from perfcli.search.question import Answer, Query, Search, Stopped, Subset

TWELVE = "abcdefghijkl"


class Interrupted(Exact[Subset]):
    """Ctrl-C while the n-th class is judged."""

    def __init__(self, culprits: str, at: int) -> None:
        super().__init__(planted(culprits))
        self.at = at

    def judge(self, key: Subset, code: str, fresh: bool) -> Answer:
        if len(self.judged) == self.at:
            raise KeyboardInterrupt
        return super().judge(key, code, fresh)


@pytest.mark.parametrize("at", range(12))
def test_after_an_interruption_only_what_is_missing_is_asked(at: int) -> None:
    whole = Exact(planted("dk"))
    run(find_culprits(changes(TWELVE)), whole)
    first: Ledger[Subset] = Ledger()
    broken = Interrupted("dk", at)
    assert run(find_culprits(changes(TWELVE)), broken, first).stopped == "interrupted"
    rest = Exact(planted("dk"))
    second = Ledger(first.codes, first.answers)
    found = run(find_culprits(changes(TWELVE)), rest, second)
    assert [names(culprit.options) for culprit in found.sets] == ["dk"]
    assert broken.judged + rest.judged == whole.judged
    assert broken.asked() + rest.asked() == whole.asked()
    assert second.compiled == len(rest.asked())


def test_all_known_asks_nothing() -> None:
    ledger: Ledger[Subset] = Ledger()
    first = run(find_culprits(changes(TWELVE)), Exact(planted("b", "hi")), ledger)
    again = Exact(planted("b", "hi"))
    assert run(find_culprits(changes(TWELVE)), again, ledger) == first
    assert again.batches == []


def test_the_most_runs_are_kept_and_what_is_suspected_is_told() -> None:
    oracle = Exact(planted("dk"))
    found = run(find_culprits(changes(TWELVE)), oracle, stops=[max_runs(5)])
    assert len(oracle.asked()) == 5
    assert found.stopped == "after 5 runs (--max-runs)"
    assert (found.status, found.sets) == (None, ())
    assert {"d", "k"} <= set(names(found.suspects))


def test_what_was_found_before_the_stop_is_told() -> None:
    oracle = Exact(planted("a", "dk"))
    found = run(find_culprits(changes(TWELVE)), oracle, stops=[max_runs(9)])
    assert [names(culprit.options) for culprit in found.sets] == ["a"]
    assert found.status == "partly explained"
    assert found.stopped
    assert {"d", "k"} <= set(names(found.suspects)) <= set("bcdefghijkl")


def test_the_budget_ends_it_by_the_clock() -> None:
    now = iter(range(100))  # s; once to begin, then before each question
    oracle = Exact(planted("dk"))
    stop: Stop[Subset] = budget(4.0, lambda: float(next(now)))
    found = run(find_culprits(changes(TWELVE)), oracle, stops=[stop])
    assert found.stopped == "after 4 s (--budget)"
    assert (len(oracle.asked()), len(oracle.judged)) == (3, 3)


def test_idle_cores_compile_what_may_be_next() -> None:
    one, four = Exact(planted("g")), Exact(planted("g"))
    run(find_culprits(changes(TWELVE)), one)
    run(find_culprits(changes(TWELVE)), four, width=4)
    assert four.judged == one.judged
    assert len(four.batches) < len(one.batches)
    assert all(len(batch) <= 4 for batch in four.batches)
    assert len(four.asked()) == len(set(four.asked()))
    # Of three prefixes one is the middle of what is left after either answer.
    assert [letters(keys) for keys in four.batches[1]] == ["abcdef", "abc", "abcdefghi"]


def test_one_class_has_one_answer() -> None:
    oracle = Exact(planted("a"), lambda keys: "A" if subset("a") <= keys else "")
    ledger: Ledger[Subset] = Ledger()
    run(find_culprits(changes("abc")), oracle, ledger)
    everything, alone = ledger.known(subset("abc")), ledger.known(subset("a"))
    assert everything == alone
    assert everything is not None
    assert (everything.outcome, everything.code) == ("bad", "A")
    assert ledger.known(subset("bc")) == ledger.known(subset(""))


def test_progress_says_what_is_asked_and_how_many_are_suspected() -> None:
    seen: list[tuple[str, int | None, str]] = []

    def watch(question: Query[Subset], answer: Answer | None) -> None:
        if answer is not None:
            seen.append((question.step, question.suspects, answer.outcome))

    run(find_culprits(changes("abcd")), Exact(planted("c")), watch=watch)
    assert seen[:2] == [("the good side", None, "good"), ("the bad side", None, "bad")]
    narrowing = [(left, outcome) for step, left, outcome in seen if "narrowing" in step]
    assert narrowing == [(4, "good"), (4, "good"), (2, "bad"), (2, "bad")]


class Forgetful(Exact[Subset]):
    def compile(self, wanted: Sequence[Subset]) -> Mapping[Subset, Code]:
        return {}


def test_an_oracle_that_leaves_out_what_is_wanted_is_an_error() -> None:
    with pytest.raises(PerfcliError, match="not compiled"):
        run(find_culprits(changes("ab")), Forgetful(planted("a")))


class Arriving(Exact[Subset]):
    """Codes one by one, the last one first; ``end`` of them, then Ctrl-C."""

    def __init__(self, end: int) -> None:
        super().__init__(planted("c"))
        self.end = end
        self.arrived: list[Subset] = []
        self.closed = False

    def compile(self, wanted: Sequence[Subset]) -> Generator[tuple[Subset, Code], None, None]:  # type: ignore[override]
        try:
            for key in reversed(wanted):
                if len(self.arrived) == self.end:
                    raise KeyboardInterrupt
                self.arrived.append(key)
                yield key, Code(self.code(key))
        finally:
            self.closed = True


def four(seen: list[str]) -> Search[Subset, str]:
    """Asks for a, b, c and d one after the other, each certain to be asked."""
    sets = [subset(name) for name in "abcd"]
    try:
        for at, each in enumerate(sets):
            yield Query(each, tuple(sets[at + 1 :]))
            seen.append("abcd"[at])
    except Stopped as stop:
        return stop.reason
    return ""


@pytest.mark.parametrize(("end", "answered"), [(4, "abcd"), (3, ""), (0, "")])
def test_what_came_before_an_interruption_is_kept(end: int, answered: str) -> None:
    oracle, seen, ledger = Arriving(end), list[str](), Ledger[Subset]()
    reason = run(four(seen), oracle, ledger, width=4, at_hand=lambda code: True)
    assert "".join(seen) == answered
    assert reason == ("" if end == 4 else "interrupted")
    assert set(ledger.codes) == set(oracle.arrived)
    assert len(oracle.judged) == end


def test_a_stop_between_two_arrivals_answers_what_is_at_hand() -> None:
    """The batch of two has a, and its stop comes with it: b was compiled, and is answered too."""
    oracle, seen = Arriving(9), list[str]()
    reason = run(four(seen), oracle, width=2, stops=[max_runs(2)], at_hand=lambda code: True)
    assert ("".join(seen), reason) == ("ab", "after 2 runs (--max-runs)")
    assert oracle.closed


def test_a_stop_closes_what_is_being_compiled() -> None:
    oracle, seen = Arriving(9), list[str]()
    run(four(seen), oracle, width=4, stops=[max_runs(2)], at_hand=lambda code: True)
    assert [letters(keys) for keys in oracle.arrived] == ["d", "c"]
    assert oracle.closed
    assert seen == []


def test_the_width_is_the_questions() -> None:
    oracle = Exact(planted("c"))
    run(four([]), oracle, width=lambda question: 3 if subset("a") == question.wanted else 1)
    assert [len(batch) for batch in oracle.batches] == [3, 1]


def test_each_of_several_is_told_as_it_comes() -> None:
    told: list[tuple[str, str | None]] = []

    def watch(question: Query[Subset], answer: Answer | None) -> None:
        told.append((letters(question.wanted), answer.outcome if answer else None))

    run(four([]), Arriving(9), width=4, at_hand=lambda code: True, watch=watch)
    arrived = [("d", "good"), ("c", "bad"), ("b", "good"), ("a", "good")]
    assert told[:5] == [("a", None), *arrived]
