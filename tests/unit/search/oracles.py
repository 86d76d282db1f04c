"""Tests whose answers are known, with a record of what was asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from perfcli.search.drive import Code, Ledger, Stop, drive
from perfcli.search.question import Answer, OptionChange, Query, Search, Subset

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
BAD, GOOD, UNRESOLVED = Answer("bad", 1.0), Answer("good", 0.0), Answer("unresolved", reason="?")


def own_class(key: Any) -> str:
    return "+".join(sorted(key)) if isinstance(key, frozenset) else str(key)


class Exact(Generic[K]):
    """``truth`` answers; ``code`` names the class (None: does not compile), each key's own else."""

    def __init__(
        self, truth: Callable[[K], Answer], code: Callable[[K], str | None] = own_class
    ) -> None:
        self.truth = truth
        self.code = code
        self.batches: list[tuple[K, ...]] = []
        self.judged: list[K] = []

    def compile(self, wanted: Sequence[K]) -> Mapping[K, Code]:
        self.batches.append(tuple(wanted))
        return {key: Code(self.code(key), "ptxas failed") for key in wanted}

    def judge(self, key: K, code: str, fresh: bool) -> Answer:
        assert not fresh, "an exact answer is asked for once"
        self.judged.append(key)
        return self.truth(key)

    def asked(self) -> list[K]:
        return [key for batch in self.batches for key in batch]


def changes(names: str) -> list[OptionChange]:
    """One for each letter, documented in the order of the alphabet."""
    return [OptionChange(name, False, True) for name in names]


def subset(names: str) -> Subset:
    return frozenset(f"{name}=True" for name in names)


def letters(keys: Subset) -> str:
    return "".join(sorted(key.partition("=")[0] for key in keys))


def names(options: Sequence[OptionChange]) -> str:
    return "".join(option.name for option in options)


def planted(*sets: str) -> Callable[[Subset], Answer]:
    """Bad is what has all of any of these."""
    wanted = [subset(each) for each in sets]
    return lambda keys: BAD if any(each <= keys for each in wanted) else GOOD


def run(search: Search[K, T], oracle: Exact[K], ledger: Ledger[K] | None = None, **more: Any) -> T:
    return drive(search, oracle, ledger if ledger is not None else Ledger(), **more)


def transcript(search: Search[K, T], oracle: Exact[K], **more: Any) -> list[str]:
    """All that the search asks, in order: what for, the set, what may be next, how many changes are
    still suspected, and the answer."""
    lines: list[str] = []

    def watch(question: Query[K], answer: Answer | None) -> None:
        if answer is not None:
            maybe = " ".join(map(_written, question.maybe)) or "-"
            again = " again" if question.fresh else ""
            lines.append(
                f"{question.step}: {_written(question.wanted)}{again} | {maybe} | "
                f"{question.suspects} | {answer.outcome}"
            )

    run(search, oracle, watch=watch, **more)
    return lines


def _written(key: object) -> str:
    if isinstance(key, frozenset):
        return "".join(sorted(k.replace("=True", "").replace("=", "") for k in key)) or "0"
    return f"{key:.6g}" if isinstance(key, float) else str(key)


def max_runs(most: int) -> Stop[Any]:
    """Stop once ``most`` sets were compiled, or classes were judged ``most`` times."""
    reason = f"after {most} runs (--max-runs)"
    return lambda ledger: reason if max(ledger.compiled, ledger.judged) >= most else ""
