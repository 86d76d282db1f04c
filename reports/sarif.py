"""SARIF 2.1.0 for code scanning: perfcli's rules, and a result for each broken limit and each
finding that came with the head, at the line of the model that its kernel comes from."""

from __future__ import annotations

import json
from typing import Any

from perfcli import units
from perfcli.model import Document, Judgement

from ._rows.judgement import join_lines, name_check
from ._rows.places import strip_root
from ._sarif_results import Occurrences, describe_result, describe_rules, list_results

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# GitHub shows no more of one file.
MOST_RESULTS = 5000


def _render(judgement: Judgement) -> str:
    """Return the document with the gravest results where there are too many; a notification says
    how many are left out."""
    found = list_results(judgement)
    shown = found[:MOST_RESULTS]
    rules = describe_rules(judgement.rules, (result.identifier for result in shown))
    identifiers = [rule["id"] for rule in rules]
    occurrences = Occurrences()
    run = {
        "tool": {"driver": {"name": "perfcli", **_describe_version(judgement), "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [_describe_invocation(judgement, len(found) - len(shown))],
        "results": [describe_result(result, identifiers, occurrences) for result in shown],
    }
    whole = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _describe_version(judgement: Judgement) -> dict[str, str]:
    heads = (judged.comparison.head for judged in judgement.checks if judged.comparison)
    version = next((head.environment.perfcli for head in heads), "")
    return {"version": version} if version else {}


def _describe_invocation(judgement: Judgement, left_out: int) -> dict[str, Any]:
    """Return what is about the report and not about a line of code: faults, doubts, warnings."""
    notes = [
        ("error", f"{name_check(j)}: {join_lines(j.fault)}") for j in judgement.checks if j.fault
    ]
    for judged in judgement.checks:
        findings = judged.comparison.findings if judged.comparison else ()
        notes += [("warning", join_lines(f"{f.code} {f.headline}")) for f in findings if f.doubt]
        if judged.outcome == "unsure":
            notes.append(("warning", f"{name_check(judged)}: {join_lines(judged.reason)}"))
    notes += [("warning", join_lines(each)) for each in judgement.warnings]
    if left_out:
        notes.append(
            ("warning", f"{units.plural(left_out, 'result')} left out: {MOST_RESULTS} fit")
        )
    return {
        "executionSuccessful": not any(j.outcome == "fault" for j in judgement.checks),
        "exitCode": judgement.exit_code,
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": strip_root(text, judgement.root)}}
            for level, text in dict.fromkeys(notes)
        ],
    }


SARIF = Document("sarif", ".sarif", _render)
