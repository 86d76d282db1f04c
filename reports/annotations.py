"""Workflow commands of GitHub Actions: what failed, beside the line of the model it comes from.

They need no token: the runner reads them from what a step prints.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Document, Judged, Judgement

from ._rows.judgement import join_lines, name_check, write_check_outcome
from ._rows.places import strip_root
from .sarif import SarifResult, list_results

# GitHub shows no more of one kind for a step.
MOST = 10
MOST_TEXT = 1000
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def _render(judgement: Judgement) -> str:
    """Return a line each; where there are more than fit, the last says how many more."""
    lines = list(_list_lines(judgement))
    if len(lines) > MOST:
        more = units.plural(len(lines) - MOST + 1, "more annotation")
        text = f"{more}: the step summary and the other reports have them all"
        lines = [*lines[: MOST - 1], _write_command("notice", "perfcli", text)]
    return strip_root("".join(f"{line}\n" for line in lines), judgement.root)


def _list_lines(judgement: Judgement) -> Iterator[str]:
    """Yield the faults, what failed, what can't be told, then findings that fail nothing, warnings.

    What is excepted, or follows from another finding, is left to the other documents.
    """
    found = [r for r in list_results(judgement) if r.allowance is None and not r.follows]
    for judged in judgement.checks:
        if judged.outcome == "fault":
            yield _write_command("error", _write_title(judged), judged.fault or judged.reason)
    covered = {result.check for result in found if result.level == "error"}
    for judged in judgement.checks:
        name = strip_root(name_check(judged), judgement.root)
        if judged.outcome == "fail" and name not in covered:
            yield _write_command("error", _write_title(judged), judged.reason)
    yield from (_write_result(each) for each in found if each.level == "error")
    for judged in judgement.checks:
        if judged.outcome == "unsure":
            yield _write_command("warning", _write_title(judged), judged.reason)
    yield from (_write_result(each) for each in found if each.level != "error")
    yield from (_write_command("warning", "perfcli", each) for each in judgement.warnings)


def _write_title(judged: Judged) -> str:
    return f"{write_check_outcome(judged)} {name_check(judged)}"


def _write_result(result: SarifResult) -> str:
    where = result.place if result.place is not None and result.place.inside else None
    title = f"{result.identifier} {result.check}"
    place = (where.path, where.line) if where else ("", None)
    return _write_command(_COMMANDS[result.level], title, result.text, *place)


def _write_command(
    kind: str, title: str, text: str, file: str = "", line: int | None = None
) -> str:
    """Return ``::error file=model.py,line=3,title=…::message``, in one line whatever the texts
    hold."""
    properties = [("file", file), ("line", str(line or "") if file else ""), ("title", title)]
    given = ",".join(f"{name}={_escape_property(value)}" for name, value in properties if value)
    return f"::{kind} {given}::{_escape_data(_shorten(text))}"


def _shorten(text: str) -> str:
    text = units.printable(text.strip())
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"


def _escape_data(text: str) -> str:
    """Return the text escaped as the runner takes it apart (actions/toolkit, ``escapeData``)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Return the same of a property (``escapeProperty``)."""
    return _escape_data(join_lines(text)).replace(":", "%3A").replace(",", "%2C")


ANNOTATIONS = Document("annotations", ".txt", _render)
