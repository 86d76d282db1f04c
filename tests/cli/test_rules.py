from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfcli import diagnosis
from perfcli.commands import rules as command
from perfcli.loading import registry
from perfcli.model import Rule

DOCS = Path(__file__).parents[2] / "docs" / "rules.md"


def test_each_rule_has_one_line(perfcli: Any) -> None:
    result = perfcli("rules")
    assert result.code == 0
    header, *lines = result.out.splitlines()
    assert header.split("  ")[0] == "code"
    assert [line[:5] for line in lines] == [rule.code for rule in diagnosis.rules()]
    assert (
        "register spills" in lines[0]
        and "A kernel needs more registers than a thread can have." in lines[0]
    )


def test_documentation_is_wrapped_at_the_terminals_width(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    narrow = perfcli("rules", "PC301").out
    monkeypatch.setenv("COLUMNS", "200")
    wide = perfcli("rules", "pc301").out
    assert max(map(len, narrow.splitlines())) <= 60
    assert len(wide.splitlines()) < len(narrow.splitlines())
    assert wide.split() == narrow.split()
    assert narrow.startswith("PC301  accumulated reads raise peak memory\n\nA sum of many large")
    assert narrow.endswith(".\n")


def test_a_rule_by_the_name_of_its_file(perfcli: Any) -> None:
    by_code = perfcli("rules", "PC101").out
    assert perfcli("rules", "register-spills").out == by_code
    assert perfcli("rules", "register_spills").out == by_code


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("PC111", "no rule 'PC111': did you mean PC101"),
        ("pc3", "no rule 'pc3': PC301, PC302 begin like that"),
        ("pc-301", "no rule 'pc-301': did you mean PC301"),
        ("register-spil", "no rule 'register-spil': did you mean register-spills?"),
    ],
)
def test_an_unknown_rule_names_the_nearest(perfcli: Any, wanted: str, complaint: str) -> None:
    result = perfcli("rules", wanted)
    assert result.code == 2
    assert result.complaint.startswith(f"perfcli: {complaint}")


def test_json_has_the_documentation(perfcli: Any, tmp_path: Path) -> None:
    assert perfcli("rules", "PC403", "--json", "rule.json").code == 0
    document = json.loads((tmp_path / "rule.json").read_text())
    assert (document["perfcli"], document["format"]) == ("rules", 1)
    (rule,) = document["rules"]
    assert (rule["code"], rule["title"]) == ("PC403", "graph breaks")
    assert "\n\nWhat to try: `torch.compile(model, fullgraph=True)` stops" in rule["documentation"]
    result = perfcli("rules", "--json", "-")
    assert len(json.loads(result.out)["rules"]) == len(diagnosis.rules())


def test_every_rule_says_what_it_sees_why_it_costs_and_what_to_try() -> None:
    for rule in diagnosis.rules():
        text = rule.documentation or ""
        places = [text.find(f"\n\nWhat {w}:") for w in ("it sees", "to try")]
        assert 0 < places[0] < text.find("\n\nWhy it costs:") < places[1], rule.code


def test_codes_and_titles_are_no_two_rules() -> None:
    rules = diagnosis.rules()
    assert len(rules) == len(registry.names("rules"))
    assert len({rule.code for rule in rules}) == len({rule.title for rule in rules}) == len(rules)


def test_the_page_in_docs_is_what_the_rules_say() -> None:
    assert DOCS.read_text(encoding="utf-8") == command._page(diagnosis.rules()), (
        "write it anew: perfcli rules --markdown docs/rules.md"
    )


def test_markdown() -> None:
    text = (
        "Two kernels\nare one. It is `so`.\n\nWhat it sees: a.b and\nc.\n\n    an example\n"
        "    of two lines\n"
    )
    rule = Rule("PC000", "one kernel", text)
    assert command._page([rule]).split("\n\n", 2)[2] == (
        "| code | title | what it sees |\n"
        "| --- | --- | --- |\n"
        "| [PC000](#pc000) | one kernel | Two kernels are one. |\n"
        "\n"
        "## PC000\n"
        "\n"
        "**one kernel**\n"
        "\n"
        "Two kernels are one. It is `so`.\n"
        "\n"
        "*What it sees:* a.b and c.\n"
        "\n"
        "    an example\n"
        "    of two lines\n"
    )
