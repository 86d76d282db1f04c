"""The two runs of ``compare``, stored or compiled, held together and where possible measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from perfcli.commands import _measuring, _obtain
from perfcli.commands._measuring_options import Asked, settle
from perfcli.commands._obtain import How, Obtained
from perfcli.commands._progress import Notes
from perfcli.commands._request import Question, Side
from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare
from perfcli.errors import RuleFailed
from perfcli.model import Comparison


@dataclass(frozen=True, slots=True)
class Pair:
    """``comparison`` has its times, or what is wrong with its results; no findings yet."""

    base: Obtained
    head: Obtained
    comparison: Comparison


def of_stored(base: str, head: str, asked: Asked, allow: Collection[str], notes: Notes) -> Pair:
    """Two stored runs, with the newest measurement of them.

    Raises PerfcliError where there are none, NotComparable where they are unlike.
    """
    asked.refuse("two stored runs are compared as they are, with their newest measurement")
    ours, theirs = _obtain.stored(base), _obtain.stored(head)
    comparison = compare(ours.run, theirs.run, allow)
    timing = None if asked.no_time else _measuring.stored(comparison, notes)
    return Pair(ours, theirs, replace(comparison, timing=timing))


def of_variants(
    question: Question,
    sides: Sequence[Side],
    how: How,
    asked: Asked,
    allow: Collection[str],
    notes: Notes,
) -> Pair:
    """Two variants of a scenario, compiled or reused, then measured where there is a device.

    Raises PerfcliError for what the user got wrong, and what compiling and measuring raise.
    """
    setting = settle(question, asked, how)
    question = replace(question, threads=setting.threads if setting else None)
    order = _obtain.ordered(question, sides, how, notes)
    base, head = _obtain.obtain(order.jobs, order.executor, how.fresh, notes)
    _obtain.warn_forward_only(head.run, notes)
    comparison = compare(base.run, head.run, allow)
    if setting is not None:
        comparison = _measuring.measured(comparison, setting, order.jobs, how, notes)
    return Pair(base, head, comparison)


def judged(comparison: Comparison) -> tuple[Comparison, RuleFailed | None]:
    """With its findings, and the verdict that follows of them and of the times. A rule that
    failed is for the end: the report stands without findings."""
    broken = None
    try:
        comparison = diagnose(comparison)
    except RuleFailed as error:
        broken = error
    return _measuring.weighed(comparison), broken
