"""JUnit XML: a suite for each check, a case for its verdict, for each limit, finding and group of
kernels. What can't be told is skipped, what failed of perfcli or the model itself is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from perfcli import units
from perfcli.model import (
    Comparison,
    Document,
    Finding,
    FindingResult,
    GroupTiming,
    Judged,
    Judgement,
    KernelGroup,
    LimitResult,
)

from ._rows.findings import write_label
from ._rows.groups import write_group
from ._rows.judgement import join_lines, name_check, name_limited, write_allowance, write_limit
from ._rows.places import strip_root

State = Literal["passed", "failed", "skipped", "error"]

# Metrics of a group that decide a verdict, as perfcli.diff.metrics.DECIDING has them.
DECIDING = (
    "spilled_words", "bytes_moved", "bytes_swept", "lower_bound_seconds", "vector_loads",
)  # fmt: skip
MOST_NAMED = 3
_STATES: dict[str, State] = {
    "pass": "passed", "fail": "failed", "unsure": "skipped", "fault": "error",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Case:
    """Holds one test case. ``message``: why it did not pass, in one line; ``text``: all that is to
    be said."""

    name: str
    state: State = "passed"
    kind: str = "regression"
    """Of a failure: ``regression``, ``limit`` or ``finding``."""
    message: str = ""
    text: str = ""


def _list_cases(judged: Judged) -> list[_Case]:
    """Return the cases with names that differ, the check's own first."""
    found = [_write_verdict(judged)]
    if judged.comparison is not None:
        found += [_write_limit_case(result) for result in judged.limits]
        found += [_write_finding(result, judged.comparison) for result in judged.findings]
        if judged.alone:  # nothing counts, and all of it is to be read
            found += [_write_text(finding) for finding in judged.comparison.findings]
        found += _list_groups(judged, judged.comparison)
    return list(_number_alike(found))


def _number_alike(found: Sequence[_Case]) -> Iterator[_Case]:
    """Yield a name that occurs again gets a number."""
    seen: Counter[str] = Counter()
    for case in found:
        seen[case.name] += 1
        number = seen[case.name]
        yield replace(case, name=f"{case.name} ({number})") if number > 1 else case


def _write_verdict(judged: Judged) -> _Case:
    state = _STATES[judged.outcome]
    reason = join_lines(judged.fault or judged.reason)
    name = f"verdict of {name_check(judged)}"
    return _Case(name, state, "regression", "" if state == "passed" else reason, reason)


def _write_limit_case(result: LimitResult) -> _Case:
    states: dict[str, State] = {"broken": "failed", "unknown": "skipped"}
    state = states.get(result.state, "passed")
    glob = f" of {result.limit.kernel}" if result.limit.kernel else ""
    on = "" if name_limited(result) == "total" else f": {name_limited(result)}"
    name = f"limit {units.printable(f'{result.limit.metric}{glob}')}{on}"
    line = write_limit(result)
    return _Case(name, state, "limit", "" if state == "passed" else line, line)


def _write_finding(result: FindingResult, comparison: Comparison) -> _Case:
    allowed = f"; {write_allowance(result.allowance)}" if result.allowance is not None else ""
    case = _write_text(comparison.findings[result.finding], allowed)
    if result.state != "broken":
        return case
    return replace(case, state="failed", message=case.text.partition("\n")[0])


def _write_text(finding: Finding, more: str = "") -> _Case:
    """Return a case that passes, with all that a finding says."""
    line = join_lines(f"{write_label(finding)}: {finding.headline}") + more
    text = "\n".join([line, *finding.evidence, finding.advice]).strip()
    return _Case(f"finding {line.split(';')[0]}", kind="finding", text=units.printable(text))


# --- groups of kernels -------------------------------------------------------------------------


def _list_groups(judged: Judged, comparison: Comparison) -> Iterator[_Case]:
    times = {g.group: g for g in comparison.timing.groups} if comparison.timing else {}
    for number, group in enumerate(comparison.groups):
        rows = write_group(group, comparison)
        reasons = list(_list_against(judged, comparison, number, times.get(number)))
        names = _join_names(group, comparison)
        text = [f"{rows.headline}: {names}", *([rows.note] if rows.note else []), *reasons]
        state: State = "passed"
        if reasons:
            state = "failed" if judged.outcome == "fail" else "passed"
        elif _is_unsure(judged, times.get(number)):
            state, reasons = "skipped", [times[number].change.why or "not measured precisely"]
        message = join_lines(f"{names}: {'; '.join(reasons)}") if state != "passed" else ""
        yield _Case(
            f"kernel {_write_name(group, comparison)}",
            state,
            "regression",
            message,
            units.printable("\n".join(text)),
        )


