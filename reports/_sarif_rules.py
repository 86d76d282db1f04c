"""Rules and limits as SARIF describes them: ``reportingDescriptor`` (SARIF 2.1.0, 3.49)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from perfcli import units
from perfcli.model import Rule, Severity

LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
LIMIT = "limit/"
WORSE = "regression"


def descriptors(rules: Sequence[Rule], used: Iterable[str]) -> list[dict[str, Any]]:
    """Every rule that looked, then what else results name, both by id."""
    known = {rule.code: _of_rule(rule) for rule in rules}
    others = {identifier for identifier in used if identifier not in known}
    return [*known.values(), *(_of_other(identifier) for identifier in sorted(others))]


def _of_rule(rule: Rule) -> dict[str, Any]:
    documentation = inspect.cleandoc(rule.documentation or rule.title)
    return {
        "id": rule.code,
        "name": _pascal(rule.title),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": _first_sentence(documentation)},
        "help": {"text": documentation, "markdown": documentation},
        "properties": {"tags": ["performance"]},
    }


def _of_other(identifier: str) -> dict[str, Any]:
    if identifier.startswith(LIMIT):
        metric = units.title(identifier.removeprefix(LIMIT))
        title = f"Limit on {metric}"
        text = f"The limit that the configuration of perfcli puts on {metric} is broken."
    elif identifier == WORSE:
        title = "Worse than the base"
        text = "A number that decides the verdict of perfcli compare got worse."
    else:
        title = text = f"Finding {identifier}"
    return {
        "id": identifier,
        "name": _pascal(title),
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "properties": {"tags": ["performance"]},
    }


def _first_sentence(documentation: str) -> str:
    """Of the first paragraph that is one, the title left out."""
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", documentation)]
    paragraph = next((p for p in paragraphs if p.endswith(".")), paragraphs[0])
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0]


def _pascal(title: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.findall(r"\w+", title))
