"""From many changes that are bad together to few, with few tests."""

from __future__ import annotations

from perfcli.search.answer import Answer
from perfcli.search.flip import AskAt, flip
from perfcli.search.options import Subset
from perfcli.search.question import Question, Search


def narrow(keys: tuple[str, ...], label: str = "narrowing") -> Search[Subset, tuple[str, ...]]:
    """A set that is bad, of ``keys`` that are known to be. In their order.

    The shortest prefix that is bad ends with a change that it needs; keep that one, and look for
    the shortest prefix of those before it that is bad together with what is kept, until what is
    kept is bad alone. Where more changes never make a bad set good this is a minimal set, after
    k · (log2(n) + 1) tests for k culprits among n, and of several minimal sets the one whose last
    change stands first (the order of QuickXplain: Junker, "QUICKXPLAIN: preferred explanations and
    relaxations for over-constrained problems", AAAI 2004). Where they do, it is still a bad set.
    """
    needed: tuple[str, ...] = ()
    rest = keys
    while rest:
        alone = yield Question(frozenset(needed), step=label, suspects=len(rest))
        if alone.is_bad:
            break
        low, high = yield from flip(0, len(rest), _ask_prefix(needed, rest, label))
        # More than one where those between have no answer: ddmin takes them apart.
        needed = rest[low:high] + needed
        rest = rest[:low]
    return needed


def _ask_prefix(needed: tuple[str, ...], rest: tuple[str, ...], label: str) -> AskAt[Subset]:
    def prefix(length: int) -> Subset:
        return frozenset(rest[:length] + needed)

    def ask(place: int, maybe: tuple[int, ...], suspects: int) -> Search[Subset, Answer]:
        later = tuple(prefix(length) for length in maybe)
        answer = yield Question(prefix(place), later, step=label, suspects=suspects)
        return answer

    return ask
