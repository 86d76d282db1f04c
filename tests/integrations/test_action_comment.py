"""action.yml: which comment is taken for its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
(SCRIPT,) = (each["run"] for each in ACTION["runs"]["steps"] if each["name"] == "Comment")
MARKER = "<!-- perfcli gate -->"


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_only_a_bots_comment_is_its_own() -> None:
    found = re.search(r'--jq "(.*?[^\\])"', SCRIPT)
    assert found is not None
    query = found[1].replace('\\"', '"').replace("$marker", MARKER)
    comments = [
        {"id": 1, "user": {"type": "User"}, "body": f"{MARKER}\nmine"},
        {"id": 2, "user": {"type": "Bot"}, "body": f"quotes {MARKER}"},
        {"id": 3, "user": {"type": "Bot"}, "body": f"{MARKER}\n\n## PASS"},
    ]
    done = subprocess.run(
        ["jq", query], input=json.dumps(comments), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3"]


def test_the_longest_report_leaves_room_for_the_marker() -> None:
    """GitHub takes 65,536 characters."""
    markdown = import_module("perfcli.reports.markdown")
    assert f"marker='{MARKER}'" in SCRIPT
    assert markdown.MOST_CHARACTERS + len(f"{MARKER}\n\n") <= 65_536
