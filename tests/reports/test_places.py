"""Where in the model something stands, relative to the repository."""

from __future__ import annotations

from importlib import import_module

import pytest

_places = import_module("perfcli.reports._rows.places")


@pytest.mark.parametrize(
    ("location", "root", "text", "uri"),
    [
        ("/r/models/gpt.py:12", "/r", "models/gpt.py:12", "models/gpt.py"),
        ("/r/models/gpt.py", "/r", "models/gpt.py", "models/gpt.py"),
        ("/r/a b/ö%.py:3", "/r", "a b/ö%.py:3", "a%20b/%C3%B6%25.py"),
        ("/other/lib/torch/nn.py:3", "/r", "…/torch/nn.py:3", "file:///other/lib/torch/nn.py"),
        ("/rest/gpt.py:3", "/r", "/rest/gpt.py:3", "file:///rest/gpt.py"),
        ("models/gpt.py:7", "/r", "models/gpt.py:7", "models/gpt.py"),
        ("./gpt.py:7", "/r", "gpt.py:7", "gpt.py"),
        ("/r/gpt.py:7", "", "/r/gpt.py:7", "file:///r/gpt.py"),
        ("<string>:1", "/r", "<string>:1", "%3Cstring%3E"),
        ("a:b.py:1", "/r", "a:b.py:1", "a%3Ab.py"),
    ],
)  # fmt: skip
def test_a_place(location: str, root: str, text: str, uri: str) -> None:
    found = _places.parse_place(location, root)
    assert (found.text, found.uri) == (text, uri)


@pytest.mark.parametrize("location", ["", ":12"])
def test_no_place(location: str) -> None:
    found = _places.parse_place(location, "/r")
    assert found is None or found.line is None


@pytest.mark.parametrize(
    ("text", "root", "relative"),
    [
        ("also /r/gpt.py:9 and /r/a/b.py", "/r", "also gpt.py:9 and a/b.py"),
        ("/s/r/gpt.py", "/r", "/s/r/gpt.py"),
        ("/rest/gpt.py", "/r", "/rest/gpt.py"),
        ("/r/gpt.py", "", "/r/gpt.py"),
        ("/r/gpt.py", "/", "/r/gpt.py"),
        ("'/r.x+(y)/gpt.py'", "/r.x+(y)", "'gpt.py'"),
    ],
)
def test_texts_without_the_root(text: str, root: str, relative: str) -> None:
    assert _places.strip_root(text, root) == relative
