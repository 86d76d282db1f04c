"""perfcli's own JSON against its schemas: what is written is documented, and nothing else is."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from handmade_judgement import HOSTILE, gated, hostile

from perfcli.loading import registry
from perfcli.model import Document, Report

SCHEMAS = Path(__file__).parents[2] / "perfcli" / "data" / "schemas"
GOLDEN = Path(__file__).parent / "golden"


@functools.cache
def schema(name: str, strict: bool = True) -> jsonschema.protocols.Validator:
    """Strict: fields that it does not name are wrong, though programs have to expect them."""
    document = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(closed(document) if strict else document)


def closed(value: Any) -> Any:
    if isinstance(value, list):
        return [closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: closed(each) for name, each in value.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@pytest.mark.parametrize("name", ["comparison.json", "timing.json"])
def test_golden_comparisons(name: str) -> None:
    text = json.loads((GOLDEN / name).read_text())
    document = {**text, "timing": None} if "perfcli" in text else text
    if "perfcli" in text:
        schema("comparison").validate(text)
    else:  # the part of a comparison that is about times
        timing = json.loads((SCHEMAS / "comparison.schema.json").read_text())
        whole = closed({**timing["$defs"]["timing"], "$defs": timing["$defs"]})
        jsonschema.Draft202012Validator(whole).validate(document)


@pytest.mark.parametrize("name", HOSTILE)
def test_comparisons(name: str) -> None:
    for judgement in (gated(), hostile(name)):
        for check in judgement.checks:
            if check.comparison is not None:
                render = registry.load_declared("reports", "json", Report).render
                schema("comparison").validate(json.loads(render(check.comparison)))


@pytest.mark.parametrize("name", HOSTILE)
def test_gates(name: str) -> None:
    for judgement in (gated(), hostile(name)):
        text = registry.load_declared("reports", "gate_json", Document).render(judgement)
        schema("gate").validate(json.loads(text))


def test_a_new_field_needs_no_new_schema() -> None:
    document = json.loads((GOLDEN / "comparison.json").read_text())
    document["groups"][0]["new"] = 1
    schema("comparison", strict=False).validate(document)
    with pytest.raises(jsonschema.ValidationError):
        schema("comparison").validate(document)


@pytest.mark.parametrize("wrong", [{"outcome": "bad"}, {"format": 3}, {"groups": {}}, {"base": 1}])
def test_another_meaning_is_not_valid(wrong: dict[str, Any]) -> None:
    document = json.loads((GOLDEN / "comparison.json").read_text())
    with pytest.raises(jsonschema.ValidationError):
        schema("comparison", strict=False).validate({**document, **wrong})


def test_both_schemas_say_the_same_of_comparisons() -> None:
    ours, gates = (
        json.loads((SCHEMAS / f"{name}.schema.json").read_text())["$defs"]
        for name in ("comparison", "gate")
    )
    assert {name: gates[name] for name in ours if name != "run"} == {
        name: definition for name, definition in ours.items() if name != "run"
    }
