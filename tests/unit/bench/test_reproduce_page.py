"""The page of results: each claim of several documents once, the best of each, in columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import reproduce_page

from perfcli.reproduce.claims import list_claims
from perfcli.reproduce.observation import Observation, TimeRatio
from perfcli.reproduce.result import ClaimResult, describe
from perfcli.reproduce.verdict import ClaimVerdict

CLAIMS = {claim.name: claim for claim in list_claims()}
FAILED = Observation(failure="no room")


def split(kernels: int, **more: Any) -> Observation:
    """What is seen of `split-cliff`, whose bad side is to have three kernels and more."""
    way = CLAIMS["split-cliff"].shown_by.ways[0]  # type: ignore[union-attr]
    sides = {"good": {"kernels": 1.0}, "bad": {"kernels": float(kernels)}, "pair": {}}
    return Observation("2.11.0", "NVIDIA H200", way, sides, **more)


def write(path: Path, **found: Observation) -> str:
    """The document; its verdicts are those of a perfcli that knew no better."""
    unknown = ClaimVerdict("cannot be shown here", "a|b")
    results = [
        describe(ClaimResult(CLAIMS[name.replace("_", "-")], each, unknown, 1.0))
        for name, each in found.items()
    ]
    path.write_bytes(msgspec.json.encode({"perfcli": "reproduction", "claims": results}))
    return str(path)


def test_each_claim_is_taken_from_the_document_that_measured_it(tmp_path: Path) -> None:
    measured = TimeRatio(1e-3, 1.4e-3, 1.4, 1.3, 1.5, "slower")
    first = write(tmp_path / "1.json", online_softmax=FAILED, split_cliff=split(5))
    second = write(tmp_path / "2.json", split_cliff=split(5, measured=measured))
    other = write(tmp_path / "3.json", split_cliff=split(1))
    page = tmp_path / "page.md"
    page.write_text("# Title\n<!-- results -->\nold\n<!-- end of results -->\nend\n")
    asked = ["--run", "H200", first, second, "--run", "none", other, "--page", str(page)]
    assert reproduce_page.main(asked) == 0
    text = page.read_text()
    assert text.startswith("# Title\n<!-- results -->\n")
    assert text.endswith("<!-- end of results -->\nend\n")
    assert "old" not in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows[0].endswith("| **cannot be shown here** | not carried out |")
    assert rows[1].endswith(
        "| **reproduced**, measured<br>measured 1.4× (claimed 1.2×) | **not reproduced**, in code |"
    )
    assert "| **all 2** | 1 cannot be shown here<br>1 reproduced | 1 not reproduced |" in text
    assert "| `online-softmax` | no room |" in text


def test_an_observation_that_lacks_a_fact_of_today_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = replace(split(5), sides={"good": {}, "bad": {}, "pair": {}})
    document = write(tmp_path / "1.json", split_cliff=bare)
    assert reproduce_page.gather(iter([Path(document)])) == {}
    assert "split-cliff on NVIDIA H200, torch 2.11.0: carry it out again" in capsys.readouterr().err


def test_a_page_without_a_place_for_them_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    document = write(tmp_path / "1.json", split_cliff=split(5))
    assert reproduce_page.main(["--run", "x", document, "--page", str(page)]) == 2
    assert "has no <!-- results -->" in capsys.readouterr().err
    assert page.read_text() == "# Title\n"
