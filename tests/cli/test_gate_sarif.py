"""SARIF of a gate: GitHub's code scanning takes no result without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SPILLING = """
[[checks]]
scenario = "softmax"
options = { "triton.mix_order_reduction_max_reads" = 12 }
"""


@pytest.fixture
def gated(perfcli: Any) -> Any:
    Path(".git").mkdir()  # the root
    Path("perfcli.toml").write_text(SPILLING.partition("options")[0])
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    Path("perfcli.toml").write_text(SPILLING)
    return perfcli


def files(path: str) -> set[tuple[str, str, int]]:
    (run,) = json.loads(Path(path).read_text())["runs"]
    assert run["results"]
    found = set()
    for result in run["results"]:
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        artifact = physical["artifactLocation"]
        found.add((artifact["uri"], artifact["uriBaseId"], physical["region"]["startLine"]))
        assert location["logicalLocations"]
    return found


def without_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shipped models' lines are not the user's: without them nothing is known."""
    import importlib

    located = importlib.import_module("perfcli.reports._rows.findings")
    monkeypatch.setattr(located, "_choose_place", lambda *_: (None, ""))


def test_a_result_without_a_line_is_at_the_configuration(
    gated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_places(monkeypatch)
    assert gated("gate", "--sarif", "a.sarif").code == 1
    assert files("a.sarif") == {("perfcli.toml", "%SRCROOT%", 1)}
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    assert gated("gate", "--sarif", "a.sarif").code == 1
    assert files("a.sarif") == {("perfcli.toml", "%SRCROOT%", 1)}


def test_outside_of_the_repository_it_has_no_folder(
    gated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_places(monkeypatch)
    Path("other/.git").mkdir(parents=True)
    monkeypatch.chdir("other")
    assert gated("gate", "--sarif", "a.sarif").code == 1
    assert files("a.sarif") == {("perfcli.toml", "%SRCROOT%", 1)}


def test_of_a_shipped_scenario_without_a_gate(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_places(monkeypatch)
    options = ("--preset", "smoke", "-b", "triton.mix_order_reduction=0")
    assert perfcli("compare", "gqa-transformer", *options, "--sarif", "a.sarif").code == 1
    assert files("a.sarif") == {("scenarios/gqa_transformer.py", "%SRCROOT%", 1)}
