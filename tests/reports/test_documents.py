"""Documents of judgements: golden files, published schemas, and texts that mean harm.

``PERFCLI_UPDATE_GOLDEN=1`` writes the golden files anew: look at the difference.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from golden import check
from handmade_judgement import HOSTILE, ROOT, gated, hostile, plain

from perfcli.loading import registry
from perfcli.model import Document, Judgement

SCHEMAS = Path(__file__).parents[1] / "fixtures" / "schemas"
JUDGEMENTS: dict[str, Callable[[], Judgement]] = {
    "plain": plain,
    "gated": gated,
    **{f"hostile {n}": functools.partial(hostile, name) for n, name in enumerate(HOSTILE)},
}
FORMATS = ("markdown", "junit", "sarif", "annotations")


def rendered(name: str, judgement: Judgement) -> str:
    return registry.load_declared("reports", name, Document).render(judgement)


@pytest.fixture(params=list(JUDGEMENTS.values()), ids=list(JUDGEMENTS))
def judgement(request: pytest.FixtureRequest) -> Judgement:
    made: Judgement = request.param()
    return made


@functools.cache
def sarif_schema() -> jsonschema.protocols.Validator:
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text())
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


@functools.cache
def junit_schema() -> Any:
    import xmlschema

    return xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


# --- what they look like -----------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["plain", "gated"])
def test_golden(name: str, kind: str) -> None:
    suffix = registry.load_declared("reports", name, Document).suffix
    check(f"{kind}_{name}{suffix}", rendered(name, JUDGEMENTS[kind]()))


def test_a_small_summary_is_the_markdown() -> None:
    assert rendered("github", gated()) == rendered("markdown", gated())


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_in_another_folder(name: str) -> None:
    elsewhere = "/var/lib/runner/7/my project"
    text = repr(gated()).replace(ROOT, elsewhere)
    assert elsewhere in text  # otherwise nothing is tested
    assert rendered(name, moved(gated(), elsewhere)) == rendered(name, gated())


def moved(judgement: Judgement, root: str) -> Judgement:
    """The same with all paths in another repository."""
    import msgspec

    checks = []
    for judged in judgement.checks:
        if judged.comparison is None:
            checks.append(judged)
            continue
        plain = msgspec.json.encode(judged.comparison).replace(ROOT.encode(), root.encode())
        comparison = msgspec.json.decode(plain, type=type(judged.comparison))
        checks.append(replace(judged, comparison=comparison))
    return replace(judgement, checks=tuple(checks), root=root)


# --- JUnit -------------------------------------------------------------------------------------


def test_junit_is_valid(judgement: Judgement) -> None:
    junit_schema().validate(rendered("junit", judgement))


def states(judgement: Judgement) -> dict[str, str]:
    """Suite and case to the element that says its state."""
    root = ElementTree.fromstring(rendered("junit", judgement))
    return {
        f"{suite.get('name')} / {case.get('name')}": next(
            (e.tag for e in case if e.tag != "system-out"), "passed"
        )
        for suite in root
        for case in suite
    }


def test_junit_of_a_gate() -> None:
    found = states(gated())
    norm = {name.removeprefix("norm@h100 / "): s for name, s in found.items() if "norm@" in name}
    assert norm == {
        "verdict of norm@h100": "failure",
        "limit spilled_words": "failure",
        "limit bytes_moved of *: triton_poi_fused_add_1": "passed",
        "limit bytes_moved of *: triton_poi_fused_gelu_2": "passed",
        "limit bytes_moved of *: triton_red_fused_rms_norm_0": "failure",
        "limit peak_memory_bytes": "skipped",
        "finding new error PC403: 1 graph break: item() in models/gpt.py": "failure",
        "finding new warning PC101: triton_red_fused_rms_norm_0 spills 92 words per thread": (
            "passed"
        ),
        "kernel triton_red_fused_rms_norm_0": "failure",
        "kernel triton_poi_fused_add_1": "passed",
        "kernel triton_poi_fused_gelu_2": "passed",
    }
    assert found["broken@h100 / verdict of broken@h100"] == "error"
    assert found["timed@cpu / verdict of timed@cpu"] == "skipped"
    assert found["quiet@h100 / verdict of quiet@h100"] == "passed"
    root = ElementTree.fromstring(rendered("junit", gated()))
    counted = {name: root.get(name) for name in ("tests", "failures", "errors")}
    of = list(found.values())
    assert counted == {
        "tests": str(len(of)), "failures": str(of.count("failure")), "errors": "1"
    }  # fmt: skip


def test_junit_of_a_comparison() -> None:
    found = states(plain())
    assert found == {
        "rmsnorm@h100 / verdict of rmsnorm@h100": "failure",
        "rmsnorm@h100 / kernel triton_red_fused_rms_norm_0": "failure",
        "rmsnorm@h100 / kernel triton_poi_fused_add_1": "failure",
        "rmsnorm@h100 / kernel triton_poi_fused_gelu_2": "passed",
    }


def test_the_deciding_metrics_are_those_of_the_verdict() -> None:
    from perfcli.diff.metrics import DECIDING

    shown = import_module("perfcli.reports.junit").DECIDING
    assert {*shown, "peak_memory_bytes"} == set(DECIDING)  # no kernel has a peak


# --- SARIF -------------------------------------------------------------------------------------


def test_sarif_is_valid(judgement: Judgement) -> None:
    sarif_schema().validate(json.loads(rendered("sarif", judgement)))


def results(judgement: Judgement) -> list[dict[str, Any]]:
    (run,) = json.loads(rendered("sarif", judgement))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    found: list[dict[str, Any]] = run["results"]
    return found


def place(result: dict[str, Any]) -> tuple[str, int]:
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical["region"]["startLine"]


def test_sarif_of_a_gate() -> None:
    found = [(r["ruleId"], r["level"], place(r), "suppressions" in r) for r in results(gated())]
    assert found == [
        ("limit/spilled_words", "error", ("models/gpt.py", 12), False),
        ("limit/bytes_moved", "error", ("models/gpt.py", 12), False),
        ("PC403", "error", ("models/gpt.py", 98), False),
        ("limit/bytes_moved", "error", ("models/gpt.py", 14), True),
        ("PC101", "warning", ("models/gpt.py", 12), True),
    ]


def test_a_comparison_without_findings_has_its_verdict_as_a_result() -> None:
    without = replace(comparison_of(plain()), findings=())
    (result,) = results(plain(without))
    assert (result["ruleId"], place(result)) == ("regression", ("models/gpt.py", 12))


def test_a_line_of_a_library_comes_after_the_users_own_file() -> None:
    """The library stands in another folder on each machine."""
    comparison = comparison_of(plain())
    kernels = [replace(k, origins=[replace(o, location="/usr/lib/nn.py:3") for o in k.origins])
               for k in comparison.head.kernels]  # fmt: skip
    head = replace(comparison.head, kernels=tuple(kernels), scenario="models/norm.py:norm")
    (result,) = results(plain(replace(comparison, head=head, findings=())))
    assert place(result) == ("models/norm.py", 1)
    shipped = replace(head, scenario="rmsnorm")
    (result,) = results(plain(replace(comparison, head=shipped, findings=())))
    assert place(result) == ("file:///usr/lib/nn.py", 3)


def comparison_of(judgement: Judgement) -> Any:
    return judgement.checks[0].comparison


def fingerprints(judgement: Judgement) -> list[str]:
    return [r["partialFingerprints"]["primaryLocationLineHash"] for r in results(judgement)]


def test_fingerprints_are_stable_under_renames_and_line_shifts() -> None:
    before = fingerprints(plain())
    assert len(set(before)) == len(before) == 3
    text = changed(plain(), {
        "triton_red_fused_rms_norm_0": "triton_red_fused_rms_norm_17",
        "gpt.py:12": "gpt.py:812",
        "gpt.py:98": "gpt.py:898",
        "rms_norm_12": "rms_norm_99",
    })  # fmt: skip
    assert fingerprints(text) == before


@pytest.mark.parametrize("other", [("aten.rms_norm", "aten.layer_norm"), ("blocks.0", "blocks.5")])
def test_fingerprints_tell_what_is_computed_apart(other: tuple[str, str]) -> None:
    before, after = fingerprints(plain()), fingerprints(changed(plain(), dict([other])))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 2  # of this kernel


def test_a_second_result_about_the_same_has_a_number() -> None:
    comparison = comparison_of(plain())
    twice = replace(comparison, findings=comparison.findings[1:2] * 2)
    first, second = (p for p in fingerprints(plain(twice)) if p in fingerprints(plain(twice))[1:])
    assert (first[:-2], second[-2:]) == (second[:-2], ":2")


def changed(judgement: Judgement, names: dict[str, str]) -> Judgement:
    """The same comparison, with these texts replaced wherever they stand."""
    import msgspec

    comparison = comparison_of(judgement)
    text = msgspec.json.encode(comparison).decode()
    for old, new in names.items():
        assert old in text
        text = text.replace(old, new)
    return plain(msgspec.json.decode(text, type=type(comparison)))


def test_sarif_holds_no_more_than_5000_results() -> None:
    comparison = comparison_of(plain())
    many = replace(comparison, findings=comparison.findings[1:2] * 6000)
    document = json.loads(rendered("sarif", plain(many)))
    assert len(document["runs"][0]["results"]) == 5000
    (note,) = document["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("1,001 results left out")


# --- annotations -------------------------------------------------------------------------------


def test_at_most_ten_annotations_and_how_many_more() -> None:
    comparison = comparison_of(plain())
    many = replace(comparison, findings=comparison.findings[:1] * 30)
    lines = rendered("annotations", plain(many)).splitlines()
    assert len(lines) == 10
    shown = sum(line.startswith("::error ") for line in lines)
    assert shown == 9
    assert lines[-1].startswith(f"::notice title=perfcli::{31 - shown} more annotations")


def test_what_follows_from_another_finding_is_not_annotated() -> None:
    comparison = comparison_of(plain())
    cause = comparison.findings[1]
    hence = replace(cause, code="PC102", explained_by="PC101")
    both = replace(comparison, findings=(cause, hence))
    text = rendered("annotations", plain(both))
    assert ("title=PC101" in text, "title=PC102" in text) == (True, False)
    assert [r["ruleId"] for r in results(plain(both))] == ["regression", "PC101", "PC102"]


def test_no_text_makes_a_workflow_command(judgement: Judgement) -> None:
    text = rendered("annotations", judgement)
    lines = text.split("\n")
    assert lines.pop() == ""
    for line in lines:
        _, command, message = line.split("::", 2)
        assert command.split(" ")[0] in ("error", "warning", "notice")
        for given in command.split(" ", 1)[1].split(","):
            name, _, value = given.partition("=")
            assert name in ("file", "line", "title")
            assert ":" not in value
        assert message
    assert all(c.isprintable() for c in text.replace("\n", ""))


def test_percent_signs_and_lines_come_back() -> None:
    command = import_module("perfcli.reports.annotations")._write_command
    line = command("error", "a,b:c%", "50 % of\n::error::x", "src/a b,c.py", 3)
    assert line == ("::error file=src/a b%2Cc.py,line=3,title=a%2Cb%3Ac%25::50 %25 of%0A::error::x")


# --- XML and JSON of harmful names -------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_xml_says_what_was_said(name: str) -> None:
    root = ElementTree.fromstring(rendered("junit", hostile(name)))
    shown = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in " ".join(name.split()))
    assert f"kernel {shown}" in [case.get("name") for case in root.iter("testcase")]
    assert {e.tag for e in root.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "skipped", "error", "system-out"
    }  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_sarif_has_no_links_and_no_control_characters(name: str) -> None:
    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                yield from texts(each)

    document = json.loads(rendered("sarif", hostile(name)))
    for result in document["runs"][0]["results"]:
        assert "](" not in result["message"]["text"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert all(c not in uri for c in '<>"`\\ |\n\x1b')
    found = texts(document["runs"][0]["results"])
    assert all(c.isprintable() or c in "\n\t" for text in found for c in text)
