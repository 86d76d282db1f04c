"""Decoders of JSON are made one at a time: msgspec 0.22 ends the process where two threads make
them at once, as those that wait for two workers did."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perfcli import decoding
from perfcli.model import Scalar

ROOT = Path(__file__).resolve().parents[2]
MAKES = {"msgspec.json.Decoder", "msgspec.json.decode", "msgspec.convert"}


class Point(msgspec.Struct):
    row: int
    value: Scalar


def test_decoded() -> None:
    assert decoding.decode(b'{"row": 3, "value": "x"}', Point) == Point(3, "x")
    assert decoding.decode("[1, 2]", tuple[int, ...]) == (1, 2)
    assert decoding.convert({"row": 3, "value": 2.5}, Point) == Point(3, 2.5)
    assert decoding.decoder(Point) is decoding.decoder(Point)
    with pytest.raises(msgspec.ValidationError, match="row"):
        decoding.decode(b'{"row": "x", "value": 1}', Point)


def test_no_two_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is this thread's while msgspec looks at a type."""
    held = []

    def look(*given: Any) -> Any:
        held.append(decoding._making._is_owned())  # type: ignore[attr-defined]
        return None

    monkeypatch.setattr(decoding, "_made", {})
    monkeypatch.setattr(msgspec.json, "Decoder", look)
    monkeypatch.setattr(msgspec, "convert", look)
    decoding.decoder(Point)
    decoding.convert({}, Point)
    assert held == [True, True]
    assert not decoding._making._is_owned()  # type: ignore[attr-defined]


def test_a_fork_can_decode() -> None:
    if (child := os.fork()) == 0:
        os._exit(decoding.decode(b"7", int))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def made_elsewhere(text: str) -> list[str]:
    """Calls that make a decoder of a type."""
    return [
        ast.unparse(call)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in MAKES
        and (ast.unparse(call.func) != "msgspec.json.decode" or call.keywords)
    ]


def test_all_are_made_in_one_place() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "perfcli").rglob("*.py")}
    found = {path.name: made_elsewhere(text) for path, text in texts.items() if "msgspec" in text}
    assert {name for name, calls in found.items() if calls} == {"decoding.py"}
    assert made_elsewhere("x = msgspec.json.decode(text, type=Run)")
    assert not made_elsewhere("x = msgspec.json.decode(text)")