def _is_unsure(judged: Judged, timing: GroupTiming | None) -> bool:
    return judged.outcome != "pass" and timing is not None and timing.change.verdict == "unsure"


def _list_against(
    judged: Judged, comparison: Comparison, number: int, timing: GroupTiming | None
) -> Iterator[str]:
    """Yield what speaks against a group: limits and findings of the gate; where nobody put limits,
    a measured time, else a number that decides, and new findings that are errors."""
    if judged.limits or judged.findings:
        broken = (r for r in judged.limits if r.state == "broken" and r.group == number)
        yield from (write_limit(result) for result in broken)
        counted = {r.finding for r in judged.findings if r.state == "broken"}
        found = [f for n, f in enumerate(comparison.findings) if n in counted]
    else:
        yield from _list_worse(comparison, number, timing)
        came = (f for f in comparison.findings if f.came_with_head and not f.doubt)
        found = [finding for finding in came if finding.severity == "error"]
    own = set(comparison.groups[number].match.head)
    for finding in found:
        if own.intersection(finding.kernels) and not finding.on_base:
            yield join_lines(f"{write_label(finding)}: {finding.headline}")


def _list_worse(comparison: Comparison, number: int, timing: GroupTiming | None) -> Iterator[str]:
    if timing is not None:
        if timing.change.verdict == "slower":
            took = timing.change
            moved = units.interval(took.ratio, took.low, took.high)
            yield f"time {units.from_to(took.base, took.head)}, {moved}"
        return
    estimate = comparison.estimate
    if comparison.timing is None and estimate is not None and (estimate.groups or estimate.missing):
        slower = (g for g in estimate.groups if g.group == number and g.head > g.base)
        for group in slower if estimate.verdict == "slower" else ():
            yield f"estimated time {units.from_to(group.base or None, group.head)}"
        return
    for change in comparison.groups[number].changes:
        if change.metric in DECIDING and change.outcome == "worse":
            write = units.writer(change.metric)
            yield f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"


def _join_names(group: KernelGroup, comparison: Comparison) -> str:
    base, head = group.match.select(comparison.base, comparison.head)
    return units.printable(", ".join(kernel.name for kernel in head or base))


def _write_name(group: KernelGroup, comparison: Comparison) -> str:
    """Return the first names of the head's kernels, or of the base's where they are gone."""
    base, head = group.match.select(comparison.base, comparison.head)
    gone = "" if head else " (gone)"
    names = [kernel.name for kernel in head or base]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return join_lines(", ".join(names[:MOST_NAMED])) + more + gone


_ELEMENTS: dict[State, str] = {"failed": "failure", "skipped": "skipped", "error": "error"}
_KINDS: dict[State, str] = {"skipped": "unsure", "error": "fault"}


def _render(judgement: Judgement) -> str:
    root = judgement.root
    suites = [
        (strip_root(name_check(judged), root), [_strip_roots(c, root) for c in _list_cases(judged)])
        for judged in judgement.checks
    ]
    every = [case for _, found in suites for case in found]
    counts = _count_states(every)
    del counts["skipped"]  # the schema of Jenkins has it for a suite only
    top = Element("testsuites", {"name": "perfcli", **counts})
    for name, found in suites:
        suite = SubElement(top, "testsuite", {"name": name, **_count_states(found), "time": "0"})
        for case in found:
            _add_case(case, suite, f"perfcli.{name}")
    indent(top, " ")
    text: str = tostring(top, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _strip_roots(case: _Case, root: str) -> _Case:
    """Return the case with paths relative to the repository."""
    name, message, text = (strip_root(t, root) for t in (case.name, case.message, case.text))
    return replace(case, name=name, message=message, text=text)


def _count_states(found: Sequence[_Case]) -> dict[str, str]:
    of = Counter(case.state for case in found)
    return {
        "tests": str(len(found)),
        "failures": str(of["failed"]),
        "errors": str(of["error"]),
        "skipped": str(of["skipped"]),
    }


def _add_case(case: _Case, suite: Element, classname: str) -> None:
    element = SubElement(suite, "testcase", name=case.name, classname=classname, time="0")
    if case.state == "passed":
        if case.text:
            SubElement(element, "system-out").text = case.text
        return
    kind = _KINDS.get(case.state, case.kind)
    result = SubElement(element, _ELEMENTS[case.state], message=case.message, type=kind)
    result.text = case.text


JUNIT = Document("junit", ".xml", _render)
