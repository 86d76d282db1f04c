"""JUnit XML: a suite for each check, a case for its verdict, for each limit, finding and group of
kernels. What can't be told is skipped, what failed of perfcli or the model itself is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from perfcli.model import Document, Judgement

from ._cases import Case, State, cases
from ._judgement_rows import check_name
from ._places import without_root

_ELEMENTS: dict[State, str] = {"failed": "failure", "skipped": "skipped", "error": "error"}
_KINDS: dict[State, str] = {"skipped": "unsure", "error": "fault"}


def render(judgement: Judgement) -> str:
    root = judgement.root
    suites = [
        (without_root(check_name(judged), root), [_relative(c, root) for c in cases(judged)])
        for judged in judgement.checks
    ]
    every = [case for _, found in suites for case in found]
    counts = _counts(every)
    del counts["skipped"]  # the schema of Jenkins has it for a suite only
    top = Element("testsuites", {"name": "perfcli", **counts})
    for name, found in suites:
        suite = SubElement(top, "testsuite", {"name": name, **_counts(found), "time": "0"})
        for case in found:
            _add(case, suite, f"perfcli.{name}")
    indent(top, " ")
    text: str = tostring(top, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _relative(case: Case, root: str) -> Case:
    """With paths relative to the repository."""
    name, message, text = (without_root(t, root) for t in (case.name, case.message, case.text))
    return replace(case, name=name, message=message, text=text)


def _counts(found: Sequence[Case]) -> dict[str, str]:
    of = Counter(case.state for case in found)
    return {
        "tests": str(len(found)),
        "failures": str(of["failed"]),
        "errors": str(of["error"]),
        "skipped": str(of["skipped"]),
    }


def _add(case: Case, suite: Element, classname: str) -> None:
    element = SubElement(suite, "testcase", name=case.name, classname=classname, time="0")
    if case.state == "passed":
        if case.text:
            SubElement(element, "system-out").text = case.text
        return
    kind = _KINDS.get(case.state, case.kind)
    result = SubElement(element, _ELEMENTS[case.state], message=case.message, type=kind)
    result.text = case.text


JUNIT = Document("junit", ".xml", render)
