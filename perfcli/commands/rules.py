"""What perfcli can find, and the page of it in docs/."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args

if TYPE_CHECKING:
    from perfcli.model import Rule


def rules(
    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE", help="One rule, closely: PC101, or register-spills."),
    ] = None,
    json: args.Json = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the documentation of all as a page; - is stdout."),
    ] = None,
) -> int:
    """List the rules of the findings, or explain one.

    With a code: what it sees, why it costs, and what to try.
    """
    from perfcli import diagnosis
    from perfcli.console import output

    shown = diagnosis.rules() if code is None else (_asked(code),)
    output.write_document("rules", {"rules": [_document(rule) for rule in shown]}, json)
    if markdown is not None:
        output.write_text(_page(shown), markdown)
    if output.STDOUT not in (json, markdown):
        _list(shown) if code is None else _explain(shown[0])
    return 0


def _asked(wanted: str) -> Rule:
    """By code, which has digits, or by the name of its file, which has none."""
    from perfcli import diagnosis
    from perfcli.loading import registry
    from perfcli.model import Rule

    if any(character.isdigit() for character in wanted):
        return diagnosis.rule(wanted)
    return registry.declared("rules", wanted, Rule)


def _document(rule: Rule) -> dict[str, str]:
    paragraphs = "\n\n".join(_paragraphs(rule))
    return {"code": rule.code, "title": rule.title, "documentation": paragraphs}


def _list(shown: Sequence[Rule]) -> None:
    from perfcli.console import table

    rows = [(rule.code, rule.title, _first_sentence(rule)) for rule in shown]
    table.show(("code", "title", "what it sees"), rows)


def _explain(rule: Rule) -> None:
    from rich.console import Group
    from rich.text import Text

    from perfcli.console import output

    parts = [Text(f"{rule.code}  {rule.title}", style="bold")]
    for paragraph in _paragraphs(rule):
        parts += [Text(""), Text(paragraph)]
    output.show(Group(*parts))


def _page(shown: Sequence[Rule]) -> str:
    """All documentation as Markdown: a table, then each rule."""
    lines = [
        "# Rules",
        "",
        "What perfcli's findings mean. `perfcli rules` lists the rules, `perfcli rules CODE` shows "
        "what stands here; this page is written by `perfcli rules --markdown docs/rules.md`.",
        "",
        "| code | title | what it sees |",
        "| --- | --- | --- |",
    ]
    for rule in shown:
        link = f"[{rule.code}](#{rule.code.lower()})"
        lines.append(f"| {link} | {rule.title} | {_first_sentence(rule)} |")
    for rule in shown:
        lines += ["", f"## {rule.code}", "", f"**{rule.title}**"]
        for paragraph in _paragraphs(rule):
            lines += ["", re.sub(r"^([A-Z][a-z ]+:) ", r"*\1* ", paragraph)]
    return "\n".join(lines) + "\n"


def _first_sentence(rule: Rule) -> str:
    """Up to the full stop that a capital letter follows, or the paragraph's end."""
    paragraph = next(_paragraphs(rule), "")
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0]


def _paragraphs(rule: Rule) -> Iterator[str]:
    """Of the documentation, each in one line; what is indented (an example) stays as it is."""
    text = inspect.cleandoc(rule.documentation or "")
    for paragraph in re.split(r"\n\s*\n", text):
        indented = paragraph.startswith((" ", "* ", "- ", "| "))
        yield paragraph if indented else " ".join(paragraph.split())
