"""SARIF 2.1.0 for code scanning: perfcli's rules, and a result for each broken limit and each
finding that came with the head, at the line of the model that its kernel comes from."""

from __future__ import annotations

import hashlib
import inspect
import json
import os.path
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfcli import units
from perfcli.model import (
    Allowance,
    Comparison,
    Cost,
    Document,
    Finding,
    Judged,
    Judgement,
    KernelFacts,
    LimitResult,
    Rule,
    Severity,
)

from ._rows.findings import find_blamed, list_group_kernels, list_rows, locate_finding, locate_group
from ._rows.judgement import join_lines, name_check, name_limited, write_allowance, write_limit
from ._rows.places import Place, parse_place, strip_root


def _list_computed(kernels: Sequence[KernelFacts]) -> list[str]:
    """Return what kernels compute: operators and modules of the model.

    Without provenance, their names without the number.
    """
    nodes = {
        f"{o.op or o.node} in {o.module}" for kernel in kernels for o in kernel.origins if o.op
    }
    bare = {re.sub(r"_\d+$", "", k.name) for k in kernels if not any(o.op for o in k.origins)}
    graphs = {kernel.graph.split(" ")[0] for kernel in kernels}
    return sorted(nodes | bare) + sorted(graphs)


def _hash_subject(identifier: str, check: str, subject: str, kernels: Sequence[KernelFacts]) -> str:
    """Return a SHA-256 (hex, the first 32 digits)."""
    without_lines = re.sub(r":\d+\b", "", subject)
    parts = [identifier, check, without_lines, _list_computed(kernels)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class _Occurrences:
    """Numbers results of one fingerprint in their order: ``…:1``, ``…:2``."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def numbered(self, print_: str) -> str:
        self._seen[print_] += 1
        return f"{print_}:{self._seen[print_]}"


LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
LIMIT = "limit/"
WORSE = "regression"


def _describe_rules(rules: Sequence[Rule], used: Iterable[str]) -> list[dict[str, Any]]:
    """Return every rule that looked, then what else results name, both by id."""
    known = {rule.code: _describe_rule(rule) for rule in rules}
    others = {identifier for identifier in used if identifier not in known}
    return [*known.values(), *(_describe_other(identifier) for identifier in sorted(others))]


def _describe_rule(rule: Rule) -> dict[str, Any]:
    documentation = inspect.cleandoc(rule.documentation or rule.title)
    return {
        "id": rule.code,
        "name": _write_pascal(rule.title),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": _find_first_sentence(documentation)},
        "help": {"text": documentation, "markdown": documentation},
        "properties": {"tags": ["performance"]},
    }


def _describe_other(identifier: str) -> dict[str, Any]:
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
        "name": _write_pascal(title),
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "properties": {"tags": ["performance"]},
    }


def _find_first_sentence(documentation: str) -> str:
    """Return the first sentence of the first paragraph after the title."""
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", documentation)]
    paragraph = next((p for p in paragraphs if p.endswith(".")), paragraphs[0])
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0]


def _write_pascal(title: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.findall(r"\w+", title))


MOST_TEXT = 4000
_LEVEL_ORDER = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class SarifResult:
    """Holds one result before it is SARIF.

    ``subject`` tells it apart from others of the same kernels.
    """

    identifier: str
    level: str
    check: str
    text: str
    place: Place | None
    code: str
    kernels: Sequence[KernelFacts]
    subject: str = ""
    state: str = "new"
    """Empty where there is no base."""
    cost: Cost | None = None
    allowance: Allowance | None = None
    follows: bool = False
    """From another finding about the same kernel, which is a result, too."""
    file: Place | None = None
    """What to show where ``place`` is not known: GitHub takes no result without a file."""


def list_results(judgement: Judgement) -> list[SarifResult]:
    """Return the gravest first; in one gravity in the order of checks."""
    root = judgement.root
    found = [
        replace(
            result,
            text=strip_root(result.text, root),
            check=strip_root(result.check, root),
            file=_find_file(judged, judgement),
        )
        for judged in judgement.checks
        for result in _list_of_check(judged, root)
    ]
    return sorted(found, key=lambda each: (bool(each.allowance), _LEVEL_ORDER.index(each.level)))


def _find_file(judged: Judged, judgement: Judgement) -> Place | None:
    """Return what asks for the check: the configuration, else its scenario, which is perfcli's
    own."""
    if judgement.configuration:
        found = parse_place(judgement.configuration, judgement.root)
        outside = found is None or not found.inside  # where that is, is no one else's business
        return Place(os.path.basename(judgement.configuration), 1, True) if outside else found
    if judged.comparison is None:
        return None
    name = judged.comparison.head.scenario.partition(":")[0]
    if name.endswith(".py"):
        return parse_place(name, judgement.root)
    return Place(f"scenarios/{name.replace('-', '_')}.py", None, inside=True)


def _list_of_check(judged: Judged, root: str) -> Iterator[SarifResult]:
    comparison = judged.comparison
    if comparison is None:
        return
    for limit in judged.limits:
        if limit.state in ("broken", "allowed"):
            yield _report_limit(limit, judged, comparison, root)
    if not judged.limits and not judged.findings:
        yield from _report_worse(judged, comparison, root)
    allowances = {r.finding: r.allowance for r in judged.findings if r.state == "allowed"}
    codes = {finding.code for finding in comparison.findings if finding.came_with_head}
    for number, finding in enumerate(comparison.findings):
        if finding.came_with_head and not finding.doubt:
            made = _report_finding(finding, judged, comparison, root, allowances.get(number))
            yield replace(made, follows=finding.explained_by in codes)


def _report_limit(
    result: LimitResult, judged: Judged, comparison: Comparison, root: str
) -> SarifResult:
    group = result.group
    if group is None:  # a total: where most of it comes from
        group = find_blamed(result.limit.metric, comparison)
    where, code = locate_group(group, comparison, root)
    on = name_limited(result)
    return SarifResult(
        f"{LIMIT}{result.limit.metric}",
        "error",
        name_check(judged),
        f"{on}: {write_limit(result)}",
        where,
        code,
        list_group_kernels(result.group, comparison),
        subject=result.limit.kernel,
        allowance=result.allowance if result.state == "allowed" else None,
    )


def _report_worse(judged: Judged, comparison: Comparison, root: str) -> Iterator[SarifResult]:
    """Yield the verdict of a plain comparison, where no finding says it."""
    because = comparison.because
    if judged.outcome != "fail" or because is None or because.code:
        return
    where, code = locate_group(because.group, comparison, root)
    kernels = list_group_kernels(because.group, comparison)
    text = join_lines(comparison.reason)
    metric = because.change.split(" ")[0]
    yield SarifResult(WORSE, "error", name_check(judged), text, where, code, kernels, metric)


def _report_finding(
    finding: Finding, judged: Judged, comparison: Comparison, root: str, allowance: Allowance | None
) -> SarifResult:
    where, code = locate_finding(finding, comparison, root)
    run = comparison.base if finding.on_base else comparison.head
    (row,) = list_rows([finding], run, root)
    text = [row.headline, *row.evidence, row.advice, *row.cures]
    return SarifResult(
        finding.code,
        LEVELS[finding.severity],
        name_check(judged),
        "\n".join(line for line in text if line),
        where,
        code,
        [run.kernels[number] for number in finding.kernels if number < len(run.kernels)],
        subject=strip_root(finding.subject, root),
        cost=finding.cost,
        state="" if judged.alone else "updated" if finding.appearance == "worse" else "new",
        allowance=allowance,
    )


# --- as SARIF ----------------------------------------------------------------------------------


def _describe_result(
    result: SarifResult, rules: Sequence[str], occurrences: _Occurrences
) -> dict[str, Any]:
    """Return a ``result`` object (SARIF 2.1.0, 3.27).

    ``rules``: identifiers in the order in which the tool lists them.
    """
    print_ = _hash_subject(result.identifier, result.check, result.subject, result.kernels)
    numbered = occurrences.numbered(print_)
    found: dict[str, Any] = {
        "ruleId": result.identifier,
        "ruleIndex": rules.index(result.identifier),
        "level": result.level,
        "message": {"text": _write_message(result.text)},
        "locations": [_describe_location(result)],
        # The first is the one that GitHub tells alerts apart by.
        "partialFingerprints": {"primaryLocationLineHash": numbered, "perfcli/v1": numbered},
        **({"baselineState": result.state} if result.state else {}),
        "properties": {
            "check": result.check,
            "kernels": [units.printable(kernel.name) for kernel in result.kernels],
            **({"costSeconds": result.cost.seconds} if result.cost else {}),
        },
    }
    if result.allowance is not None:
        justification = write_allowance(result.allowance)
        found["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": justification}
        ]
    return found


def _write_message(text: str) -> str:
    """Return a message without links: in SARIF ``[text](target)`` is one (3.11.6), and foreign text
    has none."""
    return units.printable(text)[:MOST_TEXT].replace("](", "] (")


def _describe_location(result: SarifResult) -> dict[str, Any]:
    where = result.place or result.file
    names = [units.printable(kernel.name) for kernel in result.kernels]
    logical = [{"name": name, "kind": "function"} for name in names]
    location: dict[str, Any] = {}
    if where is not None:
        artifact: dict[str, Any] = {"uri": where.uri}
        if where.inside:
            artifact["uriBaseId"] = "%SRCROOT%"
        region: dict[str, Any] = {"startLine": where.line or 1}
        if result.code:
            region["snippet"] = {"text": units.printable(result.code)}
        location["physicalLocation"] = {"artifactLocation": artifact, "region": region}
    location["logicalLocations"] = logical or [{"name": result.check, "kind": "module"}]
    return location


# --- the document ------------------------------------------------------------------------------

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
    rules = _describe_rules(judgement.rules, (result.identifier for result in shown))
    identifiers = [rule["id"] for rule in rules]
    occurrences = _Occurrences()
    run = {
        "tool": {"driver": {"name": "perfcli", **_describe_version(judgement), "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [_describe_invocation(judgement, len(found) - len(shown))],
        "results": [_describe_result(result, identifiers, occurrences) for result in shown],
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
