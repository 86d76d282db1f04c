"""Keeps what is known: the class of each set, and the answer for each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic

from perfcli.search.question import Answer, K


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
        self,
        codes: Mapping[K, Code] | None = None,
        answers: Mapping[str, Answer] | None = None,
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
