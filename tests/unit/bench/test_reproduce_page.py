"""The page of results: each claim of several documents once, the best of each, in columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import reproduce_page


def claim(name: str, verdict: str = "reproduced", **changes: Any) -> dict[str, Any]:
    found = {"measured": None, "estimated": None, "failure": "", **changes.pop("found", {})}
    plain = {
        "name": name,
        "says": "it is slow",
        "source": {"text": "PR #1", "url": "https://example.org/1", "seed": 1},
        "holds": "torch 2.11",
        "withdrawn": "",
        "effect": {"good": 2.0, "bad": 3.0},
        "verdict": verdict,
        "basis": "code",
        "reason": "a|b",
        "times": [],
        "finding": "PC203",
        "blamed": "x=1",
        "cures": ["y=1: helps"],
    }
    return {**plain, **changes, "found": found}


def write(path: Path, *claims: dict[str, Any]) -> str:
    path.write_text(json.dumps({"perfcli": "reproduction", "claims": claims}))
    return str(path)


def test_each_claim_is_taken_from_the_document_that_measured_it(tmp_path: Path) -> None:
    failed = claim("online-softmax", "cannot be shown here", found={"failure": "no room"})
    measured = claim("split-cliff", basis="measured", found={"measured": {"ratio": 1.4}})
    first = write(tmp_path / "1.json", failed, claim("split-cliff", "needs a GPU", basis=""))
    second = write(tmp_path / "2.json", claim("online-softmax"), measured)
    other = write(tmp_path / "3.json", claim("online-softmax", "not reproduced"))
    page = tmp_path / "page.md"
    page.write_text("# Title\n<!-- results -->\nold\n<!-- end of results -->\nend\n")
    asked = ["--run", "H200", first, second, "--run", "none", other, "--page", str(page)]
    assert reproduce_page.main(asked) == 0
    text = page.read_text()
    assert text.startswith("# Title\n<!-- results -->\n")
    assert text.endswith("<!-- end of results -->\nend\n")
    assert "old" not in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows[0].endswith("| **reproduced**, in code | **not reproduced**, in code |")
    assert rows[1].endswith(
        "| **reproduced**, measured<br>measured 1.4× (claimed 1.5×) | not carried out |"
    )
    assert "| **all 2** | 2 reproduced | 1 not reproduced |" in text
    assert "| `online-softmax` | a\\|b |" in text


def test_a_page_without_a_place_for_them_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    document = write(tmp_path / "1.json", claim("online-softmax"))
    assert reproduce_page.main(["--run", "x", document, "--page", str(page)]) == 2
    assert "has no <!-- results -->" in capsys.readouterr().err
    assert page.read_text() == "# Title\n"
