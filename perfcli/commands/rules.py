"""``perfcli rules`` lists or explains the rules, and writes docs/rules.md."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.frames.table import Column, Table

if TYPE_CHECKING:
    from perfcli.model import Rule


def rules(
    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE", help="Explain this rule: PC101, or register-spills."),
    ] = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the documentation as one page; - is stdout."),
    ] = None,
) -> int:
    """List the rules behind the findings, or explain one.

    With a code, says what the rule sees, why that costs time or memory, and what to try.
    """
    from perfcli import diagnosis
    from perfcli.console import output

    wanted = documents.Wanted(markdown=markdown, json=json, csv=csv, parquet=parquet)
    documents.check(wanted)
    shown = diagnosis.rules() if code is None else (_asked(code),)
    output.write_document("rules", {"rules": [_document(rule) for rule in shown]}, json)
    documents.write_table(RULES, shown, wanted)
    if markdown is not None:
        output.write_text(_page(shown), markdown)
    if not wanted.stdout:
        _list(shown) if code is None else _explain(shown[0])
    return 0


def _asked(wanted: str) -> Rule:
    """Return the rule with this code, which has digits, or this file name, which has none."""
    from perfcli import diagnosis
    from perfcli.loading import registry
    from perfcli.model import Rule

    if any(character.isdigit() for character in wanted):
        return diagnosis.rule(wanted)
    return registry.load_declared("rules", wanted, Rule)


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
    """Return all documentation as Markdown: a table, then each rule."""
    lines = [
        "# Rules",
        "",
        "What perfcli's findings mean. `perfcli rules` lists the rules, `perfcli rules CODE` shows "
        "what stands here; this page is written by `perfcli rules --markdown docs/rules.md`. "
        "`--json FILE` writes codes, titles and texts, `--csv FILE` and `--parquet FILE` a "
        "[table](frames.md#rules) of the rules.",
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
    """Return the text up to a full stop before a capital letter, or the first paragraph."""
    paragraph = next(_paragraphs(rule), "")
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0]


def _paragraphs(rule: Rule) -> Iterator[str]:
    """Yield each paragraph of the documentation in one line, indented examples as they are."""
    text = inspect.cleandoc(rule.documentation or "")
    for paragraph in re.split(r"\n\s*\n", text):
        indented = paragraph.startswith((" ", "* ", "- ", "| "))
        yield paragraph if indented else " ".join(paragraph.split())


RULES: Table[Rule] = Table(
    "rules",
    "a rule behind the findings",
    "`rules`",
    (
        Column("code", "text", "its code", lambda row: row.code),
        Column("title", "text", "its title", lambda row: row.title),
        Column("sees", "text", "what it sees", lambda row: _first_sentence(row)),
    ),
)
