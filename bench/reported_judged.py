"""What perfcli says of a reported problem, held against what is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reported import Reported

NO_FAULT = ("PC8", "PC9")
"""Findings that name no fault of the kernels: other names, doubts about the numbers."""


class Missing(Exception):
    """A case cannot be run; the text says for lack of what."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What perfcli said: the comparison (good is the base), the findings of each side alone."""

    compared: Mapping[str, Any]
    first_lines: str
    of_bad: Sequence[Mapping[str, Any]]
    of_good: Sequence[Mapping[str, Any]]
    good_kernels: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a case."""

    name: str
    missing: str = ""
    """Why it was not run; the rest is empty then."""
    first_lines: str = ""
    right: bool = False
    """The bad side is called worse, or likely to be slower; where it is not its time that is worse,
    the top says what."""
    called_worse: bool = False
    """It is called worse."""
    misled: bool = False
    """The bad side is called the same or better, or likely to be faster, and the top does not say
    what is worse."""
    cause_on_top: bool = False
    cause: bool = False
    """On top, or a finding of the bad side names it."""
    cure: bool = False
    explained: bool = False
    """``explain`` of the bad side alone has a finding that names the cause."""
    found: list[str] = field(default_factory=list)
    """Codes that ``explain`` has of the bad side."""
    false: list[str] = field(default_factory=list)
    """Warnings and errors that ``explain`` has of the good twin, and that are not known as true."""
    false_kernels: int = 0
    good_kernels: int = 0

    @property
    def line(self) -> str:
        if self.missing:
            return f"{self.name}  not run: {self.missing}"
        facts = {
            "right": self.right,
            "misled": self.misled,
            "cause on top": self.cause_on_top,
            "cause": self.cause and not self.cause_on_top,
            "cure": self.cure,
            "explained": self.explained,
        }
        said = ", ".join(word for word, true in facts.items() if true) or "missed"
        return f"{self.name}  {said}" + (f"; false: {', '.join(self.false)}" if self.false else "")


def judge(name: str, case: Reported, heard: Heard) -> Judged:
    said, cure = read_top(heard.first_lines)
    outcome = heard.compared["outcome"]
    arrived = [f for f in heard.compared["findings"] if _came_with_head(f)]
    naming = [f for f in arrived if f["code"] in case.codes]
    on_top = any(code in said for code in case.codes) or _speaks_of(case.cause, [said])
    told_otherwise = case.metric in ("compile time", "recompilations") and on_top
    false = [f for f in heard.of_good if _is_alarm(f, case)]
    about_time = case.metric == "time" and outcome == "unknown"
    likely = {
        word: about_time and f"{word} in " in heard.first_lines for word in ("slower", "faster")
    }
    called_better = outcome in ("same", "better") and _misleads(case, outcome)
    return Judged(
        name,
        first_lines=heard.first_lines,
        right=outcome == "worse" or likely["slower"] or told_otherwise,
        called_worse=outcome == "worse",
        misled=(called_better or likely["faster"]) and not told_otherwise,
        cause_on_top=on_top,
        cause=on_top or bool(naming),
        cure=_speaks_of(case.cure, map(_proposal, naming))
        or (on_top and _speaks_of(case.cure, [cure])),
        explained=any(f["code"] in case.codes for f in heard.of_bad),
        found=sorted({f["code"] for f in heard.of_bad}),
        false=[f"{f['code']} {f['headline']}" for f in false],
        false_kernels=len({number for f in false for number in f["kernels"]}),
        good_kernels=heard.good_kernels,
    )


def read_top(first_lines: str) -> tuple[str, str]:
    """Return what the first lines say, in one line without names of kernels, which are made of
    operators' names and would speak of anything; and what they say behind ``cure``."""
    words = re.sub(r"triton_\S+", "", " ".join(first_lines.split()))
    said, _, cure = words.partition(" cure ")
    return said, cure


def _came_with_head(finding: Mapping[str, Any]) -> bool:
    return finding["side"] == "head" and finding["appearance"] in ("", "new", "worse")


def _misleads(case: Reported, outcome: str) -> bool:
    """Return whether the outcome is wrong: kernels that are the same say nothing of how long they
    took to compile, or how often."""
    return outcome == "better" or case.metric in ("time", "peak memory")


def _proposal(finding: Mapping[str, Any]) -> str:
    """Return everything that a finding says of what to do."""
    options = [name for cure in finding["cures"] for name in cure["options"]]
    return " ".join([finding["advice"], *options, *(cure["why"] for cure in finding["cures"])])


def _speaks_of(patterns: Sequence[str], texts: Iterable[str]) -> bool:
    joined = "\n".join(texts)
    return any(re.search(pattern, joined, re.IGNORECASE) for pattern in patterns)


def _is_alarm(finding: Mapping[str, Any], case: Reported) -> bool:
    code = finding["code"]
    grave = finding["severity"] in ("warning", "error")
    return grave and not code.startswith(NO_FAULT) and code not in case.true_of_good
