"""Defines a diagnosis that perfcli can make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from perfcli.model.comparison import Comparison
from perfcli.model.finding import Finding
from perfcli.model.run import Run


def _nothing(_: object) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Describes one file of ``rules/``. ``of_run`` looks at one run alone and is asked about both
    sides of a comparison; ``of_comparison`` says what only two runs can show."""

    code: str
    title: str
    documentation: str | None
    """The file's docstring: what it sees, why it costs, what to try."""
    explains: tuple[str, ...] = ()
    """Codes of findings about the same kernel that are consequences of this one."""
    of_run: Callable[[Run], Iterable[Finding]] = _nothing
    of_comparison: Callable[[Comparison], Iterable[Finding]] = _nothing
