"""Which builds are one release."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import kernel, run

from perfcli.gate.baseline import facts
from perfcli.gate.baseline.facts import _public


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13.0+cu126", "2.13.0+cu130", True),
        ("2.13.0+rocm6.4", "2.13.0+xpu", True),
        ("2.13.0.dev20261101+cu126", "2.13.0.dev20261102+cu126", False),
        ("2.14.0a0+gitaaaa", "2.14.0a0+gitbbbb", False),
        ("2.14.0a0+gitaaaa", "2.14.0a0", False),
        ("2.13.0+custom", "2.13.0", False),
        (None, "", True),
    ],
)
def test_public_versions(one: str | None, other: str | None, same: bool) -> None:
    assert (_public(one) == _public(other)) is same


def test_a_build_of_another_commit_is_a_change() -> None:
    head = run([kernel("a")])
    ours, theirs = (
        facts._plain(replace(head, environment=replace(head.environment, torch=torch)), ())
        for torch in ("2.14.0a0+gitaaaa", "2.14.0a0+gitbbbb")
    )
    assert not facts._unchanged(ours, theirs)
